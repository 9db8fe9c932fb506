"""What the index knows about the targets of one set of subjects, and how matching rules come to a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from remit.authz.types import AuthzDecision, Principal
from remit.authz.vocabulary import unsafe_target
from remit.providers.casbin.decisions import Cell, Choice, Condition, Decisions
from remit.providers.casbin.finder import Finder

_SET_UP_TO: Final = 20_000
"""Names that a filter still turns into one set."""


class Scales:
    """Weighs matching rules: the effect of the policy, questions and conditions.

    Args:
        conditions: Of the rules that have one, by number. These and rules that ask need the effect allow-and-deny.
    """

    __slots__ = ("conditions", "decisions", "plain")

    def __init__(self, decisions: Decisions, conditions: Mapping[int, Condition]) -> None:
        self.decisions, self.conditions = decisions, conditions
        self.plain = not conditions and "ask" not in decisions.effects

    def weigh(self, rows: Sequence[int]) -> Cell:
        """What the matching `rows`, in policy order, come to."""
        decisions = self.decisions
        if self.plain or not rows:
            return decisions.among(rows)
        steps: list[tuple[bool, Condition | None, AuthzDecision]] = []
        effects, conditions = decisions.effects, self.conditions
        for effect in ("deny", "ask", "allow"):
            # Casbin explains the first row that restricts and the last one that allows.
            for row in rows if effect != "allow" else reversed(rows):
                if effects[row] == effect:
                    condition = conditions.get(row)
                    decision = decisions.of(row)
                    if condition is None and not steps:
                        return decision
                    steps.append((effect != "allow", condition, decision))
                    if condition is None:
                        return Choice(steps, decisions.nothing)
        return Choice(steps, decisions.nothing)


class Column:
    """The rules for one set of subjects and one combination of compared values, looked up by target."""

    __slots__ = ("_finders", "_names", "_scales", "memo")

    def __init__(self, finders: list[Finder[int]], scales: Scales) -> None:
        self._finders, self._scales = finders, scales
        self.memo: dict[str, Cell] = {}
        """Names met so far. Whoever writes to it keeps it bounded."""
        self._names: tuple[frozenset[str], dict[str, Choice]] | None = None

    def rows(self, target: str) -> list[int]:
        """The numbers of the rules that match `target`, conditions left aside, in policy order."""
        found: list[int] = []
        for finder in self._finders:
            found += finder.find(target)
        if len(found) > 1:
            found.sort()
        return found

    def cell(self, target: str) -> Cell:
        """The decision for `target`, or the choice that the request's arguments must make."""
        return self._scales.weigh(self.rows(target))

    def kept(
        self, candidates: Sequence[str], principal: Principal, learn: Callable[[Column, str], Cell]
    ) -> list[str]:
        """Those of `candidates` that are allowed or asked for some arguments; order and duplicates kept.

        Args:
            learn: Finds, and may remember, the cell of a target not met before.
        """
        names = self._names or self._known()
        memo = self.memo

        def visible(name: str) -> bool:
            cell = memo.get(name)
            if cell is None:
                cell = learn(self, name)
            return cell.allow or cell.asks if type(cell) is AuthzDecision else cell.visible(principal)  # type: ignore[union-attr]

        if names is None:
            return [name for name in candidates if visible(name)]
        shown, open_ = names
        if open_:
            shown |= {name for name in open_.keys() & candidates if open_[name].visible(principal)}
        return [name for name in candidates if name in shown or ("/" in name and visible(name))]

    def _known(self) -> tuple[frozenset[str], dict[str, Choice]] | None:
        """(names allowed or asked, names that conditions decide), or None where more than plain names take part."""
        if any(finder.patterned or finder.everything for finder in self._finders):
            return None
        if sum(len(finder.exact) for finder in self._finders) > _SET_UP_TO:
            return None
        shown: set[str] = set()
        open_: dict[str, Choice] = {}
        for name in {name for finder in self._finders for name in finder.exact}:
            cell = self.cell(name)
            if isinstance(cell, Choice):
                open_[name] = cell
            elif (cell.allow or cell.asks) and not (".." in name and unsafe_target(name)):
                shown.add(name)
        if self._scales.decisions.nothing.allow:
            return None  # deny-override: what no rule names is allowed
        self._names = frozenset(shown), open_
        return self._names


class View:
    """What one set of effective subjects may do."""

    __slots__ = ("columns", "subjects")

    def __init__(self, subjects: tuple[str, ...]) -> None:
        self.subjects = subjects
        self.columns: dict[tuple[str, ...], Column] = {}
