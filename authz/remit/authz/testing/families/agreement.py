"""Every door gives the same answer: synchronous, asynchronous, in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from remit.authz.testing.cases import Body, add, case
from remit.authz.testing.families.decisions import ASKS, OTHER, REFUSALS, TOOLS
from remit.authz.testing.session import NotClaimed, Session, batch_of, caught, named
from remit.authz.testing.world import ROLES, Question, World
from remit.authz.types import AuthzDecision

_CONDITIONED = tuple(
    Question(role, tool, args=args)
    for role, tool in (("writer", "transfer"), ("reader", "fetch"))
    for args in ({}, {"amount": 1}, {"amount": 500}, {"topic": "weather"}, {"topic": "payroll"})
)


def questions_of(world: World) -> list[Question]:
    """Every question of the tables that has an answer in `world`, refusals of unknown roles left out."""
    found = [question for _, question, _ in TOOLS]
    found += [question for _, question, _, resource in OTHER if resource in world.resources]
    found += [question for _, question, _ in ASKS] if world.asks else []
    return found + (list(_CONDITIONED) if world.conditions else [])


def essence(answer: Any) -> Any:
    """What two answers to one question must have in common."""
    if type(answer) is not AuthzDecision:
        return f"{type(answer).__name__}, which is no AuthzDecision"
    codes = tuple(reason.code for reason in answer.reasons)
    return answer.allow, answer.asks, codes, answer.policy_id, answer.policy_version, answer.obligations


def outcome(call: Callable[[Question], Any], question: Question) -> Any:
    """`essence` of what `call` answers, or that it raised."""
    answer, error = caught(call, question)
    return f"raised {type(error).__name__}" if error is not None else essence(answer)


def _agreeing(role: str) -> Body:
    def body(s: Session) -> Iterator[str]:
        for question in questions_of(s.world):
            if question.role == role:
                sync = outcome(s.authorize, question)
                later = outcome(s.aauthorize, question)
                if sync != later:
                    yield f"{question}: authorize {sync!r}, aauthorize {later!r}"

    return body


for _role in ROLES:
    add(f"agreement/sync-and-async-{_role}", f"answers a {_role} alike in both worlds", _agreeing(_role))


@case("agreement/refusals")
def refusals(s: Session) -> Iterator[str]:
    """refuses alike in both worlds: an error stays an error, a denial a denial"""
    for _, question in REFUSALS:
        sync = outcome(s.authorize, question)
        later = outcome(s.aauthorize, question)
        if sync != later:
            yield f"{question}: authorize {sync!r}, aauthorize {later!r}"


@case("agreement/async-filter")
def async_filter(s: Session) -> Iterator[str]:
    """filters alike in both worlds, where it offers afilter_resources"""
    if not hasattr(s.provider, "afilter_resources"):
        raise NotClaimed("afilter_resources")
    for role in s.world.roles:
        for resource in s.world.resources:
            names = [*s.world.tools, "small", "large", "threads:read", "threads:write", "search", "nothing"]
            sync = s.filter(role, list(names), resource)
            later = s.run(s.provider.afilter_resources(Question(role, "-").principal(), resource, list(names)))
            if type(later) is not list or later != sync:
                yield f"role {role!r}, {resource}: filter_resources {sync!r}, afilter_resources {later!r}"


@case("agreement/batch")
def batch(s: Session) -> Iterator[str]:
    """answers a batch as it answers each question, in the order of the questions"""
    questions = questions_of(s.world)
    questions += questions[::-1] + questions[:3] * 3
    yield from _compare("authorize_many", questions, s.batch(questions), s)


@case("agreement/async-batch")
def async_batch(s: Session) -> Iterator[str]:
    """answers an asynchronous batch as it answers each question"""
    many = getattr(s.provider, "aauthorize_many", None)
    if many is None:
        raise NotClaimed("aauthorize_many")
    questions = questions_of(s.world)[::-1]
    answers = batch_of(s.run(many([question.request() for question in questions])), questions)
    yield from _compare("aauthorize_many", questions, answers, s)


def _compare(door: str, questions: list[Question], answers: list[Any], s: Session) -> Iterator[str]:
    for question, answer in zip(questions, answers, strict=True):
        single = essence(s.authorize(question))
        if essence(answer) != single:
            yield f"{question}: authorize {single!r}, {door} {essence(answer)!r}"


@case("agreement/empty-batch")
def empty_batch(s: Session) -> Iterator[str]:
    """answers an empty batch with an empty list"""
    if s.batch([]) != []:
        yield "an empty batch got answers"


@case("agreement/batch-of-one-bad-question")
def batch_of_one_bad_question(s: Session) -> Iterator[str]:
    """lets no question of a batch profit from its neighbours"""
    mixed = [Question("admin", "search"), Question("intruder", "search"), Question("reader", "write_file")]
    try:
        answers = s.batch(mixed)
    except (NotClaimed, AssertionError):
        raise
    except Exception:  # a batch that fails as a whole allows nothing
        return
    for question, answer in zip(mixed[1:], answers[1:], strict=True):
        if type(answer) is not AuthzDecision or answer.allow is not False or answer.asks:
            yield f"{question}: in a batch answered {essence(answer)!r}"


@case("agreement/large-batch")
def large_batch(s: Session) -> Iterator[str]:
    """keeps a thousand answers in the order of their questions"""
    pattern = [Question("reader", "search"), Question("reader", "write_file"), Question("writer", "write_file")]
    questions = [pattern[index % 3] for index in range(1_000)]
    try:
        allowed = [answer.allow for answer in s.batch(questions)]
    except AttributeError as exc:
        raise AssertionError(f"the batch raised {named(exc)}") from exc
    if allowed != [index % 3 != 1 for index in range(1_000)]:
        yield "the answers of a batch of 1,000 are not those of the questions at their places"
