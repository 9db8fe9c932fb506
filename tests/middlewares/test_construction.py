"""Building guards: what is refused at once, what the names are, and that the parts belong together."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from tests.support.agents import HELLO, answers, code
from tests.support.policies import allow
from tests.support.scripted import call, calls, scripted

import remit.middlewares
from remit.authz import ConfigError, Enforcer, GuardrailAuthorizationAdapter
from remit.authz.gates.acting import EnforcedProvider
from remit.authz.provider import GuardrailDecision, GuardrailReason, GuardrailRequest
from remit.middlewares import Approvals, GuardrailMiddleware, guard
from remit.middlewares.authorization import AuthorizationMiddleware


class Named:
    """An explicit guardrail that allows everything, under any name."""

    blocking = False

    def __init__(self, name: str) -> None:
        self.name = name

    def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return GuardrailDecision(True, (GuardrailReason("fine"),))

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return self.evaluate(request)


@tool
def search(query: str) -> str:
    """Search."""
    return "found"


def adapter(enforcer: Enforcer, **options: Any) -> GuardrailAuthorizationAdapter:
    return GuardrailAuthorizationAdapter(
        options.pop("provider", enforcer.provider), default_role=options.pop("default_role", enforcer.default_role)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("allowlist", "guardrail.allowlist"),
        ("acme: pdp|v2", "guardrail.acme_pdp_v2"),
        ("authz", "guardrail.explicit.authz"),
    ],
)
def test_names_fit_into_a_graph(name: str, expected: str, policy: Any) -> None:
    world = policy(allow("guest", "search"))
    explicit = GuardrailMiddleware(Named(name))
    assert explicit.name == expected
    graph = create_agent(scripted(), [search], middleware=guard(world.enforcer, explicit))
    assert "guardrail.authz.before_agent" in graph.nodes
    assert f"{expected}.before_agent" not in graph.nodes


def test_a_name_of_ones_own() -> None:
    assert GuardrailMiddleware(Named("x"), name="second one").name == "second_one"


def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(TypeError, match="`evaluate`"):
        GuardrailMiddleware(object())  # type: ignore[arg-type]


def test_only_the_authorization_guard_asks() -> None:
    with pytest.raises(TypeError, match="enforcer"):
        GuardrailMiddleware(Named("x"), approvals=Approvals())


def test_the_plain_constructor_makes_the_authorization_guard(policy: Any) -> None:
    """With an enforcer it is the authorization guard, and its questions go through that enforcer."""
    world = policy(allow("guest", "search"))
    made = GuardrailMiddleware(adapter(world.enforcer), enforcer=world.enforcer, passport="agent-7")
    assert type(made) is AuthorizationMiddleware
    assert made.name == "guardrail.authz"
    inside = made.provider.provider
    assert isinstance(inside, EnforcedProvider)
    assert inside.provider is world.provider
    model = scripted(calls(call("search", {"query": "x"}, "a"), call("other", {}, "b")))
    state = create_agent(model, [search], middleware=[made]).invoke(HELLO, context={"user_id": "gina"})
    assert answers(state)["a"].content == "found"
    assert code(answers(state)["b"]) == "authz.no_policy"


def test_a_class_of_ones_own_cannot_lose_the_enforcer(policy: Any) -> None:
    """A subclass of the plain class would only be an explicit guardrail: that is said, not silently so."""

    class Mine(GuardrailMiddleware):
        """Somebody's own."""

    world = policy(allow("guest", "search"))
    with pytest.raises(TypeError, match="AuthorizationMiddleware"):
        Mine(adapter(world.enforcer), enforcer=world.enforcer)


def test_two_brains_are_refused(policy: Any) -> None:
    world = policy(allow("guest", "search"))
    other = EnforcedProvider(Enforcer(world.provider, default_role="guest"))
    for provider in (object(), EnforcedProvider(Enforcer(None, default_role="guest"))):
        with pytest.raises(ConfigError, match="another provider"):
            GuardrailMiddleware(adapter(world.enforcer, provider=provider), enforcer=world.enforcer)
    GuardrailMiddleware(adapter(world.enforcer, provider=other), enforcer=world.enforcer)


def test_two_default_roles_are_refused(policy: Any) -> None:
    world = policy(allow("guest", "search"))
    with pytest.raises(ConfigError, match="'admin' is not the enforcer's 'guest'"):
        GuardrailMiddleware(adapter(world.enforcer, default_role="admin"), enforcer=world.enforcer)


def test_a_second_failure_policy_is_refused(policy: Any) -> None:
    world = policy(allow("guest", "search"))
    with pytest.raises(ConfigError, match="fail_closed"):
        GuardrailMiddleware(adapter(world.enforcer), enforcer=world.enforcer, fail_closed=False)
    GuardrailMiddleware(adapter(world.enforcer), enforcer=world.enforcer, fail_closed=True)


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_another_guardrail_with_an_enforcer(policy: Any, style: str) -> None:
    """A provider that is not the usual adapter is asked as it is; tickets and views are the enforcer's."""

    class Strict(Named):
        def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
            return GuardrailDecision(request.tool_input == {"query": "x"}, (GuardrailReason("strict"),))

    world = policy(allow("guest", "search"))
    made = GuardrailMiddleware(Strict("strict"), enforcer=world.enforcer)
    model = scripted(calls(call("search", {"query": "x"}, "a"), call("search", {"query": "y"}, "b")))
    graph = create_agent(model, [search], middleware=[made])
    state = graph.invoke(HELLO) if style == "invoke" else await graph.ainvoke(HELLO)
    assert answers(state)["a"].content == "found"
    assert code(answers(state)["b"]) == "strict"


def test_a_middleware_with_one_half_is_reported(policy: Any, caplog: pytest.LogCaptureFixture) -> None:
    """LangChain would fail at the first run of the other kind; we say so when the agent is built."""

    class Half(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    world = policy(allow("guest", "search"))
    guard(world.enforcer, GuardrailMiddleware(Named("whole")), Half())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "middleware 'Half' has no `wrap_tool_call`"
    ]


def test_both_guards_have_both_halves() -> None:
    for kind in (GuardrailMiddleware, AuthorizationMiddleware):
        assert kind.wrap_tool_call is not AgentMiddleware.wrap_tool_call
        assert kind.awrap_tool_call is not AgentMiddleware.awrap_tool_call
    assert AuthorizationMiddleware.wrap_model_call is not AgentMiddleware.wrap_model_call
    assert AuthorizationMiddleware.awrap_model_call is not AgentMiddleware.awrap_model_call


def test_the_exports() -> None:
    assert remit.middlewares.__all__ == sorted(remit.middlewares.__all__)
    assert {*remit.middlewares.__all__} <= {*dir(remit.middlewares)}
    for name in remit.middlewares.__all__:
        assert getattr(remit.middlewares, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = remit.middlewares.nothing


def test_importing_the_package_imports_no_framework() -> None:
    import subprocess
    import sys

    code = "import sys, remit.middlewares; sys.exit(any(m.startswith('lang') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
