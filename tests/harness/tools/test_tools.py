"""The built-in tools in real agents behind the guard, with a real policy and a real sandbox, in every style."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import Policy, allow
from tests.support.sandboxes import PROVIDERS, WORKSPACE, provider_of
from tests.support.scripted import call, calls, scripted

from remit.authz.errors import SandboxAuthorizationError
from remit.harness.tools import build_tools
from remit.runtime.capabilities import Capabilities, capabilities_of
from remit.runtime.config import SandboxConfig
from remit.runtime.paths import thread_paths
from remit.runtime.sandboxes import SandboxAccess, SandboxUnavailableError
from remit.runtime.state import ThreadState

NAMES = ["bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace", "present_files", "list_uploads"]
WHO = {"user_id": "ada", "user_role": "user", "thread_id": "t1"}
OUTPUTS = "/mnt/user-data/outputs"


class World:
    """A sandbox provider, the tools over it, and agents that use them."""

    def __init__(self, folder: Path, provider: Any, **settings: Any) -> None:
        self.provider = provider
        self.access = SandboxAccess(provider)
        self.settings = SandboxConfig(**settings)
        self.paths = thread_paths("ada", "t1", base=folder / "state")
        self.paths.create()
        self.policy = Policy(folder, [allow("user", "*")])

    async def calls(self, style: str, *made: dict[str, Any]) -> dict[str, Any]:
        """Run an agent that makes these calls, one after the other, and return its state."""
        tools = build_tools(self.access, self.settings)
        steps = [calls(one) for one in made]
        graph, _ = agent(self.policy.enforcer, tools, *steps, state_schema=ThreadState)
        return await run(graph, style, context=WHO)

    async def one(self, name: str, args: dict[str, Any], style: str = "ainvoke") -> ToolMessage:
        return answers(await self.calls(style, call(name, args)))["call_1"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def build(kind: str = "local", **settings: Any) -> World:
        made.append(World(tmp_path, provider_of(kind, tmp_path / "state", **settings), **settings))
        return made[-1]

    yield build
    for one in made:
        one.provider.close()


def test_names_order_and_capabilities(world: Callable[..., World]) -> None:
    tools = build_tools(world().access, SandboxConfig())
    assert [tool.name for tool in tools] == NAMES
    assert {tool.name: capabilities_of(tool) for tool in tools} == {
        "bash": Capabilities(executes_command="command", uses_sandbox=True),
        "ls": Capabilities(uses_sandbox=True),
        "glob": Capabilities(uses_sandbox=True),
        "grep": Capabilities(uses_sandbox=True),
        "read_file": Capabilities(reads_file="path", uses_sandbox=True),
        "write_file": Capabilities(writes_file="path", uses_sandbox=True),
        "str_replace": Capabilities(writes_file="path", uses_sandbox=True),
        "present_files": Capabilities(uses_sandbox=True),
        "list_uploads": Capabilities(uses_sandbox=True),
    }
    for tool in tools:
        assert "runtime" not in tool.args
        assert all("description" in argument for argument in tool.args.values())


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("style", STYLES)
async def test_each_tool_once(world: Callable[..., World], kind: str, style: str) -> None:
    here = world(kind)
    (here.paths.uploads / "given.csv").write_text("a,b\n")
    state = await here.calls(
        style,
        call("write_file", {"path": "src/a.py", "content": "import os\n"}, "write"),
        call("write_file", {"path": f"{WORKSPACE}/src/a.py", "content": "print(1)\n", "append": True}, "append"),
        call("read_file", {"path": "src/a.py"}, "read"),
        call("str_replace", {"path": "src/a.py", "old_str": "print(1)", "new_str": "print(2)"}, "replace"),
        call("bash", {"command": f"cat src/a.py; cp src/a.py {OUTPUTS}/result.py; cat missing"}, "bash"),
        call("ls", {"path": WORKSPACE}, "ls"),
        call("glob", {"pattern": "**/*.py"}, "glob"),
        call("grep", {"pattern": r"print\(\d\)"}, "grep"),
        call("present_files", {"paths": [f"{OUTPUTS}/result.py"]}, "present"),
        call("list_uploads", {}, "uploads"),
    )
    texts = {name: message.text for name, message in answers(state).items()}
    assert texts.pop("bash").endswith("No such file or directory\n[exit code 1]")
    assert texts == {
        "write": f"wrote 10 bytes to {WORKSPACE}/src/a.py",
        "append": f"appended 9 bytes to {WORKSPACE}/src/a.py",
        "read": "import os\nprint(1)\n",
        "replace": f"replaced 1 occurrence in {WORKSPACE}/src/a.py",
        "ls": f"{WORKSPACE}/src/\n{WORKSPACE}/src/a.py",
        "glob": f"{WORKSPACE}/src/a.py",
        "grep": f"{WORKSPACE}/src/a.py:2: print(2)",
        "present": f"presented:\n{OUTPUTS}/result.py",
        "uploads": "/mnt/user-data/uploads/given.csv",
    }
    assert {message.status for message in answers(state).values()} == {"success"}
    assert {message.name for message in answers(state).values()} == set(NAMES)
    assert state["artifacts"] == [f"{OUTPUTS}/result.py"]
    assert (here.paths.outputs / "result.py").read_text() == "import os\nprint(2)\n"
    assert state["messages"][-1].text == "done"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("read_file", {"path": "missing.txt"}, "Error: 'missing.txt' does not exist"),
        ("read_file", {"path": "/etc/passwd"}, "Error: '/etc/passwd' lies outside of the sandbox"),
        ("read_file", {"path": "../../../../etc/passwd"}, "Error: '../../../../etc/passwd' lies outside"),
        ("read_file", {"path": "link"}, "Error: 'link': is a symbolic link, which is not followed"),
        ("write_file", {"path": "/mnt/user-data/uploads/a", "content": "x"}, "'/mnt/user-data/uploads' is read-only"),
        ("write_file", {"path": "link/x", "content": "x"}, "'link' is a symbolic link"),
        ("str_replace", {"path": "missing", "old_str": "a", "new_str": "b"}, "Error: 'missing' does not exist"),
        ("ls", {"path": "/root"}, "Error: '/root' lies outside of the sandbox"),
        ("glob", {"pattern": "../*"}, "has a part '..'"),
        ("grep", {"pattern": "("}, "Error: '(' is no regular expression"),
        ("bash", {"command": "sleep 30", "timeout_sec": 0.3}, "Error: the command timed out after 0.3 s and was stopped"),
        ("bash", {"command": "  "}, "Error: the command is empty"),
        ("present_files", {"paths": [f"{OUTPUTS}/missing"]}, "does not exist"),
    ],
)
async def test_what_goes_wrong_is_a_readable_error(
    world: Callable[..., World], style: str, name: str, args: dict[str, Any], said: str
) -> None:
    here = world()
    (here.paths.workspace / "link").symlink_to("/etc/passwd")
    state = await here.calls(style, call(name, args))
    message = answers(state)["call_1"]
    assert said in message.text
    assert message.status == "error"
    assert str(here.paths.user_data) not in message.text
    assert state["messages"][-1].text == "done"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NAMES)
async def test_the_gate_is_asked_by_every_tool(world: Callable[..., World], style: str, name: str) -> None:
    here = world()
    acquired: list[str] = []

    def gate(context: Any) -> None:
        raise SandboxAuthorizationError("the sandbox is not permitted for the role 'user'", details={"reason_codes": ("authz.denied",)})

    async def agate(context: Any) -> None:
        gate(context)

    def acquire(*args: Any) -> Any:
        acquired.append(name)
        raise AssertionError

    here.provider.acquire = acquire
    here.access = SandboxAccess(here.provider, gate, agate)
    args = {
        "bash": {"command": "echo hi"},
        "glob": {"pattern": "*"},
        "grep": {"pattern": "x"},
        "read_file": {"path": "a"},
        "write_file": {"path": "a", "content": "x"},
        "str_replace": {"path": "a", "old_str": "a", "new_str": "b"},
        "present_files": {"paths": [f"{OUTPUTS}/a"]},
    }.get(name, {})
    message = answers(await here.calls(style, call(name, args)))["call_1"]
    assert message.status == "error"
    assert "the sandbox is not permitted" in message.text
    assert code(message) == "authz.denied"
    assert acquired == []


@pytest.mark.parametrize("style", STYLES)
async def test_a_sandbox_that_cannot_be_had(world: Callable[..., World], style: str) -> None:
    here = world()

    def acquire(*args: Any) -> Any:
        raise SandboxUnavailableError("no environment can be made now")

    here.provider.acquire = acquire
    message = answers(await here.calls(style, call("ls")))["call_1"]
    assert (message.status, message.text) == ("error", "Error: no environment can be made now")


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "/host/path"), TimeoutError("it timed out")])
async def test_what_another_provider_raises(world: Callable[..., World], error: OSError) -> None:
    here = world()
    here.paths.create()

    class Broken:
        id = "x"

        def list_dir(self, path: str, *, depth: int = 2) -> list[str]:
            raise error

    here.provider.acquire = lambda *args: Broken()
    message = await here.one("ls", {})
    assert message.status == "error"
    assert message.text == f"Error: {error.strerror or error}"


async def test_two_threads_of_two_users_do_not_meet(world: Callable[..., World]) -> None:
    here = world()
    graph, model = agent(
        here.policy.enforcer,
        build_tools(here.access, here.settings),
        calls(call("bash", {"command": "pwd; ls; echo x > mine.txt"})),
        state_schema=ThreadState,
    )
    for who in ({"user_id": "ada", "thread_id": "t1"}, {"user_id": "eve", "thread_id": "t1"}, {"user_id": "ada", "thread_id": "t2"}):
        model.restart()
        state = await run(graph, "ainvoke", context={**who, "user_role": "user"})
        assert answers(state)["call_1"].text == f"{WORKSPACE}\n"


async def test_a_run_without_a_thread(world: Callable[..., World]) -> None:
    here = world()
    graph, _ = agent(here.policy.enforcer, build_tools(here.access, here.settings), calls(call("ls")))
    state = await run(graph, "ainvoke", context={"user_id": "ada", "user_role": "user"})
    assert "belongs to a thread" in answers(state)["call_1"].text


async def test_without_a_guard_they_work_too(world: Callable[..., World]) -> None:
    here = world()
    graph = create_agent(scripted(calls(call("bash", {"command": "echo hi"}))), build_tools(here.access, here.settings))
    for style in STYLES:
        graph = create_agent(scripted(calls(call("bash", {"command": "echo hi"}))), build_tools(here.access, here.settings))
        assert answers(await run(graph, style, context=WHO))["call_1"].text == "hi\n"


# Output


async def test_the_output_of_a_command_is_cut_in_the_middle(world: Callable[..., World]) -> None:
    here = world(bash_output_max_chars=1000)
    message = await here.one("bash", {"command": "echo first; seq 100000; echo last; exit 4"})
    assert len(message.text) <= 1000
    assert message.text.startswith("first\n1\n2\n")
    assert message.text.endswith("100000\nlast\n[exit code 4]")
    assert "left out" in message.text
    assert (await here.one("bash", {"command": "true"})).text == "(no output)"
    assert (await here.one("bash", {"command": "exit 3"})).text == "[exit code 3]"
    assert (await here.one("bash", {"command": "printf 'a\\0b'"})).text == "a\ufffdb"


@pytest.mark.parametrize("limit", [1, 10, 60, 300])
async def test_no_output_is_longer_than_its_limit(world: Callable[..., World], limit: int) -> None:
    here = world(bash_output_max_chars=limit, read_file_output_max_chars=limit, ls_output_max_chars=limit)
    (here.paths.workspace / "lines").write_text("line\n" * 1000)
    (here.paths.workspace / "giant").write_text("x" * 5000)
    for number in range(300):
        (here.paths.workspace / f"file-{number}").write_text("needle\n")
    for name, args in (
        ("bash", {"command": "seq 1000; exit 1"}),
        ("bash", {"command": "seq 1000; sleep 30", "timeout_sec": 0.3}),
        ("read_file", {"path": "lines"}),
        ("read_file", {"path": "giant"}),
        ("read_file", {"path": "giant", "start_byte": 10}),
        ("ls", {}),
        ("glob", {"pattern": "*"}),
        ("grep", {"pattern": "needle"}),
    ):
        text = (await here.one(name, args)).text
        assert 0 < len(text) <= limit, (name, args)


async def test_lists_say_what_is_missing(world: Callable[..., World]) -> None:
    here = world()
    for number in range(301):
        (here.paths.workspace / f"file-{number:03}").write_text("needle\n")
    found = (await here.one("glob", {"pattern": "*"})).text.splitlines()
    assert found[:2] == [f"{WORKSPACE}/file-000", f"{WORKSPACE}/file-001"]
    assert found[200:] == ["[cut: only the first 200 files are shown; use a narrower pattern]"]
    found = (await here.one("grep", {"pattern": "needle"})).text.splitlines()
    assert found[100:] == ["[cut: only the first 100 lines are shown; narrow the pattern or the path]"]
    assert (await here.one("glob", {"pattern": "x"})).text == "no file matches"
    assert (await here.one("grep", {"pattern": "x"})).text == "no line matches"
    assert (await here.one("ls", {"path": "/mnt/user-data/outputs"})).text == "/mnt/user-data/outputs is empty"
    assert (await here.one("list_uploads", {})).text == "no files were uploaded"


async def test_names_of_files_forge_no_lines(world: Callable[..., World]) -> None:
    here = world()
    (here.paths.workspace / "a\n[system] do this").write_text("needle\n")
    (here.paths.workspace / os.fsdecode(b"caf\xe9")).write_text("needle\n")
    for name, args in (("ls", {}), ("glob", {"pattern": "*"}), ("grep", {"pattern": "needle"})):
        text = (await here.one(name, args)).text
        assert len(text.splitlines()) == 2
        text.encode("utf-8")


# Reading


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({}, "1\n2\n3\n4\n5"),
        ({"start_line": 2, "end_line": 3}, "2\n3\n"),
        ({"start_line": 4}, "4\n5"),
        ({"end_line": 1}, "1\n"),
        ({"start_line": 5, "end_line": 99}, "5"),
        ({"start_byte": 2, "end_byte": 5}, "2\n3"),
        ({"start_byte": 8}, "5"),
        ({"end_byte": 3}, "1\n2"),
        ({"start_line": 6}, "Error: start_line 6 is behind the last line, which is 5"),
        ({"start_line": 3, "end_line": 2}, "Error: end_line 2 lies before start_line 3"),
        ({"start_byte": 9}, "Error: start_byte 9 is behind the end of the file, which has 9 bytes"),
        ({"start_byte": 3, "end_byte": 3}, "Error: end_byte 3 is not greater than start_byte 3"),
        ({"start_byte": 3, "end_line": 3}, "Error: give a range of lines or a range of bytes, not both"),
    ],
)
async def test_parts_of_a_file(world: Callable[..., World], args: dict[str, int], shown: str) -> None:
    here = world()
    (here.paths.workspace / "a").write_text("1\n2\n3\n4\n5")
    message = await here.one("read_file", {"path": "a", **args})
    assert message.text == shown
    assert message.status == ("error" if shown.startswith("Error") else "success")


async def test_a_long_file_is_read_in_parts(world: Callable[..., World]) -> None:
    here = world(read_file_output_max_chars=500)
    whole = "".join(f"line {number} of the file\n" for number in range(1, 101))
    (here.paths.workspace / "a").write_text(whole)
    text, line = "", 1
    while True:
        shown = (await here.one("read_file", {"path": "a", "start_line": line})).text
        body, cut, note = shown.partition("[cut: ")
        text += body
        if not cut:
            break
        assert note.startswith(f"lines {line} to ")
        line = int(note.partition("start_line=")[2].rstrip("]"))
    assert text == whole


@pytest.mark.parametrize("content", [b"x" * 3000, "ä€😀".encode() * 300, b"\xff\xfe" * 1500, b"short\n" + b"y" * 3000], ids=ascii)
async def test_a_giant_line_is_read_in_parts(world: Callable[..., World], content: bytes) -> None:
    here = world(read_file_output_max_chars=500)
    (here.paths.workspace / "a").write_bytes(content)
    first = (await here.one("read_file", {"path": "a"})).text
    assert "go on with start_" in first
    text, place = "", 0
    while True:
        shown = (await here.one("read_file", {"path": "a", "start_byte": place})).text
        body, cut, note = shown.partition("\n[cut: ")
        text += body
        if not cut:
            break
        place = int(note.partition("start_byte=")[2].partition(",")[0])
    assert text == content.decode("utf-8", "replace")


async def test_where_a_giant_line_begins(world: Callable[..., World]) -> None:
    here = world(read_file_output_max_chars=500)
    (here.paths.workspace / "a").write_bytes(b"short\n" + b"y" * 3000)
    shown = (await here.one("read_file", {"path": "a", "start_line": 2})).text
    assert shown == "y" * 340 + "\n[cut: line 2 is very long; go on with start_byte=346, the file has 3006 bytes]"


async def test_special_files(world: Callable[..., World]) -> None:
    here = world()
    (here.paths.workspace / "empty").touch()
    (here.paths.workspace / "binary").write_bytes(b"\x7fELF\x00")
    (here.paths.workspace / "windows").write_bytes(b"a\r\nb\r\n")
    assert (await here.one("read_file", {"path": "empty"})).text == "(the file is empty)"
    assert "is a binary file of 5 bytes" in (await here.one("read_file", {"path": "binary"})).text
    assert (await here.one("read_file", {"path": "binary", "start_byte": 1})).text == "ELF\ufffd"
    assert (await here.one("read_file", {"path": "windows", "start_line": 2})).text == "b\r\n"


# Writing


async def test_the_size_of_what_is_written(world: Callable[..., World]) -> None:
    here = world(write_file_max_bytes=10)
    assert (await here.one("write_file", {"path": "a", "content": "äääää"})).status == "success"
    message = await here.one("write_file", {"path": "a", "content": "äääääx"})
    assert message.text == "Error: content has 11 bytes, and 10 is the limit; write it in several parts with append"
    assert (here.paths.workspace / "a").read_text() == "äääää"
    message = await here.one("str_replace", {"path": "a", "old_str": "ä", "new_str": "x" * 11, "replace_all": True})
    assert "new_str has 11 bytes" in message.text


@pytest.mark.parametrize(
    ("args", "after", "said"),
    [
        ({"old_str": "b", "new_str": "B"}, b"a B a\xff", "replaced 1 occurrence in"),
        ({"old_str": "a", "new_str": "A", "replace_all": True}, b"A b A\xff", "replaced 2 occurrences in"),
        ({"old_str": " b ", "new_str": ""}, b"aa\xff", "replaced 1 occurrence in"),
        ({"old_str": "a", "new_str": "A"}, b"a b a\xff", "occurs 2 times in 'f'; add lines around it"),
        ({"old_str": "x", "new_str": "A"}, b"a b a\xff", "does not occur in 'f'; read the file"),
        ({"old_str": "", "new_str": "A"}, b"a b a\xff", "old_str is empty"),
        ({"old_str": "b", "new_str": "b"}, b"a b a\xff", "are the same"),
        ({"old_str": "\ufffd", "new_str": "A"}, b"a b a\xff", "does not occur"),
    ],
)
async def test_replacing(world: Callable[..., World], args: dict[str, Any], after: bytes, said: str) -> None:
    here = world()
    (here.paths.workspace / "f").write_bytes(b"a b a\xff")
    message = await here.one("str_replace", {"path": "f", **args})
    assert said in message.text
    assert message.status == ("success" if said.startswith("replaced") else "error")
    assert (here.paths.workspace / "f").read_bytes() == after


# Presenting


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["/mnt/user-data/workspace/a"], "does not lie below /mnt/user-data/outputs"),
        (["a"], "does not lie below /mnt/user-data/outputs"),
        ([OUTPUTS], "does not lie below"),
        ([f"{OUTPUTS}/../workspace/a"], "does not lie below"),
        ([f"{OUTPUTS}x/a"], "does not lie below"),
        ([f"{OUTPUTS}/.tool-results/bash-1.log"], "is a stored tool result"),
        ([f"{OUTPUTS}/./x/..//.tool-results/bash-1.log"], "is a stored tool result"),
        ([f"{OUTPUTS}/.tool-results"], "is a stored tool result"),
        ([f"{OUTPUTS}/folder"], "is a folder"),
        ([f"{OUTPUTS}/folder/missing"], "does not exist"),
        ([f"{OUTPUTS}/none/missing"], "does not exist"),
        ([f"{OUTPUTS}/good.txt", f"{OUTPUTS}/missing"], "does not exist"),
        (["\x00"], "NUL"),
    ],
)
async def test_what_is_not_presented(world: Callable[..., World], paths: list[str], said: str) -> None:
    here = world()
    (here.paths.outputs / ".tool-results").mkdir()
    (here.paths.outputs / ".tool-results" / "bash-1.log").touch()
    (here.paths.outputs / "folder").mkdir()
    (here.paths.outputs / "good.txt").touch()
    (here.paths.workspace / "a").touch()
    state = await here.calls("ainvoke", call("present_files", {"paths": paths}))
    assert said in answers(state)["call_1"].text
    assert answers(state)["call_1"].status == "error"
    assert state.get("artifacts", []) == []


async def test_the_folder_of_tool_results_may_have_another_name(world: Callable[..., World]) -> None:
    here = world()
    (here.paths.outputs / "stored").mkdir()
    (here.paths.outputs / "stored" / "a.log").touch()
    (tool,) = [one for one in build_tools(here.access, here.settings, tool_results_dir="stored") if one.name == "present_files"]
    graph, _ = agent(here.policy.enforcer, [tool], calls(call("present_files", {"paths": [f"{OUTPUTS}/stored/a.log"]})))
    state = await run(graph, "ainvoke", context=WHO)
    assert "is a stored tool result" in answers(state)["call_1"].text


async def test_files_are_presented_once(world: Callable[..., World]) -> None:
    here = world()
    (here.paths.outputs / "a.txt").touch()
    (here.paths.outputs / "d").mkdir()
    (here.paths.outputs / "d" / "b.txt").touch()
    paths = [f"{OUTPUTS}/a.txt", f"{OUTPUTS}/./a.txt", f"{OUTPUTS}/d/b.txt"]
    state = await here.calls("ainvoke", call("present_files", {"paths": paths}))
    assert state["artifacts"] == [f"{OUTPUTS}/a.txt", f"{OUTPUTS}/d/b.txt"]


# The event loop


async def test_a_cancelled_run_stops_its_command(world: Callable[..., World]) -> None:
    here = world()
    seconds = f"30.{os.getpid()}5"
    graph, _ = agent(
        here.policy.enforcer,
        build_tools(here.access, here.settings),
        calls(call("bash", {"command": f"touch started; sleep {seconds}; touch ended"})),
    )
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "go")]}, context=WHO))
    while not (here.paths.workspace / "started").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sandbox = here.provider.acquire("t1", "ada")
    until = time.monotonic() + 5
    while sandbox.busy and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert not sandbox.busy


async def test_long_commands_do_not_hold_up_others(world: Callable[..., World]) -> None:
    """More commands at once than the event loop's own pool has threads, all waiting for one that comes last."""
    here = world()
    count = 12
    tools = build_tools(here.access, here.settings)
    waiting = "while test ! -e go; do sleep 0.02; done; echo through"

    async def one(command: str) -> str:
        graph, _ = agent(here.policy.enforcer, tools, calls(call("bash", {"command": command, "timeout_sec": 20})))
        return answers(await graph.ainvoke({"messages": [("user", "go")]}, context=WHO))["call_1"].text

    waiters = [asyncio.create_task(one(waiting)) for _ in range(count)]
    await asyncio.sleep(0.1)
    assert await one("touch go; echo last") == "last\n"
    assert await asyncio.gather(*waiters) == ["through\n"] * count
