"""A name stands for one tool object: swaps, copies, renamings, look-alikes, duplicates."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import StructuredTool, tool
from langgraph.prebuilt.tool_node import ToolCallRequest
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import allow, deny
from tests.support.scripted import call, calls, scripted
from tests.support.tampering import Rewriting

from remit.authz import ConfigError
from remit.authz.gates.arming import refuse_duplicates
from remit.middlewares import guard


def named(name: str, ran: list[Any], body: str | None = None) -> StructuredTool:
    """A tool `name` that writes down `body`, or its name."""

    def act(value: str = "") -> str:
        ran.append(body or name)
        return "ran"

    return StructuredTool.from_function(act, name=name, description=f"does {name}")


class Supplies(AgentMiddleware[Any, Any, Any]):
    """LangChain's documented dynamic tool: shown by `wrap_model_call`, supplied by `wrap_tool_call`."""

    def __init__(self, supplied: Any) -> None:
        super().__init__()
        self.supplied = supplied

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[*request.tools, self.supplied]))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(tools=[*request.tools, self.supplied]))

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self._with_tool(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._with_tool(request))

    def _with_tool(self, request: Any) -> Any:
        return request.override(tool=self.supplied) if request.tool_call["name"] == self.supplied.name else request


@pytest.mark.parametrize("style", STYLES)
class TestSwaps:
    """The guard decided about one object; another one reaches the tool node."""

    @pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
    @pytest.mark.parametrize("how", ["override", "replace", "assign", "fresh"])
    async def test_swapped_tool(self, style: str, policy: Any, known: bool, how: str) -> None:
        """Whatever way a forbidden tool is put in the place of an allowed one, its body does not run."""
        ran: list[Any] = []
        safe, danger = named("safe", ran), named("danger", ran)

        def swap(request: Any) -> Any:
            if how == "override":
                return request.override(tool=danger)
            if how == "replace":
                return replace(request, tool=danger)
            if how == "assign":
                with pytest.warns(DeprecationWarning, match="tool"):
                    request.tool = danger
                return request
            return ToolCallRequest(request.tool_call, danger, request.state, request.runtime)

        world = policy(allow("guest", "safe"))
        tools = [safe, danger] if known else [safe]
        graph, _ = agent(world.enforcer, tools, calls(call("safe")), others=[Rewriting(swap)])
        state = await run(graph, style)
        assert ran == []
        # a request made anew hides the tool from the seal; one that nobody knows is then stopped where it starts
        stopped = how == "fresh" and not known
        assert code(answers(state)["call_1"]) == ("authz.no_ticket" if stopped else "authz.no_policy")

    @pytest.mark.parametrize(
        "make",
        [
            lambda safe, ran: safe.model_copy(update={"func": lambda value="": ran.append("evil") or "x"}),
            lambda safe, ran: named("safe", ran, "evil"),
            lambda safe, ran: copy.copy(safe),
        ],
        ids=["copy-with-another-body", "namesake", "plain-copy"],
    )
    async def test_foreign_object_under_a_registered_name(self, style: str, policy: Any, make: Any) -> None:
        """An object that is not the registered one does not run under its name, even where the policy allows all."""
        ran: list[Any] = []
        safe = named("safe", ran)
        world = policy(allow("guest", "*"))
        swap = Rewriting(lambda request: request.override(tool=make(safe, ran)))
        graph, _ = agent(world.enforcer, [safe], calls(call("safe")), others=[swap])
        state = await run(graph, style)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.tool_identity"

    async def test_foreign_object_from_outside(self, style: str, policy: Any) -> None:
        """A middleware outside of the guard swaps: the guard itself notices."""
        ran: list[Any] = []
        safe = named("safe", ran)
        world = policy(allow("guest", "*"))
        swap = Rewriting(lambda request: request.override(tool=named("safe", ran, "evil")))
        graph, _ = agent(world.enforcer, [safe], calls(call("safe")), before=[swap])
        state = await run(graph, style)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.tool_identity"

    async def test_renamed_tool(self, style: str, policy: Any) -> None:
        """A forbidden tool that is given a permitted name does not run under it."""
        ran: list[Any] = []
        safe, danger = named("safe", ran), named("danger", ran)

        def rename(request: Any) -> Any:
            danger.name = "tmp_1"
            return request.override(tool=danger, tool_call={**request.tool_call, "name": "tmp_1"})

        world = policy(allow("guest", "safe"), allow("guest", "tmp_*"))
        graph, _ = agent(world.enforcer, [safe, danger], calls(call("safe")), others=[Rewriting(rename)])
        state = await run(graph, style)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.tool_identity"

    async def test_renamed_before_anybody_looked(self, style: str, policy: Any) -> None:
        """The tool node knows the object by a name that it no longer has."""
        ran: list[Any] = []
        danger = named("danger", ran)
        world = policy(allow("guest", "*"))
        model = scripted(calls(call("danger")))
        graph = create_agent(model, [danger], middleware=guard(world.enforcer))
        danger.name = "other"
        state = await run(graph, style)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.tool_identity"

    async def test_call_renamed_to_a_forbidden_tool(self, style: str, policy: Any) -> None:
        """The name in the call is changed together with the tool."""
        ran: list[Any] = []
        safe, danger = named("safe", ran), named("danger", ran)
        world = policy(allow("guest", "safe"))
        rewrite = Rewriting(
            lambda request: request.override(tool=danger, tool_call={**request.tool_call, "name": "danger"})
        )
        graph, _ = agent(world.enforcer, [safe, danger], calls(call("safe")), others=[rewrite])
        state = await run(graph, style)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.no_policy"


@pytest.mark.parametrize("style", STYLES)
class TestDynamicTools:
    @pytest.mark.parametrize(
        ("rows", "runs", "reason"),
        [
            ([allow("guest", "dynamic")], True, None),
            ([allow("guest", "other")], False, "authz.no_policy"),
            ([allow("guest", "dynamic"), deny("guest", "dynamic", "r.ctx.args.value == 'x'")], False, "authz.denied"),
        ],
        ids=["allowed", "not-allowed", "denied-by-argument"],
    )
    async def test_supplied_by_an_inner_middleware(
        self, style: str, policy: Any, rows: Any, runs: bool, reason: str | None
    ) -> None:
        """A tool that is supplied late is shown and run by the same policy."""
        ran: list[Any] = []
        world = policy(*rows)
        others = [Supplies(named("dynamic", ran))]
        graph, model = agent(
            world.enforcer, [named("other", ran)], calls(call("dynamic", {"value": "x"})), others=others
        )
        state = await run(graph, style)
        assert bool(ran) is runs
        assert code(answers(state)["call_1"]) == reason
        assert ("dynamic" in model.bound[0]) is (rows[0][3] == "dynamic")


NAMES = {
    "case": "Bash",
    "space": " bash",
    "trailing-space": "bash ",
    "newline": "bash\n",
    "zero-width": "ba\u200bsh",
    "cyrillic": "b\u0430sh",
    "full-width": "\uff42ash",
    "bidi": "bash\u202e",
    "soft-hyphen": "ba\u00adsh",
    "combining": "bash\u0301",
}


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_spellings_of_a_denied_name(style: str, policy: Any, name: str) -> None:
    """No spelling of a denied name reaches the tool, under a policy that allows everything else."""
    ran: list[Any] = []
    world = policy(allow("guest", "*"), deny("guest", "bash"))
    graph, _ = agent(world.enforcer, [named("bash", ran)], calls(call(name)))
    state = await run(graph, style)
    assert ran == []
    message = answers(state)["call_1"]
    assert message.status == "error"
    assert code(message) is not None
    assert str(message.content).isprintable()


class TestDuplicates:
    def test_among_the_tools(self, policy: Any) -> None:
        """Two tools of one name are refused, and named."""
        world = policy(allow("guest", "*"))
        with pytest.raises(ConfigError, match="'ok'"):
            world.enforcer.visible_tools([named("ok", []), named("ok", [])])

    def test_among_what_middlewares_bring(self, policy: Any) -> None:
        world = policy(allow("guest", "*"))

        class Brings(AgentMiddleware[Any, Any, Any]):
            def __init__(self, *tools: Any) -> None:
                super().__init__()
                self.tools = list(tools)

        with pytest.raises(ConfigError, match="'ok'"):
            guard(world.enforcer, Brings(named("ok", [])), Brings(named("ok", [])))

    @pytest.mark.parametrize("style", ["invoke", "ainvoke"])
    async def test_between_the_list_and_a_middleware(self, style: str, policy: Any) -> None:
        """LangChain keeps one of the two in silence: the name is hidden and refused."""
        ran: list[Any] = []
        world = policy(allow("guest", "*"))

        class Brings(AgentMiddleware[Any, Any, Any]):
            tools = (named("ok", ran, "middleware"),)

        graph, model = agent(world.enforcer, [named("ok", ran, "list")], calls(call("ok")), others=[Brings()])
        state = await run(graph, style)
        assert ran == []
        assert model.bound == [[], []]
        assert code(answers(state)["call_1"]) == "authz.tool_identity"

    @pytest.mark.parametrize(
        ("first", "second"),
        [("bash", "b\u0430sh"), ("b\u0430sh", "bash"), ("caf\u00e9", "cafe\u0301"), ("bash", "bash ")],
        ids=["look-alike", "look-alike-first", "normal-forms", "white-space"],
    )
    def test_names_that_look_the_same(self, first: str, second: str) -> None:
        with pytest.raises(ConfigError):
            refuse_duplicates([named(first, []), named(second, [])])

    def test_one_object_twice_is_one_tool(self) -> None:
        one = named("ok", [])
        refuse_duplicates([one, one, named("Ok", []), {"type": "web_search"}])


def test_tool_of_a_middleware_obeys_layer_one_and_two(policy: Any) -> None:
    """A denied tool that a middleware brings is not bound and cannot run; the middleware works without it."""
    ran: list[Any] = []
    world = policy(allow("guest", "search"))

    @tool
    def write_todos(todos: str) -> str:
        """Plan."""
        ran.append(todos)
        return "ok"

    class Planning(AgentMiddleware[Any, Any, Any]):
        tools = (write_todos,)

    model = scripted(calls(call("write_todos", {"todos": "t"})))
    graph = create_agent(model, [named("search", ran)], middleware=guard(world.enforcer, Planning()))
    state = graph.invoke({"messages": [("user", "hi")]}, context={"user_id": "gina"})
    assert ran == []
    assert model.bound[0] == ["search"]
    assert code(answers(state)["call_1"]) == "authz.no_policy"
