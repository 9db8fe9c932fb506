"""Any matcher that could be taken apart: candidate rows by look-up, the rest of the matcher on those rows alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from remit.authz.types import AuthzDecision
from remit.providers.casbin.engine.closures import Closures, EvaluationError, Names, Run, Values
from remit.providers.casbin.engine.decisions import Decisions
from remit.providers.casbin.engine.lookups import Lookup, Undetermined
from remit.providers.casbin.engine.matcher import Branch, Const, Equal, Given, Linked, Matches, Test

Checks = list[Run]
"""What must still hold for a candidate row."""

_COST = {Equal: 0, Const: 0, Linked: 1, Given: 2, Matches: 3}


def _cost(test: Test) -> int:
    return max((_COST[type(atom)] for atom in test.atoms), default=4)


class _Way:
    """One branch of the matcher over the rows of one side: a trie over the tested columns, cheapest test first."""

    __slots__ = ("grants", "guards", "lookups", "rest", "runs", "trie")

    def __init__(self, branch: Branch, rows: Mapping[int, tuple[str, ...]], names: Names, closures: Closures) -> None:
        tests = sorted(branch.tests, key=_cost)
        width = len(names.policy)
        self.grants = closures.grants
        self.guards = [closures.condition(guard) for guard in branch.guards]
        self.rest = [closures.condition(part) for part in branch.rest]
        self.runs = [closures.condition(test.node) for test in tests]
        self.lookups = [
            Lookup(test, dict.fromkeys(row[test.column] for row in rows.values()), names, closures, width)
            for test in tests
        ]
        self.trie: Any = {} if tests else list(rows)
        if tests:
            *first, last = (test.column for test in tests)
            for number, row in rows.items():
                node: Any = self.trie
                for column in first:
                    node = node.setdefault(row[column], {})
                node.setdefault(row[last], []).append(number)

    def holds_for_all(self, r: Values) -> bool:
        """Does the branch hold for every row, because it consults none and its guards hold?"""
        return not self.lookups and not self.rest and all(guard(r, ()) for guard in self.guards)

    def candidates(self, r: Values, open_: bool) -> Iterator[tuple[int, Checks]]:
        """Rows that this branch may match, each with what is still to be checked.

        Args:
            open_: Arguments are unknown: what reads them holds where it grants, and does not where it restricts.
        """
        for guard in self.guards:
            try:
                holds = guard(r, ())
            except Undetermined:
                if not open_:
                    raise
                holds = self.grants
            if not holds:
                return
        if self.lookups:
            yield from self._walk(r, self.trie, 0, self.rest, open_)
        else:
            yield from ((number, self.rest) for number in self.trie)

    def _walk(self, r: Values, node: Any, level: int, checks: Checks, open_: bool) -> Iterator[tuple[int, Checks]]:
        lookup = self.lookups[level]
        try:
            values: Collection[str] = lookup.within(r, node)
        except Undetermined:
            if not open_:
                raise
            values = node.keys() if self.grants else ()
        for value in values:
            below = [self.runs[level], *checks] if value in lookup.poisoned else checks
            if level + 1 == len(self.lookups):
                yield from ((number, below) for number in node[value])
            else:
                yield from self._walk(r, node[value], level + 1, below, open_)


class Evaluator:
    """Decides by the matcher's own logic, row by row in policy order, over the candidates alone.

    Args:
        branches: The matcher.
        values: Of each rule, in policy order.
        names: What expressions may speak of.
        decisions: Of the same rules.
        spliced: By side (True: rows that allow), the closure of every text that `eval` may meet there.

    Raises:
        NotCompilable: A part of the matcher is not understood.
    """

    def __init__(
        self,
        branches: Sequence[Branch],
        values: Sequence[tuple[str, ...]],
        names: Names,
        decisions: Decisions,
        spliced: Mapping[bool, Mapping[str, Run]],
    ) -> None:
        self.decisions, self._values = decisions, values
        self._sides: list[tuple[bool, list[_Way]]] = []
        for grants in (True, False):
            rows = {n: row for n, row in enumerate(values) if (decisions.effects[n] == "allow") is grants}
            if rows:
                closures = Closures(names, grants=grants, spliced=spliced.get(grants, {}))
                self._sides.append((grants, [_Way(branch, rows, names, closures) for branch in branches]))
        self._whole: AuthzDecision | None = None
        nodes = [part for b in branches for part in (*b.guards, *(t.node for t in b.tests), *b.rest)]
        self._constants = {n.value for node in nodes for n in ast.walk(node) if isinstance(n, ast.Constant)}
        rest = [part for branch in branches for part in branch.rest]
        self._loose = {field for part in rest for field in names.fields(part)}
        if any(isinstance(n, ast.Name) and n.id == "eval" for part in rest for n in ast.walk(part)):
            self._loose |= set(names.request.values())

    def cell(self, values: Sequence[Any]) -> AuthzDecision:
        """The decision for the request `values`.

        Raises:
            EvaluationError: The matcher has no answer for them.
        """
        try:
            if all(any(way.holds_for_all(values) for way in ways) for _, ways in self._sides):
                if self._whole is None:  # every rule matches, and that has one answer
                    self._whole = self.decisions.among(range(len(self._values)))
                return self._whole
            return self.decisions.among(self._matching(values))
        except EvaluationError:
            raise
        except Exception as error:
            raise EvaluationError(f"{type(error).__name__}: {error}") from error

    def matching(self, values: Sequence[Any]) -> list[int]:
        """The numbers of the rules that match the request `values`, in policy order.

        Raises:
            EvaluationError: The matcher has no answer for them.
        """
        try:
            return list(self._matching(values))
        except EvaluationError:
            raise
        except Exception as error:
            raise EvaluationError(f"{type(error).__name__}: {error}") from error

    def ever(self, values: Sequence[Any]) -> bool:
        """Is the request allowed for some arguments, when `values` hold none?"""
        try:
            return self.decisions.among(self._matching(values, open_=True)).allow
        except Exception:
            return False

    def _matching(self, r: Sequence[Any], *, open_: bool = False) -> Iterator[int]:
        found: dict[int, list[Checks]] = {}
        granting: set[int] = set()
        for grants, ways in self._sides:
            for way in ways:
                for number, checks in way.candidates(r, open_):
                    found.setdefault(number, []).append(checks)
                    if grants:
                        granting.add(number)
        for number in sorted(found):
            row = self._values[number]
            try:
                if any(all(run(r, row) for run in checks) for checks in found[number]):
                    yield number
            except Undetermined:
                if not open_:
                    raise
                if number in granting:
                    yield number

    def knows(self, field: int, value: str) -> bool:
        """Does a rule, a role link or the matcher itself speak of `value` of request column `field`?"""
        if field in self._loose or value in self._constants:
            return True
        lookups = [lk for _, ways in self._sides for way in ways for lk in way.lookups if field in lk.fields]
        return not lookups or any(lookup.mentions(field, value) for lookup in lookups)

    def forget(self) -> None:
        """Drop what was learnt while deciding; the rules stay."""
        for _, ways in self._sides:
            for way in ways:
                for lookup in way.lookups:
                    lookup.forget()
