"""The guard around a tool node that is not part of `create_agent`."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManager
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt
from tests.support.agents import answers, code
from tests.support.policies import allow, ask
from tests.support.scripted import call

from remit.middlewares import guard


def toolbox(ran: list[Any]) -> list[Any]:
    @tool
    def search(query: str) -> str:
        """Search."""
        ran.append(query)
        return "found"

    @tool
    def bash(command: str) -> str:
        """Run."""
        ran.append(command)
        return "ran"

    @tool
    def confirm(question: str) -> str:
        """Ask somebody."""
        ran.append(interrupt(question))
        return "confirmed"

    return [search, bash, confirm]


def graph(enforcer: Any, ran: list[Any], **options: Any) -> Any:
    first = guard(enforcer)[0]
    node = ToolNode(
        enforcer.visible_tools(toolbox(ran)),
        wrap_tool_call=first.wrap_tool_call,
        awrap_tool_call=first.awrap_tool_call,
    )
    built = StateGraph(MessagesState, context_schema=dict)
    built.add_node("tools", node)
    built.add_edge(START, "tools")
    built.add_edge("tools", END)
    return built.compile(**options)


def asking_for(*tool_calls: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage("hi"), AIMessage("", tool_calls=list(tool_calls))]}


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
class TestToolNode:
    async def test_each_call_is_decided(self, style: str, policy: Any) -> None:
        ran: list[Any] = []
        world = policy(allow("guest", "search"))
        made = graph(world.enforcer, ran)
        payload = asking_for(
            call("search", {"query": "x"}, "a"), call("bash", {"command": "y"}, "b"), call("z", {}, "c")
        )
        context = {"user_id": "gina"}
        state = (
            made.invoke(payload, context=context) if style == "invoke" else await made.ainvoke(payload, context=context)
        )
        assert ran == ["x"]
        assert {id: code(m) for id, m in answers(state).items()} == {
            "a": None,
            "b": "authz.no_policy",
            "c": "authz.no_policy",
        }

    async def test_nobody_is_asked_where_no_identity_is_sealed(self, style: str, policy: Any) -> None:
        """A graph that does not seal whose run it is could not notice a resume by somebody else."""
        ran: list[Any] = []
        world = policy(ask("guest", "bash"))
        made = graph(world.enforcer, ran, checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}
        payload = asking_for(call("bash", {"command": "y"}))
        if style == "invoke":
            state = made.invoke(payload, config, context={"user_id": "gina"})
        else:
            state = await made.ainvoke(payload, config, context={"user_id": "gina"})
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.ask_unanswerable"

    async def test_a_resumed_run_of_nobody_is_denied(self, style: str, policy: Any) -> None:
        """Whose run is resumed there cannot be told, so nothing runs in it."""
        ran: list[Any] = []
        world = policy(allow("guest", "*"))
        made = graph(world.enforcer, ran, checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}
        payload = asking_for(call("confirm", {"question": "sure?"}))
        if style == "invoke":
            made.invoke(payload, config, context={"user_id": "gina"})
            state = made.invoke(Command(resume="yes"), config, context={"user_id": "gina"})
        else:
            await made.ainvoke(payload, config, context={"user_id": "gina"})
            state = await made.ainvoke(Command(resume="yes"), config, context={"user_id": "gina"})
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.identity_changed"


def test_outside_of_a_graph_the_host_keeps_its_callbacks(policy: Any) -> None:
    """A callback manager that belongs to somebody else does not get the sentinel: other tools of theirs would stop."""
    ran: list[Any] = []
    world = policy(allow("guest", "search"))
    search = toolbox(ran)[0]
    manager = CallbackManager(handlers=[])
    runtime: Any = ToolRuntime(
        state={"messages": []},
        context={"user_id": "gina"},
        config={"callbacks": manager},
        stream_writer=lambda _: None,
        tool_call_id="call_1",
        store=None,
        tools=[search],
    )
    request = ToolCallRequest(call("search", {"query": "x"}), search, runtime.state, runtime)
    answer = guard(world.enforcer)[0].wrap_tool_call(
        request, lambda one: one.tool.invoke(one.tool_call, one.runtime.config)
    )
    assert answer.content == "found"
    assert manager.handlers == []
