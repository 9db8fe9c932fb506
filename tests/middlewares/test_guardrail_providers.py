"""Explicit guardrails beside the policy in one compiled agent: who is asked, how often, and who has the last word."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.scripted import call, calls, scripted
from tests.support.webhook import Reply, Webhook, hangs, resets, webhook
from tests.support.webhook import answers as says

from remit.authz import Enforcer, load_config, pop_outcome
from remit.authz.provider import ProviderBase
from remit.authz.registry import resolve_guardrail_provider
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest
from remit.middlewares import GuardrailMiddleware
from remit.providers.guardrails.allowlist import AllowlistProvider
from remit.providers.guardrails.http import HttpGuardrailProvider

CONTEXT = {"user_id": "gina", "user_role": "user"}


class Brain(ProviderBase):
    """Allows the tools it was given, and counts what it is asked about calls."""

    name = "brain"
    blocking = False

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[str] = []

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        self.asked.append(request.target)
        allow = request.target in self.allowed
        return AuthzDecision(allow, (AuthzReason("authz.allowed" if allow else "authz.denied"),), "brain:1")

    def filter_resources(self, principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
        return list(candidates)  # the model sees them all: only the call itself is denied


class Counted(AllowlistProvider):
    """An allowlist that counts what it is asked."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asked: list[str] = []

    def evaluate(self, request: Any) -> Any:
        self.asked.append(request.tool_name)
        return super().evaluate(request)


def toolbox() -> tuple[list[Any], list[str]]:
    ran: list[str] = []

    @tool
    def search(query: str, limit: int = 3) -> str:
        """Search the web."""
        ran.append(f"search {query} {limit}")
        return "found"

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(f"bash {command}")
        return "ok"

    return [search, bash], ran


SEARCH, BASH = call("search", {"query": "x"}, "a"), call("bash", {"command": "ls"}, "b")


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook(says({"allow": True, "policy_id": "hook:1", "policy_version": "7"})) as hook:
        yield hook


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("policy", "allowlist", "ran", "brain_asked", "guard_asked", "codes"),
    [
        pytest.param(
            ["search", "bash"], None, ["search x 3", "bash ls"], ["search", "bash"], ["search", "bash"], [None, None],
            id="both-allow",
        ),
        pytest.param(
            ["search", "bash"], ["search"], ["search x 3"], ["search", "bash"], ["search", "bash"],
            [None, "guardrail.tool_not_allowed"],
            id="the-guardrail-denies-what-the-policy-allows",
        ),
        pytest.param(
            ["search"], None, ["search x 3"], ["search", "bash"], ["search"], [None, "authz.denied"],
            id="the-policy-denies-and-the-guardrail-is-not-asked",
        ),
        pytest.param(
            [], [], [], ["search", "bash"], [], ["authz.denied", "authz.denied"],
            id="both-deny-and-the-guardrail-is-not-asked",
        ),
        pytest.param(
            ["search", "bash"], [], [], ["search", "bash"], ["search", "bash"],
            ["guardrail.tool_not_allowed", "guardrail.tool_not_allowed"],
            id="an-empty-allowlist-denies-everything",
        ),
    ],
)  # fmt: skip
async def test_both_guards_in_one_agent(
    style: str, policy: list[str], allowlist: list[str] | None, ran: list[str], brain_asked: list[str],
    guard_asked: list[str], codes: list[str | None],
) -> None:  # fmt: skip
    brain, explicit = Brain(*policy), Counted(allowlist)
    tools, did = toolbox()
    enforcer = Enforcer(brain, default_role="guest")
    graph, _ = agent(enforcer, tools, calls(SEARCH), calls(BASH), others=[GuardrailMiddleware(explicit)])
    context: dict[str, Any] = dict(CONTEXT)

    state = await run(graph, style, context=context)

    assert did == ran
    assert brain.asked == brain_asked
    assert explicit.asked == guard_asked
    messages = answers(state)
    assert [code(messages["a"]), code(messages["b"])] == codes
    assert [messages[id].status for id in "ab"] == ["error" if one else "success" for one in codes]


@pytest.mark.parametrize("style", STYLES)
async def test_a_webhook_sees_the_call_as_it_will_run(style: str, hook: Webhook) -> None:
    guardrail = HttpGuardrailProvider(hook.url, timeout_ms=20_000)
    tools, did = toolbox()
    enforcer = Enforcer(Brain("search"), default_role="guest")
    middleware = GuardrailMiddleware(guardrail, passport="agent-7", deadline=20)
    graph, _ = agent(
        enforcer, tools, calls(call("search", {"query": "x", "limit": "5"}, "a"), BASH), others=[middleware]
    )
    context: dict[str, Any] = {**CONTEXT, "authz_attributes": {"team": "blue"}, "thread_id": "t-1"}

    state = await run(graph, style, context=context)

    assert did == ["search x 5"]
    ((headers, question),) = hook.seen  # the call that the policy denied never left this process
    assert headers["User-Agent"] == "remit"
    assert question["tool_name"] == "search"
    assert question["tool_input"] == {"query": "x", "limit": 5}  # as coerced for the body, not as the model wrote it
    assert question["tool_call_id"] == "a"
    assert (question["user_id"], question["user_role"], question["authz_attributes"]) == (
        "gina",
        "user",
        {"team": "blue"},
    )
    assert (question["agent_id"], question["thread_id"], question["is_subagent"]) == ("agent-7", "t-1", False)
    assert code(answers(state)["b"]) == "authz.denied"
    outcomes = pop_outcome(context, "a")
    assert [(one.guard, one.decision) for one in outcomes] == [
        ("guardrail.authz", "allowed"),
        ("guardrail.http", "allowed"),
    ]
    assert (outcomes[1].policy_id, outcomes[1].policy_version) == ("hook:1", "7")
    assert [(one.guard, one.decision) for one in pop_outcome(context, "b")] == [("guardrail.authz", "denied")]
    await guardrail.aclose()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("fail_closed", [True, False], ids=["fail-closed", "fail-open"])
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (says({"allow": True}, status=503), "authz.evaluator_error"),
        (says({"allow": True}, status=302, Location="/elsewhere"), "authz.evaluator_error"),
        (says({"allow": 1}), "authz.evaluator_error"),
        (says({"result": True}), "authz.evaluator_error"),
        (says(b"<html>Sign in</html>", kind="text/html"), "authz.evaluator_error"),
        (resets, "authz.evaluator_error"),
        (hangs, "authz.timeout"),
    ],
    ids=["503", "redirect", "truthy", "unknown-member", "login-page", "reset", "silence"],
)
async def test_a_webhook_that_gives_no_answer(
    style: str, fail_closed: bool, reply: Reply, reason: str, hook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    hook.reply = reply
    guardrail = HttpGuardrailProvider(hook.url, timeout_ms=200 if reply is hangs else 20_000)
    tools, did = toolbox()
    enforcer = Enforcer(Brain("search"), default_role="guest")
    middleware = GuardrailMiddleware(guardrail, fail_closed=fail_closed, deadline=25)
    graph, _ = agent(enforcer, tools, calls(SEARCH), others=[middleware])
    context: dict[str, Any] = dict(CONTEXT)

    with caplog.at_level(logging.WARNING):
        state = await run(graph, style, context=context)

    message = answers(state)["a"]
    assert did == ([] if fail_closed else ["search x 3"])
    assert (message.status, code(message)) == (("error", reason) if fail_closed else ("success", None))
    assert len(hook.seen) == 1  # asked once: no retries
    explicit = pop_outcome(context, "a")[1]
    assert (explicit.decision, explicit.reason_codes) == ("denied" if fail_closed else "allowed", (reason,))
    assert ("ALLOWED AFTER AN ERROR" in caplog.text) is not fail_closed
    hook.released.set()
    await guardrail.aclose()


@pytest.mark.parametrize("style", STYLES)
async def test_three_guards_in_a_row(style: str, hook: Webhook) -> None:
    """A call must pass all of them; each is asked once, and none after the first that denies."""
    brain, listed, remote = (
        Brain("search", "bash"),
        Counted(["search"]),
        HttpGuardrailProvider(hook.url, timeout_ms=20_000),
    )
    tools, did = toolbox()
    others = [GuardrailMiddleware(listed), GuardrailMiddleware(remote, deadline=20)]
    graph, _ = agent(Enforcer(brain, default_role="guest"), tools, calls(SEARCH, BASH), others=others)

    state = await run(graph, style, context=dict(CONTEXT))

    assert did == ["search x 3"]
    assert sorted(brain.asked) == sorted(listed.asked) == ["bash", "search"]
    assert [question["tool_name"] for _, question in hook.seen] == ["search"]
    assert code(answers(state)["b"]) == "guardrail.tool_not_allowed"
    await remote.aclose()


@pytest.mark.parametrize("style", STYLES)
async def test_a_guardrail_alone(style: str) -> None:
    """Without any policy an explicit guardrail still stands before every call."""
    explicit = Counted(denied_tools=["bash"])
    tools, did = toolbox()
    graph = create_agent(scripted(calls(SEARCH, BASH)), tools, middleware=[GuardrailMiddleware(explicit)])

    state = await run(graph, style, context=dict(CONTEXT))

    assert did == ["search x 3"]
    assert code(answers(state)["b"]) == "guardrail.tool_denied"
    assert sorted(explicit.asked) == ["bash", "search"]


def test_guards_have_names_of_their_own(hook: Webhook) -> None:
    graph, _ = agent(
        Enforcer(Brain("search"), default_role="guest"),
        toolbox()[0],
        others=[GuardrailMiddleware(AllowlistProvider()), GuardrailMiddleware(HttpGuardrailProvider(hook.url))],
    )
    assert graph is not None
    with pytest.raises(AssertionError, match="duplicate middleware"):
        agent(
            Enforcer(Brain("search"), default_role="guest"),
            toolbox()[0],
            others=[GuardrailMiddleware(AllowlistProvider()), GuardrailMiddleware(AllowlistProvider())],
        )


@pytest.mark.parametrize("style", STYLES)
async def test_a_guardrail_from_the_configuration(style: str) -> None:
    settings = load_config(
        {"guardrails": {"enabled": True, "provider": {"use": "allowlist", "config": {"allowed_tools": []}}}}
    )
    explicit = resolve_guardrail_provider(settings)
    assert explicit is not None
    tools, did = toolbox()
    enforcer = Enforcer(Brain("search", "bash"), default_role="guest")
    graph, _ = agent(enforcer, tools, calls(SEARCH, BASH), others=[GuardrailMiddleware(explicit)])

    state = await run(graph, style, context=dict(CONTEXT))

    assert did == []
    assert {code(message) for message in answers(state).values()} == {"guardrail.tool_not_allowed"}
