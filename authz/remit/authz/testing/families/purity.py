"""A question leaves no trace, and nothing but the question counts."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from remit.authz.testing.cases import case
from remit.authz.testing.families.agreement import essence, questions_of
from remit.authz.testing.session import Session, caught
from remit.authz.testing.world import ACCENTED, Question

_NAMES = ["search", "read_file", ACCENTED, "write_file", "wipe_disk"]


@case("purity/request")
def request(s: Session) -> Iterator[str]:
    """changes nothing inside a request, however deep"""
    args: dict[str, Any] = {"topic": "weather", "amount": 5, "tags": ["a", {"b": [1, 2]}], "n": None}
    for role, target in (("reader", "search"), ("reader", "write_file"), ("writer", "search")):
        question = Question(role, target, args=copy.deepcopy(args), extra={"notes": [1, {"two": [3]}]})
        asked = question.request()
        before = copy.deepcopy(dict(asked.context))
        s.provider.authorize(asked)
        s.run(s.provider.aauthorize(asked))
        if dict(asked.context) != before or list(asked.context) != list(before):
            yield f"{question}: the context became {dict(asked.context)!r}"
        if asked.principal != question.principal() or asked.target != target:
            yield f"{question}: principal or target changed"


@case("purity/candidates")
def candidates(s: Session) -> Iterator[str]:
    """leaves the list of candidates alone and answers with a list of its own"""
    names = [*_NAMES, "search", "wipe_disk"]
    for role in s.world.roles:
        given = list(names)
        answer = s.filter(role, given)
        if given != names:
            yield f"role {role!r}: the candidates became {given!r}"
        if answer is given:
            yield f"role {role!r}: the answer is the very list of the candidates"
    only_granted = ["search", "read_file"]
    if s.filter("reader", only_granted) is only_granted:
        yield "role 'reader': where nothing was hidden, the answer is the very list of the candidates"


@case("purity/answers-are-not-shared")
def answers_are_not_shared(s: Session) -> Iterator[str]:
    """is not changed by what a caller does to an earlier answer"""
    first = s.filter("reader", list(_NAMES))
    expected = list(first)
    first.append("wipe_disk")
    first.reverse()
    again = s.filter("reader", list(_NAMES))
    if again != expected:
        yield f"after a caller changed the first answer, the second is {again!r}"
    if s.authorize(Question("reader", "wipe_disk")).allow is not False:
        yield "after a caller changed a filter's answer, authorize allows 'wipe_disk'"


@case("purity/repeatable")
def repeatable(s: Session) -> Iterator[str]:
    """gives the same answer to the same question, every time"""
    questions = questions_of(s.world)
    first = [essence(s.authorize(question)) for question in questions]
    for _ in range(20):
        for question, expected in zip(questions, first, strict=True):
            if (again := essence(s.authorize(question))) != expected:
                yield f"{question}: first {expected!r}, later {again!r}"
                return


@case("purity/order-of-questions")
def order_of_questions(s: Session) -> Iterator[str]:
    """does not depend on what was asked before"""
    questions = questions_of(s.world)
    first = {id(question): essence(s.authorize(question)) for question in questions}
    shuffle = random.Random(11)  # noqa: S311 - a repeatable order, no secret
    for _ in range(10):
        shuffle.shuffle(questions)
        for question in questions:
            if (again := essence(s.authorize(question))) != first[id(question)]:
                yield f"{question}: {first[id(question)]!r} at first, {again!r} in another order"
                return


@case("purity/unknown-names-teach-nothing")
def unknown_names_teach_nothing(s: Session) -> Iterator[str]:
    """answers alike before and after it was asked about names it does not know"""
    question = Question("reader", "write_file")
    for index in range(200):
        caught(s.authorize, Question(f"stranger-{index}", "search"))
        caught(s.authorize, Question("reader", f"unknown-{index}"))
    yield from s.expect(question, "deny")
    yield from s.expect(Question("reader", "search"), "allow")


@case("purity/order-of-context")
def order_of_context(s: Session) -> Iterator[str]:
    """does not depend on the order of the members of the context"""
    args = {"amount": 50, "topic": "weather", "q": "x"}
    tools = ["search", "write_file", *(["transfer", "fetch"] if s.world.conditions else [])]
    for role in s.world.roles:
        for tool in tools:
            forth = Question(role, tool, args=args, extra={"a": 1, "b": 2})
            back = Question(role, tool, args=dict(reversed(args.items())), extra={"b": 2, "a": 1})
            if essence(s.authorize(forth)) != essence(s.authorize(back)):
                yield f"{forth}: another answer when the members come in another order"


@case("purity/ids-and-time")
def ids_and_time(s: Session) -> Iterator[str]:
    """does not let ids and time stamps that no rule mentions decide"""
    for role, tool in (("reader", "search"), ("reader", "write_file"), ("admin", "wipe_disk")):
        plain = essence(s.authorize(Question(role, tool)))
        for extra in (
            {"thread_id": "admin", "run_id": "writer"},
            {"tool_call_id": None, "timestamp": ""},
            {"is_subagent": True, "agent_id": "admin"},
            {"timestamp": "1970-01-01T00:00:00+00:00"},
            {"unheard-of": {"allow": True}},
        ):
            question = Question(role, tool, extra=extra)
            if essence(s.authorize(question)) != plain:
                yield f"{question}: another answer with {extra!r}"


@case("purity/role-of-the-moment")
def role_of_the_moment(s: Session) -> Iterator[str]:
    """remembers no role of a user: the role of the request decides"""
    for _ in range(3):
        yield from s.expect(Question("writer", "write_file", user="u-7"), "allow")
        yield from s.expect(Question("reader", "write_file", user="u-7"), "deny")
        yield from s.expect_refusal(Question(None, "write_file", user="u-7"))
        yield from s.expect_refusal(Question("intruder", "write_file", user="u-7"))


@case("purity/action-and-resource-of-the-moment")
def action_of_the_moment(s: Session) -> Iterator[str]:
    """remembers no answer across actions and resource types"""
    for _ in range(3):
        yield from s.expect(Question("reader", "search"), "allow")
        yield from s.expect_refusal(Question("reader", "search", action="delete"))
        yield from s.expect_refusal(Question("reader", "search", resource="skill", action="read"))


@case("purity/arguments-of-the-moment", needs=["conditions"])
def arguments_of_the_moment(s: Session) -> Iterator[str]:
    """remembers no answer across arguments"""
    for _ in range(3):
        yield from s.expect(Question("writer", "transfer", args={"amount": 50}), "allow")
        yield from s.expect(Question("writer", "transfer", args={"amount": 5_000}), "deny")
        yield from s.expect_refusal(Question("writer", "transfer", args={"amount": "50"}))
        yield from s.expect(Question("reader", "fetch", args={"topic": "payroll"}), "deny")
        yield from s.expect(Question("reader", "fetch", args={"topic": "weather"}), "allow")


@case("purity/one-and-true", needs=["conditions"])
def one_and_true(s: Session) -> Iterator[str]:
    """does not take two arguments for one because they are equal in Python"""
    for _ in range(2):
        yield from s.expect(Question("writer", "transfer", args={"amount": 1}), "allow")
        yield from s.expect_refusal(Question("writer", "transfer", args={"amount": True}))
