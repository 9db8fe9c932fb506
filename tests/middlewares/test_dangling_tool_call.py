"""Broken histories reach the model in a form that strict providers take; the state keeps what was said."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from tests.support.agents import STYLES, run
from tests.support.ledger import listening
from tests.support.scripted import call, scripted
from tests.support.strict_provider import complaints

from remit.middlewares.dangling_tool_call import DanglingToolCallMiddleware
from remit.middlewares.results import MISSING_ID
from remit.runtime.capabilities import declare

THREAD = {"configurable": {"thread_id": "t1"}}


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@tool
def save(path: str, content: str) -> str:
    """Save."""
    return "saved"


declare(save, writes_file="path")


class Watch(AgentMiddleware):
    """Keeps the very list of messages that it was handed."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.lists: list[list[Any]] = []

    @property
    def name(self) -> str:
        return self._name

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.lists.append(request.messages)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.lists.append(request.messages)
        return await handler(request)


class Journal:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def record_middleware(self, tag: str, **event: Any) -> None:
        self.events.append({"tag": tag, **event})


class World:
    """An agent whose thread begins with a given history, and what its model was sent."""

    def __init__(self, history: Sequence[BaseMessage]) -> None:
        self.model = scripted()
        self.outer, self.inner = Watch("outer"), Watch("inner")
        self.history = list(history)
        self.graph = create_agent(
            self.model,
            [search, save],
            middleware=[self.outer, DanglingToolCallMiddleware(), self.inner],
            checkpointer=InMemorySaver(),
        )

    async def sent(self, style: str = "ainvoke", context: Any = None) -> list[BaseMessage]:
        await run(self.graph, style, {"messages": self.history}, config=THREAD, context=context)
        return self.model.seen[-1]

    @property
    def stored(self) -> list[BaseMessage]:
        """The history in the checkpoint, without the model's new answer."""
        return self.graph.get_state(THREAD).values["messages"][:-1]


def human(text: str = "hello", id: str | None = None) -> HumanMessage:
    return HumanMessage(text, id=id or f"h-{text}")


def said(*calls: dict[str, Any], id: str = "ai", **fields: Any) -> AIMessage:
    return AIMessage(content=fields.pop("content", ""), tool_calls=list(calls), id=id, **fields)


def result(call_id: str, text: str = "ok", **fields: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, id=fields.pop("id", f"r-{call_id}-{text}"), **fields)


def invalid(call_id: str | None, args: str | None, name: str | None = "search") -> dict[str, Any]:
    return {"id": call_id, "name": name, "args": args, "error": None, "type": "invalid_tool_call"}


def raw(call_id: str | None, arguments: Any, name: Any = "search") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def shape(messages: Sequence[BaseMessage]) -> list[str]:
    """One word per message: ``ai:a,b``, ``tool:a``, ``tool:a!`` for an error, ``human``."""
    out = []
    for message in messages:
        if isinstance(message, AIMessage):
            ids = ",".join(str(c["id"]) for c in message.tool_calls)
            out.append(f"ai:{ids}" if ids else "ai")
        elif isinstance(message, ToolMessage):
            out.append(f"tool:{message.tool_call_id}" + ("!" if message.status == "error" else ""))
        else:
            out.append(message.type)
    return out


A, B = call("search", {"query": "a"}, "a"), call("search", {"query": "b"}, "b")

HISTORIES = [
    pytest.param(
        [human(), said(A, B), result("b"), human("one"), human("two")],
        ["human", "ai:a,b", "tool:a!", "tool:b", "human", "human"],
        id="one-of-two-answered-then-two-people",
    ),
    pytest.param(
        [human(), said(A), human("one"), result("a")],
        ["human", "ai:a", "tool:a", "human"],
        id="result-after-the-next-person",
    ),
    pytest.param([human(), result("gone"), human("one")], ["human", "human"], id="result-without-a-call"),
    pytest.param(
        [human(), said(A, id="x"), human("one"), said(A, id="y"), result("a"), human("two")],
        ["human", "ai:a", "tool:a!", "human", "ai:a", "tool:a", "human"],
        id="reused-id-the-adjacent-call-gets-the-result",
    ),
    pytest.param(
        [human(), said(A, id="x"), said(A, id="y"), human("one"), result("a", "1"), result("a", "2")],
        ["human", "ai:a", "tool:a", "ai:a", "tool:a", "human"],
        id="reused-id-in-order",
    ),
    pytest.param(
        [result("a"), human(), said(A), human("one")],
        ["human", "ai:a", "tool:a!", "human"],
        id="a-result-does-not-answer-a-later-call",
    ),
    pytest.param(
        [human(), said(A), result("a"), result("a", "again")],
        ["human", "ai:a", "tool:a"],
        id="second-result-dropped",
    ),
    pytest.param(
        [human(), said(A, B), result("b"), result("a"), human("one"), said(A, id="y"), human("two")],
        ["human", "ai:a,b", "tool:b", "tool:a", "human", "ai:a", "tool:a!", "human"],
        id="parallel-results-in-place-keep-their-order",
    ),
    pytest.param([human(), said(A, B)], ["human", "ai:a,b", "tool:a!", "tool:b!"], id="nothing-answered"),
    pytest.param(
        [human(), said(A), SystemMessage("note", id="s"), result("a")],
        ["human", "ai:a", "tool:a", "system"],
        id="system-message-between",
    ),
]


class TestOneResultForEachCall:
    @pytest.mark.parametrize("style", STYLES)
    @pytest.mark.parametrize(("history", "expected"), HISTORIES)
    async def test_order(self, history: list[BaseMessage], expected: list[str], style: str) -> None:
        world = World(history)
        sent = await world.sent(style)
        assert shape(sent) == expected
        assert complaints(sent) == []
        assert world.stored == history

    async def test_results_keep_their_fields(self) -> None:
        answer = ToolMessage(
            [{"type": "text", "text": "x"}],
            tool_call_id="a",
            id="r",
            name="search",
            status="error",
            artifact={"n": 1},
            additional_kwargs={"k": 1},
            response_metadata={"m": 2},
        )
        world = World([human(), said(A), human("one"), answer])
        assert (await world.sent())[2] is answer

    @pytest.mark.parametrize("style", STYLES)
    async def test_nothing_to_repair_is_the_very_same_list(self, style: str) -> None:
        history = [
            human(),
            said(A, B, content=[{"type": "tool_use", "id": "a", "name": "search", "input": {"query": "a"}}]),
            result("b"),
            result("a"),
            said(content="fine", id="z"),
            human("one"),
        ]
        world = World(history)
        await world.sent(style)
        assert world.inner.lists[0] is world.outer.lists[0]

    async def test_two_calls_with_one_id_are_told_apart(self) -> None:
        twin = call("search", {"query": "c"}, "a")
        sent = await World([human(), said(A, twin), result("a", "1"), result("a", "2")]).sent()
        assert complaints(sent) == []
        assert [(m.tool_call_id, m.text) for m in sent if isinstance(m, ToolMessage)] == [
            ("a", "1"),
            ("synthetic_call_1_1", "2"),
        ]

    async def test_an_id_of_our_own_is_never_one_that_is_used(self) -> None:
        twins = [call("search", {"query": "c"}, "a"), call("search", {}, "synthetic_call_1_1")]
        sent = await World([human(), said(A, *twins)]).sent()
        assert complaints(sent) == []
        assert shape(sent) == [
            "human",
            "ai:a,synthetic_call_1_1x,synthetic_call_1_1",
            "tool:a!",
            "tool:synthetic_call_1_1x!",
            "tool:synthetic_call_1_1!",
        ]


class TestCallsThatCouldNotBeParsed:
    async def test_one_call_in_three_views_has_one_placeholder(self) -> None:
        message = said(
            A, invalid_tool_calls=[invalid("a", '{"query": ')], additional_kwargs={"tool_calls": [raw("a", "{}")]}
        )
        sent = await World([human(), message, human("one")]).sent()
        assert shape(sent) == ["human", "ai:a", "tool:a!", "human"]
        assert complaints(sent) == []

    @pytest.mark.parametrize(
        ("args", "text"),
        [
            pytest.param('{"query": ', "are no valid JSON: Expecting value: line 1 column 11 (char 10)", id="cut-off"),
            pytest.param("[1]", "are a JSON array instead of an object", id="list"),
            pytest.param('{"query": NaN}', "are no valid JSON: NaN is no JSON number", id="nan"),
            pytest.param("", "are empty", id="empty"),
            pytest.param(None, "are empty", id="none"),
            pytest.param("[" * 100_000, "are nested too deeply", id="deep"),
        ],
    )
    async def test_without_an_id(self, args: str | None, text: str) -> None:
        """LangChain answers malformed calls itself, but not those without an id."""
        sent = await World([human(), said(invalid_tool_calls=[invalid(None, args)]), human("one")]).sent()
        assert shape(sent) == ["human", "ai:synthetic_call_1_0", "tool:synthetic_call_1_0!", "human"]
        assert complaints(sent) == []
        assert sent[1].tool_calls[0]["args"] == {}
        assert sent[2].text == (
            f"Error: the arguments of this call of 'search' {text}. Nothing ran. Send the call again with one valid "
            "JSON object."
        )

    async def test_a_write_is_told_not_to_send_the_whole_content_again(self) -> None:
        sent = await World([human(), said(invalid_tool_calls=[invalid(None, '{"content": "x', "save")])]).sent()
        assert "Nothing was written. Do not send the same large content" in sent[2].text

    async def test_the_answer_that_langchain_gave_is_not_doubled(self) -> None:
        message = said(B, invalid_tool_calls=[invalid("a", '{"query": ')])
        sent = await World([human(), message, result("b"), human("one")]).sent()
        assert complaints(sent) == []
        assert shape(sent) == ["human", "ai:b,a", "tool:a!", "tool:b", "human"]
        assert "malformed or truncated" in sent[2].text

    async def test_a_blank_name(self) -> None:
        message = said(call("  ", {"query": "a"}, "a"))
        sent = await World([human(), message]).sent()
        assert complaints(sent) == []
        assert sent[1].tool_calls[0]["name"] == "unknown_tool"
        assert sent[2].text == "Error: this call named no tool, so nothing ran. Call one of your tools by its name."

    async def test_a_name_that_providers_refuse(self) -> None:
        answer = result("a", name="search the web()!")
        sent = await World([human(), said(call("search the web()!", {}, "a")), answer]).sent()
        assert complaints(sent) == []
        assert (sent[1].tool_calls[0]["name"], sent[2].name) == ("search_the_web", "search_the_web")

    async def test_the_name_of_a_tool_that_is_offered_stays(self) -> None:
        @tool("db.query")
        def query() -> str:
            """Query."""
            return ""

        model = scripted()
        graph = create_agent(model, [query], middleware=[DanglingToolCallMiddleware()])
        await graph.ainvoke({"messages": [human(), said(call("db.query", {}, "a")), result("a")]})
        assert model.seen[-1][1].tool_calls[0]["name"] == "db.query"

    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            pytest.param({"query": float("nan")}, {"query": None}, id="nan"),
            pytest.param({"query": {"x": [float("inf"), 1]}}, {"query": {"x": [None, 1]}}, id="inf-deep-inside"),
            pytest.param({"query": "\ud83d"}, {"query": "\ufffd"}, id="half-a-character"),
            pytest.param({"query": "\ud83d\ude00"}, {"query": "\U0001f600"}, id="two-halves"),
            pytest.param({"query": b"x", "n": {1}}, {"query": "<bytes>", "n": "<set>"}, id="no-json-type"),
        ],
    )
    async def test_arguments_without_a_json_form(self, args: Any, expected: Any) -> None:
        message = said(call("search", args, "a"))
        before = repr(message)
        sent = await World([human(), message, result("a")]).sent()
        assert complaints(sent) == []
        assert sent[1].tool_calls[0]["args"] == expected
        assert repr(message) == before


class TestCallsWithoutAnId:
    async def test_one_result_without_an_id(self) -> None:
        sent = await World([human(), said(call("search", {}, "")), result("", name="search"), human("one")]).sent()
        assert shape(sent) == ["human", "ai:synthetic_call_1_0", "tool:synthetic_call_1_0", "human"]

    async def test_by_name(self) -> None:
        calls = call("search", {}, ""), call("save", {}, "")
        sent = await World([human(), said(*calls), result("", "saved", name="save")]).sent()
        assert shape(sent) == [
            "human",
            "ai:synthetic_call_1_0,synthetic_call_1_1",
            "tool:synthetic_call_1_0!",
            "tool:synthetic_call_1_1",
        ]

    async def test_by_position_when_there_are_as_many(self) -> None:
        calls = call("search", {}, ""), call("search", {}, "")
        sent = await World([human(), said(*calls), result("", "1"), result(MISSING_ID, "2")]).sent()
        assert [(m.tool_call_id, m.text) for m in sent[2:]] == [
            ("synthetic_call_1_0", "1"),
            ("synthetic_call_1_1", "2"),
        ]

    async def test_a_lone_doubtful_result_is_dropped(self) -> None:
        calls = call("search", {}, ""), call("search", {}, "")
        sent = await World([human(), said(*calls), result("", "1")]).sent()
        assert shape(sent)[2:] == ["tool:synthetic_call_1_0!", "tool:synthetic_call_1_1!"]

    async def test_another_name_contradicts(self) -> None:
        sent = await World([human(), said(call("search", {}, "")), result("", name="save")]).sent()
        assert shape(sent)[2:] == ["tool:synthetic_call_1_0!"]

    async def test_only_of_the_last_turn(self) -> None:
        sent = await World(
            [human(), said(call("search", {}, ""), id="x"), said(id="y", content="so"), result("")]
        ).sent()
        assert shape(sent) == ["human", "ai:synthetic_call_1_0", "tool:synthetic_call_1_0!", "ai"]


class TestCallsInTheContent:
    async def test_a_block_that_nothing_else_mentions(self) -> None:
        block = {"type": "tool_use", "id": "a", "name": "search", "input": {"query": "a"}}
        message = AIMessage([{"type": "text", "text": "let me see"}, block], id="ai")
        sent = await World([human(), message, human("one")]).sent()
        assert shape(sent) == ["human", "ai:a", "tool:a!", "human"]
        assert complaints(sent) == []
        assert sent[1].content[1] is message.content[1]
        assert sent[1].tool_calls[0]["args"] == {"query": "a"}

    async def test_its_result_is_no_orphan(self) -> None:
        block = {"type": "tool_use", "id": "a", "name": "search", "input": {}}
        sent = await World([human(), AIMessage([block], id="ai"), human("one"), result("a")]).sent()
        assert shape(sent) == ["human", "ai:a", "tool:a", "human"]

    @pytest.mark.parametrize("as_known", [True, False], ids=["parsed-too", "block-alone"])
    async def test_a_stream_that_broke_off(self, as_known: bool) -> None:
        block = {
            "type": "tool_use",
            "id": "a",
            "name": "search",
            "input": {},
            "partial_json": '{"query": "a',
            "index": 1,
        }
        leftover = {"type": "input_json_delta", "partial_json": '"}', "index": 1}
        message = AIMessage(
            [{"type": "text", "text": "hm"}, block, leftover], id="ai", tool_calls=[A] if as_known else []
        )
        sent = await World([human(), message, human("one")]).sent()
        assert complaints(sent) == []
        assert shape(sent) == ["human", "ai:a", "tool:a!", "human"]
        assert [b["type"] for b in sent[1].content] == ["text", "tool_use"]

    async def test_a_message_of_leftovers_alone(self) -> None:
        message = AIMessage([{"type": "input_json_delta", "partial_json": "{", "index": 0}], id="ai")
        sent = await World([human(), message, human("one")]).sent()
        assert sent[1].content == [{"type": "text", "text": "[an unfinished tool call was left out]"}]

    async def test_text_where_the_input_should_be(self) -> None:
        block = {"type": "tool_use", "id": "a", "name": "search", "input": '{"query": "a"}'}
        sent = await World([human(), AIMessage([block], id="ai", tool_calls=[A]), result("a")]).sent()
        assert sent[1].content[0]["input"] == {"query": "a"}
        assert complaints(sent) == []

    async def test_blocks_without_an_id_belong_to_the_calls_without_one(self) -> None:
        blocks = [{"type": "tool_use", "id": "", "name": name, "input": {}} for name in ("search", "save")]
        message = AIMessage(blocks, id="ai", tool_calls=[call("search", {}, ""), call("save", {}, "")])
        sent = await World([human(), message]).sent()
        assert complaints(sent) == []
        assert [b["id"] for b in sent[1].content] == ["synthetic_call_1_0", "synthetic_call_1_1"]

    async def test_standard_blocks(self) -> None:
        content = [
            {"type": "tool_call", "id": "a", "name": "search", "args": {"query": "a"}},
            {"type": "invalid_tool_call", "id": "b", "name": "search", "args": "{", "error": "x"},
        ]
        sent = await World([human(), AIMessage(content, id="ai"), result("a")]).sent()
        assert complaints(sent) == []
        assert sent[1].content[1] == {"type": "tool_call", "id": "b", "name": "search", "args": {}}

    async def test_function_call_items(self) -> None:
        content = [
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "search", "arguments": '{"query": 1}'}
        ]
        sent = await World([human(), AIMessage(content, id="ai"), human("one")]).sent()
        assert sent[1].tool_calls[0]["args"] == {"query": 1}
        assert sent[1].content[0]["call_id"] == "a"
        assert shape(sent) == ["human", "ai:a", "tool:a!", "human"]

    async def test_results_of_hosted_tools_are_no_orphans(self) -> None:
        content = [{"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {}}]
        history = [human(), AIMessage(content, id="ai"), result("c"), said(A, id="y"), human("one")]
        sent = await World(history).sent()
        assert shape(sent) == ["human", "ai", "tool:c", "ai:a", "tool:a!", "human"]


class TestRawPayloads:
    def stripped(self, *entries: Any) -> AIMessage:
        message = AIMessage("", id="ai")
        message.additional_kwargs["tool_calls"] = list(entries)
        return message

    async def test_a_payload_that_is_all_there_is(self) -> None:
        message = self.stripped(raw("a", '{"query": "a"}'))
        sent = await World([human(), message, human("one")]).sent()
        assert shape(sent) == ["human", "ai:a", "tool:a!", "human"]
        assert sent[1].additional_kwargs["tool_calls"] == message.additional_kwargs["tool_calls"]
        assert complaints(sent) == []

    async def test_malformed_names_and_arguments_in_it(self) -> None:
        message = self.stripped(raw("a", "{", "x y"), raw(None, {"query": 1}))
        world = World([human(), message])
        sent = await world.sent()
        assert sent[1].additional_kwargs["tool_calls"] == [
            raw("a", "{}", "x_y"),
            raw("synthetic_call_1_1", '{"query": 1}'),
        ]
        assert world.stored[1].additional_kwargs == message.additional_kwargs

    @pytest.mark.parametrize("junk", [[], None, "x", [None], [{"function": None}], {"a": 1}], ids=repr)
    async def test_junk_is_left_out(self, junk: Any) -> None:
        message = AIMessage("hi", id="ai")
        message.additional_kwargs["tool_calls"] = junk
        sent = await World([human(), message]).sent()
        assert "tool_calls" not in sent[1].additional_kwargs
        assert complaints(sent) == []


async def test_a_streamed_message_in_the_history() -> None:
    chunk = AIMessageChunk(
        "",
        id="ai",
        tool_call_chunks=[{"name": "search", "args": "{", "id": "a", "index": 0, "type": "tool_call_chunk"}],
    )
    sent = await World([human(), chunk, human("one")]).sent()
    assert complaints(sent) == []


async def test_what_a_repair_leaves_behind() -> None:
    """One warning and one event for a repair, however often the thread is continued."""
    journal = Journal()
    world = World([human(), said(A, B), result("b"), result("gone"), human("one")])
    with listening("remit.middlewares") as logged:
        sent = await world.sent(context={"__run_journal": journal})
        world.history = [human("two")]
        await world.sent(context={"__run_journal": journal})
    assert len(logged.saying("1 calls without a result, 1 results without a call")) == 1
    assert journal.events == [
        {
            "tag": "dangling_tool_call",
            "name": "DanglingToolCallMiddleware",
            "hook": "wrap_model_call",
            "action": "repair_history",
            "changes": {
                "unanswered": 1,
                "dropped": 1,
                "moved": 0,
                "rewritten": 0,
                "unanswered_ids": ["a"],
                "dropped_ids": ["gone"],
            },
        }
    ]
    assert sent[2].additional_kwargs["deerflow_content_kind"] == "middleware_injection"


def test_release_parameters_are_json() -> None:
    json.dumps(DanglingToolCallMiddleware().release_policy_parameters())


def spent(history: list[BaseMessage]) -> float:
    model = scripted()
    graph = create_agent(model, [search], middleware=[DanglingToolCallMiddleware()])
    bare = create_agent(scripted(), [search])
    best = [1e9, 1e9]
    for _ in range(3):
        for index, agent in enumerate((graph, bare)):
            begun = time.process_time()
            agent.invoke({"messages": history})
            best[index] = min(best[index], time.process_time() - begun)
    return max(best[0] - best[1], 1e-5)


@pytest.mark.slow
def test_cost_grows_with_the_history_and_not_faster() -> None:
    def history(turns: int) -> list[BaseMessage]:
        out: list[BaseMessage] = []
        for turn in range(turns):
            out += [
                human(id=f"h{turn}"),
                said(call("search", {}, "same"), call("search", {}, f"c{turn}"), id=f"a{turn}"),
            ]
        return out + [result("same", id=f"r{turn}") for turn in range(turns)]

    small, large = spent(history(250)), spent(history(2_000))
    assert large < 40 * small + 0.05, (small, large)


IDS = st.sampled_from(["a", "b", "c", "", " ", MISSING_ID])
NAMES = st.sampled_from(["search", "save", "", "x y", "é", "db.query", "n" * 80])
ARGS = st.dictionaries(
    st.sampled_from(["query", "\udc00", ""]),
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats()
    | st.text(max_size=3)
    | st.just("\ud800")
    | st.binary(max_size=2),
    max_size=2,
)
TEXTS = st.sampled_from(["{}", '{"a": 1}', "{", "[]", "", "NaN", '{"a": NaN}']) | st.none()
CALLS = st.builds(call, NAMES, ARGS, IDS)
INVALID = st.builds(invalid, IDS | st.none(), TEXTS, NAMES | st.none())
BLOCKS = st.one_of(
    st.just({"type": "text", "text": "t"}),
    st.just("plain"),
    st.builds(
        lambda i, n, a: {"type": "tool_use", "id": i, "name": n, "input": a}, IDS | st.none(), NAMES, ARGS | TEXTS
    ),
    st.builds(lambda i, n, a: {"type": "tool_call", "id": i, "name": n, "args": a}, IDS, NAMES, ARGS),
    st.builds(lambda i, n, a: {"type": "function_call", "call_id": i, "name": n, "arguments": a}, IDS, NAMES, TEXTS),
    st.builds(lambda p: {"type": "input_json_delta", "partial_json": p}, TEXTS),
    st.builds(lambda i: {"type": "invalid_tool_call", "id": i}, IDS),
)
RAW = st.builds(
    raw,
    IDS | st.none() | st.just(7),
    TEXTS | st.dictionaries(st.text(max_size=1), st.floats(), max_size=1),
    NAMES | st.none(),
)


@st.composite
def turns(draw: Any) -> AIMessage:
    message = AIMessage(draw(st.just("") | st.just("said") | st.lists(BLOCKS, max_size=4)))
    extra = {
        "tool_calls": draw(st.lists(CALLS, max_size=3)),
        "invalid_tool_calls": draw(st.lists(INVALID, max_size=2)),
        "additional_kwargs": draw(
            st.just({}) | st.builds(lambda x: {"tool_calls": x}, st.lists(RAW | st.just(None), max_size=3))
        ),
    }
    return message.model_copy(update=extra)


RESULTS = st.builds(
    lambda i, n, s: ToolMessage("r", tool_call_id=i, name=n, status=s),
    IDS,
    NAMES | st.none(),
    st.sampled_from(["success", "error"]),
)
CONVERSATIONS = st.lists(st.one_of(turns(), RESULTS, st.builds(HumanMessage, st.just("h"))), max_size=12)


@settings(max_examples=300, deadline=None)
@given(CONVERSATIONS)
def test_any_history_becomes_acceptable(history: list[BaseMessage]) -> None:
    """Every call has one result right behind it; other messages keep their order; nothing is changed in place."""
    from remit.middlewares.toolcall_repair import is_intact, repaired

    def placeholder(missing: Any) -> ToolMessage:
        return ToolMessage("none", tool_call_id=missing.id, name=missing.name, status="error")

    before = repr(history)
    repair = repaired(history, (), placeholder)
    sent = list(history) if repair is None else repair.messages
    assert complaints(sent) == []
    assert repr(history) == before
    assert [m for m in sent if isinstance(m, HumanMessage)] == [m for m in history if isinstance(m, HumanMessage)]
    if is_intact(history, ()):
        assert repair is None
    assert repaired(sent, (), placeholder) is None, "a repaired history needs no repair"


@settings(max_examples=60, deadline=None)
@given(CONVERSATIONS)
def test_any_history_passes_through_an_agent(history: list[BaseMessage]) -> None:
    model = scripted()
    graph = create_agent(model, [search], middleware=[DanglingToolCallMiddleware()])
    asyncio.run(graph.ainvoke({"messages": [human(), *history]}))
    assert complaints(model.seen[-1]) == []
