"""Comparisons and tests: closures that answer True, False, or None for *unknown* (Kleene's three-valued logic)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from remit.authz.types import FrozenDict
from remit.providers.casbin.conditions.syntax import ConditionError
from remit.providers.casbin.conditions.terms import (
    Asked,
    Get,
    Kind,
    Term,
    as_folded,
    as_host,
    as_path,
    literal,
    maybe_path,
)
from remit.providers.casbin.conditions.views import (
    host_name,
    lower_of,
    path_of,
    plain,
    same_path,
    same_text,
    text_of,
)

Test = Callable[[Asked], "bool | None"]
ANY: Final = frozenset({True, False, None})


@dataclass(frozen=True, slots=True)
class Truth:
    """A part of a condition that holds, does not hold, or is unknown."""

    test: Test
    readers: Mapping[str, Get] = FrozenDict()
    call: bool = False
    join: Literal["", "and", "or", "not"] = ""
    parts: tuple[Truth, ...] = ()

    def outcomes(self, asked: Asked) -> frozenset[bool | None]:
        """Every answer that some call by this principal may get."""
        if not self.call:
            return frozenset({self.test(asked)})
        if self.join == "not":
            return frozenset(_not(value) for value in self.parts[0].outcomes(asked))
        if not self.join:
            return ANY
        step = _and if self.join == "and" else _or
        first, *rest = (part.outcomes(asked) for part in self.parts)
        for other in rest:
            first = frozenset(step(a, b) for a in first for b in other)
        return first


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    return True if a is True or b is True else None if a is None or b is None else False


def all_of(parts: tuple[Truth, ...]) -> Truth:
    """Kleene conjunction: a part that is False decides."""
    if len(parts) == 1:
        return parts[0]
    return _joined("and", parts, _both(*(p.test for p in parts)) if len(parts) == 2 else _each(parts, False))


def any_of(parts: tuple[Truth, ...]) -> Truth:
    """Kleene disjunction: a part that is True decides."""
    return _joined("or", parts, _each(parts, True))


def negation(part: Truth) -> Truth:
    """Kleene negation: unknown stays unknown."""
    inner = part.test

    def test(asked: Asked) -> bool | None:
        value = inner(asked)
        return None if value is None else not value

    return _joined("not", (part,), test)


def _joined(join: Literal["and", "or", "not"], parts: tuple[Truth, ...], test: Test) -> Truth:
    readers = FrozenDict({name: get for part in parts for name, get in part.readers.items()})
    return Truth(test, readers, any(part.call for part in parts), join, parts)


def _both(left: Test, right: Test) -> Test:
    def test(asked: Asked) -> bool | None:
        first = left(asked)
        if first is False:
            return False
        second = right(asked)
        return second if first is True or second is False else None

    return test


def _each(parts: tuple[Truth, ...], decides: bool) -> Test:
    tests = tuple(part.test for part in parts)

    def test(asked: Asked) -> bool | None:
        answer: bool | None = not decides
        for part in tests:
            value = part(asked)
            if value is decides:
                return decides
            if value is None:
                answer = None
        return answer

    return test


def constant(value: bool) -> Truth:
    """True or False, written out."""
    return Truth(lambda _: value)


def flag(term: Term) -> Truth:
    """A name that stands alone: its value must be True or False itself."""
    get = term.get

    def test(asked: Asked) -> bool | None:
        value = get(asked)
        return value if value is True or value is False else None

    return leaf(test, term)


def presence(term: Term) -> Truth:
    """Is there a value, null not counted? The one test that is never unknown."""
    get = term.get
    return leaf(lambda asked: get(asked) is not None, term)


def leaf(test: Test, *terms: Term) -> Truth:
    """A test that reads `terms` and has no inner structure."""
    readers = FrozenDict({name: get for term in terms for name, get in term.readers.items()})
    return Truth(test, readers, any(term.call for term in terms))


_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def comparison(sign: str, left: Term, right: Term) -> Truth:
    """`left sign right`, for one of ``== != < <= > >=``.

    Raises:
        ConditionError: It could never be True.
    """
    if left.fixed and right.fixed:
        raise ConditionError("compares two fixed values", "compare a name with a value", offset=left.offset)
    if left.fixed:
        left, right, sign = right, left, _FLIPPED[sign]
    left, right = aligned(left, right)
    if sign in _ORDER:
        return leaf(_ordered(sign, left, right), left, right)
    equality = leaf(_equal(left, right), left, right)
    return equality if sign == "==" else replace(negation(equality), join="", parts=())


def aligned(left: Term, right: Term) -> tuple[Term, Term]:
    """Both sides in the same canonical view, the stronger view of the two."""
    if right.fixed and right.kind == "text" and right.const.startswith("/"):
        left = maybe_path(left)
    for kind, view in (("path", as_path), ("host", as_host)):
        if left.kind == kind and right.kind in ("any", "text"):
            right = canonical_literal(right, left) if right.fixed else view(right)
        elif right.kind == kind and left.kind in ("any", "text"):
            left = view(left)
    if left.kind != right.kind and "any" not in (left.kind, right.kind):
        what = f"compares a {NOUN[left.kind]} with a {NOUN[right.kind]}"
        raise ConditionError(what, "such a comparison is never true; write both alike", offset=right.offset)
    if right.fixed:
        if left.folded:
            require_folded(right)
    elif left.folded is not right.folded:
        left, right = as_folded(left), as_folded(right)
    return left, right


NOUN: Final[Mapping[Kind, str]] = {
    "any": "value",
    "text": "text",
    "path": "path",
    "host": "host",
    "number": "number",
    "bool": "truth value",
}


def require_folded(term: Term) -> None:
    """Refuse a literal with capitals where only case-folded text can come.

    Raises:
        ConditionError: It has some.
    """
    if type(term.const) is str and (small := lower_of(term.const)) != term.const:
        what = f"lower(…) and scheme(…) never give {term.const!r}"
        raise ConditionError(what, f"write {small!r}", offset=term.offset)


def canonical_literal(term: Term, other: Term) -> Term:
    """A literal as the path or host that it is compared with.

    Raises:
        ConditionError: It is none.
    """
    canonical = path_of(term.const) if other.kind == "path" else host_name(term.const)
    if canonical is None:
        what = f"{term.const!r} is no unambiguous {other.kind}"
        raise ConditionError(what, "write it in full", offset=term.offset)
    return replace(literal(canonical, term.source, term.node), kind=other.kind)


def _equal(left: Term, right: Term) -> Test:
    if right.fixed and right.kind in ("any", "text", "number", "bool"):
        return _EQUAL_FIXED[right.kind](left.get, right.const)
    same = SAME[left.kind if left.kind != "any" else right.kind]
    first, second = left.get, right.get
    return lambda asked: same(first(asked), second(asked))


def _is_text(get: Get, const: str) -> Test:
    simple, core = plain(const), const.strip()

    def test(asked: Asked) -> bool | None:
        value = get(asked)
        if type(value) is not str:
            return None
        if value == const:
            return True
        if simple and value.isascii() and value.isprintable() and value.strip() != core:
            return False
        return same_text(value, const)

    return test


def _is_number(get: Get, const: float) -> Test:
    def test(asked: Asked) -> bool | None:
        value = get(asked)
        if type(value) is int or (type(value) is float and value == value):
            return bool(value == const)
        return None

    return test


def _is_bool(get: Get, const: bool) -> Test:
    def test(asked: Asked) -> bool | None:
        value = get(asked)
        return value is const if type(value) is bool else None

    return test


_EQUAL_FIXED: Final[Mapping[str, Callable[[Get, Any], Test]]] = {
    "text": _is_text,
    "number": _is_number,
    "bool": _is_bool,
}


def _same_number(left: Any, right: Any) -> bool | None:
    if _numeric(left) and _numeric(right):
        return bool(left == right)
    return None


def _numeric(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value == value)  # NaN is no number


def _same_bool(left: Any, right: Any) -> bool | None:
    return left is right if type(left) is bool and type(right) is bool else None


def same(left: Any, right: Any) -> bool | None:
    """Equality of two JSON scalars of one type; of anything else it is unknown."""
    if type(left) is str:
        return same_text(left, right)
    return _same_bool(left, right) if type(left) is bool else _same_number(left, right)


def same_host(left: str | None, right: str | None) -> bool | None:
    """Are two canonical hosts one?"""
    return None if left is None or right is None else left == right


SAME: Final[Mapping[Kind, Callable[[Any, Any], bool | None]]] = {
    "any": same,
    "text": same_text,
    "path": same_path,
    "host": same_host,
    "number": _same_number,
    "bool": _same_bool,
}


def _ordered(sign: str, left: Term, right: Term) -> Test:
    for term in (left, right):
        if term.kind in ("path", "host", "bool"):
            what = f"{term.written!r} is a {NOUN[term.kind]}, and those have no order"
            raise ConditionError(what, "use == or !=, or under(…)", offset=term.offset)
    order, first, second = _ORDER[sign], left.get, right.get
    if right.fixed and right.kind == "number":
        bound = right.const

        def number(asked: Asked) -> bool | None:
            value = first(asked)
            if type(value) is int or (type(value) is float and value == value):
                return order(value, bound)
            return None

        return number

    def test(asked: Asked) -> bool | None:
        a, b = first(asked), second(asked)
        if type(a) is str:
            a, b = text_of(a), text_of(b)
            return None if a is None or b is None else order(a, b)
        return order(a, b) if _numeric(a) and _numeric(b) else None

    return test
