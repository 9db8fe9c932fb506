"""The common shape of a role-based policy as dicts: a decision is a look-up, whatever the number of rules.

Rules are stored under (subject, compared columns). Everybody with the same effective subjects shares one `View`; a
view has one `Column` per combination of the compared columns; a column knows the decision for every name it has met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any

from remit.authz.types import AuthzDecision
from remit.providers.casbin.columns import Column, Scales, View
from remit.providers.casbin.decisions import Cell, Condition, Decisions
from remit.providers.casbin.finder import Finder, Reading
from remit.providers.casbin.matcher import CommonShape
from remit.providers.casbin.roles import RoleGraph

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
        self.scales = Scales(decisions, conditions)
        self._values = values
        self._reading = Reading(shape.target.kind, star=shape.target.star)
        self._stars = tuple(key.star for key in shape.keys)
        self._store: dict[Any, int | Finder[int]] = {}
        """Subject, or (subject, compared values) -> the rules: a lone number, or a finder."""
        self._views: dict[frozenset[str], View] = {}
        subjects: set[str] = set()
        self._fill(subjects, unreadable)
        self.subjects = frozenset(subjects)
        """Every subject that some rule names."""
        self._everyone = ("*",) if shape.subject.star and "*" in subjects else ()

    def _fill(self, subjects: set[str], unreadable: Unreadable) -> None:
        shape, store, reading = self.shape, self._store, self._reading
        subject, target = shape.subject.column, shape.target.column
        key_of: Callable[[tuple[str, ...]], Any] = itemgetter(subject, *(key.column for key in shape.keys))
        for row, fields in enumerate(self._values):
            key, name = key_of(fields), fields[target]
            held = store.get(key)
            try:
                if type(held) is Finder:
                    held.add(name, row)
                elif held is None:
                    reading.check(name)
                    store[key] = row  # a lone rule gets its finder when somebody asks for it
                    subjects.add(fields[subject])
                else:
                    store[key] = finder = self._lone(held)  # type: ignore[arg-type]  # neither a finder nor None
                    finder.add(name, row)
            except ValueError as error:
                unreadable(row, str(error))

    def _lone(self, row: int) -> Finder[int]:
        finder: Finder[int] = Finder(self._reading)
        finder.add(self._values[row][self.shape.target.column], row)
        return finder

    def effective(self, *names: str) -> tuple[str, ...]:
        """The subjects in whose name rules are looked up for `names`, nearest first; only those that have rules."""
        known = self.subjects
        if self.shape.role is None:
            found = [name for name in names if name in known]
        else:
            above = self.links.above
            found = [name for start in names for name in above(start) if name in known]
        return tuple(dict.fromkeys((*found, *self._everyone)))

    def view(self, *names: str) -> View:
        """The view of whoever goes by all of `names` at once."""
        subjects = self.effective(*names)
        key = frozenset(subjects)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = View(subjects)
        return found

    def column(self, view: View, values: tuple[str, ...]) -> Column:
        """The column of `view` for these values of the compared columns."""
        found = view.columns.get(values)
        if found is None:
            found = view.columns[values] = Column(self._finders(view.subjects, values), self.scales)
        return found

    def _finders(self, subjects: tuple[str, ...], values: tuple[str, ...]) -> list[Finder[int]]:
        choices = [
            (value, "*") if star and value != "*" else (value,)
            for value, star in zip(values, self._stars, strict=True)
        ]
        keys: list[Any] = list(product(subjects, *choices)) if choices else list(subjects)
        finders: list[Finder[int]] = []
        for key in keys:
            held = self._store.get(key)
            if type(held) is Finder:
                finders.append(held)
            elif type(held) is int:
                finders.append(self._lone(held))
        return finders

    def forget(self) -> None:
        """Drop what was learnt while deciding; the rules stay."""
        self._views = {}

    # The same rules, asked with the values of a request template.

    def locate(self, values: Sequence[str]) -> tuple[Column, str]:
        """The column and the target that the request `values` lead to."""
        shape = self.shape
        view = self.view(values[shape.subject.field])
        return self.column(view, tuple(values[key.field] for key in shape.keys)), values[shape.target.field]

    def cell(self, values: Sequence[str]) -> Cell:
        """The decision for the request `values`, or the choice that its arguments must make."""
        column, target = self.locate(values)
        return column.cell(target)

    def matching(self, values: Sequence[str]) -> list[int]:
        """The numbers of the rules that match the request `values`, in policy order."""
        column, target = self.locate(values)
        return column.rows(target)

    def ever(self, values: Sequence[str]) -> bool:
        """Is it allowed or asked for some arguments? Values are all there is, so: is it allowed?"""
        cell = self.cell(values)
        return type(cell) is AuthzDecision and cell.allow

    def takes_text(self, objects: frozenset[int]) -> bool:
        """Is none of the request columns that the shape compares among `objects`?"""
        shape = self.shape
        return objects.isdisjoint((shape.subject.field, shape.target.field, *(key.field for key in shape.keys)))

    def knows(self, field: int, value: str) -> bool:
        """Does some rule or role link mention `value` of request column `field`?"""
        if field != self.shape.subject.field:
            return True
        return value in self.subjects or value in self.links
