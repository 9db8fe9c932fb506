"""Which stored values of one policy column does this request match? The step from a request to candidate rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from remit.providers.casbin.engine.closures import Closures, EvaluationError, Names, Run, Values
from remit.providers.casbin.engine.finder import Finder
from remit.providers.casbin.engine.matcher import Atom, Const, Equal, Given, Linked, Matches, Test

_REMEMBERED: Final = 4096
_HEADLESS: Final = frozenset({"regexMatch", "ipMatch"})
"""Functions whose patterns cannot be found by the text that they start with."""

Find = Callable[[Values], Iterable[str] | None]
"""The stored values that match; None: all of them."""


class Undetermined(Exception):
    """The answer depends on the arguments of a call, and there is no call yet."""


class Lookup:
    """One test about one column, over the values that the rows of one side hold there.

    Args:
        stored: The distinct values.
        width: Number of policy columns.
    """

    __slots__ = (
        "_atoms",
        "_finds",
        "_graphs",
        "_known",
        "_run",
        "_scans",
        "_width",
        "column",
        "fields",
        "poisoned",
        "stored",
    )

    def __init__(self, test: Test, stored: Iterable[str], names: Names, closures: Closures, width: int) -> None:
        self.column, self._width = test.column, width
        self.stored: dict[str, None] = dict.fromkeys(stored)
        self.poisoned: set[str] = set()
        """Values on which the test itself failed once: kept as candidates, and asked again row by row."""
        self._run: Run = closures.condition(test.node)
        fixed = {atom.text for atom in test.atoms if isinstance(atom, Const)}
        self._finds = [_find(atom, self.stored, fixed, names, closures) for atom in test.atoms]
        self._scans = not test.atoms or any(isinstance(a, Matches) and a.function in _HEADLESS for a in test.atoms)
        self._atoms, self._graphs = test.atoms, names.roles
        self.fields = sorted(names.fields(test.node))
        self._known: dict[Any, frozenset[str] | None] = {}

    def holds(self, r: Values, value: str) -> bool:
        """Does the test hold for one stored value? A failing test counts as held, and is asked again on the row."""
        try:
            return bool(self._run(r, self._row(value)))
        except Undetermined:
            raise
        except Exception:
            self.poisoned.add(value)
            return True

    def _row(self, value: str) -> list[Any]:
        row: list[Any] = [None] * self._width
        row[self.column] = value
        return row

    def within(self, r: Values, node: Mapping[str, Any]) -> Collection[str]:
        """Those keys of `node`, which are stored values, for which the test holds.

        Raises:
            Undetermined: The test reads arguments, and there are none.
            EvaluationError: The request cannot be compared.
        """
        key = r[self.fields[0]] if len(self.fields) == 1 else tuple(r[field] for field in self.fields)
        plain = type(key) is str or (type(key) is tuple and all(type(part) is str for part in key))
        found = self._known.get(key, _MISSING) if plain else _MISSING
        if found is _MISSING:
            if self._scans and 4 * len(node) < len(self.stored):
                return [value for value in node if self.holds(r, value)]
            found = self._all(r)
            if plain:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = found
        if found is None:
            return node.keys()
        if len(found) <= len(node):
            return [value for value in found if value in node]
        return [value for value in node if value in found]

    def _all(self, r: Values) -> frozenset[str] | None:
        if not self._finds:
            return frozenset(value for value in self.stored if self.holds(r, value))
        out: set[str] = set()
        for find in self._finds:
            found = find(r)
            if found is None:
                return None
            out.update(found)
        return frozenset(out)

    def mentions(self, field: int, value: str) -> bool:
        """Can this test hold because of `value` in request column `field`, or does a role link speak of it?"""
        if len(self.fields) > 1 and any(
            not isinstance(atom, (Equal, Linked, Const)) for atom in self._atoms or (None,)
        ):
            return True
        for atom in self._atoms:
            if isinstance(atom, (Equal, Linked)) and value in self.stored:
                return True
            if isinstance(atom, Linked) and any(value in links for links in self._graphs[atom.role].values()):
                return True
        if all(isinstance(atom, (Equal, Linked, Const)) for atom in self._atoms) and self._atoms:
            return False
        r: list[Any] = [None] * (field + 1)
        r[field] = value
        return self._all(r) != frozenset()

    def forget(self) -> None:
        self._known.clear()


_MISSING: Final[Any] = object()


def _find(atom: Atom, stored: Mapping[str, None], fixed: set[str], names: Names, closures: Closures) -> Find:
    match atom:
        case Given(condition):
            holds = closures.condition(condition)
            return lambda r: None if holds(r, ()) else ()
        case Const(text):
            alone = (text,) if text in stored else ()
            return lambda r: alone
        case Equal(value):
            of = closures.value(value)

            def equal(r: Values) -> Iterable[str]:
                wanted = of(r, ())
                return (wanted,) if type(wanted) is str and wanted in stored else ()

            return equal
        case Linked():
            return _linked(atom, stored, names, closures)
        case Matches(function, value):
            of = closures.value(value)
            finder: Finder[str] = Finder(names.reading(function, closures.grants))
            for pattern in stored:
                if pattern not in fixed:  # the alternative p.column == "text" decides on it, and it may be no pattern
                    finder.add(pattern, pattern)

            def matches(r: Values) -> Iterable[str]:
                wanted = of(r, ())
                if type(wanted) is not str:
                    raise EvaluationError(f"{function}() was given {type(wanted).__name__}, not text")
                return finder.find(wanted)

            return matches
    raise AssertionError(atom)  # pragma: no cover  # every kind of atom is above


def _linked(atom: Linked, stored: Mapping[str, None], names: Names, closures: Closures) -> Find:
    of, graph, role, upward = closures.value(atom.name), names.graph, atom.role, atom.upward
    domain = None if atom.domain is None else closures.value(atom.domain)

    def linked(r: Values) -> Iterable[str]:
        name = of(r, ())
        if type(name) is not str:
            return ()
        links = graph(role, "" if domain is None else domain(r, ()))
        reached = links.above(name) if upward else links.below(name)
        return [other for other in reached if other in stored]

    return linked
