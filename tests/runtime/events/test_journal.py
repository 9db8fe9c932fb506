"""The journal of real runs of compiled agents, in all four ways to run one."""

from __future__ import annotations

import ast
import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.support.agents import STYLES, agent, run
from tests.support.ids import shown
from tests.support.policies import Policy, allow, ask, deny
from tests.support.scripted import call, calls, scripted

from remit.authz import wire
from remit.runtime.events import Event, MemoryEventStore, RunJournal, SqliteEventStore
from remit.runtime.events.messages import artifacts_in, calls_given, dumped, first_human, messages_in, plain
from remit.runtime.journal import MAX_EVENT_TYPE, TAGS
from remit.runtime.state import ThreadState

USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


@pytest.fixture
def store() -> MemoryEventStore:
    return MemoryEventStore()


@pytest.fixture
def journal(store: MemoryEventStore) -> RunJournal:
    return RunJournal(store, thread_id="t1", run_id="r1", agent_name="lead")


def named(name: str, body: Any = None) -> StructuredTool:
    def echo(query: str = "") -> str:
        return f"{name}: {query}"

    return StructuredTool.from_function(body or echo, name=name, description="A tool.")


def said(text: str, **fields: Any) -> AIMessage:
    return AIMessage(text, usage_metadata=USAGE, response_metadata={"model_name": "small"}, **fields)


def asked(*tool_calls: Any) -> AIMessage:
    return said("", tool_calls=list(tool_calls))


def noted(store: MemoryEventStore, kind: str | None = None) -> list[Event]:
    return [event for event in store.list("t1") if kind is None or event.type == kind]


def kinds(store: MemoryEventStore) -> list[str]:
    return [event.type for event in store.list("t1")]


async def ran(graph: Any, style: str, journal: RunJournal, payload: Any = None, **options: Any) -> dict[str, Any]:
    context = {wire.RUN_JOURNAL: journal, **options.pop("context", {})}
    config = {"callbacks": [journal], **options.pop("config", {})}
    state = await run(graph, style, payload, context=context, config=config)
    await journal.aflush()
    return state


@pytest.mark.parametrize("style", STYLES)
async def test_a_run_with_a_tool(store: MemoryEventStore, journal: RunJournal, style: str) -> None:
    model = scripted(asked(call("search", {"query": "news"})), said("Here it is."))
    state = await ran(create_agent(model, [named("search")], name="researcher"), style, journal)
    assert kinds(store) == [
        "run.start",
        "llm.human.input",
        "llm.ai.response",
        "llm.tool.result",
        "llm.ai.response",
        "run.end",
    ]
    start, human, asking, result, answer, end = noted(store)
    assert {event.run_id for event in noted(store)} == {"r1"}
    assert (start.category, start.content) == ("trace", {"name": "researcher", "agent_name": "lead"})
    assert (human.category, human.content["content"]) == ("message", "hello")
    assert (asking.category, asking.content["type"], asking.content["tool_calls"][0]["id"]) == (
        "message",
        "ai",
        "call_1",
    )
    assert (result.category, result.content["content"], result.content["tool_call_id"]) == (
        "message",
        "search: news",
        "call_1",
    )
    assert result.content["id"] == state["messages"][2].id
    assert answer.metadata["caller"] == "lead_agent"
    assert answer.metadata["llm_call_index"] == 2
    assert answer.metadata["latency_ms"] >= 0
    assert (end.category, end.metadata["status"], end.content["last_ai_message"]) == (
        "outputs",
        "success",
        "Here it is.",
    )
    assert journal.message_count == 4
    assert journal.first_human_message == "hello"
    assert journal.last_ai_message == "Here it is."


async def test_tokens_by_caller_and_model(store: MemoryEventStore, journal: RunJournal) -> None:
    model = scripted(asked(call("search")), said("done"))
    await ran(create_agent(model, [named("search")]), "invoke", journal)
    assert journal.usage() == {
        "input_tokens": 20,
        "output_tokens": 4,
        "total_tokens": 24,
        "by_caller": {"lead_agent": 24, "subagent": 0, "middleware": 0},
        "by_model": {"small": {"input_tokens": 20, "output_tokens": 4, "total_tokens": 24}},
        "llm_calls": 2,
    }
    records = [
        {"source_run_id": "s1", "caller": "subagent:research", "model_name": "large", **USAGE},
        {"source_run_id": "s1", "caller": "subagent:research", "model_name": "large", **USAGE},
        {"source_run_id": "s2", "caller": "middleware:title", "input_tokens": 3, "output_tokens": 1},
        {"source_run_id": "", **USAGE},
        {"source_run_id": "s3", "input_tokens": True, "output_tokens": -5, "total_tokens": "many"},
    ]
    journal.record_external_llm_usage_records(records)
    journal.record_external_llm_usage_records([{"input_tokens": 5}, None])  # type: ignore[list-item]
    usage = journal.usage()
    assert usage["by_caller"] == {"lead_agent": 24, "subagent": 12, "middleware": 4}
    assert usage["by_model"]["large"]["total_tokens"] == 12
    assert usage["by_model"]["unknown"] == {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    assert usage["total_tokens"] == 40


def test_one_model_call_is_counted_once(journal: RunJournal) -> None:
    from langchain_core.outputs import ChatGeneration, LLMResult

    root, llm = uuid.uuid4(), uuid.uuid4()
    journal.on_chain_start({}, {}, run_id=root)
    result = LLMResult(generations=[[ChatGeneration(message=said("x"))]])
    for _ in range(2):
        journal.on_chat_model_start({}, [[]], run_id=llm, parent_run_id=root)
        journal.on_llm_end(result, run_id=llm)
    journal.record_external_llm_usage_records([{"source_run_id": str(llm), **USAGE}])
    assert journal.usage()["total_tokens"] == 12


@pytest.mark.parametrize("style", STYLES)
async def test_a_denial_is_noted_once_and_so_is_its_message(
    store: MemoryEventStore, journal: RunJournal, style: str, tmp_path: Path
) -> None:
    enforcer = Policy(tmp_path, [allow("guest", "*"), deny("guest", "bash")]).enforcer
    script = calls(call("bash", id="c1"), call("search", id="c2"))
    graph, _ = agent(enforcer, [named("bash"), named("search")], script)
    await ran(graph, style, journal)
    (denial,) = noted(store, "middleware:guardrail")
    assert denial.category == "middleware"
    assert denial.content["action"] == "deny_tool_call"
    assert denial.content["changes"]["tool_call_id"] == "c1"
    results = {event.content["tool_call_id"]: event.content for event in noted(store, "llm.tool.result")}
    assert len(noted(store, "llm.tool.result")) == 2
    assert results["c1"]["status"] == "error"
    assert results["c1"]["content"].startswith("Guardrail denied: ")
    assert results["c2"]["content"] == "search: "


class Answering(AgentMiddleware[Any, Any, Any]):
    """Answers calls itself: no tool starts, so no callback tells of the result."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.fields = fields

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("mine", tool_call_id=request.tool_call["id"], **self.fields)


class Shortening(AgentMiddleware[Any, Any, Any]):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request).model_copy(update={"content": "short"})


async def test_what_the_user_saw_is_what_is_kept(store: MemoryEventStore, journal: RunJournal) -> None:
    model = scripted(calls(call("search")))
    await ran(create_agent(model, [named("search")], middleware=[Shortening()]), "invoke", journal)
    assert [event.content["content"] for event in noted(store, "llm.tool.result")] == ["short"]


async def test_hidden_results_are_not_kept(store: MemoryEventStore, journal: RunJournal) -> None:
    hidden = Answering(additional_kwargs={wire.HIDE_FROM_UI: True})
    graph = create_agent(scripted(calls(call("search"))), [named("search")], middleware=[hidden])
    await ran(graph, "invoke", journal)
    assert noted(store, "llm.tool.result") == []


async def test_results_of_earlier_runs_are_not_kept_again(store: MemoryEventStore) -> None:
    graph = create_agent(
        scripted(calls(call("search", id="c1")), AIMessage("one"), calls(call("search", id="c2")), AIMessage("two")),
        [named("search")],
        middleware=[Answering()],
        checkpointer=InMemorySaver(),
    )
    for number in (1, 2):
        journal = RunJournal(store, thread_id="t1", run_id=f"r{number}")
        await ran(graph, "invoke", journal, config={"configurable": {"thread_id": "t1"}})
    found = [(event.run_id, event.content["tool_call_id"]) for event in noted(store, "llm.tool.result")]
    assert found == [("r1", "c1"), ("r2", "c2")]
    assert [event.run_id for event in noted(store, "llm.human.input")] == ["r1", "r2"]


async def test_results_that_no_node_reported_are_reconciled_at_the_end(
    store: MemoryEventStore, journal: RunJournal
) -> None:
    """The final state is looked through under the three conditions, whatever the names of the tools."""
    root, node, llm = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    from langchain_core.outputs import ChatGeneration, LLMResult

    journal.on_chain_start({}, {"messages": ["hi"]}, run_id=root, name="agent")
    journal.on_chain_start({}, {}, run_id=node, parent_run_id=root)
    journal.on_chat_model_start({}, [[]], run_id=llm, parent_run_id=node)
    message = asked(call("read_file", id="mine"), call("bash", id="hidden"))
    journal.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=llm)
    journal.on_chain_end(None, run_id=node)
    final = [
        ToolMessage("kept", tool_call_id="mine"),
        ToolMessage("kept", tool_call_id="mine"),
        ToolMessage("unseen", tool_call_id="hidden", additional_kwargs={wire.HIDE_FROM_UI: True}),
        ToolMessage("a subagent's, or an earlier run's", tool_call_id="other"),
    ]
    journal.on_chain_end({"messages": final}, run_id=root)
    journal.flush()
    assert [event.content["tool_call_id"] for event in noted(store, "llm.tool.result")] == ["mine"]


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        pytest.param({"type": "approve"}, "pay: 5", id="approved"),
        pytest.param({"type": "reject"}, "Guardrail denied: a reviewer rejected", id="rejected"),
    ],
)
async def test_a_call_that_is_settled_after_a_question_belongs_to_the_run_that_does_it(
    store: MemoryEventStore, tmp_path: Path, decision: dict[str, Any], result: str
) -> None:
    enforcer = Policy(tmp_path, [ask("guest", "pay")]).enforcer
    graph, _ = agent(enforcer, [named("pay")], calls(call("pay", {"query": "5"})), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t1"}}
    first = RunJournal(store, thread_id="t1", run_id="r1")
    await ran(graph, "invoke", first, config=config, context={"user_id": "u1"})
    assert noted(store, "run.end")[0].metadata["status"] == "interrupted"
    assert noted(store, "run.error") == []
    second = RunJournal(store, thread_id="t1", run_id="r2")
    pending = graph.get_state(config).interrupts[0]
    answer = Command(resume={pending.id: decision})
    await ran(graph, "invoke", second, answer, config=config, context={"user_id": "u1"})
    (event,) = noted(store, "llm.tool.result")
    assert event.run_id == "r2"
    assert event.content["content"].startswith(result)
    assert [event.run_id for event in noted(store, "llm.human.input")] == ["r1"]


async def test_a_result_is_kept_although_its_node_never_ended(store: MemoryEventStore, journal: RunJournal) -> None:
    class Breaking(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            raise RuntimeError("after the deed")

    graph = create_agent(scripted(calls(call("search"))), [named("search")], middleware=[Breaking()])
    with pytest.raises(RuntimeError):
        await ran(graph, "invoke", journal)
    journal.flush()
    assert kinds(store)[-2:] == ["llm.tool.result", "run.error"]


async def test_a_run_that_fails(store: MemoryEventStore, journal: RunJournal) -> None:
    def broken(messages: Any) -> AIMessage:
        raise RuntimeError("no model today")

    with pytest.raises(RuntimeError):
        await ran(create_agent(scripted(broken), []), "invoke", journal)
    journal.flush()
    assert kinds(store) == ["run.start", "llm.human.input", "llm.error", "run.error"]
    error = noted(store, "run.error")[0]
    assert (error.category, error.content) == ("error", {"error": "no model today", "type": "RuntimeError"})


async def test_a_fallback_of_the_error_handling_is_flagged_and_kept(
    store: MemoryEventStore, journal: RunJournal
) -> None:
    class Handling(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            marks = {wire.ERROR_FALLBACK: True, wire.ERROR_REASON: "circuit_open"}
            return AIMessage("The model is busy.", additional_kwargs=marks)

    saver = InMemorySaver()
    graph = create_agent(scripted(), [], middleware=[Handling()], checkpointer=saver)
    config = {"configurable": {"thread_id": "t1"}}
    await ran(graph, "invoke", journal, config=config)
    assert journal.error_fallback == "circuit_open"
    assert journal.last_ai_message == "The model is busy."
    assert [event.content["content"] for event in noted(store, "llm.ai.response")] == ["The model is busy."]
    later = RunJournal(store, thread_id="t1", run_id="r2")
    plain_graph = create_agent(scripted(AIMessage("fine")), [], checkpointer=saver)
    await ran(plain_graph, "invoke", later, config=config)
    assert later.error_fallback is None


# Who


def delegating(name: str, inner: Any, **config: Any) -> StructuredTool:
    def delegate(query: str = "") -> str:
        return str(inner.invoke({"messages": [("user", query)]}, config or None)["messages"][-1].content)

    return named(name, delegate)


@pytest.mark.parametrize(
    ("config", "caller"), [({}, "subagent:research"), ({"tags": ["subagent:writer", "lead_agent"]}, "subagent:writer")]
)
async def test_what_a_subagent_does_is_not_the_lead_agents(
    store: MemoryEventStore, journal: RunJournal, config: dict[str, Any], caller: str
) -> None:
    inner = create_agent(scripted(asked(call("fetch", id="inner")), said("inner answer")), [named("fetch")])
    outer = scripted(asked(call("research", id="outer")), said("outer answer"))
    await ran(create_agent(outer, [delegating("research", inner, **config)]), "invoke", journal)
    messages = [event for event in noted(store) if event.category == "message"]
    assert [(event.type, event.content.get("tool_call_id") or event.content["content"]) for event in messages] == [
        ("llm.human.input", "hello"),
        ("llm.ai.response", ""),
        ("llm.tool.result", "outer"),
        ("llm.ai.response", "outer answer"),
    ]
    others = [event for event in noted(store, "llm.ai.response") if event.category != "message"]
    assert [(event.metadata["caller"], event.category) for event in others] == [(caller, "trace")] * 2
    assert journal.last_ai_message == "outer answer"
    assert journal.usage()["by_caller"] == {"lead_agent": 24, "subagent": 24, "middleware": 0}
    assert kinds(store).count("run.start") == 1


async def test_a_model_call_of_a_middleware_is_its_own(store: MemoryEventStore, journal: RunJournal) -> None:
    class Titling(AgentMiddleware[Any, Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> None:
            scripted(said("A title")).invoke("title?", {"tags": ["middleware:title"]})

    await ran(create_agent(scripted(said("answer")), [], middleware=[Titling()]), "invoke", journal)
    assert journal.last_ai_message == "answer"
    assert journal.usage()["by_caller"] == {"lead_agent": 12, "subagent": 0, "middleware": 12}


async def test_tags_that_came_with_the_run_say_nothing(store: MemoryEventStore, journal: RunJournal) -> None:
    graph = create_agent(scripted(said("answer")), [])
    await ran(graph, "invoke", journal, config={"tags": ["middleware:title", "subagent:x"]})
    assert journal.usage()["by_caller"] == {"lead_agent": 12, "subagent": 0, "middleware": 0}
    assert journal.last_ai_message == "answer"


# What a person wrote


def hidden(**answer: Any) -> HumanMessage:
    kwargs: dict[str, Any] = {wire.HIDE_FROM_UI: True}
    if answer:
        kwargs[wire.HUMAN_INPUT_RESPONSE] = answer
    return HumanMessage("clicked", additional_kwargs=kwargs)


REPLY = {
    "version": 1,
    "kind": "human_input_response",
    "source": "ask_clarification",
    "request_id": "q1",
    "response_kind": "text",
    "value": "blue",
}


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        pytest.param(hidden(**REPLY), True, id="reply"),
        pytest.param(hidden(**{**REPLY, "response_kind": "option", "option_id": "o1"}), True, id="option"),
        pytest.param(hidden(), False, id="hidden"),
        pytest.param(hidden(**{**REPLY, "source": "elsewhere"}), False, id="source"),
        pytest.param(hidden(**{**REPLY, "source": ["ask_clarification"]}), False, id="source-of-another-type"),
        pytest.param(hidden(**{**REPLY, "version": 2}), False, id="version"),
        pytest.param(hidden(**{**REPLY, "kind": "other"}), False, id="kind"),
        pytest.param(hidden(**{**REPLY, "value": "  "}), False, id="blank"),
        pytest.param(hidden(**{**REPLY, "request_id": 7}), False, id="request"),
        pytest.param(hidden(**{**REPLY, "response_kind": "option"}), False, id="option-without-id"),
        pytest.param(hidden(**{**REPLY, "response_kind": ["text"]}), False, id="kind-of-another-type"),
        pytest.param(
            HumanMessage("x", additional_kwargs={wire.HIDE_FROM_UI: True, wire.HUMAN_INPUT_RESPONSE: "yes"}),
            False,
            id="no-mapping",
        ),
        pytest.param(HumanMessage("seen", additional_kwargs={wire.HIDE_FROM_UI: "true"}), True, id="not-hidden"),
    ],
)
async def test_which_human_messages_are_kept(
    store: MemoryEventStore, journal: RunJournal, message: HumanMessage, kept: bool
) -> None:
    await ran(create_agent(scripted(), []), "invoke", journal, {"messages": [message]})
    assert len(noted(store, "llm.human.input")) == kept


async def test_the_words_of_the_user_are_kept_as_they_were(store: MemoryEventStore, journal: RunJournal) -> None:
    message = HumanMessage("wrapped: hi", additional_kwargs={wire.ORIGINAL_USER_CONTENT: "hi", "theme": "dark"})
    await ran(create_agent(scripted(), []), "invoke", journal, {"messages": [message]})
    (event,) = noted(store, "llm.human.input")
    assert (event.content["content"], event.content["additional_kwargs"]) == ("hi", {"theme": "dark"})
    assert message.content == "wrapped: hi"


async def test_long_texts_are_cut_at_hand_and_not_in_the_events(store: MemoryEventStore, journal: RunJournal) -> None:
    payload = {"messages": [("user", "q" * 5_000)]}
    await ran(create_agent(scripted(AIMessage("a" * 5_000)), []), "invoke", journal, payload)
    assert (len(journal.first_human_message or ""), len(journal.last_ai_message or "")) == (2_000, 2_000)
    assert len(noted(store, "llm.ai.response")[0].content["content"]) == 5_000


# Artifacts and results of other shapes


async def test_artifacts_that_tools_present(store: MemoryEventStore, journal: RunJournal) -> None:
    def presenting(name: str, *paths: str) -> Any:
        def present(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
            messages = [ToolMessage("presented", tool_call_id=tool_call_id)]
            return Command(update={"artifacts": list(paths), "messages": messages})

        return named(name, present)

    tools = [presenting("present_files", "/a", "/b"), presenting("draw", "/b", "/c")]
    model = scripted(calls(call("present_files", id="c1")), calls(call("draw", id="c2")))
    await ran(create_agent(model, tools, state_schema=ThreadState), "invoke", journal)
    assert journal.artifacts == {"/a": "present_files", "/b": "", "/c": "draw"}
    assert [event.content["tool_call_id"] for event in noted(store, "llm.tool.result")] == ["c1", "c2"]
    assert noted(store, "run.end")[0].content["artifacts"] == ["/a", "/b", "/c"]


MESSAGE = ToolMessage("x", tool_call_id="c")


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, 0),
        (MESSAGE, 1),
        ([MESSAGE, None, "text", 5], 1),
        ({"messages": MESSAGE}, 1),
        ({"messages": (MESSAGE, MESSAGE)}, 2),
        (Command(update=None), 0),
        (Command(update={"messages": [MESSAGE]}), 1),
        (Command(update=[("messages", [MESSAGE]), ("other", 1)]), 1),
        (Command(update=(("messages", MESSAGE),)), 1),
        (Command(update=MESSAGE), 1),
        ([Command(update={"messages": [MESSAGE]}), {"messages": [MESSAGE]}], 2),
        (object(), 0),
        (b"bytes", 0),
    ],
    ids=shown,
)
def test_messages_in_whatever_a_node_returns(value: Any, count: int) -> None:
    assert len(list(messages_in(value))) == count


def test_readers_are_total() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert list(messages_in(loop)) == []
    assert artifacts_in(Command(update={"artifacts": "/a"})) == ["/a"]
    assert artifacts_in(Command(update=[("artifacts", ["/a", 5])])) == ["/a"]
    assert artifacts_in(Command(update={"artifacts": 5})) == artifacts_in("x") == artifacts_in(Command()) == []
    assert calls_given(None) == calls_given([None, {"id": "x"}, {"args": {}, "id": 5}]) == []
    assert calls_given({"tool_call": {"args": {}, "id": "c"}, "state": {}}) == ["c"]
    assert first_human({"messages": [object()]}) is None
    assert first_human([]) is None
    assert first_human({"messages": "hi"}).content == "hi"  # type: ignore[union-attr]
    assert plain(loop) == "<class 'list'>"
    odd = ToolMessage("x", tool_call_id="c", artifact=object())
    assert dumped(odd)["artifact"].startswith("<object object")


# What middlewares note


def test_an_unknown_tag_is_refused_in_the_log(
    store: MemoryEventStore, journal: RunJournal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.record_middleware("nonsense", name="M", hook="h", action="a", changes={})
    journal.record_middleware("sandbox_audit", name="M", hook="wrap_tool_call", action="block", changes={"o": object()})
    journal.flush()
    (event,) = noted(store)
    assert (event.type, event.category) == ("middleware:sandbox_audit", "middleware")
    assert event.content["changes"]["o"].startswith("<object")
    assert "'nonsense' is no tag" in caplog.text


@pytest.mark.parametrize("tag", sorted(TAGS))
def test_every_tag_fits(journal: RunJournal, store: MemoryEventStore, tag: str) -> None:
    assert len(f"middleware:{tag}") <= MAX_EVENT_TYPE
    journal.record_middleware(tag=tag, name="M", hook="h", action="a", changes={})
    journal.flush()
    assert kinds(store) == [f"middleware:{tag}"]


def test_middlewares_use_no_other_tags() -> None:
    """A tag that is written in a middleware and not declared would be dropped at run time."""
    folder = Path(__file__).parents[3] / "middlewares" / "remit" / "middlewares"
    used: dict[str, str] = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            keywords = {word.arg for word in node.keywords}
            if called not in ("record", "record_middleware") or not {"hook", "action"} <= keywords:
                continue
            given = [*node.args, *(word.value for word in node.keywords if word.arg == "tag")]
            used.update({one.value: path.name for one in given if isinstance(one, ast.Constant) and one.value})
    assert "guardrail" in used
    assert set(used) <= TAGS, used


async def test_a_journal_that_cannot_note_does_not_stop_the_run(
    journal: RunJournal, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        def submit(self, events: Any) -> Any:
            raise OSError("disk full")

    lame = RunJournal(Refusing(), thread_id="t1", run_id="r1", flush_at=1)  # type: ignore[arg-type]
    state = await run(
        create_agent(scripted(calls(call("search"))), [named("search")]), "ainvoke", config={"callbacks": [lame]}
    )
    assert state["messages"][-1].content == "done"
    with pytest.raises(OSError, match="disk full"):
        await lame.aflush()
    assert "are tried again: disk full" in caplog.text


async def test_many_runs_into_one_file(tmp_path: Path) -> None:
    files = SqliteEventStore(tmp_path / "events.db")

    async def one(number: int) -> None:
        journal = RunJournal(files, thread_id="t1", run_id=f"r{number}")
        graph = create_agent(scripted(calls(call("search"))), [named("search")])
        await graph.ainvoke({"messages": ["hi"]}, {"callbacks": [journal]})
        await journal.aflush()

    await asyncio.gather(*(one(number) for number in range(10)))
    found = await files.alist("t1")
    assert [event.seq for event in found] == list(range(1, 61))
    for number in range(10):
        own = [event.type for event in found if event.run_id == f"r{number}"]
        assert (own[0], own[-1], len(own)) == ("run.start", "run.end", 6)
    await files.aclose()


@tool
def parallel(number: int) -> str:
    """Wait for nothing."""
    return str(number)


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_parallel_calls_are_each_noted_once(store: MemoryEventStore, journal: RunJournal, style: str) -> None:
    wanted: Mapping[str, int] = {f"c{number}": number for number in range(25)}
    script = calls(*(call("parallel", {"number": number}, id=name) for name, number in wanted.items()))
    await ran(create_agent(scripted(script), [parallel]), style, journal)
    found = [event.content["tool_call_id"] for event in noted(store, "llm.tool.result")]
    assert sorted(found) == sorted(wanted)
