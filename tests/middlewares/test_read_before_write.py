"""Read before write, in compiled agents over a real door to a sandbox in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from langgraph.types import Command
from tests.support.agents import STYLES, answers, code, run
from tests.support.memory_sandbox import MemorySandbox, World
from tests.support.scripted import ScriptedChatModel, call, calls, scripted

from remit.authz import SandboxAuthorizationError, wire
from remit.harness.sandbox import LocalSandboxProvider
from remit.harness.tools import build_tools
from remit.middlewares import read_before_write
from remit.middlewares.blocked_payloads import without_payloads
from remit.middlewares.pathlocks import PathLocks
from remit.middlewares.read_before_write import ReadBeforeWriteMiddleware
from remit.middlewares.readmarks import Owner, newest_mark, with_block, with_mark
from remit.middlewares.tool_result_meta import meta_of
from remit.runtime.capabilities import capabilities_of, declare
from remit.runtime.config import ReadBeforeWriteConfig, SandboxConfig
from remit.runtime.sandboxes import SandboxAccess, SandboxFileError
from remit.runtime.signing import signer

F = "/mnt/user-data/workspace/f.txt"
CONTEXT = {"user_id": "u1", "thread_id": "t1", "run_id": "r1"}
OWNER = Owner("t1", "u1")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    signer.cache_clear()
    yield
    signer.cache_clear()
    assert len(read_before_write._LOCKS) == 0, "a lock is still held"


class Journal:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def record_middleware(self, tag: str, *, name: str, hook: str, action: str, changes: Any) -> None:
        self.events.append({"tag": tag, "name": name, "hook": hook, "action": action, **changes})


def agent(
    world: World, *turns: Any, inner: tuple[Any, ...] = (), tools: list[Any] | None = None, **options: Any
) -> tuple[Any, ScriptedChatModel]:
    settings = options.pop("settings", ReadBeforeWriteConfig())
    model = scripted(*turns)
    slot = ReadBeforeWriteMiddleware(settings, access=world.access)
    given = world.tools() if tools is None else tools
    return create_agent(model, given, middleware=[slot, *inner], **options), model


def read(id: str, path: str = F, **more: Any) -> dict[str, Any]:
    return call("read_file", {"path": path, **more}, id)


def write(id: str, content: str = "new", path: str = F, **more: Any) -> dict[str, Any]:
    return call("write_file", {"path": path, "content": content, **more}, id)


def replace(id: str, old: str, new: str, path: str = F) -> dict[str, Any]:
    return call("str_replace", {"path": path, "old": old, "new": new}, id)


def codes(state: dict[str, Any]) -> dict[str, str | None]:
    return {key: code(message) for key, message in answers(state).items()}


UNREAD, CHANGED = "read_before_write.unread", "read_before_write.changed"


@pytest.mark.parametrize("style", STYLES)
class TestOneFile:
    """The cases of one file, read once, in all ways to run an agent."""

    @pytest.fixture
    def world(self) -> World:
        world = World()
        world.sandbox().files[F] = b"one two"
        return world

    async def test_two_changes_in_one_turn(self, style: str, world: World) -> None:
        """Exactly one of them sees the version that was read."""
        turn = calls(replace("a", "one", "1"), replace("b", "two", "2"))
        graph, _ = agent(world, calls(read("r")), turn)
        state = await run(graph, style, context=CONTEXT)
        found = codes(state)
        assert sorted(found[key] is None for key in "ab") == [False, True]
        assert {found["a"], found["b"]} == {None, CHANGED}
        assert world.sandbox().files[F] in (b"1 two", b"one 2")

    async def test_a_write_makes_no_mark(self, style: str, world: World) -> None:
        graph, _ = agent(
            world,
            calls(read("r")),
            calls(write("a", "x")),
            calls(write("b", "y")),
            calls(read("r2")),
            calls(write("c", "z")),
        )
        found = codes(await run(graph, style, context=CONTEXT))
        assert (found["a"], found["b"], found["c"]) == (None, CHANGED, None)
        assert world.sandbox().files[F] == b"z"

    async def test_appending_to_an_unread_file(self, style: str, world: World) -> None:
        graph, _ = agent(world, calls(write("a", "x", append=True)))
        state = await run(graph, style, context=CONTEXT)
        assert codes(state) == {"a": UNREAD}
        assert world.sandbox().files[F] == b"one two"
        message = answers(state)["a"]
        assert (message.status, message.name) == ("error", "write_file")
        assert "read_file" in str(message.content)
        assert F in str(message.content)
        meta = meta_of(message)
        assert meta is not None
        assert (meta["status"], meta["recoverable_by_model"]) == ("error", True)
        assert message.additional_kwargs[wire.WRITE_BLOCK]["reason"] == "unread"
        assert state["messages"][-1].content == "done"

    async def test_a_new_file(self, style: str, world: World) -> None:
        graph, _ = agent(world, calls(write("a", "x", path="new/file.txt")))
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": None}
        assert world.sandbox().files["/mnt/user-data/workspace/new/file.txt"] == b"x"

    async def test_changed_behind_the_back(self, style: str, world: World) -> None:
        def meanwhile(messages: Any) -> AIMessage:
            world.sandbox().files[F] = b"from elsewhere"
            return calls(write("a"))

        graph, _ = agent(world, calls(read("r")), meanwhile)
        assert codes(await run(graph, style, context=CONTEXT))["a"] == CHANGED
        assert world.sandbox().files[F] == b"from elsewhere"

    async def test_a_part_is_enough(self, style: str, world: World) -> None:
        """Reading some lines marks the whole file: the model decides how much it needs to see."""
        world.sandbox().files[F] = b"\n".join(b"line %d" % number for number in range(500))
        graph, _ = agent(world, calls(read("r", start=1, end=10)), calls(write("a", "short")))
        state = await run(graph, style, context=CONTEXT)
        assert codes(state)["a"] is None
        assert len(str(answers(state)["r"].content).splitlines()) == 10
        assert world.sandbox().files[F] == b"short"

    async def test_marks_say_what_was_read(self, style: str, world: World) -> None:
        graph, _ = agent(world, calls(read("r", path="./x/..//f.txt")))
        mark = answers(await run(graph, style, context=CONTEXT))["r"].additional_kwargs[wire.READ_MARK]
        assert (mark["path"], mark["hash"]) == (F, sha256(b"one two").hexdigest())
        assert set(mark) == {"path", "hash", "signature"}

    async def test_other_spellings_and_links_are_the_same_file(self, style: str, world: World) -> None:
        world.sandbox().links["/mnt/user-data/workspace/link"] = F
        graph, _ = agent(
            world,
            calls(write("a", path="link"), write("b", path="../workspace/f.txt")),
            calls(read("r", path="link")),
            calls(write("c", "x", path="f.txt")),
        )
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": UNREAD, "b": UNREAD, "r": None, "c": None}
        assert world.sandbox().files[F] == b"x"

    async def test_the_newest_mark_counts(self, style: str, world: World) -> None:
        """An older mark for what lies there again opens nothing: what was read since was something else."""

        def other(messages: Any) -> AIMessage:
            world.sandbox().files[F] = b"other"
            return calls(read("r2"))

        def back(messages: Any) -> AIMessage:
            world.sandbox().files[F] = b"one two"
            return calls(write("a"))

        graph, _ = agent(world, calls(read("r1")), other, back)
        assert codes(await run(graph, style, context=CONTEXT))["a"] == CHANGED

    async def test_text_that_looks_like_an_error_is_a_file(self, style: str, world: World) -> None:
        world.sandbox().files[F] = b"Error: this is the first line of a log\nmore"
        graph, _ = agent(world, calls(write("a")), calls(read("r")), calls(write("b", "x")))
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": UNREAD, "r": None, "b": None}

    async def test_an_empty_file_can_be_read_and_written(self, style: str, world: World) -> None:
        world.sandbox().files[F] = b""
        graph, _ = agent(world, calls(write("a")), calls(read("r")), calls(write("b", "x")))
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": UNREAD, "r": None, "b": None}

    async def test_one_decision_about_the_sandbox_for_a_call(self, style: str, world: World) -> None:
        """Looking before, the body, and looking afterwards."""
        graph, _ = agent(world, calls(read("r")), calls(write("a")))
        await run(graph, style, context=CONTEXT)
        assert world.asked == 2

    async def test_refusals_are_in_the_journal(self, style: str, world: World) -> None:
        journal = Journal()
        graph, _ = agent(world, calls(write("a", "secret content")))
        await run(graph, style, context={**CONTEXT, wire.RUN_JOURNAL: journal})
        assert journal.events == [
            {
                "tag": "read_before_write",
                "name": "ReadBeforeWriteMiddleware",
                "hook": "wrap_tool_call",
                "action": "block_write",
                "tool_name": "write_file",
                "tool_call_id": "a",
                "is_subagent": False,
                "reason": "unread",
            }
        ]


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
class TestWhatCannotBeLookedAt:
    FAULTS: tuple[Exception, ...] = (
        PermissionError("denied"),
        IsADirectoryError("folder"),
        SandboxFileError("outside"),
        RuntimeError("?"),
    )

    @pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
    async def test_a_fault_refuses_the_write(self, style: str, fault: Exception) -> None:
        world = World()
        world.sandbox().files[F] = b"x"
        world.sandbox().faults[F] = fault
        graph, _ = agent(world, calls(write("a")))
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": "read_before_write.uninspectable"}
        assert world.sandbox().files[F] == b"x"

    async def test_a_sandbox_that_is_down(self, style: str) -> None:
        world = World()
        world.provider.down = True
        graph, _ = agent(world, calls(write("a")))
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": "read_before_write.uninspectable"}

    @pytest.mark.parametrize("path", ["", "../../../../etc/passwd/../../..", "/x\x00y"])
    async def test_no_path(self, style: str, path: str) -> None:
        graph, _ = agent(World(), calls(write("a", path=path)))
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": "read_before_write.path"}

    async def test_failures_told_as_text_fail_open_where_declared(self, style: str) -> None:
        """Such a sandbox says that it is one. What it can read is compared like everywhere else."""

        class Told(MemorySandbox):
            errors_as_text = True

            def read_file(self, path: str) -> str:
                try:
                    return super().read_file(path)
                except (FileNotFoundError, PermissionError):
                    return "Error: cannot read"

            read_bytes = MemorySandbox.read_bytes

        world = World(make=Told)
        world.sandbox().files[F] = b"x"
        graph, _ = agent(
            world,
            calls(write("a", path="new.txt")),
            calls(write("b")),
            calls(read("r", path="absent.txt")),
            calls(read("r2")),
            calls(write("c", "y")),
        )
        state = await run(graph, style, context=CONTEXT)
        assert codes(state) == {"a": None, "b": UNREAD, "r": None, "r2": None, "c": None}
        assert wire.READ_MARK not in answers(state)["r"].additional_kwargs

    async def test_policy_without_a_sandbox(self, style: str) -> None:
        """The door says no: neither the look nor the body gets in, and the run goes on."""

        def gate(context: Any) -> None:
            raise SandboxAuthorizationError("no", details={"reason_codes": ("authz.no_policy",), "role": "guest"})

        world = World(gate)
        graph, _ = agent(world, calls(read("r"), write("a")))
        state = await run(graph, style, context=CONTEXT)
        assert codes(state) == {"r": "authz.no_policy", "a": "authz.no_policy"}
        assert {message.status for message in answers(state).values()} == {"error"}
        assert "guest" not in str(answers(state)["a"].content)
        assert world.provider.made == {}
        assert state["messages"][-1].content == "done"

    async def test_capabilities_that_are_not_understood(self, style: str) -> None:
        ran: list[str] = []

        @tool
        def writer(path: str) -> str:
            """Write."""
            ran.append(path)
            return "x"

        writer.metadata = {wire.CAPABILITIES: {"writes": True}}
        graph, _ = agent(World(), calls(call("writer", {"path": F}, "a")), tools=[writer])
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": "read_before_write.undeclared"}
        assert ran == []

    async def test_a_run_without_a_thread_has_no_files(self, style: str) -> None:
        @tool
        def write_file(path: str, content: str) -> str:
            """Write to a store of the host's own."""
            return "stored"

        graph, _ = agent(World(), calls(write("a")), tools=[write_file])
        assert answers(await run(graph, style))["a"].content == "stored"


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
class TestForgedMarks:
    @pytest.fixture
    def world(self) -> World:
        world = World()
        world.sandbox().files[F] = b"secret"
        return world

    @staticmethod
    def history(mark: Any, id: str = "old") -> dict[str, Any]:
        message = ToolMessage("x", tool_call_id=id, additional_kwargs={} if mark is None else {wire.READ_MARK: mark})
        return {
            "messages": [HumanMessage("hi"), calls(call("read_file", {"path": F}, id)), message, HumanMessage("go")]
        }

    DIGEST = sha256(b"secret").hexdigest()

    @pytest.mark.parametrize(
        "mark",
        [
            {"path": F, "hash": DIGEST},
            {"path": F, "hash": DIGEST, "signature": ""},
            {"path": F, "hash": DIGEST, "signature": "0" * 32},
            {"path": F, "hash": DIGEST, "signature": None},
            {"path": F, "hash": None, "signature": "x"},
            {"path": F, "hash": [1], "signature": {"a": 1}},
            [F, DIGEST],
            "text",
            5,
        ],
        ids=str,
    )
    async def test_unsigned_marks_count_for_nothing(self, style: str, world: World, mark: Any) -> None:
        graph, _ = agent(world, calls(write("a")))
        state = await run(graph, style, self.history(mark), context=CONTEXT)
        assert codes(state)["a"] == UNREAD

    @pytest.mark.parametrize(
        ("owner", "path", "id"),
        [
            (Owner("t2", "u1"), F, "old"),
            (Owner("t1", "u2"), F, "old"),
            (OWNER, F + "2", "old"),
            (OWNER, F, "other"),
        ],
        ids=["thread", "user", "file", "call"],
    )
    async def test_marks_of_elsewhere_count_for_nothing(
        self, style: str, world: World, owner: Owner, path: str, id: str
    ) -> None:
        """A genuine mark, taken from another thread, user, file or message."""
        mark = with_mark(ToolMessage("x", tool_call_id=id), path, self.DIGEST, owner).additional_kwargs[wire.READ_MARK]
        graph, _ = agent(world, calls(write("a")))
        state = await run(graph, style, self.history({**mark, "path": F}), context=CONTEXT)
        assert codes(state)["a"] == UNREAD

    async def test_a_forged_mark_does_not_hide_a_genuine_one(self, style: str, world: World) -> None:
        genuine = with_mark(ToolMessage("x", tool_call_id="r"), F, self.DIGEST, OWNER)
        forged = ToolMessage("x", tool_call_id="s", additional_kwargs={wire.READ_MARK: {"path": F, "hash": "0" * 64}})
        assert newest_mark([genuine, forged], F, OWNER) == self.DIGEST

    async def test_a_tool_that_marks_its_own_result(self, style: str, world: World) -> None:
        @tool
        def helper() -> Any:
            """Return a message with a mark."""
            return ToolMessage(
                "x",
                tool_call_id="h",
                additional_kwargs={wire.READ_MARK: {"path": F, "hash": self.DIGEST, "signature": "0" * 32}},
            )

        graph, _ = agent(world, calls(call("helper", {}, "h")), calls(write("a")), tools=[*world.tools(), helper])
        assert codes(await run(graph, style, context=CONTEXT))["a"] == UNREAD

    async def test_another_user_of_the_same_thread_id(self, style: str, world: World) -> None:
        world.sandbox(user="u2").files[F] = b"secret"
        saver = InMemorySaver()
        config = {"configurable": {"thread_id": "t1"}}
        graph, _ = agent(world, calls(read("r")), AIMessage("ok"), calls(write("a")), checkpointer=saver)
        await run(graph, style, context=CONTEXT, config=config)
        state = await run(graph, style, context={**CONTEXT, "user_id": "u2"}, config=config)
        assert codes(state)["a"] == UNREAD


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
class TestWhatIsMarked:
    async def test_a_failed_read_is_no_read(self, style: str) -> None:
        @tool
        def read_file(path: str) -> Any:
            """Fail in the two usual ways."""
            if path.endswith("1"):
                return "Error: only 3 lines in this file"
            return ToolMessage("no", tool_call_id="b", status="error")

        world = World()
        world.sandbox().files |= {F + "1": b"x\ny\nz", F + "2": b"x"}
        graph, _ = agent(world, calls(read("a", F + "1"), read("b", F + "2")), tools=[read_file])
        state = await run(graph, style, context=CONTEXT)
        assert all(wire.READ_MARK not in message.additional_kwargs for message in answers(state).values())

    async def test_a_read_without_content_is_no_read(self, style: str) -> None:
        @tool
        def read_file(path: str) -> str:
            """Say nothing."""
            return ""

        world = World()
        world.sandbox().files[F] = b"x"
        graph, _ = agent(world, calls(read("a")), tools=[read_file])
        assert wire.READ_MARK not in answers(await run(graph, style, context=CONTEXT))["a"].additional_kwargs

    async def test_a_file_that_changes_while_it_is_read(self, style: str) -> None:
        """What the model saw is not what lies there: no mark."""
        world = World()
        world.sandbox().files[F] = b"old"

        @tool
        def read_file(path: str) -> str:
            """Read, and be overtaken."""
            text: str = world.sandbox().read_file(path)
            world.sandbox().files[F] = b"new"
            return text

        graph, _ = agent(world, calls(read("r")), calls(write("a")), tools=[read_file, *world.tools()[1:]])
        state = await run(graph, style, context=CONTEXT)
        assert codes(state)["a"] == UNREAD

    async def test_results_in_a_command(self, style: str) -> None:
        world = World()
        world.sandbox().files[F] = b"x"

        @tool
        def view(file: str) -> Any:
            """Show a file."""
            return Command(update={"messages": [ToolMessage("x", tool_call_id="v", name="view")]})

        declare(view, reads_file="file")
        graph, _ = agent(world, calls(call("view", {"file": F}, "v")), calls(write("a")), tools=[view, *world.tools()])
        state = await run(graph, style, context=CONTEXT)
        assert codes(state) == {"v": None, "a": None}

    async def test_a_default_path_is_a_path(self, style: str) -> None:
        world = World()
        world.sandbox().files["/mnt/user-data/workspace/notes.md"] = b"x"
        ran: list[str] = []

        @tool
        def note(text: str, file: str = "notes.md") -> str:
            """Replace the notes."""
            ran.append(file)
            return "ok"

        declare(note, writes_file="file")
        graph, _ = agent(world, calls(call("note", {"text": "a"}, "a")), tools=[note])
        assert codes(await run(graph, style, context=CONTEXT)) == {"a": UNREAD}
        assert ran == []

    async def test_metadata_of_results_is_kept(self, style: str) -> None:
        world = World()
        world.sandbox().files[F] = b"x"

        @tool
        def read_file(path: str) -> Any:
            """Read."""
            return ToolMessage("x", tool_call_id="r", id="m", artifact=[1], additional_kwargs={"mine": 1})

        graph, _ = agent(world, calls(read("r")), tools=[read_file])
        message = answers(await run(graph, style, context=CONTEXT))["r"]
        assert (message.id, message.artifact, message.additional_kwargs["mine"]) == ("m", [1], 1)
        assert wire.READ_MARK in message.additional_kwargs


class TestMany:
    """Many calls about one file at the same time."""

    @pytest.mark.slow
    async def test_a_thousand_writes_in_one_turn(self) -> None:
        """One of them sees the version that was read; nobody waits for ever, in a loop with one thread of its own."""
        world = World()
        world.sandbox().files[F] = b"0"
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        turn = calls(*(write(f"w{number}", f"v{number}") for number in range(1_000)))
        graph, _ = agent(world, calls(read("r")), turn)
        state = await asyncio.wait_for(graph.ainvoke({"messages": [("user", "x")]}, context=CONTEXT), 120)
        found = [code(message) for key, message in answers(state).items() if key != "r"]
        assert (found.count(None), found.count(CHANGED)) == (1, 999)

    @pytest.mark.slow
    def test_a_thousand_calls_of_both_worlds(self) -> None:
        """Reads and writes of threads and tasks: every read is marked, every write sees a version or none."""
        world = World()
        world.sandbox().files[F] = b"0"
        turn = calls(*(read(f"r{n}") if n % 2 else write(f"w{n}", str(n)) for n in range(100)))

        def fresh() -> Any:
            return agent(world, turn)[0]

        def sync() -> dict[str, Any]:
            found: dict[str, Any] = fresh().invoke(
                {"messages": [("user", "x")]}, {"max_concurrency": 8}, context=CONTEXT
            )
            return found

        def soon() -> list[dict[str, Any]]:
            async def many() -> list[Any]:
                return await asyncio.gather(
                    *(fresh().ainvoke({"messages": [("user", "x")]}, context=CONTEXT) for _ in range(5))
                )

            return asyncio.run(many())

        with ThreadPoolExecutor(6) as pool:
            jobs: list[Any] = [pool.submit(sync) for _ in range(5)] + [pool.submit(soon)]
            states = [state for job in jobs for state in _listed(job.result(timeout=120))]
        assert len(states) == 10
        for state in states:
            for key, message in answers(state).items():
                if key.startswith("r"):
                    assert wire.READ_MARK in message.additional_kwargs
                else:
                    assert code(message) == UNREAD  # reads of the same turn are no reads yet

    async def test_a_task_that_holds_the_lock_needs_no_thread_of_the_loop(self) -> None:
        """The only thread of the loop is taken by a synchronous run that waits for that very task."""
        world = World()
        started, go = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))

        @tool
        async def write_file(path: str, content: str, runtime: ToolRuntime[Any, Any]) -> str:
            """Write, after a while."""
            started.set()
            await go.wait()
            (await world.access.aensure(runtime)).write_file(path, content)
            return "written"

        soon, _ = agent(world, calls(write("a")), tools=[write_file])
        now, _ = agent(world, calls(write("b")))
        payload = {"messages": [("user", "x")]}
        first = asyncio.create_task(soon.ainvoke(payload, context=CONTEXT))
        await started.wait()
        second = asyncio.create_task(asyncio.to_thread(now.invoke, payload, None, context=CONTEXT))
        held = read_before_write._LOCKS._held["u1", "t1", F]
        while not held.waiting:  # noqa: ASYNC110 - nobody is told who waits
            await asyncio.sleep(0.001)
        go.set()
        states = await asyncio.wait_for(asyncio.gather(first, second), 5)
        assert [codes(state) for state in states] == [{"a": None}, {"b": UNREAD}]

    async def test_writers_of_two_files_do_not_wait_for_each_other(self) -> None:
        world = World()
        first, second = threading.Event(), threading.Event()

        @tool
        def write_file(path: str, content: str) -> str:
            """Wait for the other one."""
            mine, other = (first, second) if path.endswith("1") else (second, first)
            mine.set()
            assert other.wait(10)
            return "ok"

        graph, _ = agent(world, calls(write("a", path="f1"), write("b", path="f2")), tools=[write_file])
        assert codes(await run(graph, "ainvoke", context=CONTEXT)) == {"a": None, "b": None}

    async def test_a_holder_that_does_not_let_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other write is refused and can be tried again."""
        locks = PathLocks(patience=0.05)
        monkeypatch.setattr(read_before_write, "_LOCKS", locks)
        world = World()
        key = ("u1", "t1", F)
        grant = await asyncio.to_thread(locks.acquire, key)
        graph, _ = agent(world, calls(write("a")))
        for style in ("ainvoke", "invoke"):
            assert codes(await run(graph, style, context=CONTEXT))["a"] == "read_before_write.busy"
            graph, _ = agent(world, calls(write("a")))
        grant.release()


@types.coroutine
def cancelled_at(core: Any, moment: int, reached: list[int]) -> Any:
    """Await `core`, and cancel it at its `moment`th await."""
    steps = core.__await__()
    while True:
        try:
            waits_for = steps.send(None)
        except StopIteration as done:
            return done.value
        reached.append(len(reached) + 1)
        if len(reached) == moment:
            waits_for = steps.throw(asyncio.CancelledError())
        yield waits_for


class Cancelled(ReadBeforeWriteMiddleware):
    """The slot, cancelled at one of its awaits."""

    moment: int
    reached: list[int]

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await cancelled_at(super().awrap_tool_call(request, handler), self.moment, self.reached)


@pytest.mark.parametrize("kind", ["read", "new", "refused", "busy"])
async def test_cancelled_at_every_await_no_lock_is_held(kind: str) -> None:
    for moment in range(1, 100):
        world = World()
        world.sandbox().files[F] = b"x"
        key = ("u1", "t1", F)
        grant = await asyncio.to_thread(read_before_write._LOCKS.acquire, key) if kind == "busy" else None
        slot = Cancelled(ReadBeforeWriteConfig(), access=world.access)
        slot.moment, slot.reached = moment, []
        turn = calls(write("a", path="new") if kind == "new" else read("r") if kind in ("read", "busy") else write("a"))
        graph: Any = create_agent(scripted(turn), world.tools(), middleware=[slot])
        task = asyncio.create_task(graph.ainvoke({"messages": [("user", "x")]}, context=CONTEXT))
        if grant is not None:
            await asyncio.wait((task,), timeout=0.05)
            grant.release()
        with contextlib.suppress(asyncio.CancelledError, NodeCancelledError):
            await task
        assert len(read_before_write._LOCKS) == 0
        if len(slot.reached) < moment:  # it came to its end without that many
            break
    reached = len(slot.reached)
    assert reached >= {"read": 5, "new": 4, "refused": 3, "busy": 6}[kind]


async def test_cancelled_while_the_body_runs() -> None:
    world = World()
    started = asyncio.Event()

    @tool
    async def write_file(path: str, content: str) -> str:
        """Never end."""
        started.set()
        await asyncio.Event().wait()
        return "?"

    graph, _ = agent(world, calls(write("a"), write("b")), tools=[write_file])
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "x")]}, context=CONTEXT))
    await started.wait()
    await asyncio.sleep(0.01)
    assert len(read_before_write._LOCKS) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(read_before_write._LOCKS) == 0


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_exceptions_of_the_body_pass_and_free_the_file(style: str) -> None:
    @tool
    def write_file(path: str, content: str) -> str:
        """Fail."""
        raise RuntimeError("disk")

    graph, _ = agent(World(), calls(write("a")), tools=[write_file])
    with pytest.raises(RuntimeError, match="disk"):
        await run(graph, style, context=CONTEXT)


class TestElision:
    LONG = "z" * 3_000

    @pytest.mark.parametrize("style", STYLES)
    async def test_refused_content_is_left_out_of_requests(self, style: str) -> None:
        world = World()
        world.sandbox().files[F] = b"x"
        raw = {
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "write_file", "arguments": json.dumps({"path": F, "content": self.LONG})},
                }
            ]
        }
        turn = AIMessage(
            [{"type": "tool_use", "id": "a", "name": "write_file", "input": {"path": F, "content": self.LONG}}],
            tool_calls=[write("a", self.LONG)],
            additional_kwargs=raw,
        )
        model = scripted(turn, calls(read("r")), calls(write("b", self.LONG)))
        slot = ReadBeforeWriteMiddleware(ReadBeforeWriteConfig(), access=world.access)
        graph = create_agent(model, world.tools(), middleware=[slot])
        state = await run(graph, style, context=CONTEXT)
        streamed = style in ("stream", "astream")
        kept = next(one for one in state["messages"] if isinstance(one, AIMessage) and one.tool_calls[0]["id"] == "a")
        assert kept.tool_calls[0]["args"]["content"] == self.LONG
        for seen in model.seen[1:]:
            sent = next(one for one in seen if isinstance(one, AIMessage) and one.tool_calls[0]["id"] == "a")
            assert self.LONG not in str(sent)
            assert sent.tool_calls[0]["args"] == {
                "path": F,
                "content": "[3000 characters left out: this write was refused and changed nothing]",
            }
            if not streamed:  # the scripted model streams calls without the provider's own payload
                [entry] = sent.additional_kwargs["tool_calls"]
                assert json.loads(entry["function"]["arguments"]) == sent.tool_calls[0]["args"]
                assert sent.content[0]["input"] == sent.tool_calls[0]["args"]  # type: ignore[index]
        assert world.sandbox().files[F] == self.LONG.encode()
        done = next(one for one in model.seen[-1] if isinstance(one, AIMessage) and one.tool_calls[0]["id"] == "b")
        assert done.tool_calls[0]["args"]["content"] == self.LONG

    async def test_can_be_switched_off(self) -> None:
        world = World()
        world.sandbox().files[F] = b"x"
        settings = ReadBeforeWriteConfig(elide_blocked_payloads=False)
        graph, model = agent(world, calls(write("a", self.LONG)), settings=settings)
        await run(graph, "ainvoke", context=CONTEXT)
        assert self.LONG in str(model.seen[-1])

    async def test_short_content_stays(self) -> None:
        world = World()
        world.sandbox().files[F] = b"x"
        graph, model = agent(world, calls(write("a", "z" * 1_999)))
        await run(graph, "ainvoke", context=CONTEXT)
        assert "z" * 1_999 in str(model.seen[-1])

    @pytest.mark.parametrize("held", [{"reason": "unread"}, {"reason": "unread", "signature": "0" * 32}, "x", None])
    async def test_forged_markers_hide_nothing(self, held: Any) -> None:
        """Nobody else can have the content of a call left out."""
        world = World()
        graph, model = agent(world)
        history = [
            HumanMessage("hi"),
            calls(write("a", self.LONG)),
            ToolMessage("written", tool_call_id="a", additional_kwargs={wire.WRITE_BLOCK: held}),
        ]
        await run(graph, "ainvoke", {"messages": history}, context=CONTEXT)
        assert self.LONG in str(model.seen[-1])

    def test_nothing_to_leave_out_is_the_same(self) -> None:
        messages = [calls(write("a", "short")), with_block(ToolMessage("x", tool_call_id="a"), "unread", OWNER)]
        assert without_payloads(messages, frozenset({"a"}), 2_000) is None
        assert without_payloads(messages, frozenset(), 0) is None

    def test_every_form_of_a_call(self) -> None:
        long = {"edits": [{"old": self.LONG, "new": "s"}], "path": F}
        message = AIMessage(
            [
                {"type": "text", "text": self.LONG},
                {"type": "tool_use", "id": "a", "name": "w", "input": long, "partial_json": json.dumps(long)},
                {"type": "function_call", "call_id": "a", "name": "w", "arguments": json.dumps(long)},
                {"type": "tool_use", "id": "other", "name": "w", "input": long},
                "text",
            ],
            tool_calls=[call("w", long, "a")],
        )
        [out] = without_payloads([message], frozenset({"a"}), 2_000) or []
        note = "[3000 characters left out: this write was refused and changed nothing]"
        short = {"edits": [{"old": note, "new": "s"}], "path": F}
        assert out.tool_calls[0]["args"] == short
        assert out.content[0] == {"type": "text", "text": self.LONG}
        assert out.content[1] == {"type": "tool_use", "id": "a", "name": "w", "input": short}
        assert json.loads(out.content[2]["arguments"]) == short
        assert out.content[3]["input"] == long
        assert message.tool_calls[0]["args"] == long

    @given(
        st.recursive(
            st.none() | st.integers() | st.text(max_size=300),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=10,
        ),
        st.integers(0, 200),
    )
    def test_any_arguments(self, value: Any, least: int) -> None:
        message = AIMessage("", tool_calls=[call("w", {"v": value}, "a")])
        out = without_payloads([message], frozenset({"a"}), least)
        assert out is None or len(json.dumps(out[0].tool_calls[0]["args"])) <= len(json.dumps({"v": value}))


class Counting(AgentMiddleware[Any, Any, Any]):
    """Stands further in, and counts what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.seen.append(request.tool_call["id"])
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.seen.append(request.tool_call["id"])
        return await handler(request)


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_refusals_never_reach_further_in(style: str) -> None:
    """Least of all the guard that counts results without progress."""
    world = World()
    world.sandbox().files[F] = b"x"
    inner = Counting()
    graph, _ = agent(world, calls(write("a"), read("r")), inner=(inner,))
    await run(graph, style, context=CONTEXT)
    assert inner.seen == ["r"]


async def test_other_tools_are_left_alone() -> None:
    @tool
    def search(query: str) -> str:
        """Search."""
        return "found"

    world = World()
    graph, _ = agent(world, calls(call("search", {"query": "x"}, "a")), tools=[search])
    await run(graph, "ainvoke", context=CONTEXT)
    assert (world.asked, world.provider.made) == (0, {})


def test_declares_its_settings() -> None:
    slot = ReadBeforeWriteMiddleware(ReadBeforeWriteConfig(elide_min_chars=5), access=World().access)
    assert slot.release_policy_parameters() == {
        "enabled": True,
        "elide_blocked_payloads": True,
        "elide_min_chars": 5,
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class TestOnDisk:
    """The built-in file tools over a sandbox whose files are real."""

    @pytest.fixture
    def access(self, tmp_path: Path) -> Iterator[SandboxAccess]:
        provider = LocalSandboxProvider(SandboxConfig(use="local"), base_dir=tmp_path)
        yield SandboxAccess(provider)
        provider.close()

    @staticmethod
    def graph(access: SandboxAccess, *turns: Any) -> Any:
        slot = ReadBeforeWriteMiddleware(ReadBeforeWriteConfig(), access=access)
        tools = [one for one in build_tools(access, SandboxConfig()) if capabilities_of(one).uses_sandbox]
        return create_agent(scripted(*turns), tools, middleware=[slot])

    @staticmethod
    def edit(id: str, old: str, new: str) -> dict[str, Any]:
        return call("str_replace", {"path": F, "old_str": old, "new_str": new}, id)

    @pytest.mark.parametrize("style", STYLES)
    async def test_the_whole_way(self, style: str, access: SandboxAccess) -> None:
        graph = self.graph(
            access,
            calls(write("new", "one two\nthree\n")),
            calls(self.edit("unread", "one", "1")),
            calls(read("r", start_line=2, end_line=2)),
            calls(self.edit("a", "one", "1"), self.edit("b", "two", "2")),
            calls(read("beyond", start_line=9)),
            calls(write("c", "x", append=True)),
            calls(write("outside", "x", path="/etc/new")),
        )
        state = await run(graph, style, context=CONTEXT)
        found = codes(state)
        assert (found["new"], found["unread"], found["c"]) == (None, UNREAD, CHANGED)
        assert {found["a"], found["b"]} == {None, CHANGED}
        assert found["outside"] == "read_before_write.uninspectable"
        assert wire.READ_MARK not in answers(state)["beyond"].additional_kwargs
        text = access.provider.acquire("t1", "u1").read_file(F)
        assert text in ("1 two\nthree\n", "one 2\nthree\n")

    @pytest.mark.slow
    async def test_both_worlds_in_one_loop(self, access: SandboxAccess) -> None:
        """Synchronous runs fill the loop's own threads while tasks of the same loop hold the lock."""
        access.provider.acquire("t1", "u1").write_file(F, "0")
        turn = calls(*(read(f"r{n}") if n % 2 else write(f"w{n}", f"v{n}") for n in range(10)))
        payload = {"messages": [("user", "x")]}
        jobs: list[Any] = []
        for _ in range(25):
            jobs.append(asyncio.to_thread(self.graph(access, turn).invoke, payload, None, context=CONTEXT))
            jobs.append(self.graph(access, turn).ainvoke(payload, context=CONTEXT))
        states = await asyncio.wait_for(asyncio.gather(*jobs), 60)
        for state in states:
            for key, message in answers(state).items():
                assert code(message) == (None if key.startswith("r") else UNREAD)
                assert (wire.READ_MARK in message.additional_kwargs) == key.startswith("r")
