"""The adapter that puts an authorization provider where a guardrail stands."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from tests.support.guardrails import BOTH, Ask, call

from remit.authz import wire
from remit.authz.errors import ProviderError
from remit.authz.gates.guardrail import GuardrailAuthorizationAdapter
from remit.authz.judge import Judge, MalformedAnswer, in_place
from remit.authz.provider import GuardrailDecision, GuardrailProvider, GuardrailReason, GuardrailRequest, ProviderBase
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal

ALLOW, DENY = AuthzDecision(True), AuthzDecision(False)


class Scripted(ProviderBase):
    """Answers what it is told to, and remembers what it was asked and how."""

    name = "scripted"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[AuthzRequest] = []
        self.ways: list[str] = []

    def authorize(self, request: AuthzRequest) -> Any:
        self.ways.append("sync")
        return self._said(request)

    async def aauthorize(self, request: AuthzRequest) -> Any:
        self.ways.append("async")
        return self._said(request)

    def _said(self, request: AuthzRequest) -> Any:
        self.asked.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def adapted(answer: Any, **options: Any) -> tuple[GuardrailAuthorizationAdapter, Scripted]:
    provider = Scripted(answer)
    return GuardrailAuthorizationAdapter(provider, **{"default_role": "guest", **options}), provider


@pytest.mark.parametrize("ask", BOTH)
def test_the_question(ask: Ask) -> None:
    adapter, provider = adapted(ALLOW)
    ask(
        adapter,
        call(
            "send_mail", {"to": "x"}, agent_id="passport", is_subagent=True, user_role="writer", oauth_provider="acme",
            oauth_id="o-1", channel_user_id="c-1", is_internal=True, authz_attributes={"team": "blue"},
        ),
    )  # fmt: skip
    (asked,) = provider.asked
    assert asked.principal == Principal("u-1", "writer", "acme", "o-1", "c-1", True, {"team": "blue"})
    assert (asked.resource, asked.action, asked.target) == ("tool", "call", "send_mail")
    assert dict(asked.context) == {
        "args": {"to": "x"},
        "tool_call_id": "call-1",
        "thread_id": "thread-1",
        "run_id": "run-1",
        "is_subagent": True,
        "agent_id": "passport",
        "timestamp": "2026-01-01T00:00:00+00:00",
    }


def test_each_way_uses_its_own_door_of_the_provider() -> None:
    adapter, provider = adapted(ALLOW)
    for ask in BOTH:
        ask(adapter, call())
    assert provider.ways == ["sync", "async"]


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(("role", "expected"), [(None, "guest"), ("", "guest"), ("writer", "writer"), ("odd", "odd")])
def test_default_role(ask: Ask, role: str | None, expected: str) -> None:
    adapter, provider = adapted(ALLOW)
    ask(adapter, call(user_role=role))
    assert provider.asked[0].principal.role == expected


def test_default_role_must_be_passed_and_may_be_none() -> None:
    with pytest.raises(TypeError, match="default_role"):
        GuardrailAuthorizationAdapter(Scripted(ALLOW))  # type: ignore[call-arg]
    adapter, provider = adapted(ALLOW, default_role=None)
    adapter.evaluate(call(user_role=None))
    assert provider.asked[0].principal.role is None


def test_another_resource_and_action() -> None:
    adapter, provider = adapted(ALLOW, resource_type="skill", action="activate")
    adapter.evaluate(call("x"))
    assert (provider.asked[0].resource, provider.asked[0].action) == ("skill", "activate")


def test_names_of_mcp_tools_are_just_names() -> None:
    adapter, provider = adapted(ALLOW)
    adapter.evaluate(call("mcp__github__create_issue"))
    assert provider.asked[0].target == "mcp__github__create_issue"
    assert provider.asked[0].resource == "tool"


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    "decision",
    [
        AuthzDecision(True),
        AuthzDecision(False),
        AuthzDecision(
            False,
            (AuthzReason("authz.denied", "no"), AuthzReason("x.second")),
            "policy.csv:42",
            "v7",
            (Obligation("approval", "a-1", {"who": "admin"}),),
            {"matched": ["a"]},
        ),
        AuthzDecision(True, obligations=(Obligation("log"),)),
    ],
)
def test_an_answer_is_carried_over_member_by_member(ask: Ask, decision: AuthzDecision) -> None:
    answer = ask(adapted(decision)[0], call())
    assert type(answer) is GuardrailDecision
    assert answer.allow is decision.allow
    assert [(r.code, r.message) for r in answer.reasons] == [(r.code, r.message) for r in decision.reasons]
    assert all(type(reason) is GuardrailReason for reason in answer.reasons)
    for member in ("policy_id", "policy_version", "obligations", "metadata", "asks"):
        assert getattr(answer, member) == getattr(decision, member)


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize("error", [ProviderError("down"), RuntimeError("x"), KeyError("x"), TimeoutError(), TypeError("x"),
                                   ValueError("x")], ids=lambda e: type(e).__name__)  # fmt: skip
def test_what_the_provider_raises_passes_through(ask: Ask, error: Exception) -> None:
    adapter, _ = adapted(error)
    with pytest.raises(type(error)) as caught:
        ask(adapter, call())
    assert caught.value is error


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    "answer",
    [None, True, False, "allow", 1, {"allow": True}, GuardrailDecision(True), object(), [ALLOW],
     type("Duck", (), {"allow": True, "reasons": (), "obligations": ()})(), type("Sub", (AuthzDecision,), {})(True)],
    ids=lambda a: type(a).__name__,
)  # fmt: skip
def test_what_is_no_decision_is_no_answer(ask: Ask, answer: Any) -> None:
    with pytest.raises(MalformedAnswer, match="not with an AuthzDecision"):
        ask(adapted(answer)[0], call())


MALFORMED: list[dict[str, Any]] = [
    {"authz_attributes": ["team"]},
    {"authz_attributes": "team=blue"},
    {"authz_attributes": {1: 2}},
    {"user_role": "writer "},
    {"user_role": "wri\u200bter"},
    {"user_role": 7},
    {"user_role": ["writer"]},
    {"user_id": " u-1"},
    {"oauth_id": b"o-1"},
    {"authz_attributes": (endless := {})},
]
endless["again"] = endless


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize("fail_closed", [True, False])
@pytest.mark.parametrize("members", MALFORMED, ids=lambda members: next(iter(members)))
def test_a_malformed_identity_is_denied_unasked_even_when_failures_allow(
    ask: Ask, fail_closed: bool, members: dict[str, Any]
) -> None:
    adapter, provider = adapted(ALLOW)
    assert ask(adapter, call(**members)).reasons[0].code == "authz.malformed_identity"
    judged = Judge(fail_closed=fail_closed).evaluate(adapter, call(**members))
    assert judged.allow is False
    assert provider.asked == []


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize("name", ["", None, 7])
def test_a_call_without_a_name_is_denied_unasked(ask: Ask, name: Any) -> None:
    adapter, provider = adapted(ALLOW)
    answer = ask(adapter, call(name))
    assert answer.allow is False
    assert answer.reasons[0].code == "authz.invalid_request"
    assert provider.asked == []


class Tool:
    """Equal to every tool of its name, as pydantic objects with the same fields are."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tool) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@pytest.mark.parametrize("ask", BOTH)
def test_an_infrastructure_tool_is_the_object_not_the_name(ask: Ask) -> None:
    search, twin = Tool("tool_search"), Tool("tool_search")
    adapter, provider = adapted(DENY, infrastructure_tools=[search])
    answer = ask(adapter, call("tool_search", tool=search))
    assert answer.allow is True
    assert [reason.code for reason in answer.reasons] == ["authz.infrastructure_tool"]
    assert answer.policy_id == "authz:infrastructure"
    assert provider.asked == []
    for other in (twin, None, "tool_search"):
        assert ask(adapter, call("tool_search", tool=other)).allow is False
    assert len(provider.asked) == 3


def test_without_infrastructure_tools_nothing_is_exempt() -> None:
    adapter, provider = adapted(DENY)
    assert adapter.evaluate(call("tool_search", tool=Tool("tool_search"))).allow is False
    assert adapter.evaluate(call("tool_search", tool=None)).allow is False
    assert len(provider.asked) == 2


def test_an_infrastructure_tool_needs_a_clean_identity_too() -> None:
    search = Tool("tool_search")
    adapter, _ = adapted(ALLOW, infrastructure_tools=[search])
    assert adapter.evaluate(call("tool_search", tool=search, user_role="x ")).allow is False


@pytest.mark.parametrize("tools", [["tool_search"], [None], "tool_search", [b"tool_search"], [Tool("a"), "b"]])
def test_infrastructure_tools_cannot_be_named(tools: Any) -> None:
    with pytest.raises(TypeError, match="infrastructure_tools must hold tool objects"):
        adapted(ALLOW, infrastructure_tools=tools)


def test_the_set_of_infrastructure_tools_is_fixed() -> None:
    tools = [Tool("a")]
    adapter, provider = adapted(DENY, infrastructure_tools=tools)
    tools.append(late := Tool("b"))
    assert adapter.evaluate(call("b", tool=late)).allow is False
    assert len(provider.asked) == 1


@pytest.mark.parametrize(("blocking", "here"), [(True, False), (False, True), (None, False)])
def test_it_blocks_as_its_provider_does(blocking: bool | None, here: bool) -> None:
    adapter, provider = adapted(ALLOW)
    provider.blocking = blocking  # type: ignore[assignment]
    assert in_place(adapter) is here


def test_the_version_in_force_is_the_providers() -> None:
    adapter, provider = adapted(ALLOW)
    assert adapter.policy_version is None
    provider.policy_version = "v1"  # type: ignore[attr-defined]
    assert adapter.policy_version == "v1"
    provider.policy_version = "v2"  # type: ignore[attr-defined]
    assert adapter.policy_version == "v2"


def test_it_is_a_guardrail() -> None:
    adapter, _ = adapted(ALLOW)
    assert isinstance(adapter, GuardrailProvider)
    assert adapter.name == "authorization"


def test_requests_carry_the_wire_names_that_the_builder_reads() -> None:
    names = {field.name for field in fields(GuardrailRequest)}
    assert names >= {
        wire.USER_ID,
        wire.USER_ROLE,
        wire.OAUTH_PROVIDER,
        wire.OAUTH_ID,
        wire.CHANNEL_USER_ID,
        wire.IS_INTERNAL,
        wire.AUTHZ_ATTRIBUTES,
        wire.THREAD_ID,
        wire.RUN_ID,
        wire.IS_SUBAGENT,
        wire.CTX_TOOL_CALL_ID,
        wire.CTX_AGENT_ID,
        wire.CTX_TIMESTAMP,
    }


def test_arguments_are_handed_over_as_they_are() -> None:
    given: dict[str, Any] = {"tags": ["a"], "n": {"m": None}}
    adapter, provider = adapted(ALLOW)
    adapter.evaluate(call("x", given))
    assert provider.asked[0].context["args"] is given
    assert given == {"tags": ["a"], "n": {"m": None}}
