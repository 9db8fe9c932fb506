"""What the index knows about the targets of one set of subjects, and how matching rules come to a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from remit.authz.types import AuthzDecision, Principal
from remit.authz.vocabulary import unsafe_target
from remit.providers.casbin.engine.decisions import Cell, Choice, Condition, Decisions
from remit.providers.casbin.engine.finder import Bucket, Finder, merged
from remit.providers.casbin.engine.globs import collapse
from remit.providers.casbin.rules import Effect

_SET_UP_TO: Final = 20_000
"""Names that a filter still turns into one set."""
_MERGE_AFTER: Final = 8
"""Names that were matched against patterns before those of all subjects are put into one table."""
_BY_NAME: Final = (Effect.ALLOW_AND_DENY, Effect.ALLOW_OVERRIDE)
"""Effects under which the order of rules does not matter."""


class Scales:
    """Weighs matching rules: the effect of the policy, questions and conditions.

    Args:
        conditions: Of the rules that have one, by number. These and rules that ask need the effect allow-and-deny.
        globs: Targets are read by globMatch.
    """

    __slots__ = ("conditions", "decisions", "globs", "plain")

    def __init__(self, decisions: Decisions, conditions: Mapping[int, Condition], *, globs: bool) -> None:
        self.decisions, self.conditions, self.globs = decisions, conditions, globs
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


class Patterns:
    """The rules of a column whose targets are more than plain names."""

    __slots__ = ("_everything", "_lengths", "_table", "_tables", "_uses", "finders", "globs")

    def __init__(self, finders: list[Finder[int]], *, globs: bool) -> None:
        self.finders, self.globs = finders, globs
        self._everything = [row for finder in finders for row in finder.everything]
        self._tables: list[dict[str, Bucket[int]]] | None = None
        """Literal start -> patterns, for each finder."""
        self._table: dict[str, Bucket[int]] | None = None
        """The same for all of them, once that is worth its making."""
        self._lengths: list[int] = []
        self._uses = 0

    def match(self, target: str, key: str, found: list[int]) -> None:
        """Add to `found` the numbers of the rules that match `target`, whose collapsed form is `key`."""
        found += self._everything
        table = self._table
        tables: list[dict[str, Bucket[int]]] = []
        if table is None:
            table, tables = self._prepared()
        sure = not self.globs or "/" not in target
        for length in self._lengths:
            start = key[:length]
            if table is not None:
                bucket = table.get(start)
                if bucket is not None:
                    bucket.collect(target, sure, found)
            else:
                for part in tables:
                    bucket = part.get(start)
                    if bucket is not None:
                        bucket.collect(target, sure, found)

    def _prepared(self) -> tuple[dict[str, Bucket[int]] | None, list[dict[str, Bucket[int]]]]:
        tables = self._tables
        if tables is None:
            tables = [finder.heads() for finder in self.finders if finder.patterned]
            self._lengths = sorted({length for finder in self.finders for length in finder.lengths})
            self._tables = tables  # last: a thread that sees it must see the lengths as well
            if len(tables) == 1:
                self._table = tables[0]
        self._uses += 1
        if self._uses > _MERGE_AFTER and self._table is None:
            self._table = merged(tables)
        return self._table, tables


class Column:
    """The rules for one set of subjects and one combination of compared values, looked up by target.

    Args:
        exact: Rules by plain target; a lone rule needs no list.
        patterned: The other rules.
        scales: Of the policy.
    """

    __slots__ = ("_exact", "_names", "_patterns", "_scales", "memo")

    def __init__(self, exact: list[dict[str, int | list[int]]], patterned: list[Finder[int]], scales: Scales) -> None:
        self._exact, self._scales = exact, scales
        self._patterns = Patterns(patterned, globs=scales.globs) if patterned else None
        self.memo: dict[str, Cell] = {}
        """Names met so far. Whoever writes to it keeps it bounded."""
        self._names: tuple[frozenset[str], dict[str, Choice]] | None = None

    def extended(self, exact: list[dict[str, int | list[int]]], patterned: list[Finder[int]]) -> Column:
        """A column with these rules as well. It shares nothing that is learnt."""
        if not exact and not patterned:
            return self
        known = [] if self._patterns is None else self._patterns.finders
        return Column([*self._exact, *exact], [*known, *patterned], self._scales)

    def rows(self, target: str) -> list[int]:
        """The numbers of the rules that match `target`, conditions left aside, in policy order."""
        found: list[int] = []
        key = collapse(target) if self._scales.globs and "/" in target else target
        for exact in self._exact:
            held = exact.get(key)
            if held is not None:
                if type(held) is int:
                    found.append(held)
                else:
                    found += held  # type: ignore[arg-type]  # no int, so a list of them
        if self._patterns is not None:
            self._patterns.match(target, key, found)
        if len(found) > 1:
            found.sort()
        return found

    def cell(self, target: str) -> Cell:
        """The decision for `target`, or the choice that the request's arguments must make."""
        return self._scales.weigh(self.rows(target))

    def kept(self, candidates: Sequence[str], principal: Principal, learn: Callable[[Column, str], Cell]) -> list[str]:
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
        decisions = self._scales.decisions
        if self._patterns is not None or decisions.effect not in _BY_NAME:
            return None
        if sum(map(len, self._exact)) > _SET_UP_TO:
            return None
        effects, conditions = decisions.effects, self._scales.conditions
        granted: set[str] = set()
        denied: set[str] = set()
        conditional: set[str] = set()
        grant, deny = granted.add, denied.add
        for exact in self._exact:
            for name, held in exact.items():
                for row in held if type(held) is list else (held,):
                    (deny if effects[row] == "deny" else grant)(name)  # type: ignore[index]  # a number either way
            if conditions:
                lists = ((name, held if type(held) is list else (held,)) for name, held in exact.items())
                conditional.update(name for name, held in lists if not conditions.keys().isdisjoint(held))
        if decisions.effect is Effect.ALLOW_AND_DENY:
            granted -= denied
        granted -= conditional
        granted -= {name for name in granted if ".." in name and unsafe_target(name)}
        choices = ((name, self.cell(name)) for name in conditional)
        open_ = {name: choice for name, choice in choices if isinstance(choice, Choice)}
        granted.update(name for name in conditional - open_.keys() if self._settled(name))
        self._names = frozenset(granted), open_
        return self._names

    def _settled(self, name: str) -> bool:
        cell = self.cell(name)
        return type(cell) is AuthzDecision and (cell.allow or cell.asks) and unsafe_target(name) is None
