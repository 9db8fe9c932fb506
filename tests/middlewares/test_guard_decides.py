"""The guard in a compiled agent: what the model sees, what runs, what is answered. In all four running styles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import allow, ask, deny
from tests.support.scripted import call, calls, scripted

from remit.authz import Principal, pop_outcome, wire
from remit.authz.principal import seal_principal
from remit.middlewares import guard
from remit.middlewares.authorization import AuthorizationState

pytestmark = pytest.mark.parametrize("style", STYLES)


def toolbox() -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Three tools that write down what they did."""
    ran: list[tuple[Any, ...]] = []

    @tool
    def search(query: str, limit: int = 3) -> str:
        """Search the web."""
        ran.append(("search", query, limit))
        return "found"

    @tool
    async def fetch(url: str) -> str:
        """Fetch a page."""
        ran.append(("fetch", url))
        return "page"

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(("bash", command))
        return "ok"

    return [search, fetch, bash], ran


def sync_toolbox() -> tuple[list[Any], list[tuple[Any, ...]]]:
    tools, ran = toolbox()
    return [one for one in tools if one.name != "fetch"], ran


async def test_allowed_runs_and_denied_does_not(style: str, policy: Any) -> None:
    """One allowed and one denied call in one turn: one runs, one is answered with a denial, the run goes on."""
    world = policy(allow("guest", "search"))
    tools, ran = sync_toolbox()
    turn = calls(call("search", {"query": "x"}, "a"), call("bash", {"command": "ls"}, "b"))
    graph, model = agent(world.enforcer, tools, turn)
    context: dict[str, Any] = {"user_id": "gina"}

    state = await run(graph, style, context=context)

    assert ran == [("search", "x", 3)]
    messages = answers(state)
    assert (messages["a"].content, messages["a"].status) == ("found", "success")
    assert messages["b"].status == "error"
    assert messages["b"].artifact == {
        "code": "authz.no_policy",
        "message": messages["b"].content,
        "scope": "tool",
        "alternatives": [],
    }
    assert state["messages"][-1].content == "done"
    assert model.bound == [["search"], ["search"]]
    assert [(o.guard, o.decision, o.policy_id) for o in pop_outcome(context, "a")] == [
        ("guardrail.authz", "allowed", "policy.csv:1")
    ]
    assert [(o.decision, o.reason_codes) for o in pop_outcome(context, "b")] == [("denied", ("authz.no_policy",))]


async def test_denial_never_reveals_rules(style: str, policy: Any) -> None:
    """Neither file, line, role nor rule text reach the model."""
    world = policy(deny("guest", "bash"), allow("guest", "*"))
    tools, ran = sync_toolbox()
    graph, model = agent(world.enforcer, tools, calls(call("bash", {"command": "ls"})))

    await run(graph, style, context={"user_id": "gina"})

    assert ran == []
    told = str(model.seen[-1][-1].content)
    assert "authz.denied" in told
    assert all(secret not in told for secret in ("policy.csv", "guest", "gina", "role:"))


async def test_denied_at_layer_two_only(style: str, policy: Any) -> None:
    """A tool that the model may see, and a call of it that it may not make."""
    world = policy(allow("guest", "bash"), deny("guest", "bash", "r.ctx.args.command == 'rm'"))
    tools, ran = sync_toolbox()
    turn = calls(call("bash", {"command": "rm"}, "a"), call("bash", {"command": "ls"}, "b"))
    graph, model = agent(world.enforcer, tools, turn)

    state = await run(graph, style)

    assert model.bound[0] == ["bash"]
    assert ran == [("bash", "ls")]
    assert code(answers(state)["a"]) == "authz.denied"
    assert answers(state)["a"].artifact["scope"] == "invocation"


async def test_hidden_and_unknown_names_are_told_apart_by_nobody(style: str, policy: Any) -> None:
    """A hallucinated call of a hidden tool ends like one of a tool that does not exist; no name is listed."""
    world = policy(allow("guest", "search"))
    tools, ran = sync_toolbox()
    turn = calls(call("bash", {"command": "ls"}, "a"), call("teleport", {}, "b"))
    graph, model = agent(world.enforcer, tools, turn)

    state = await run(graph, style)

    assert ran == []
    hidden, unknown = answers(state)["a"], answers(state)["b"]
    assert code(hidden) == code(unknown) == "authz.no_policy"
    assert str(hidden.content).replace("bash", "X") == str(unknown.content).replace("teleport", "X")
    assert "bash" not in str(unknown.content)
    assert model.bound[0] == ["search"]


async def test_unknown_name_under_a_wide_policy(style: str, policy: Any) -> None:
    """Where the policy allows every name, an unknown one is answered by us, without the list of registered tools."""
    world = policy(allow("guest", "*"), deny("guest", "bash"))
    tools, _ = sync_toolbox()
    graph, _model = agent(world.enforcer, tools, calls(call("teleport", {})))
    context: dict[str, Any] = {"user_id": "gina"}

    state = await run(graph, style, context=context)

    message = answers(state)["call_1"]
    assert code(message) == "authz.unknown_tool"
    assert "bash" not in str(message.content)
    assert "search" not in str(message.content)
    assert [o.reason_codes for o in pop_outcome(context, "call_1")] == [("authz.unknown_tool",)]


async def test_role_change_between_two_model_calls(style: str, policy: Any) -> None:
    """The role is read for each model call and each tool call, not once per run."""
    world = policy(allow("guest", "search"), allow("admin", "*"))
    tools, ran = sync_toolbox()
    context: dict[str, Any] = {"user_id": "alice", "user_role": "admin"}

    def demoted(_messages: Any) -> Any:
        context["user_role"] = "guest"
        return calls(call("bash", {"command": "two"}, "b"))

    def promoted(_messages: Any) -> Any:
        context["user_role"] = "admin"
        return calls(call("bash", {"command": "three"}, "c"))

    graph, model = agent(world.enforcer, tools, calls(call("bash", {"command": "one"}, "a")), demoted, promoted)

    state = await run(graph, style, context=context)

    assert ran == [("bash", "one"), ("bash", "three")]
    assert code(answers(state)["b"]) == "authz.no_policy"
    assert model.bound == [["search", "bash"], ["search", "bash"], ["search"], ["search", "bash"]]


async def test_policy_reload_between_two_model_calls(style: str, policy: Any) -> None:
    """A new policy is obeyed by the next tool call and the next model call of a run in progress."""
    world = policy(allow("guest", "*"))
    tools, ran = sync_toolbox()

    def after_reload(_messages: Any) -> Any:
        world.rewrite(allow("guest", "search"))
        return calls(call("bash", {"command": "two"}, "b"))

    graph, model = agent(world.enforcer, tools, calls(call("bash", {"command": "one"}, "a")), after_reload)

    state = await run(graph, style)

    assert ran == [("bash", "one")]
    assert code(answers(state)["b"]) == "authz.no_policy"
    assert model.bound == [["search", "bash"], ["search", "bash"], ["search"]]


@pytest.mark.parametrize(
    "context",
    [
        {"user_id": 7},
        {"user_id": "gina", "user_role": False},
        {"user_id": "gina", "user_role": " admin "},
        {"user_id": "gina", "user_role": "admin\u200b"},
        {"user_id": "gina", "authz_attributes": ["team"]},
        {"user_id": "gina", "authz_attributes": {1: "team"}},
        {"user_id": "gina", "__principal": {"role": "admin"}},
    ],
    ids=["id-int", "role-false", "role-spaces", "role-invisible", "attributes-list", "attributes-key", "sealed-dict"],
)
@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
async def test_malformed_identity_denies_the_call(style: str, policy: Any, context: Any, fail_closed: bool) -> None:
    """A malformed identity hides every tool and denies every call, under fail-open too; the run goes on."""
    world = policy(allow("guest", "*"), allow("admin", "*"), fail_closed=fail_closed)
    tools, ran = sync_toolbox()
    graph, model = agent(world.enforcer, tools, calls(call("bash", {"command": "ls"})))

    state = await run(graph, style, context=context)

    assert ran == []
    assert model.bound == [[], []]
    assert code(answers(state)["call_1"]) == "authz.malformed_identity"
    assert state["messages"][-1].content == "done"


async def test_missing_and_unknown_roles(style: str, policy: Any) -> None:
    """A missing or empty role is the default role; an unknown one is never replaced by it."""
    world = policy(allow("guest", "search"))
    tools, ran = sync_toolbox()
    graph, model = agent(world.enforcer, tools, calls(call("search", {"query": "x"})))

    for context, runs in (({}, True), ({"user_role": ""}, True), ({"user_role": "stranger"}, False)):
        ran.clear()
        model.restart()
        state = await run(graph, style, context=context)
        assert bool(ran) is runs, context
        assert (code(answers(state)["call_1"]) is None) is runs


async def test_is_internal_is_identity_true_only(style: str, policy: Any) -> None:
    """Truthy stand-ins for ``is_internal`` do not reach the policy."""
    world = policy(allow("guest", "search"))
    seen: list[bool] = []
    inner = world.provider.authorize
    world.provider.authorize = lambda request: (seen.append(request.principal.is_internal), inner(request))[1]
    tools, _ = sync_toolbox()
    graph, model = agent(world.enforcer, tools, calls(call("search", {"query": "x"})))

    for value in (1, "true", [1], True):
        model.restart()
        await run(graph, style, context={"is_internal": value})

    assert seen == [False, False, False, True]


async def test_asking_without_anybody_to_ask_is_a_denial(style: str, policy: Any) -> None:
    """No checkpointer: the call is denied, and the tool stays visible."""
    world = policy(ask("guest", "bash"))
    tools, ran = sync_toolbox()
    graph, model = agent(world.enforcer, tools, calls(call("bash", {"command": "ls"})))

    state = await run(graph, style)

    assert ran == []
    assert model.bound[0] == ["bash"]
    assert code(answers(state)["call_1"]) == "authz.ask_unanswerable"


async def test_thirty_parallel_calls_run_once_each(style: str, policy: Any) -> None:
    """Tickets of parallel calls do not get in each other's way."""
    world = policy(allow("guest", "search"), deny("guest", "search", "r.ctx.args.limit > 20"))
    tools, ran = sync_toolbox()
    turn = calls(*(call("search", {"query": str(n), "limit": n}, f"c{n}") for n in range(1, 31)))
    graph, _model = agent(world.enforcer, tools, turn)

    state = await run(graph, style)

    assert sorted(ran) == sorted(("search", str(n), n) for n in range(1, 21))
    assert {id for id, message in answers(state).items() if code(message)} == {f"c{n}" for n in range(21, 31)}


async def test_sync_and_async_tools_together(style: str, policy: Any) -> None:
    """In the asynchronous styles, asynchronous tools are decided like the others."""
    if style in ("invoke", "stream"):
        return
    world = policy(allow("guest", "fetch"))
    tools, ran = toolbox()
    graph, _model = agent(
        world.enforcer, tools, calls(call("fetch", {"url": "u"}, "a"), call("bash", {"command": "x"}, "b"))
    )

    state = await run(graph, style)

    assert ran == [("fetch", "u")]
    assert code(answers(state)["b"]) == "authz.no_policy"


async def test_the_identity_channel_is_private(style: str, policy: Any) -> None:
    """Clients cannot say whose run it is, and do not get it with the result."""
    world = policy(allow("guest", "search"))
    tools, ran = sync_toolbox()
    graph, _ = agent(world.enforcer, tools, calls(call("search", {"query": "x"})))
    forged = {"messages": [("user", "hi")], wire.PRINCIPAL_DIGEST: "forged"}
    state = await run(graph, style, forged, context={"user_id": "gina"})
    assert ran == [("search", "x", 3)]
    if style in ("invoke", "ainvoke"):  # streams of values show every channel; who serves them leaves this one out
        assert wire.PRINCIPAL_DIGEST not in state
    assert wire.PRINCIPAL_DIGEST in AuthorizationState.__annotations__


async def test_a_sealed_principal_counts(style: str, policy: Any) -> None:
    """Where the trust boundary sealed a principal, nothing else in the context is believed."""
    world = policy(allow("guest", "search"), allow("admin", "*"))
    tools, ran = sync_toolbox()
    context: dict[str, Any] = {"user_id": "root", "user_role": "admin"}
    seal_principal(context, Principal("gina", role="guest"))
    graph, model = agent(world.enforcer, tools, calls(call("bash", {"command": "x"})))
    state = await run(graph, style, context=context)
    assert ran == []
    assert model.bound[0] == ["search"]
    assert code(answers(state)["call_1"]) == "authz.no_policy"


async def test_both_layers_ask_one_provider_for_one_principal(style: str, policy: Any) -> None:
    """Layer 1 and Layer 2 share the provider object and judge the same principal."""
    world = policy(allow("guest", "search"))
    tools, _ = sync_toolbox()
    asked: list[Any] = []
    authorize, show = world.provider.authorize, world.provider.filter_resources
    world.provider.authorize = lambda request: (asked.append(request.principal), authorize(request))[1]
    world.provider.filter_resources = lambda who, kind, names: (asked.append(who), show(who, kind, names))[1]
    graph, _model = agent(world.enforcer, tools, calls(call("search", {"query": "x"})))
    await run(graph, style, context={"user_id": "gina", "authz_attributes": {"team": "a"}})
    assert len(asked) == 3
    assert len(set(asked)) == 1


async def test_attributes_are_copied_when_they_are_read(style: str, policy: Any) -> None:
    """A context whose attributes are changed in place is read anew by the next decision, and by that one only."""
    world = policy(allow("guest", "search", "r.ctx.principal.attributes.team == 'a'"))
    tools, ran = sync_toolbox()
    attributes = {"team": "a"}

    def moved(_messages: Any) -> Any:
        attributes["team"] = "b"
        return calls(call("search", {"query": "2"}, "b"))

    graph, _ = agent(world.enforcer, tools, calls(call("search", {"query": "1"}, "a")), moved)
    context = {"user_id": "gina", "authz_attributes": attributes}
    state = await run(graph, style, context=context)
    assert ran == [("search", "1", 3)]
    assert code(answers(state)["b"]) == "authz.no_policy"


async def test_infrastructure_tools_are_known_by_the_object(style: str, policy: Any) -> None:
    """A tool that the build made from a filtered catalogue needs no rule; a namesake of it does."""
    world = policy(allow("guest", "other"))
    tools, ran = sync_toolbox()
    search = tools[0]
    turn = calls(call("search", {"query": "x"}))
    for exempt, runs in ((search, True), (sync_toolbox()[0][0], False)):
        ran.clear()
        model = scripted(turn)
        middleware = guard(world.enforcer, infrastructure_tools=(exempt,))
        graph = create_agent(model, world.enforcer.visible_tools(tools), middleware=middleware)
        await run(graph, style, context={"user_id": "gina"})
        assert bool(ran) is runs


async def test_decisions_are_recorded(style: str, tmp_path: Path, policy: Any) -> None:
    """Each decision is one record; refusals that needed no provider are recorded as well."""
    records: list[tuple[str, bool, str]] = []

    class Log:
        def record(self, request: Any, decision: Any, *, latency_ns: int, guard: str = "authz") -> bool:
            records.append((request.target, decision.allow, decision.code))
            return True

    world = policy(allow("guest", "search"), ledger=Log())
    tools, _ = sync_toolbox()
    turn = calls(call("search", {"query": "x"}, "a"), call("bash", {"command": "y"}, "b"), call("bash", {}, "b"))
    graph, _model = agent(world.enforcer, tools, turn)
    await run(graph, style, context={"user_id": "gina"})
    assert sorted(records) == [
        ("bash", False, "authz.duplicate_call"),
        ("bash", False, "authz.duplicate_call"),
        ("search", True, "authz.allowed"),
    ]
