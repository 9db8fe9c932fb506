"""What a provider looks like from outside."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from remit.authz.provider import AuthorizationProvider
from remit.authz.testing.cases import case
from remit.authz.testing.session import Session, caught, complaint_about
from remit.authz.testing.world import Question
from remit.authz.types import APPROVAL, AuthzDecision
from remit.authz.vocabulary import flaw

ALLOWED = Question("reader", "search")
DENIED = Question("reader", "write_file")


@case("shape/protocol")
def protocol(s: Session) -> Iterator[str]:
    """has every member of AuthorizationProvider"""
    if not isinstance(s.provider, AuthorizationProvider):
        wanted = ("name", "authorize", "aauthorize", "filter_resources")
        lacking = [member for member in wanted if not hasattr(s.provider, member)]
        yield f"{type(s.provider).__name__} is no AuthorizationProvider: {', '.join(lacking)} missing"


@case("shape/name")
def name(s: Session) -> Iterator[str]:
    """has a name that reads the same in every log"""
    value = s.provider.name
    if not isinstance(value, str):
        yield f"name is {type(value).__name__}, not str"
    elif reason := flaw(value):
        yield f"name {value!r} {reason}"


@case("shape/sync-answers")
def sync_answers(s: Session) -> Iterator[str]:
    """answers authorize and filter_resources with a value, not with something to await"""
    for door, answer in (
        ("authorize", s.authorize(ALLOWED)),
        ("filter_resources", s.filter("reader", ["search"])),
    ):
        if inspect.isawaitable(answer):
            yield f"{door} answered something to await"


@case("shape/async-answers")
def async_answers(s: Session) -> Iterator[str]:
    """answers aauthorize with something to await"""
    answer = s.provider.aauthorize(ALLOWED.request())
    if not inspect.isawaitable(answer):
        yield f"aauthorize answered {type(answer).__name__}, which cannot be awaited"
    else:
        s.run(answer)


@case("shape/decision-type")
def decision_type(s: Session) -> Iterator[str]:
    """answers with AuthzDecision itself, not with something like it"""
    for question in (ALLOWED, DENIED):
        for door, ask in s.doors():
            answer = ask(question)
            if type(answer) is not AuthzDecision:
                yield f"{door}: {question}: answered {type(answer).__name__}"


@case("shape/strict-booleans")
def strict_booleans(s: Session) -> Iterator[str]:
    """answers with allow exactly True or exactly False"""
    for question in (ALLOWED, DENIED):
        for door, ask in s.doors():
            allow = getattr(ask(question), "allow", None)
            if allow is not True and allow is not False:
                yield f"{door}: {question}: allow is {type(allow).__name__} {allow!r}"


@case("shape/reason-codes")
def reason_codes(s: Session) -> Iterator[str]:
    """gives reasons with namespaced codes, like authz.denied"""
    for question in (ALLOWED, DENIED):
        for door, ask in s.doors():
            for reason in ask(question).reasons:
                code = reason.code
                if not isinstance(code, str) or flaw(code) or "." not in code.strip("."):
                    yield f"{door}: {question}: reason code {code!r} is not namespaced"
                if not isinstance(reason.message, str):
                    yield f"{door}: {question}: the reason's message is {type(reason.message).__name__}"


@case("shape/rule-and-version")
def rule_and_version(s: Session) -> Iterator[str]:
    """names rule and policy version with text or not at all"""
    for question in (ALLOWED, DENIED):
        answer = s.authorize(question)
        for member in ("policy_id", "policy_version"):
            value = getattr(answer, member)
            if value is not None and (not isinstance(value, str) or not value):
                yield f"{question}: {member} is {value!r}"


@case("shape/filter-type")
def filter_type(s: Session) -> Iterator[str]:
    """answers filter_resources with a list of str"""
    answer = s.filter("reader", ["search", "write_file"])
    if type(answer) is not list:
        yield f"answered {type(answer).__name__} instead of a list"
    else:
        yield from (f"the list holds {type(item).__name__}" for item in answer if not isinstance(item, str))


@case("shape/blocking-flag")
def blocking_flag(s: Session) -> Iterator[str]:
    """says with a bool whether it blocks, or does not say"""
    value = getattr(s.provider, "blocking", True)
    if value is not True and value is not False:
        yield f"blocking is {type(value).__name__} {value!r}"


@case("shape/pairs")
def pairs(s: Session) -> Iterator[str]:
    """offers a batch for both worlds, synchronous and asynchronous, or for neither"""
    if hasattr(s.provider, "authorize_many") != hasattr(s.provider, "aauthorize_many"):
        yield "authorize_many and aauthorize_many come together"


@case("shape/ask-carries-approval", needs=["asks"])
def ask_carries_approval(s: Session) -> Iterator[str]:
    """asks by an approval obligation on a decision that does not allow"""
    question = Question("writer", "send_mail")
    for door, ask in s.doors():
        answer = ask(question)
        if wrong := complaint_about(question, answer, "ask"):
            yield f"{door}: {wrong}"
            continue
        kinds = [obligation.type for obligation in answer.obligations]
        if set(kinds) != {APPROVAL}:
            yield f"{door}: {question}: obligations are {kinds!r}; only {APPROVAL!r} is known to enforcement points"


@case("shape/no-surprise-obligations")
def no_surprise_obligations(s: Session) -> Iterator[str]:
    """adds no obligation to an answer that no rule made conditional"""
    for question in (ALLOWED, DENIED):
        answer, error = caught(s.authorize, question)
        if error is None and answer.obligations:
            yield f"{question}: obligations are {[obligation.type for obligation in answer.obligations]!r}"
