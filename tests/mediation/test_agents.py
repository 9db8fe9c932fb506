"""The audit of agents of many shapes: what is proved, what fails, and the path to the culprit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from tests.support.policies import Policy, allow, ask
from tests.support.scripted import scripted

from remit.authz import ConfigError, Enforcer
from remit.authz.gates.acting import adapter_for
from remit.mediation import MediationError, Report, audit
from remit.middlewares import GuardrailMiddleware, guard
from remit.middlewares.authorization import AuthorizationMiddleware
from remit.middlewares.fusion import fused
from remit.providers.guardrails.allowlist import AllowlistProvider

BARE = "no authorization guard stands around it"


@pytest.fixture
def enforcer(tmp_path: Path) -> Enforcer:
    return Policy(tmp_path, [allow("guest", "*")]).enforcer


def named(name: str, body: Callable[..., Any] | None = None) -> BaseTool:
    def idle(query: str) -> str:
        return query

    return StructuredTool.from_function(body or idle, name=name, description="A tool.")


class Wrapper(AgentMiddleware[Any, Any, Any]):
    """A middleware of a host."""

    def __init__(self, name: str = "wrapper", *tools: Any) -> None:
        super().__init__()
        self._name = name
        self.tools = tools

    @property
    def name(self) -> str:
        return self._name

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Observer(Wrapper):
    remit_power = "observe"


class Noting(AgentMiddleware[Any, Any, Any]):
    """Stands beside the tool calls."""

    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Bringing(AgentMiddleware[Any, Any, Any]):
    """Brings tools and has no hook at all."""

    def __init__(self, name: str, *tools: Any) -> None:
        super().__init__()
        self._name, self.tools = name, tools

    @property
    def name(self) -> str:
        return self._name


def failing(report: Report) -> dict[str, tuple[str, str]]:
    """Path -> verdict and note of what fails."""
    return {row.path: (row.verdict, row.note) for row in report.rows if row.fails}


def verdicts(report: Report) -> dict[str, str]:
    return {row.path: row.verdict for row in report.rows}


def agent(enforcer: Enforcer, tools: list[Any], *others: Any, before: tuple[Any, ...] = (), **options: Any) -> Any:
    middleware = [*before, *guard(enforcer, *others)]
    return create_agent(scripted(), enforcer.visible_tools(tools), middleware=middleware, **options)


def unguarded(*tools: Any) -> Any:
    return create_agent(scripted(), list(tools) or [named("fetch")])


# What holds


def test_a_guarded_agent_is_proved(enforcer: Enforcer) -> None:
    report = audit(agent(enforcer, [named("search"), named("pay")]))
    assert report.ok
    assert report.problems == ()
    assert [(row.path, row.kind, row.verdict, row.dominated_by, row.forms) for row in report.rows] == [
        ("agent > tools > search", "tool", "dominated", "guardrail.authz", "both"),
        ("agent > tools > pay", "tool", "dominated", "guardrail.authz", "both"),
    ]
    report.raise_if_failed()


def test_the_path_begins_with_the_name_of_the_agent(enforcer: Enforcer) -> None:
    report = audit(agent(enforcer, [named("search")], name="lead"))
    assert verdicts(report) == {"lead > tools > search": "dominated"}


def test_an_agent_without_tools_has_nothing_to_guard() -> None:
    report = audit(create_agent(scripted(), []))
    assert (report.rows, report.ok) == ((), True)


def test_both_guards_and_what_stands_where(enforcer: Enforcer) -> None:
    explicit = GuardrailMiddleware(AllowlistProvider(denied_tools=["never"]))
    report = audit(
        agent(enforcer, [named("search")], explicit, Observer("inner"), Noting(), before=(Wrapper("outer"),))
    )
    assert report.ok
    assert verdicts(report) == {
        "agent > tools > search": "dominated",
        "agent > tools > guardrail.allowlist": "dominated",
        "agent > tools > inner": "dominated",
    }
    assert [(one.name, one.place, one.origin, one.hooks) for one in report.standings] == [
        ("outer", "outside", "undeclared", ("wrap_tool_call",)),
        ("guardrail.authz", "guard", "first-party", ("before_agent", "wrap_model_call", "wrap_tool_call")),
        ("guardrail.allowlist", "inside", "first-party", ("wrap_tool_call",)),
        ("inner", "inside", "observe", ("wrap_tool_call",)),
        ("Noting", "beside", "undeclared", ("before_model", "wrap_model_call")),
    ]


def test_fused_views_are_seen_through(enforcer: Enforcer) -> None:
    class Early(Observer):
        def before_agent(self, state: Any, runtime: Any) -> None:
            return None

    chain = fused([Early("early"), *guard(enforcer, Early("late"))])
    assert [type(one).__mro__[1] for one in chain] == [Early, AuthorizationMiddleware, Early]
    graph = create_agent(scripted(), enforcer.visible_tools([named("search")]), middleware=chain)
    report = audit(graph)
    assert report.ok
    assert [(one.name, one.place, one.origin) for one in report.standings] == [
        ("early", "outside", "observe"),
        ("guardrail.authz", "guard", "first-party"),
        ("late", "inside", "observe"),
    ]


def test_tools_that_a_middleware_brings_are_proved_too(enforcer: Enforcer) -> None:
    report = audit(agent(enforcer, [named("search")], Bringing("memory", named("remember"))))
    assert verdicts(report) == {"agent > tools > remember": "dominated", "agent > tools > search": "dominated"}


def test_hosted_tools_are_shown_or_not_and_never_decided_about(enforcer: Enforcer) -> None:
    hosted = [{"type": "web_search"}, {"type": "code_interpreter", "name": "python"}]
    report = audit(agent(enforcer, [named("search"), *hosted]))
    assert report.ok
    assert [(row.path, row.kind, row.dominated_by) for row in report.rows[1:]] == [
        ("agent > model > web_search", "hosted tool", "guardrail.authz (layer 1)"),
        ("agent > model > python", "hosted tool", "guardrail.authz (layer 1)"),
    ]
    assert "not about single calls" in report.rows[1].note


def test_hosted_tools_of_an_unguarded_agent_are_uncovered() -> None:
    assert failing(audit(create_agent(scripted(), [{"type": "web_search"}]))) == {
        "agent > model > web_search": ("uncovered", BARE)
    }


def test_a_hosted_tool_that_no_policy_can_name(enforcer: Enforcer) -> None:
    report = audit(agent(enforcer, [{"parameters": {}}]))
    assert failing(report) == {
        "agent > model > unnamed": ("uncovered", "no policy can name this tool: it has neither name nor type")
    }


# The guard


def test_an_agent_without_a_guard(enforcer: Enforcer) -> None:
    graph = create_agent(scripted(), enforcer.visible_tools([named("search")]), middleware=[Wrapper()])
    assert failing(audit(graph)) == {"agent > tools > search": ("uncovered", BARE)}


def test_an_explicit_guardrail_alone_is_no_authorization() -> None:
    explicit = GuardrailMiddleware(AllowlistProvider(denied_tools=["never"]))
    graph = create_agent(scripted(), [named("search")], middleware=[explicit])
    assert failing(audit(graph)) == {"agent > tools > search": ("uncovered", f"{BARE}, only guardrail.allowlist")}


def test_a_tool_that_nobody_armed(enforcer: Enforcer) -> None:
    graph = create_agent(scripted(), [named("search")], middleware=guard(enforcer))
    assert failing(audit(graph)) == {
        "agent > tools > search": (
            "uncovered",
            "the tool is not armed: its body runs for whoever reaches the object",
        )
    }


@pytest.mark.parametrize(
    ("missing", "forms", "note"),
    [
        ("awrap_tool_call", "sync", "no asynchronous form here: `awrap_tool_call` is missing"),
        ("wrap_tool_call", "async", "no synchronous form here: `wrap_tool_call` is missing"),
    ],
)
def test_a_guard_with_one_form(enforcer: Enforcer, missing: str, forms: str, note: str) -> None:
    half = type("Half", (AuthorizationMiddleware,), {missing: getattr(AgentMiddleware, missing)})
    guards = [half(adapter_for(enforcer), enforcer=enforcer)]
    report = audit(create_agent(scripted(), enforcer.visible_tools([named("search")]), middleware=guards))
    assert failing(report) == {"agent > tools > search": ("uncovered", f"the guard guardrail.authz has {note}")}
    assert [row.forms for row in report.rows] == [forms]


def test_a_guard_of_which_the_model_knows_nothing(enforcer: Enforcer) -> None:
    half = type("Half", (AuthorizationMiddleware,), {"awrap_model_call": AgentMiddleware.awrap_model_call})
    graph = create_agent(
        scripted(), [{"type": "web_search"}], middleware=[half(adapter_for(enforcer), enforcer=enforcer)]
    )
    report = audit(graph)
    assert list(failing(report)) == ["agent > model > web_search"]
    assert "`awrap_model_call` is missing" in report.rows[0].note


def test_a_guard_whose_class_does_it_in_its_own_way(enforcer: Enforcer) -> None:
    class Lenient(AuthorizationMiddleware):
        async def _denied(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    middleware = [Lenient(adapter_for(enforcer), enforcer=enforcer)]
    graph = create_agent(scripted(), enforcer.visible_tools([named("search")]), middleware=middleware)
    found = failing(audit(graph))
    assert list(found) == ["agent > tools > guardrail.authz"]
    assert found["agent > tools > guardrail.authz"][0] == "opaque"
    assert "Lenient changes what the guard does: _denied" in found["agent > tools > guardrail.authz"][1]


def test_a_guard_of_which_one_method_was_replaced(enforcer: Enforcer) -> None:
    (first,) = guard(enforcer)
    first._tool_call = lambda request, handler, port: handler(request)  # type: ignore[attr-defined]
    graph = create_agent(scripted(), enforcer.visible_tools([named("search")]), middleware=[first])
    assert "changes what the guard does: _tool_call" in failing(audit(graph))["agent > tools > guardrail.authz"][1]


def test_a_class_of_its_own_that_changes_nothing_is_a_guard(enforcer: Enforcer) -> None:
    class Ours(AuthorizationMiddleware):
        """With a name of its own."""

        label = "ours"

    middleware = [Ours(adapter_for(enforcer), enforcer=enforcer, name="ours")]
    report = audit(create_agent(scripted(), enforcer.visible_tools([named("search")]), middleware=middleware))
    assert report.ok
    assert report.rows[0].dominated_by == "ours"


def test_a_guard_without_a_policy_allows_everything(enforcer: Enforcer) -> None:
    (first,) = guard(enforcer)
    tools = enforcer.visible_tools([named("search")])
    first.enforcer = Enforcer(None, default_role=None)  # type: ignore[attr-defined]
    report = audit(create_agent(scripted(), tools, middleware=[first]))
    assert failing(report)["agent > tools > guardrail.authz"] == (
        "uncovered",
        "no policy stands behind this guard: it allows everything",
    )


# What stands inside of the guard


def test_an_undeclared_wrapper_inside_of_the_guard(enforcer: Enforcer) -> None:
    found = failing(audit(agent(enforcer, [named("search")], Wrapper("cache"))))
    assert list(found) == ["agent > tools > cache"]
    verdict, note = found["agent > tools > cache"]
    assert verdict == "opaque"
    assert "Wrapper wraps tool calls inside of guardrail.authz and does not declare what it does to them" in note


def test_the_guard_listed_after_the_wrapper_leaves_it_outside(enforcer: Enforcer) -> None:
    assert audit(agent(enforcer, [named("search")], before=(Wrapper("cache"),))).ok


@pytest.mark.parametrize(("power", "ok"), [("observe", True), ("transform", True), ("anything", False), (True, False)])
def test_a_declaration_on_the_instance(enforcer: Enforcer, power: Any, ok: bool) -> None:
    retry = ToolRetryMiddleware(max_retries=1)
    retry.remit_power = power  # type: ignore[attr-defined]
    report = audit(agent(enforcer, [named("search")], retry))
    assert report.ok is ok
    assert list(failing(report)) == ([] if ok else ["agent > tools > ToolRetryMiddleware"])


def test_a_class_that_only_says_it_is_ours_is_not(enforcer: Enforcer) -> None:
    kind = type("ToolErrorHandlingMiddleware", (Wrapper,), {"__module__": "remit.middlewares.tool_error_handling"})
    assert list(failing(audit(agent(enforcer, [named("search")], kind("errors"))))) == ["agent > tools > errors"]


def test_a_class_derived_from_ours_is_the_hosts(enforcer: Enforcer) -> None:
    class Mine(GuardrailMiddleware):
        pass

    mine = Mine(AllowlistProvider(denied_tools=["never"]))
    assert list(failing(audit(agent(enforcer, [named("search")], mine)))) == ["agent > tools > guardrail.allowlist"]


# Names


def test_a_name_that_a_middleware_brings_as_well(enforcer: Enforcer) -> None:
    for brings in (Observer("memory", named("search")), Bringing("memory", named("search"))):
        report = audit(agent(enforcer, [named("search")], brings))
        verdict, note = failing(report)["agent > tools > search"]
        assert verdict == "uncovered"
        assert note.endswith("brings another tool of this name, which is not called")


def test_a_name_that_two_middlewares_bring(enforcer: Enforcer) -> None:
    one, other = Observer("memory", named("recall")), Observer("notes", named("recall"))
    middleware = [one, *guard(enforcer, other)]
    found = failing(audit(create_agent(scripted(), [], middleware=middleware)))
    assert found["agent > tools > recall"][1] == "memory brings another tool of this name, which is not called"


def test_one_tool_that_is_brought_twice_is_one_tool(enforcer: Enforcer) -> None:
    search = named("search")
    assert audit(agent(enforcer, [search], Observer("memory", search))).ok


def test_names_that_look_alike(enforcer: Enforcer) -> None:
    tools = [*enforcer.visible_tools([named("search")]), *enforcer.visible_tools([named("se\u0430rch")])]
    report = audit(create_agent(scripted(), tools, middleware=guard(enforcer)))
    verdict, note = failing(report)["agent > tools"]
    assert verdict == "uncovered"
    assert note == "the tool names 'se\u0430rch' and 'search' look alike"


def test_a_tool_that_was_renamed_after_it_was_registered(enforcer: Enforcer) -> None:
    search = named("search")
    graph = agent(enforcer, [search])
    search.name = "pay"
    assert failing(audit(graph))["agent > tools > search"][1] == "the tool that is registered here is named 'pay'"


# Agents inside of agents


AGENTS: dict[str, Any] = {}
HERE = SimpleNamespace()


def holding(inner: Any, how: str) -> BaseTool:
    """A tool that holds the agent `inner` and would run it."""
    if how == "closure":

        def research(query: str) -> str:
            return str(inner.invoke({"messages": [query]}))

        return named("research", research)
    if how == "global":
        AGENTS["inner"] = inner

        def research(query: str) -> str:
            return str(AGENTS["inner"].invoke(query))

        return named("research", research)
    if how == "object":
        HERE.inner = inner

        def research(query: str) -> str:
            return str(HERE.inner.invoke(query))

        return named("research", research)
    if how == "self":

        class Team:
            def __init__(self) -> None:
                self.members = [inner]

            def research(self, query: str) -> str:
                return str(self.members[0].invoke(query))

        return named("research", Team().research)
    if how == "partial":
        asked = functools.partial(lambda agent, query: agent.invoke(query), inner)
        return named("research", lambda query: str(asked(query)))
    if how == "default":

        def research(query: str, *, _agent: Any = inner) -> str:
            return str(_agent.invoke(query))

        return StructuredTool.from_function(research, name="research", description="d", args_schema={"type": "object"})
    if how == "coroutine":

        async def research(query: str) -> str:
            return str(await inner.ainvoke(query))

        return StructuredTool.from_function(coroutine=research, name="research", description="d")
    if how == "bound":
        configured = inner.with_config(tags=["x"])

        def research(query: str) -> str:
            return str((configured | str).invoke(query))

        return named("research", research)
    if how == "field":

        class Research(BaseTool):
            name: str = "research"
            description: str = "d"
            inner: Any = None

            def _run(self, query: str) -> str:
                return str(self.inner.invoke(query))

        return Research(inner=inner)
    if how == "as_tool":
        return inner.as_tool(name="research", description="d", arg_types={"messages": list})
    raise AssertionError(how)


WAYS = ["closure", "global", "object", "self", "partial", "default", "coroutine", "bound", "field", "as_tool"]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.filterwarnings("ignore:The function signature")
@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_an_unguarded_agent_that_a_tool_holds(enforcer: Enforcer, how: str) -> None:
    report = audit(agent(enforcer, [holding(unguarded(), how)]))
    assert verdicts(report) == {
        "agent > tools > research": "dominated",
        "agent > tools > research > (agent) tools > fetch": "uncovered",
    }
    assert str(report.problems[0]).startswith(f"agent > tools > research > (agent) tools > fetch: {BARE};")


@pytest.mark.parametrize("how", ["closure", "global", "field"])
def test_a_guarded_agent_that_a_tool_holds(enforcer: Enforcer, how: str) -> None:
    inner = agent(enforcer, [named("fetch")], name="researcher")
    report = audit(agent(enforcer, [holding(inner, how)]))
    assert report.ok
    assert verdicts(report) == {
        "agent > tools > research": "dominated",
        "agent > tools > research > (researcher) tools > fetch": "dominated",
    }


def test_an_agent_deep_inside(enforcer: Enforcer) -> None:
    middle = agent(enforcer, [holding(unguarded(), "closure")])
    report = audit(agent(enforcer, [named("plan", lambda query: middle.invoke(query))]))
    assert list(failing(report)) == ["agent > tools > plan > (agent) tools > research > (agent) tools > fetch"]


def test_an_agent_that_a_middleware_holds(enforcer: Enforcer) -> None:
    class Reviewing(Noting):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

    report = audit(agent(enforcer, [named("search")], Reviewing(unguarded())))
    assert list(failing(report)) == ["agent > Reviewing > (agent) tools > fetch"]


def test_two_agents_that_hold_each_other_are_looked_through_once(enforcer: Enforcer) -> None:
    box: list[Any] = []

    def delegate(query: str) -> str:
        return str(box[0].invoke(query))

    one = agent(enforcer, [named("delegate", delegate)])
    box.append(one)
    report = audit(one)
    assert report.ok
    assert [(row.path, row.kind, row.note) for row in report.rows] == [
        ("agent > tools > delegate", "tool", ""),
        ("agent > tools > delegate", "agent", "looked through at agent"),
    ]


def test_a_remote_graph_and_one_that_is_compiled_later(enforcer: Enforcer) -> None:
    from langgraph.pregel.remote import RemoteGraph

    remote, later = RemoteGraph("far", url="http://localhost:1"), StateGraph(MessagesState)
    tools = [named("ask_far", lambda query: remote.invoke(query)), named("build", lambda query: later.compile())]
    report = audit(agent(enforcer, tools))
    assert [(row.path, row.verdict) for row in report.rows if row.fails] == [
        ("agent > tools > ask_far > (far)", "opaque"),
        ("agent > tools > build > (StateGraph)", "opaque"),
    ]


def test_what_holds_too_much_is_noted(enforcer: Enforcer) -> None:
    ballast = [object() for _ in range(25_000)]
    report = audit(agent(enforcer, [named("search", lambda query: str(ballast))]))
    assert report.ok
    assert report.notes == ("agent > tools > search: holds too much to be searched to its end for agents",)


def test_an_agent_behind_a_name_of_a_module(enforcer: Enforcer, monkeypatch: pytest.MonkeyPatch) -> None:
    import tests.support.agents as module

    monkeypatch.setattr(module, "inner_agent", unguarded(), raising=False)
    body = eval("lambda query: module.inner_agent.invoke(query)", {"module": module, "__name__": "host"})  # noqa: S307
    assert list(failing(audit(agent(enforcer, [named("research", body)])))) == [
        "agent > tools > research > (agent) tools > fetch"
    ]


# Graphs that were drawn by hand


def drawn(node: Any, *, name: str = "tools", router: Any = None) -> Any:
    built = StateGraph(MessagesState, context_schema=dict)
    built.add_node(name, node)
    built.add_edge(START, name)
    if router is None:
        built.add_edge(name, END)
    else:
        built.add_conditional_edges(name, router, {"again": name, "end": END, "tools": name, END: END})
    return built.compile()


def test_a_guarded_tool_node_in_another_graph(enforcer: Enforcer) -> None:
    (first,) = guard(enforcer)
    tools = enforcer.visible_tools([named("search")])
    node = ToolNode(tools, wrap_tool_call=first.wrap_tool_call, awrap_tool_call=first.awrap_tool_call)
    assert verdicts(audit(drawn(node))) == {"agent > tools > search": "dominated"}


def test_a_tool_node_that_is_guarded_in_one_form(enforcer: Enforcer) -> None:
    (first,) = guard(enforcer)
    node = ToolNode(enforcer.visible_tools([named("search")]), wrap_tool_call=first.wrap_tool_call)
    report = audit(drawn(node))
    assert [(row.verdict, row.forms) for row in report.rows] == [("uncovered", "sync")]


def test_two_guards_for_the_two_forms_are_none(enforcer: Enforcer) -> None:
    (one,), (other,) = guard(enforcer), guard(enforcer)
    node = ToolNode(
        enforcer.visible_tools([named("search")]),
        wrap_tool_call=one.wrap_tool_call,
        awrap_tool_call=other.awrap_tool_call,
    )
    assert failing(audit(drawn(node)))["agent > tools > search"][0] == "uncovered"


def test_a_wrapper_that_pretends_to_be_the_guard(enforcer: Enforcer) -> None:
    (first,) = guard(enforcer)

    @functools.wraps(first.wrap_tool_call)
    def pretending(request: Any, handler: Any) -> Any:
        return handler(request)

    outer, inner = pretending, first.wrap_tool_call

    def composed(request: Any, execute: Any) -> Any:  # the shape of LangChain's own, and not its code
        return outer(request, execute) or inner(request, execute)

    for wrapper in (pretending, composed):
        node = ToolNode(
            enforcer.visible_tools([named("search")]), wrap_tool_call=wrapper, awrap_tool_call=first.awrap_tool_call
        )
        report = audit(drawn(node))
        assert [row.verdict for row in report.rows] == ["uncovered"], report
        node = ToolNode(enforcer.visible_tools([named("search")]), wrap_tool_call=wrapper, awrap_tool_call=wrapper)
        report = audit(drawn(node))
        assert [row.verdict for row in report.rows] == ["opaque"]
        assert "cannot be looked into" in report.rows[0].note


def test_a_plain_node_is_opaque(enforcer: Enforcer) -> None:
    inner = unguarded()

    def plan(state: Any) -> Any:
        return inner.invoke(state)

    report = audit(drawn(plan, name="plan"))
    found = failing(report)
    assert list(found) == ["agent > plan", "agent > plan > (agent) tools > fetch"]
    assert found["agent > plan"][0] == "opaque"
    assert "plan" in found["agent > plan"][1]


def test_an_agent_as_a_node(enforcer: Enforcer) -> None:
    assert verdicts(audit(drawn(agent(enforcer, [named("search")]), name="research"))) == {
        "agent > research > (agent) tools > search": "dominated"
    }
    assert verdicts(audit(drawn(unguarded(), name="research"))) == {
        "agent > research > (agent) tools > fetch": "uncovered"
    }


def test_a_router_is_code_as_well(enforcer: Enforcer) -> None:
    (first,) = guard(enforcer)
    node = ToolNode(
        enforcer.visible_tools([named("search")]),
        wrap_tool_call=first.wrap_tool_call,
        awrap_tool_call=first.awrap_tool_call,
    )
    assert audit(drawn(node, router=tools_condition)).ok

    def choose(state: Any) -> str:
        return "end"

    assert failing(audit(drawn(node, router=choose)))["agent > tools > choose"][0] == "opaque"


@pytest.mark.parametrize("change", ["subclass", "method", "wrappers"])
def test_a_tool_node_that_was_changed_is_opaque(enforcer: Enforcer, change: str) -> None:
    (first,) = guard(enforcer)
    kind = type("Other", (ToolNode,), {}) if change == "subclass" else ToolNode
    node = kind(
        enforcer.visible_tools([named("search")]),
        wrap_tool_call=first.wrap_tool_call,
        awrap_tool_call=first.awrap_tool_call,
    )
    if change == "method":
        node._run_one = lambda *args: None  # type: ignore[method-assign]
    if change == "wrappers":
        del node._wrap_tool_call
    assert {path: found[0] for path, found in failing(audit(drawn(node))).items()} == {"agent > tools": "opaque"}


# Exceptions


def test_what_is_opaque_can_be_accepted_by_name_or_path(enforcer: Enforcer) -> None:
    def plan(state: Any) -> Any:
        return state

    graph = drawn(plan, name="plan")
    for key in ("plan", "agent > plan"):
        report = audit(graph, exceptions={key: "only writes a plan"})
        assert report.ok
        assert report.rows[0].verdict == "opaque"
        assert report.rows[0].remark.endswith("accepted: only writes a plan")
        assert report.notes == ()


def test_what_is_uncovered_cannot_be_accepted() -> None:
    for key in ("fetch", "agent > tools > fetch"):
        report = audit(unguarded(), exceptions={key: "we trust it"})
        assert not report.ok
        assert report.rows[0].accepted == ""
        assert report.notes == (f"the exception {key!r} was not applied: only what is opaque can be accepted",)


def test_an_exception_that_fits_several_or_nothing(enforcer: Enforcer) -> None:
    def plan(state: Any) -> Any:
        return state

    graph = drawn(drawn(plan, name="plan"), name="plan")
    inner = "agent > plan > (agent) plan"
    assert verdicts(audit(graph)) == {inner: "opaque"}
    built = StateGraph(MessagesState)
    for name in ("one", "two"):
        built.add_node(name, drawn(plan, name="plan"))
        built.add_edge(START, name)
    twice = built.compile()
    report = audit(twice, exceptions={"plan": "reviewed", "gone": "reviewed"})
    assert len(report.problems) == 2
    assert report.notes == (
        "the exception 'plan' fits several and was not applied; "
        "name one of 'agent > one > (agent) plan', 'agent > two > (agent) plan'",
        "the exception 'gone' names nothing in this agent; remove it",
    )
    both = {"agent > one > (agent) plan": "reviewed", "agent > two > (agent) plan": "reviewed"}
    assert audit(twice, exceptions=both).ok


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_an_exception_needs_a_reason(reason: Any) -> None:
    with pytest.raises(ConfigError, match="the exception 'plan' gives no reason"):
        audit(unguarded(), exceptions={"plan": reason})


# Questions


@pytest.fixture
def asking(tmp_path: Path) -> Enforcer:
    return Policy(tmp_path, [allow("guest", "*"), ask("guest", "pay")]).enforcer


def test_an_agent_that_may_ask_and_has_nowhere_to_wait(asking: Enforcer) -> None:
    tools = [named("search"), named("pay")]
    assert failing(audit(agent(asking, tools))) == {
        "agent > checkpointer": (
            "opaque",
            "the policy asks a person about 'pay' (policy.csv:2), and without a checkpointer nobody can answer",
        )
    }
    assert audit(agent(asking, tools), exceptions={"checkpointer": "nobody is there at night"}).ok
    assert audit(agent(asking, tools, checkpointer=InMemorySaver())).ok
    assert audit(agent(asking, [named("search")])).ok


def test_a_provider_that_does_not_list_its_rules_gets_a_note(enforcer: Enforcer) -> None:
    class Unlisted:
        def __init__(self, inner: Any) -> None:
            self.inner, self.name, self.blocking = inner, "unlisted", False
            self.authorize, self.aauthorize = inner.authorize, inner.aauthorize
            self.filter_resources = inner.filter_resources

    closed = Enforcer(Unlisted(enforcer.provider), default_role="guest")
    report = audit(agent(closed, [named("search")]))
    assert report.ok
    assert report.notes == (
        "agent > checkpointer: without a checkpointer nobody can be asked: where the policy says ask, calls are denied",
    )


def test_an_inner_agent_uses_the_checkpointer_of_its_caller(asking: Enforcer) -> None:
    for refuses, paths in ((None, []), (False, ["agent > tools > research > (agent) checkpointer"])):
        inner = agent(asking, [named("pay")], checkpointer=refuses)
        outer = agent(asking, [named("research", lambda query, inner=inner: inner.invoke(query))])
        assert list(failing(audit(outer))) == paths


# What is given, and what comes back


def test_what_cannot_be_audited() -> None:
    class WebApplication:
        routes: ClassVar[list[Any]] = []

    with pytest.raises(
        TypeError, match="WebApplication: web applications cannot be audited, only compiled LangGraph agents"
    ):
        audit(WebApplication())
    with pytest.raises(TypeError, match="the graph is not compiled"):
        audit(StateGraph(MessagesState))
    with pytest.raises(TypeError, match="only compiled LangGraph agents can be audited, got str"):
        audit("agent")


def test_an_agent_with_a_configuration_bound_to_it_is_the_agent(enforcer: Enforcer) -> None:
    from langchain_core.runnables import RunnableBinding

    assert audit(RunnableBinding(bound=agent(enforcer, [named("search")]))).ok


def test_a_failure_names_every_culprit_with_its_path(enforcer: Enforcer) -> None:
    report = audit(agent(enforcer, [holding(unguarded(), "closure")], Wrapper("cache")))
    with pytest.raises(MediationError) as failed:
        report.raise_if_failed()
    assert isinstance(failed.value, ConfigError)
    assert failed.value.report is report
    assert [problem.file for problem in failed.value.problems] == [
        "agent > tools > cache",
        "agent > tools > research > (agent) tools > fetch",
    ]
    assert {problem.code for problem in failed.value.problems} == {"mediation-uncovered", "mediation-opaque"}


def test_the_table_can_be_read(enforcer: Enforcer) -> None:
    lines = str(audit(agent(enforcer, [named("search")], Wrapper("cache")))).splitlines()
    assert lines[0].split() == ["path", "kind", "verdict", "forms", "by", "note"]
    assert " ".join(lines[1].split()) == "agent > tools > search tool dominated both guardrail.authz"
    assert lines[3].startswith("problem: agent > tools > cache: ")


def test_a_tool_that_decorates_a_function(enforcer: Enforcer) -> None:
    inner = unguarded()

    @tool
    def research(query: str) -> str:
        """Look it up."""
        return str(inner.invoke(query))

    assert len(failing(audit(agent(enforcer, [research])))) == 1
