"""The guard over tools that bring nothing new: its state machine as a table, and in compiled agents."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.support.agents import STYLES, answers, run
from tests.support.scripted import ScriptedChatModel, call, calls, scripted

from remit.authz import wire
from remit.middlewares.progress_tracking import MAX_HINTS, MAX_RUNS, ProgressTracker, words_of
from remit.middlewares.tool_progress import ToolProgressMiddleware
from remit.middlewares.tool_result_meta import ToolMeta, failure, meta_of, normalize_tool_result, stamped, success
from remit.runtime.config import ToolProgressConfig

CONTEXT = {"user_id": "u1", "thread_id": "t1", "run_id": "r1"}
TEXT = "alpha beta gamma delta epsilon zeta theta iota kappa lambda"
OTHER = "one1 two2 three four4 five5 sixes seven eight nine9 tens0"

OK = (success(), TEXT)
NEW = (success(), OTHER)
SHORT = (success(), "done")
MISSING = (failure("not_found", "tool_return"), "no such file")
LIMITED = (failure("rate_limited", "tool_return"), "rate limit")
AUTH = (failure("auth", "exception"), "401")
GUESSED = (failure("auth", "content_analysis"), "401")
PARTIAL = (
    ToolMeta(
        status="partial_success",
        error_type=None,
        recoverable_by_model=True,
        recommended_next_action="rewrite_query",
        source="content_analysis",
    ),
    "truncated",
)
CLAIMED = (
    ToolMeta(
        status="error",
        error_type="auth",
        recoverable_by_model=False,
        recommended_next_action="stop",
        source="content_analysis",
    ),
    "a page that says 401",
)

# What is observed in order -> the phases that are reported, "-" for nothing to say.
TABLE: dict[str, tuple[list[Any], str]] = {
    "new results": ([OK, NEW, OK, NEW], "- - - -"),
    "the same result": ([OK, OK, OK, OK, OK], "- - - warned warned"),
    "short results are never alike": ([SHORT] * 6, "- - - - - -"),
    "recoverable errors never block": ([MISSING] * 8, "- - warned warned warned warned warned warned"),
    "a success starts anew": ([MISSING, MISSING, OK, MISSING, MISSING], "- - - - -"),
    "a success after the warning": ([MISSING] * 3 + [OK] + [MISSING] * 2, "- - warned - - -"),
    "persistent errors are blocked after two more": ([LIMITED] * 6, "- - warned warned blocked -"),
    "the last problem decides": ([LIMITED] * 4 + [MISSING, LIMITED], "- - warned warned warned blocked"),
    "fatal at once": ([AUTH, AUTH], "blocked -"),
    "a guess is never fatal": ([GUESSED] * 6, "- - warned warned warned warned"),
    "a guess that claims to be fatal": ([CLAIMED] * 5, "- - warned warned blocked"),
    "partial results": ([PARTIAL] * 4, "- - warned warned"),
    "a result like one of the last three": ([OK, NEW, SHORT, OK, NEW, OK], "- - - - - warned"),
}


@pytest.mark.parametrize(("seen", "expected"), TABLE.values(), ids=TABLE)
def test_the_state_machine(seen: list[Any], expected: str) -> None:
    tracker = ProgressTracker(ToolProgressConfig())
    changes = [tracker.observe("t", "tool", meta, text) for meta, text in seen]
    assert " ".join("-" if change is None else change.phase for change in changes) == expected
    assert (tracker.blocked("t", "tool") is not None) == ("blocked" in expected)


def test_blocked_is_said_once() -> None:
    tracker = ProgressTracker(ToolProgressConfig())
    changes = [tracker.observe("t", "tool", *LIMITED) for _ in range(9)]
    assert [change.blocked_now for change in changes if change is not None] == [False, False, True]


def test_bounds() -> None:
    """Threads, runs and hints are forgotten, the oldest first."""
    tracker = ProgressTracker(ToolProgressConfig(max_tracked_threads=3))
    for number in range(50):
        tracker.observe(number, "tool", *AUTH)
    assert len(tracker) == 3
    assert [number for number in range(50) if tracker.blocked(number, "tool")] == [47, 48, 49]
    for number in range(MAX_RUNS * 2):
        for name in range(MAX_HINTS * 2):
            tracker.hint(49, f"r{number}", f"tool{name}", f"text{name}")
    assert tracker.hints(49, "r0") == ()
    assert tracker.hints(49, f"r{MAX_RUNS * 2 - 1}") == ("text3", "text4", "text5")
    for number in range(2_000):
        tracker.observe(49, f"tool{number}", *OK)
    assert len(tracker._threads[49].tools) <= 512


def test_a_hint_that_grew_old_meanwhile_stays() -> None:
    """What was not told is not acknowledged."""
    tracker = ProgressTracker(ToolProgressConfig())
    tracker.hint("t", "r", "tool", "3 times")
    told = tracker.hints("t", "r")
    tracker.hint("t", "r", "tool", "4 times")
    tracker.told("t", "r", told)
    assert tracker.hints("t", "r") == ("4 times",)
    tracker.told("t", "r", ("4 times",))
    assert tracker.hints("t", "r") == ()


def test_many_threads_at_once() -> None:
    tracker = ProgressTracker(ToolProgressConfig(stagnation_threshold=1_000, max_tracked_threads=4))
    barrier = threading.Barrier(8)
    found: list[Any] = []

    def work(number: int) -> None:
        barrier.wait()
        for step in range(125):
            change = tracker.observe("t", "tool", *MISSING)
            found.append(change)
            tracker.hint("t", f"r{step % 3}", "tool", "x")
            tracker.told("t", f"r{step % 3}", tracker.hints("t", f"r{step % 3}"))
            tracker.begin(f"other{number}", "r")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert [change.problems for change in found if change is not None] == [1_000]


@given(st.text())
def test_words(text: str) -> None:
    assert all(len(word) >= 3 and word == word.lower() for word in words_of(text) if word.isascii())


def test_words_of_the_beginning_only() -> None:
    assert words_of("A an The cat." + " " * 9_000 + "end") == {"the", "cat"}


class Stamps(AgentMiddleware[Any, Any, Any]):
    """Stands in for the tool error handling: it stamps every result, further in."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return _stamped(handler(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return _stamped(await handler(request))


def _stamped(result: Any) -> Any:
    if isinstance(result, ToolMessage):
        return normalize_tool_result(result)
    result.update["messages"] = [normalize_tool_result(message) for message in result.update["messages"]]
    return result


class Journal:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def record_middleware(self, tag: str, *, name: str, hook: str, action: str, changes: Any) -> None:
        self.events.append({"tag": tag, "name": name, "hook": hook, "action": action, **changes})


class Bench:
    """A tool that answers as it is told, and an agent that calls it turn after turn."""

    def __init__(self, answer: Any, turns: int, **settings: Any) -> None:
        self.ran = 0
        self.answer = answer
        self.slot = ToolProgressMiddleware(ToolProgressConfig(enabled=True, **settings))
        self.model: ScriptedChatModel = scripted(*(calls(call("probe", {"n": n}, f"c{n}")) for n in range(turns)))

        @tool
        def probe(n: int) -> Any:
            """Do something."""
            self.ran += 1
            return self.answer(n) if callable(self.answer) else self.answer

        self.tool = probe

    def graph(self, *inner: Any, outer: tuple[Any, ...] = (), **options: Any) -> Any:
        return create_agent(self.model, [self.tool], middleware=[*outer, self.slot, *(inner or (Stamps(),))], **options)

    def hints(self) -> list[list[str]]:
        """Per model call, the hints in it."""
        return [[str(one.content) for one in seen if one.name == "progress_hint"] for seen in self.model.seen]


def _failing(n: int) -> Any:
    return stamped(ToolMessage("rate limit", tool_call_id=f"c{n}", status="error"), LIMITED[0])


@pytest.mark.parametrize("style", STYLES)
class TestInAgents:
    async def test_a_tool_that_cannot_work_is_stopped(self, style: str) -> None:
        bench = Bench(_failing, 7)
        journal = Journal()
        state = await run(bench.graph(), style, context={**CONTEXT, wire.RUN_JOURNAL: journal})
        assert bench.ran == 5
        found = answers(state)
        for key in ("c5", "c6"):
            assert str(found[key].content).startswith("[TOOL_BLOCKED] 'probe' was stopped for this run")
            assert (found[key].status, found[key].name) == ("error", "probe")
            assert meta_of(found[key]) == {
                "status": "error",
                "error_type": "blocked_by_progress_guard",
                "recoverable_by_model": True,
                "recommended_next_action": "summarize",
                "source": "progress_middleware",
            }
        assert journal.events == [
            {
                "tag": "tool_progress",
                "name": "ToolProgressMiddleware",
                "hook": "wrap_tool_call",
                "action": "block_tool",
                "tool_name": "probe",
                "tool_call_id": "c4",
                "is_subagent": False,
                "category": "persistent",
                "error_type": "rate_limited",
                "problems": 5,
            }
        ]
        assert state["messages"][-1].content == "done"

    async def test_hints_come_with_the_next_call_and_are_in_no_state(self, style: str) -> None:
        bench = Bench("Error: no results found", 5)
        state = await run(bench.graph(), style, context=CONTEXT)
        assert bench.ran == 5
        hints = bench.hints()
        assert [len(found) for found in hints] == [0, 0, 0, 1, 1, 1]
        assert hints[3][0].startswith("[PROGRESS HINT] 'probe' has failed 3 times in a row (no_results).")
        assert hints[5][0].startswith("[PROGRESS HINT] 'probe' has failed 5 times in a row")
        sent = bench.model.seen[3][-1]
        assert isinstance(sent, HumanMessage)
        assert sent.additional_kwargs[wire.CONTENT_KIND] == "middleware_injection"
        assert sent.additional_kwargs[wire.HIDE_FROM_UI] is True
        assert not [one for one in state["messages"] if one.name == "progress_hint"]

    async def test_without_hints(self, style: str) -> None:
        bench = Bench("Error: no results found", 5, inject_assessment=False)
        await run(bench.graph(), style, context=CONTEXT)
        assert bench.hints() == [[], [], [], [], [], []]

    async def test_a_hint_survives_a_call_that_fails(self, style: str) -> None:
        """The model call fails once and is made again further out: both attempts have the hint."""
        failed: list[bool] = []

        class Fails(AgentMiddleware[Any, Any, Any]):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                self.note(request)
                return handler(request)

            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                self.note(request)
                return await handler(request)

            def note(self, request: Any) -> None:
                hinted = any(one.name == "progress_hint" for one in request.messages)
                failed.append(hinted)
                if hinted and failed.count(True) == 1:
                    raise ConnectionError("down")

        class Retries(AgentMiddleware[Any, Any, Any]):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                try:
                    return handler(request)
                except ConnectionError:
                    return handler(request)

            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                try:
                    return await handler(request)
                except ConnectionError:
                    return await handler(request)

        bench = Bench("Error: no results found", 3)
        await run(bench.graph(Fails(), Stamps(), outer=(Retries(),)), style, context=CONTEXT)
        assert failed == [False, False, False, True, True]

    async def test_exempt_tools(self, style: str) -> None:
        bench = Bench(_failing, 8, exempt_tools=("probe",))
        await run(bench.graph(), style, context=CONTEXT)
        assert bench.ran == 8

    async def test_a_new_run_starts_clean(self, style: str) -> None:
        bench = Bench(_failing, 12)
        saver = InMemorySaver()
        graph = bench.graph(checkpointer=saver)
        config = {"configurable": {"thread_id": "t1"}}
        bench.model.restart(*(calls(call("probe", {"n": n}, f"c{n}")) for n in range(6)))
        await run(graph, style, context=CONTEXT, config=config)
        assert bench.ran == 5
        bench.model.restart(*(calls(call("probe", {"n": n}, f"c{n}")) for n in range(10, 12)))
        await run(graph, style, context={**CONTEXT, "run_id": "r2"}, config=config)
        assert bench.ran == 7
        assert bench.hints()[-3:] == [[], [], []]

    async def test_results_in_commands_count(self, style: str) -> None:
        bench = Bench(
            lambda n: Command(
                update={"messages": [ToolMessage("Error: no results found", tool_call_id=f"c{n}", status="error")]}
            ),
            3,
        )
        await run(bench.graph(), style, context=CONTEXT)
        assert [len(found) for found in bench.hints()] == [0, 0, 0, 1]


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
class TestWhoseTools:
    async def test_threads_are_kept_apart(self, style: str) -> None:
        bench = Bench(_failing, 6)
        graph = bench.graph()
        await run(graph, style, context=CONTEXT)
        assert bench.slot._tracker.blocked(("u1", "t1"), "probe") == "rate_limited"
        bench.model.restart()
        await run(graph, style, context={**CONTEXT, "thread_id": "t2"})
        assert bench.ran == 10

    async def test_a_subagent_shares_nothing_with_its_parent(self, style: str) -> None:
        """Neither is the parent's tool stopped by the subagent, nor is its state reset by the subagent's start."""
        bench = Bench(_failing, 6)
        inner = Bench(_failing, 6)
        inner.slot = bench.slot
        child = inner.graph()

        class Delegates(AgentMiddleware[Any, Any, Any]):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                if request.tool_call["id"] == "c3":
                    child.invoke({"messages": [("user", "x")]}, context=self.context())
                return handler(request)

            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                if request.tool_call["id"] == "c3":
                    await child.ainvoke({"messages": [("user", "x")]}, context=self.context())
                return await handler(request)

            def context(self) -> dict[str, Any]:
                return {**CONTEXT, wire.IS_SUBAGENT: True, wire.AGENT_NAME: "helper"}

        await run(bench.graph(Delegates(), Stamps()), style, context=CONTEXT)
        assert (bench.ran, inner.ran) == (5, 5)

    async def test_parallel_tools_are_judged_one_by_one(self, style: str) -> None:
        bench = Bench(_failing, 0)
        bench.model.restart(
            calls(*(call("probe", {"n": n}, f"c{n}") for n in range(5))), calls(call("probe", {"n": 9}, "c9"))
        )
        state = await run(bench.graph(), style, context=CONTEXT)
        assert bench.ran == 5
        assert str(answers(state)["c9"].content).startswith("[TOOL_BLOCKED]")


async def test_results_without_a_stamp_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Something is wired wrongly then; it is said once."""

    class Nothing(AgentMiddleware[Any, Any, Any]):
        pass

    bench = Bench("Error: no results found", 6)
    await run(bench.graph(Nothing()), "ainvoke", context=CONTEXT)
    assert bench.ran == 6
    assert bench.hints()[-1] == []
    assert caplog.text.count("results carry no stamp") == 1


async def test_exceptions_pass() -> None:
    def fails(n: int) -> Any:
        raise RuntimeError("out")

    with pytest.raises(RuntimeError, match="out"):
        await run(Bench(fails, 1).graph(), "ainvoke", context=CONTEXT)


async def test_odd_ids_of_threads_do_not_stop_a_run() -> None:
    bench = Bench("fine", 1)
    await run(bench.graph(), "ainvoke", context={"user_id": "../x", "thread_id": "a/b"})
    assert bench.ran == 1


def test_declares_its_settings() -> None:
    one = ToolProgressMiddleware(ToolProgressConfig()).release_policy_parameters()
    other = ToolProgressMiddleware(ToolProgressConfig(stagnation_threshold=4)).release_policy_parameters()
    assert one != other
    assert other["stagnation_threshold"] == 4
