"""What the model is shown, whatever an inner middleware adds, swaps or binds."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel
from tests.support.agents import HELLO, STYLES, agent, run
from tests.support.policies import allow, ask, deny
from tests.support.scripted import call, calls, scripted
from tests.support.tampering import Showing

from remit.authz import Enforcer
from remit.authz.provider import ProviderBase
from remit.middlewares import guard
from remit.middlewares.sealed import View, nothing, twin

GINA = {"user_id": "gina"}
styles = pytest.mark.parametrize("style", STYLES)


def named(name: str) -> StructuredTool:
    return StructuredTool.from_function(lambda value="": "ran", name=name, description=f"does {name}")


HOSTED = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
FUNCTION = {"type": "function", "function": {"name": "bash", "description": "b", "parameters": {"type": "object"}}}


def appended(request: Any) -> Any:
    request.tools.append(named("bash"))
    return request


def assigned(request: Any) -> Any:
    with pytest.warns(DeprecationWarning, match="tools"):
        request.tools = [*request.tools, named("bash")]
    return request


def fresh(request: Any) -> Any:
    return ModelRequest(
        model=request.model,
        messages=request.messages,
        tools=[*request.tools, named("bash")],
        state=request.state,
        runtime=request.runtime,
    )


@styles
class TestAdditions:
    @pytest.mark.parametrize(
        "change",
        [
            lambda request: request.override(tools=[*request.tools, named("bash")]),
            lambda request: request.override(tools=[*request.tools, FUNCTION]),
            lambda request: request.override(tools=[*request.tools, {"type": "bash"}]),
            lambda request: request.override(tools=[*request.tools, {"name": "bash", "input_schema": {}}]),
            lambda request: request.override(tools=[*request.tools, {"type": "bash", "properties": {}}]),
            lambda request: request.override(tools=[*request.tools, {"type": "object", "name": "bash"}]),
            appended,
            assigned,
            fresh,
            lambda request: appended(request).override(model=request.model.__copy__()),
            lambda request: fresh(request.override(model=request.model.model_copy())),
        ],
        ids=[
            "override",
            "function-dict",
            "dict-by-type",
            "dict-by-name",
            "dict-like-a-schema",
            "schema-with-a-name",
            "append",
            "assign",
            "fresh-request",
            "append-and-copied-model",
            "fresh-with-copied-model",
        ],
    )
    async def test_hidden_tools_stay_hidden(self, style: str, policy: Any, change: Any) -> None:
        """A tool that the caller may not use does not reach the model, however it is added."""
        world = policy(allow("guest", "search"))
        graph, model = agent(world.enforcer, [named("search")], others=[Showing(change)])
        await run(graph, style, context=GINA)
        assert model.bound == [["search"]]

    async def test_added_together_with_another_model(self, style: str, policy: Any) -> None:
        """A model that is swapped in filters too."""
        other = scripted()
        world = policy(allow("guest", "search"))

        def change(request: Any) -> Any:
            changed = request.override(model=other)
            changed.tools.append(named("bash"))
            return changed

        graph, _ = agent(world.enforcer, [named("search")], others=[Showing(change)])
        await run(graph, style, context=GINA)
        assert other.bound == [["search"]]

    async def test_a_permitted_addition_is_shown(self, style: str, policy: Any) -> None:
        world = policy(allow("guest", "search"), allow("guest", "extra"))
        change = Showing(lambda request: request.override(tools=[*request.tools, named("extra"), HOSTED]))
        graph, model = agent(world.enforcer, [named("search")], others=[change])
        await run(graph, style, context=GINA)
        assert model.bound == [["search", "extra"]]

    async def test_provider_hosted_tools(self, style: str, policy: Any) -> None:
        """A dict is known by its name, else by its type."""
        world = policy(allow("guest", "web_search"))
        graph, model = agent(world.enforcer, [named("bash"), HOSTED, {"type": "code_interpreter"}])
        await run(graph, style, context=GINA)
        assert model.bound == [["web_search"]]

    async def test_inner_middlewares_do_not_read_hidden_tools(self, style: str, policy: Any) -> None:
        """Selectors copy descriptions into prompts: what is hidden is not in the request they get."""
        seen: list[list[str]] = []
        look = Showing(lambda request: (seen.append([t.name for t in request.tools]), request)[1])
        world = policy(allow("guest", "search"))
        graph, _ = agent(world.enforcer, [named("search"), named("bash")], others=[look])
        await run(graph, style, context=GINA)
        assert seen == [["search"]]

    async def test_conditional_and_asked_tools_are_shown(self, style: str, policy: Any) -> None:
        """The view is what some arguments could make allowed or asked; an unconditional deny hides."""
        world = policy(
            allow("guest", "a", "r.ctx.args.value == 'x'"),
            ask("guest", "b"),
            allow("guest", "c"),
            deny("guest", "c", "r.ctx.args.value == 'x'"),
            allow("guest", "d"),
            deny("guest", "d"),
        )
        graph, model = agent(world.enforcer, [named(name) for name in "abcde"])
        await run(graph, style, context=GINA)
        assert model.bound == [["a", "b", "c"]]

    async def test_a_forced_choice_of_a_hidden_tool_is_dropped(self, style: str, policy: Any) -> None:
        """Naming a hidden tool to the model's provider would be an error, and tell that it exists."""
        chosen: list[Any] = []
        world = policy(allow("guest", "search"))
        force = Showing(lambda request: request.override(tool_choice="bash"))
        look = Showing2(lambda request: (chosen.append(request.tool_choice), request)[1])
        graph, _ = agent(world.enforcer, [named("search"), named("bash")], others=[force, look])
        await run(graph, style, context=GINA)
        assert chosen == [None]


class Showing2(Showing):
    """The same under another name."""


class Answer(BaseModel):
    """The final answer."""

    text: str


@styles
class TestStructuredOutput:
    async def test_tool_strategy_passes(self, style: str, policy: Any) -> None:
        """A response format is no tool: it needs no rule."""
        world = policy(allow("guest", "search"))
        model = scripted(calls(call("Answer", {"text": "42"})))
        graph = create_agent(
            model,
            [named("search"), named("bash")],
            middleware=guard(world.enforcer),
            response_format=ToolStrategy(Answer),
        )
        state = await run(graph, style, context=GINA)
        assert model.bound == [["search", "Answer"]]
        assert state["structured_response"] == Answer(text="42")

    async def test_auto_strategy_passes_for_a_caller_without_tools(self, style: str, policy: Any) -> None:
        world = policy(allow("admin", "search"))
        model = scripted(calls(call("Answer", {"text": "42"})))
        graph = create_agent(model, [named("search")], middleware=guard(world.enforcer), response_format=Answer)
        state = await run(graph, style, context=GINA)
        assert model.bound == [["Answer"]]
        assert state["structured_response"] == Answer(text="42")

    async def test_json_schema_passes(self, style: str, policy: Any) -> None:
        world = policy(allow("guest", "search"))
        schema = {"title": "Shape", "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        model = scripted(calls(call("Shape", {"text": "42"})))
        graph = create_agent(
            model, [named("search")], middleware=guard(world.enforcer), response_format=ToolStrategy(schema)
        )
        state = await run(graph, style, context=GINA)
        assert state["structured_response"] == {"text": "42"}

    @pytest.mark.parametrize(
        "schema", [Answer, {"title": "Shape", "type": "object", "properties": {}}], ids=["class", "schema"]
    )
    async def test_an_inner_binding_of_a_schema_passes(self, style: str, policy: Any, schema: Any) -> None:
        """`request.model.bind_tools([Schema])`, as `with_structured_output` does it."""
        world = policy(allow("guest", "search"))

        def change(request: Any) -> Any:
            request.model.bind_tools([schema]).invoke([("user", "shape")])
            return request

        graph, model = agent(world.enforcer, [named("search")], others=[Showing(change)])
        if style in ("ainvoke", "astream"):
            return  # the change above is synchronous on purpose
        await run(graph, style, context=GINA)
        assert model.bound == [[schema.__name__ if isinstance(schema, type) else "Shape"], ["search"]]


@styles
async def test_bound_by_hand(style: str, policy: Any) -> None:
    """Schemas that are bound past `bind_tools` are filtered as well."""
    world = policy(allow("guest", "search"))

    class Direct(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            answer = request.model.bind(tools=[FUNCTION]).invoke(request.messages)
            return AIMessage(answer.content)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            answer = await request.model.bind(tools=[FUNCTION]).ainvoke(request.messages)
            return AIMessage(answer.content)

    graph, model = agent(world.enforcer, [named("search")], others=[Direct()])
    await run(graph, style, context=GINA)
    assert model.bound == [[]]


@styles
async def test_one_graph_for_all_callers(style: str, policy: Any) -> None:
    """A graph that is compiled once shows each caller what is theirs."""
    world = policy(allow("guest", "search"), allow("admin", "*"))
    graph, model = agent(world.enforcer, [named("search"), named("bash")])
    await run(graph, style, context={"user_role": "guest"})
    await run(graph, style, context={"user_role": "admin"})
    await run(graph, style, context={"user_role": "stranger"})
    assert model.bound == [["search"], ["search", "bash"], []]


@styles
async def test_stateful_models_keep_their_state(style: str, policy: Any) -> None:
    """A model that counts in its own attributes goes on counting behind the guard."""

    class Counting(FakeMessagesListChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    world = policy(allow("guest", "search"))
    turn = calls(call("search", {"value": "x"}))
    model = Counting(responses=[turn, AIMessage("finished"), AIMessage("too far")])
    graph = create_agent(model, [named("search")], middleware=guard(world.enforcer))
    state = await run(graph, style, context=GINA)
    assert [message.content for message in state["messages"]][-1] == "finished"


class Remote(ProviderBase):
    """Waits for its answers."""

    name = "remote"

    def __init__(self, *shown: str) -> None:
        self.shown = shown
        self.filters: list[list[str]] = []

    def authorize(self, request: Any) -> Any:
        raise AssertionError("not asked here")

    def filter_resources(self, principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
        self.filters.append(candidates)
        return [name for name in candidates if name in self.shown]


@styles
async def test_a_remote_provider_is_asked_once(style: str, policy: Any) -> None:
    """One batch question for the names known at entry; what appears later is hidden, since asking would block."""
    provider = Remote("search", "late")
    enforcer = Enforcer(provider, default_role="guest")
    late = Showing(lambda request: request.override(tools=[*request.tools, named("late")]))
    graph, model = agent(enforcer, [named("search"), named("bash")], others=[late])
    await run(graph, style, context=GINA)
    assert model.bound == [["search"]]
    assert provider.filters == [["search", "bash"]]


class TestView:
    """The view of one model call by itself."""

    @staticmethod
    def view(shown: list[str], versions: list[str], **options: Any) -> View:
        return View(["a", "b"], ["a"], ask=lambda names: shown, version=lambda: versions[-1], seen="v1", **options)

    def test_a_reload_during_the_call_is_obeyed(self) -> None:
        versions = ["v1"]
        view = self.view(["b"], versions)
        assert [one.name for one in view.shown([named("a"), named("b")])] == ["a"]
        versions.append("v2")
        assert [one.name for one in view.shown([named("a"), named("b")])] == ["b"]

    def test_what_is_never_shown_is_not_shown_after_a_reload_either(self) -> None:
        versions = ["v1"]
        view = self.view(["a", "b"], versions, never=frozenset({"a"}))
        versions.append("v2")
        assert [one.name for one in view.shown([named("a"), named("b")])] == ["b"]
        assert view.hides("a")

    def test_things_without_a_name_are_hidden(self) -> None:
        view = self.view(["a", ""], ["v1"])
        assert view.shown([functools.partial(print), {"function": {}}, {"name": ""}, 7]) == []

    def test_a_tool_that_cannot_be_armed_is_not_shown(self) -> None:
        class Stubborn(BaseTool):
            name: str = "a"
            description: str = "d"

            def _run(self) -> str:
                return "ran"

            def __init_subclass__(cls, **kwargs: Any) -> None:
                raise TypeError("no subclasses")

        assert self.view(["a"], ["v1"]).shown([Stubborn()]) == []

    def test_a_twin_without_a_view_shows_nothing(self) -> None:
        model = scripted()
        lost = twin(model, nothing())
        lost.bind_tools([named("a")]).invoke("x")
        assert model.bound == [[]]
        assert twin("no model", nothing()) == "no model"


def test_no_tools_at_all(policy: Any) -> None:
    """An agent without tools works behind the guard."""
    world = policy(allow("guest", "search"))
    graph, model = agent(world.enforcer, [])
    assert graph.invoke(HELLO, context=GINA)["messages"][-1].content == "done"
    assert model.bound == [[]]


def test_disabled_means_absent() -> None:
    """Without a provider the guard is not there and the tool objects are untouched."""
    enforcer = Enforcer(None, default_role=None)
    one = named("search")
    other = Showing(lambda request: request)
    assert guard(enforcer, other) == [other]
    assert enforcer.visible_tools([one]) == [one]
    assert type(one) is StructuredTool
