"""Membership: ``in`` and ``not in``, with a list that is written out or one that the request brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from remit.providers.casbin.conditions.syntax import ConditionError
from remit.providers.casbin.conditions.terms import Asked, Kind, Term, as_path, maybe_path
from remit.providers.casbin.conditions.truths import SAME, Test, Truth, aligned, leaf, same_host
from remit.providers.casbin.conditions.views import host_of, path_of, plain, same_path

MAX_ITEMS: Final = 1000
"""Items of a list in the request that membership still looks at; longer ones are unknown."""


_ITEM: Final[Mapping[Kind, Callable[[Any, Any], bool | None]]] = {
    "path": lambda value, item: same_path(value, path_of(item)),
    "host": lambda value, item: same_host(value, host_of(item)),
}


def member_of_list(left: Term, items: list[Term], offset: int) -> Truth:
    """`left in [..]` with the items written out.

    Raises:
        ConditionError: The list is empty or mixes types, or an item could never be equal.
    """
    kinds = {item.kind for item in items}
    if len(kinds) != 1:
        what = "the list mixes texts, numbers and truth values" if items else "the list is empty"
        raise ConditionError(what, "write items of one type", offset=offset)
    if left.fixed:
        raise ConditionError("looks for a fixed value in a fixed list", "look for a name", offset=left.offset)
    rooted = [item for item in items if item.kind == "text" and item.const.startswith("/")]
    if rooted and maybe_path(left) is not left:
        if len(rooted) != len(items):
            advice = "write text(…) or path(…) around the name"
            raise ConditionError("the list mixes paths and other texts", advice, offset=offset)
        left = maybe_path(left)
    pairs = [aligned(left, item) for item in items]
    left, consts = pairs[0][0], [right.const for _, right in pairs]
    return leaf(_among(left, pairs[0][1].kind, consts), left)


def _among(left: Term, kind: Kind, consts: list[Any]) -> Test:
    get, exact = left.get, frozenset(consts)
    cores = frozenset(const.strip() for const in consts) if kind == "text" else exact
    equal = SAME[kind]
    simple = kind == "text" and all(map(plain, consts))
    expected = {"number": (int, float), "bool": (bool,)}.get(kind, (str,))

    def test(asked: Asked) -> bool | None:
        value = get(asked)
        if type(value) not in expected:
            return None
        if value in exact:
            return True
        if simple and value.isascii() and value.isprintable() and value.strip() not in cores:
            return False
        return _any_equal(equal, value, consts)

    return test


def member_of_value(left: Term, right: Term) -> Truth:
    """`left in right` where `right` is a list in the request. A text is no list, and membership in it is unknown."""
    if right.kind != "any":
        what = f"{right.written!r} is no list"
        raise ConditionError(what, "contains(x, 'part') looks inside a text", offset=right.offset)
    if left.fixed and left.kind == "text" and left.const.startswith("/"):
        left = as_path(left)
    get, items, equal = left.get, right.get, _ITEM.get(left.kind, SAME[left.kind])

    def test(asked: Asked) -> bool | None:
        value, found = get(asked), items(asked)
        if value is None or not isinstance(found, (list, tuple, frozenset, set)) or len(found) > MAX_ITEMS:
            return None
        return _any_equal(equal, value, found)

    return leaf(test, left, right)


def _any_equal(equal: Callable[[Any, Any], bool | None], value: Any, items: Iterable[Any]) -> bool | None:
    answer: bool | None = False
    for item in items:
        match = equal(value, item)
        if match is True:
            return True
        if match is None:
            answer = None
    return answer
