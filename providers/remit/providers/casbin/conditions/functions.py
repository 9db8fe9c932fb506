"""The tests of the condition language that are written as functions: ``under(x, "/srv")`` and its siblings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from remit.providers.casbin.conditions.glob import Glob
from remit.providers.casbin.conditions.syntax import ConditionError
from remit.providers.casbin.conditions.terms import Asked, Term, as_host, as_path, maybe_path
from remit.providers.casbin.conditions.truths import NOUN, Truth, canonical_literal, leaf, presence, require_folded
from remit.providers.casbin.conditions.views import contains, ends, in_domain, starts, under

_Relation = Callable[[Any, Any], "bool | None"]


def _related(relation: _Relation, left: Term, right: Term) -> Truth:
    first, second = left.get, right.get
    return leaf(lambda asked: relation(first(asked), second(asked)), left, right)


def _has(name: Term) -> Truth:
    if not name.readers or name.kind != "any":
        raise ConditionError("has(…) asks about a name", "write has(r.ctx.args.NAME)", offset=name.offset)
    return presence(name)


def _under(value: Term, folder: Term) -> Truth:
    value = as_path(value)
    return _related(under, value, canonical_literal(folder, value) if folder.fixed else as_path(folder))


def _in_domain(value: Term, domain: Term) -> Truth:
    value = as_host(value)
    if not domain.fixed:
        return _related(in_domain, value, as_host(domain))
    if str(domain.const).startswith((".", "*")):
        what = f"{domain.const!r} is no domain"
        raise ConditionError(
            what, f"write {domain.const.lstrip('*.')!r}, subdomains are included", offset=domain.offset
        )
    return _related(in_domain, value, canonical_literal(domain, value))


def _startswith(value: Term, part: Term) -> Truth:
    if part.fixed and "://" in part.const and "/" not in part.const.partition("://")[2]:
        what = f"{part.const!r} is the start of other hosts, too"
        advice = "write in_domain(…) or host(…), or end it with a slash"
        raise ConditionError(what, advice, offset=part.offset)
    return _part(starts, value, part, rooted=True)


def _endswith(value: Term, part: Term) -> Truth:
    if value.kind == "host" and part.fixed and not part.const.startswith("."):
        what = f"other hosts end with {part.const!r}, too"
        raise ConditionError(what, "write in_domain(…)", offset=part.offset)
    return _part(ends, value, part, rooted=False)


def _contains(value: Term, part: Term) -> Truth:
    if value.kind == "host":
        raise ConditionError("any host may contain any text", "write in_domain(…)", offset=value.offset)
    return _part(contains, value, part, rooted=False, paths=False)


def _part(relation: _Relation, value: Term, part: Term, *, rooted: bool, paths: bool = True) -> Truth:
    for term in (value, part):
        if term.kind in ("number", "bool"):
            raise ConditionError(f"{term.written!r} is no text", "give a text", offset=term.offset)
    if part.fixed:
        if not part.const:
            raise ConditionError("the empty text is part of everything", "write what to look for", offset=part.offset)
        if paths and part.const.startswith("/"):
            value = maybe_path(value)
        if value.folded:
            require_folded(part)
    if value.kind != "path" or not rooted:
        return _related(relation, value, part)

    def from_the_root(path: str | None, start: Any) -> bool | None:
        if path is None or type(start) is not str or path.startswith("/") is not start.startswith("/"):
            return None
        return relation(path, start)

    return _related(from_the_root, value, part)


def _glob(value: Term, pattern: Term) -> Truth:
    if not pattern.fixed:
        raise ConditionError(
            "a pattern must be written out", "use startswith(…) for texts of the request", offset=pattern.offset
        )
    try:
        glob = Glob(pattern.const)
    except ValueError as exc:
        raise ConditionError(str(exc), "see glob in the manual", offset=pattern.offset) from None
    if pattern.const.startswith("/"):
        value = maybe_path(value)
    if value.folded:
        require_folded(pattern)
    get, test = value.get, glob.test
    if value.kind != "path" or pattern.const.startswith("**"):
        return leaf(lambda asked: test(get(asked)), value)
    relative = glob.relative

    def matches(asked: Asked) -> bool | None:
        path = get(asked)
        return None if path is None or (path[0] != "/") is not relative else test(path)

    return leaf(matches, value)


def _text_argument(build: Callable[[Term, Term], Truth]) -> Callable[[Term, Term], Truth]:
    def checked(value: Term, other: Term) -> Truth:
        if value.fixed:
            raise ConditionError("tests a fixed value", "put a name of the request first", offset=value.offset)
        if value.kind in ("number", "bool"):
            what = f"{value.written!r} is a {NOUN[value.kind]}, not a text"
            raise ConditionError(what, "give a name of the request", offset=value.offset)
        if other.fixed and other.kind != "text":
            raise ConditionError(f"{other.written!r} is no text", "put it in quotes", offset=other.offset)
        return build(value, other)

    return checked


TESTS: Final[Mapping[str, tuple[int, Callable[..., Truth]]]] = {
    "has": (1, _has),
    "under": (2, _text_argument(_under)),
    "in_domain": (2, _text_argument(_in_domain)),
    "startswith": (2, _text_argument(_startswith)),
    "endswith": (2, _text_argument(_endswith)),
    "contains": (2, _text_argument(_contains)),
    "glob": (2, _text_argument(_glob)),
}
"""Name -> number of arguments, and how the test is made from them."""
