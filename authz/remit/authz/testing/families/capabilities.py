"""Optional capabilities: whoever offers one keeps its promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from remit.authz.errors import ConfigError
from remit.authz.provider import Closes, Explains, ValidatesRole
from remit.authz.testing.cases import case
from remit.authz.testing.families.agreement import essence, questions_of
from remit.authz.testing.session import NotClaimed, Session, caught, named
from remit.authz.testing.world import Question
from remit.authz.types import Explanation


@case("capabilities/policy-version")
def policy_version(s: Session) -> Iterator[str]:
    """names one policy version while the policy stays the same"""
    first = _version(s)
    if not isinstance(first, str) or not first:
        yield f"policy_version is {first!r}"
    for question in questions_of(s.world):
        caught(s.authorize, question)
    if _version(s) != first:
        yield f"policy_version was {first!r} and became {_version(s)!r} by being asked"


@case("capabilities/policy-version-on-decisions")
def policy_version_on_decisions(s: Session) -> Iterator[str]:
    """stamps its decisions with the policy version in force"""
    version = _version(s)
    for question in (Question("reader", "search"), Question("reader", "write_file")):
        for door, ask in s.doors():
            if (stamped := ask(question).policy_version) != version:
                yield f"{door}: {question}: stamped {stamped!r}, in force is {version!r}"


def _version(s: Session) -> Any:
    if not hasattr(s.provider, "policy_version"):
        raise NotClaimed("policy_version")
    return s.provider.policy_version


@case("capabilities/roles-that-exist")
def roles_that_exist(s: Session) -> Iterator[str]:
    """accepts every role of the world"""
    for role in s.world.roles:
        _, error = caught(_validator(s).validate_role, role, field="authorization.default_role")
        if error is not None:
            yield f"role {role!r}: raised {named(error)}"


@case("capabilities/roles-that-do-not-exist")
def roles_that_do_not_exist(s: Session) -> Iterator[str]:
    """refuses every other role with a ConfigError that says where the name came from"""
    for role in ("intruder", "READER", "r\u0435ader", "role:reader", "user:u-1", "*", "reader,admin", "searc", ""):
        _, error = caught(_validator(s).validate_role, role, field="authorization.default_role")
        if not isinstance(error, ConfigError):
            yield f"role {role!r}: " + ("accepted" if error is None else f"raised {named(error)}, not a ConfigError")
        elif "default_role" not in str(error) or repr(role) not in str(error):
            yield f"role {role!r}: the message {str(error)!r} names the field or the role not"


def _validator(s: Session) -> ValidatesRole:
    if not isinstance(s.provider, ValidatesRole):
        raise NotClaimed("validate_role")
    return s.provider


@case("capabilities/explains-what-it-decides")
def explains_what_it_decides(s: Session) -> Iterator[str]:
    """explains the very decision that authorize takes"""
    if not isinstance(s.provider, Explains):
        raise NotClaimed("explain")
    for question in questions_of(s.world):
        asked = question.request()
        told = s.provider.explain(asked)
        if type(told) is not Explanation:
            yield f"{question}: explain answered {type(told).__name__}"
        elif told.request != asked:
            yield f"{question}: explain speaks of another request"
        elif essence(told.decision) != essence(s.authorize(question)):
            yield f"{question}: authorize {essence(s.authorize(question))!r}, explain {essence(told.decision)!r}"


@case("capabilities/closes-twice")
def closes_twice(s: Session) -> Iterator[str]:
    """may be closed twice"""
    _close(s)
    _, error = caught(_close, s)
    if error is not None:
        yield f"the second aclose raised {named(error)}"


@case("capabilities/closes-unused")
def closes_unused(s: Session) -> Iterator[str]:
    """may be closed without ever having been asked"""
    _close(s)
    yield from ()


@case("capabilities/allows-nothing-new-when-closed")
def allows_nothing_new_when_closed(s: Session) -> Iterator[str]:
    """answers rightly or raises once it is closed"""
    yield from s.expect(Question("reader", "search"), "allow")
    _close(s)
    for question in (Question("reader", "write_file"), Question("admin", "wipe_disk"), Question("intruder", "search")):
        yield from s.expect_refusal(question)


def _close(s: Session) -> None:
    if not isinstance(s.provider, Closes):
        raise NotClaimed("aclose")
    s.run(s.provider.aclose())
