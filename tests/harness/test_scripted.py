"""The offline model says what its settings tell it to, in every way a model can be run."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import ValidationError
from tests.support.agents import STYLES, run

from remit.harness.scripted import ENDED, ScriptedChatModel

TURNS = [
    {"say": "Let me look.", "call": {"name": "search", "args": {"query": "a"}}},
    {"call": [{"name": "search", "args": {"query": "b"}, "id": "mine"}, {"name": "search", "args": {"query": "c"}}]},
    {"say": "Found  it,\nall of it."},
]


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def model(turns: Any = TURNS) -> ScriptedChatModel:
    return ScriptedChatModel(turns=turns)


@pytest.mark.parametrize("style", STYLES)
async def test_an_agent_plays_the_whole_script(style: str) -> None:
    state = await run(create_agent(model(), [search]), style)
    assert [(m.type, m.text) for m in state["messages"]] == [
        ("human", "hello"),
        ("ai", "Let me look."),
        ("tool", "found a"),
        ("ai", ""),
        ("tool", "found b"),
        ("tool", "found c"),
        ("ai", "Found  it,\nall of it."),
    ]
    ids = [m.tool_call_id for m in state["messages"] if isinstance(m, ToolMessage)]
    assert ids == ["call_0_0", "mine", "call_1_1"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["stream", "astream"])
async def test_streaming_message_by_message(asynchronous: bool) -> None:
    graph = create_agent(model(), [search])
    payload = {"messages": [("user", "hello")]}
    if asynchronous:
        found = [item async for item in graph.astream(payload, stream_mode="messages")]
    else:
        found = list(graph.stream(payload, stream_mode="messages"))
    chunks = [message for message, _ in found if isinstance(message, AIMessageChunk)]
    assert "".join(chunk.text for chunk in chunks) == "Let me look.Found  it,\nall of it."
    assert len([chunk for chunk in chunks if chunk.text]) == 8
    assert [c["name"] for chunk in chunks for c in chunk.tool_call_chunks] == ["search"] * 3


def test_streamed_and_whole_answers_are_the_same() -> None:
    for turn in range(4):
        history = [HumanMessage("x"), *[AIMessage("y")] * turn]
        whole = model().invoke(history)
        chunks = list(model().stream(history))
        streamed = chunks[0]
        for chunk in chunks[1:]:
            streamed += chunk
        assert (streamed.text, streamed.tool_calls) == (whole.text, whole.tool_calls)


def test_the_same_conversation_gets_the_same_answer() -> None:
    history = [HumanMessage("x"), AIMessage("y")]
    one = model()
    first = one.invoke(history)
    first.tool_calls[0]["args"]["query"] = "changed by the caller"
    assert [one.invoke(history).tool_calls[0]["args"] for _ in range(2)] == [{"query": "b"}] * 2
    nested = model([{"call": {"name": "search", "args": {"query": ["a"]}}}])
    nested.invoke("x").tool_calls[0]["args"]["query"].append("changed by the caller")
    assert nested.invoke("x").tool_calls[0]["args"] == {"query": ["a"]}
    assert one.invoke([HumanMessage("x"), *[AIMessage("y")] * 3]).text == ENDED
    assert model(()).invoke("hello").text == ENDED


def test_binding_tools_changes_nothing() -> None:
    bound = model().bind_tools([search, {"type": "web_search"}], tool_choice="any")
    assert bound.invoke("hello").text == "Let me look."


@pytest.mark.parametrize(
    ("turns", "where", "what"),
    [
        ([{}], ("turns", 0), "a turn needs `say` or `call`"),
        ([{"say": "x"}, {"sai": "x"}], ("turns", 1, "sai"), "Extra inputs"),
        ([{"say": 7}], ("turns", 0, "say"), "valid string"),
        ([{"call": {"args": {}}}], ("turns", 0, "call", 0, "name"), "Field required"),
        ([{"call": {"name": ""}}], ("turns", 0, "call", 0, "name"), "at least 1 character"),
        ([{"call": "search"}], ("turns", 0, "call", 0), "valid dictionary"),
        ("say hello", ("turns",), "valid tuple"),
    ],
    ids=str,
)
def test_scripts_that_cannot_be_played(turns: Any, where: tuple[Any, ...], what: str) -> None:
    with pytest.raises(ValidationError) as refused:
        model(turns)
    assert any(error["loc"] == where and what in error["msg"] for error in refused.value.errors())
