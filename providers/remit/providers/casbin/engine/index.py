"""The common shape of a role-based policy as dicts: a decision is a look-up, whatever the number of rules.

Rules are stored under (subject, compared columns). Whoever stands for the same subjects shares one `Column` for each
combination of the compared columns, and a column knows the decision for every name that was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any, Final

from remit.authz.types import AuthzDecision
from remit.providers.casbin.engine.columns import Column, Scales
from remit.providers.casbin.engine.decisions import Cell, Condition, Decisions
from remit.providers.casbin.engine.finder import Finder, Reading
from remit.providers.casbin.engine.matcher import CommonShape
from remit.providers.casbin.engine.roles import RoleGraph

_CHUNK: Final = 500
"""Rules whose targets are looked at in one go."""

Unreadable = Callable[[int, str], None]
"""Told the number of a rule that cannot be read, and why."""


class Index:
    """Rules of the common shape.

    Args:
        values: Of each rule, in policy order.
        shape: What the matcher compares.
        links: Role links; looked at when the shape has roles.
        decisions: Of the same rules.
        conditions: Of the rules that have one, by number.
        unreadable: Called for every rule whose pattern cannot be read.
    """

    def __init__(
        self,
        values: Sequence[tuple[str, ...]],
        shape: CommonShape,
        links: RoleGraph,
        decisions: Decisions,
        conditions: Mapping[int, Condition],
        unreadable: Unreadable,
    ) -> None:
        self.shape, self.links, self.decisions = shape, links, decisions
        self.scales = Scales(decisions, conditions, globs=shape.target.kind == "globMatch")
        self._values = values
        self._reading = Reading(shape.target.kind, star=shape.target.star)
        self._store: dict[Any, int | Finder[int]] = {}
        """Subject, or (subject, compared values) -> the rules: a lone number, or a finder."""
        self._columns: dict[tuple[frozenset[str], tuple[str, ...]], Column] = {}
        self._fill(unreadable)
        self.subjects = frozenset(key[0] if shape.keys else key for key in self._store)
        """Every subject that some rule names."""
        everyone = shape.subject.star and "*" in self.subjects
        self._everyone = frozenset({"*"} if everyone else ())
        starred = [{key[place + 1] for key in self._store} for place in range(len(shape.keys))]
        self._stars = tuple(key.star and "*" in values for key, values in zip(shape.keys, starred, strict=True))
        self._effective: dict[str, frozenset[str]] = {}
        """Name -> itself, if it has rules, and everybody with rules that it inherits from. Names of the policy only."""
        if shape.role is not None:
            links.prepare()

    def _fill(self, unreadable: Unreadable) -> None:
        shape, store, values = self.shape, self._store, self._values
        target = shape.target.column
        key_of: Callable[[tuple[str, ...]], Any] = itemgetter(shape.subject.column, *(key.column for key in shape.keys))
        for start in range(0, len(values), _CHUNK):
            chunk = values[start : start + _CHUNK]
            plain = self._reading.all_literal([fields[target] for fields in chunk])
            for row, fields in enumerate(chunk, start):
                key, name = key_of(fields), fields[target]
                held = store.get(key)
                if plain and type(held) is Finder and name not in held.exact:
                    held.exact[name] = row  # what `add` would do, for nearly every rule of nearly every policy
                else:
                    try:
                        self._put(key, held, name, row)
                    except ValueError as error:
                        unreadable(row, str(error))

    def _put(self, key: Any, held: int | Finder[int] | None, name: str, row: int) -> None:
        if held is None:
            self._reading.check(name)
            self._store[key] = row  # a lone rule gets its finder when somebody asks for it
            return
        if type(held) is int:
            held = self._store[key] = self._lone(held)
        held.add(name, row)  # type: ignore[union-attr]  # a finder by now

    def _lone(self, row: int) -> Finder[int]:
        finder: Finder[int] = Finder(self._reading)
        finder.add(self._values[row][self.shape.target.column], row)
        return finder

    def effective(self, name: str) -> frozenset[str]:
        """Everybody in whose name rules are looked up for `name`, as far as there are rules."""
        found = self._effective.get(name)
        if found is None:
            found = self.inherited(name)
            if name in self.subjects:
                found |= {name}
            if name in self.subjects or name in self.links.up:
                self._effective[name] = found
        return found

    def inherited(self, name: str) -> frozenset[str]:
        """`effective` without `name` itself, unless it is in a cycle."""
        nearest = self.links.up.get(name) if self.shape.role is not None else None
        if nearest is None:
            return self._everyone
        if len(nearest) == 1 and (found := self._effective.get(nearest[0])) is not None:
            return found
        beyond = {other for near in nearest for other in self.links.above(near)}
        found = self._everyone.union(self.subjects.intersection(beyond))
        if len(nearest) == 1:
            self._effective[nearest[0]] = found
        return found

    def column(self, subjects: frozenset[str], values: tuple[str, ...], own: str | None = None) -> Column:
        """The column for whoever stands for all of `subjects`, and these values of the compared columns.

        Args:
            own: One subject more, whose rules nobody else shares: such a column is not kept here.
        """
        found = self._columns.get((subjects, values))
        if found is None:
            found = Column(*self._parts(subjects, values), self.scales)
            self._columns[subjects, values] = found
        if own is None or own in subjects or own not in self.subjects:
            return found
        return found.extended(*self._parts((own,), values))

    def _parts(
        self, subjects: Iterable[str], values: tuple[str, ...]
    ) -> tuple[list[dict[str, int | list[int]]], list[Finder[int]]]:
        """The rules of `subjects`: those with plain targets, and the others."""
        keys: Iterable[Any] = subjects
        if True in self._stars:
            wanted = [
                (value, "*") if star and value != "*" else (value,)
                for value, star in zip(values, self._stars, strict=True)
            ]
            keys = product(subjects, *wanted)
        elif values:
            keys = [(subject, *values) for subject in subjects]
        exact: list[dict[str, int | list[int]]] = []
        patterned: list[Finder[int]] = []
        for key in keys:
            held = self._store.get(key)
            if type(held) is int:
                name = self._values[held][self.shape.target.column]
                if self._reading.all_literal((name,)):
                    exact.append({name: held})
                    continue
                held = self._lone(held)
            if type(held) is Finder:
                if held.exact:
                    exact.append(held.exact)
                if held.patterned or held.everything:
                    patterned.append(held)
        return exact, patterned

    def forget(self) -> None:
        """Drop what was learnt while deciding; the rules stay."""
        self._columns = {}

    # The same rules, asked with the values of a request template.

    def locate(self, values: Sequence[str]) -> tuple[Column, str]:
        """The column and the target that the request `values` lead to."""
        shape = self.shape
        subject, keys = values[shape.subject.field], tuple(values[key.field] for key in shape.keys)
        return self.column(self.inherited(subject), keys, subject), values[shape.target.field]

    def cell(self, values: Sequence[str]) -> Cell:
        """The decision for the request `values`, or the choice that its arguments must make."""
        column, target = self.locate(values)
        return column.cell(target)

    def matching(self, values: Sequence[str]) -> list[int]:
        """The numbers of the rules that match the request `values`, in policy order."""
        column, target = self.locate(values)
        return column.rows(target)

    def ever(self, values: Sequence[str]) -> bool:
        """Is it allowed, whatever the arguments? An index reads none."""
        cell = self.cell(values)
        return type(cell) is AuthzDecision and cell.allow

    def knows(self, field: int, value: str) -> bool:
        """Does some rule or role link mention `value` of request column `field`?"""
        if field != self.shape.subject.field:
            return True
        return value in self.subjects or value in self.links
