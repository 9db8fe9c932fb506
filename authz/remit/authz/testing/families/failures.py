"""What cannot be answered raises. It is never answered, and certainly not with an allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from remit.authz.testing.cases import case
from remit.authz.testing.session import NotClaimed, Session, caught
from remit.authz.testing.world import Question
from remit.authz.types import AuthzDecision

_NO_REQUEST: Final[tuple[object, ...]] = (None, {}, "search", ("reader", "tool", "call", "search"), object(), True)
_GRANTED: Final = (Question("reader", "search"), Question("writer", "write_file"))


def _allows(answer: Any) -> bool:
    """Whether a careless caller could read `answer` as an allow."""
    if type(answer) is AuthzDecision:
        return answer.allow is not False or answer.asks
    return bool(answer)


@case("failures/no-request")
def no_request(s: Session) -> Iterator[str]:
    """never allows what is no request"""
    for thing in _NO_REQUEST:
        for door, ask in (
            ("authorize", s.provider.authorize),
            ("aauthorize", lambda it: s.run(s.provider.aauthorize(it))),
        ):
            answer, error = caught(ask, thing)
            if error is None and _allows(answer):
                yield f"{door}({thing!r}) answered {answer!r}"


@case("failures/no-principal")
def no_principal(s: Session) -> Iterator[str]:
    """shows nothing to what is no principal"""
    for thing in (None, "reader", {"role": "reader"}, object()):
        shown, error = caught(s.provider.filter_resources, thing, "tool", ["search", "read_file"])
        if error is None and shown:
            yield f"filter_resources({thing!r}, ...) answered {shown!r}"


@case("failures/no-candidates")
def no_candidates(s: Session) -> Iterator[str]:
    """never shows what is no name: None, numbers, bytes, lists"""
    for thing in (None, 7, True, b"search", ["search"], ("search",), {"search": 1}):
        shown, error = caught(s.filter, "reader", ["search", thing])
        if error is None and (type(shown) is not list or any(type(name) is not str for name in shown)):
            yield f"with {thing!r} among the candidates it answered {shown!r}"


@case("failures/candidates-that-are-no-list")
def candidates_that_are_no_list(s: Session) -> Iterator[str]:
    """shows nothing when the candidates are no list at all, or just what is granted of them"""
    for thing in (None, 7, "search", b"search"):
        shown, error = caught(s.filter, "reader", thing)
        if error is None and shown not in ([], None):
            yield f"of the candidates {thing!r} it showed {shown!r}"


@case("failures/stays-right-afterwards")
def stays_right_afterwards(s: Session) -> Iterator[str]:
    """answers rightly after it was asked nonsense"""
    for thing in _NO_REQUEST:
        caught(s.provider.authorize, thing)
        caught(s.provider.filter_resources, thing, "tool", [thing])
    yield from s.expect(Question("reader", "search"), "allow")
    yield from s.expect(Question("reader", "write_file"), "deny")
    yield from s.expect(Question("admin", "wipe_disk"), "deny")


def _broken(s: Session) -> Iterator[tuple[str, Callable[[], Any]]]:
    if s.sabotage is None:
        raise NotClaimed("sabotage")
    s.sabotage(s.provider)
    principal = Question("reader", "-").principal()
    for question in _GRANTED:
        for door, ask in s.doors():
            yield f"{door}: {question}", partial(ask, question)
    yield "filter_resources", lambda: s.filter("reader", ["search"])
    if hasattr(s.provider, "afilter_resources"):
        yield "afilter_resources", lambda: s.run(s.provider.afilter_resources(principal, "tool", ["search"]))


@case("failures/broken-engine-raises")
def broken_engine_raises(s: Session) -> Iterator[str]:
    """raises at every door when its engine is broken: a failure is never an answer, not even a denial"""
    for door, ask in _broken(s):
        answer, error = caught(ask)
        if error is None:
            yield f"{door}: answered {answer!r} although the engine is broken"


@case("failures/broken-engine-allows-nothing")
def broken_engine_allows_nothing(s: Session) -> Iterator[str]:
    """allows and shows nothing when its engine is broken"""
    for door, ask in _broken(s):
        answer, error = caught(ask)
        if error is None and _allows(answer):
            yield f"{door}: answered {answer!r} although the engine is broken"
