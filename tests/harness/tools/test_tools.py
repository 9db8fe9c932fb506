"""The built-in tools in real agents behind the guard, with a real policy and a real sandbox, in every style."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.sandboxes import PROVIDERS, WORKSPACE
from tests.support.scripted import call, calls, scripted
from tests.support.tool_worlds import OUTPUTS, WHO, World
from tests.support.waiting import eventually

from remit.authz.errors import SandboxAuthorizationError
from remit.harness.tools import build_tools
from remit.runtime.capabilities import Capabilities, capabilities_of
from remit.runtime.config import SandboxConfig
from remit.runtime.sandboxes import SandboxAccess, SandboxUnavailableError
from remit.runtime.state import ThreadState

BOTH = ("invoke", "ainvoke")
"""The two shells of a body; streams differ in the graph, not in the tool."""
NAMES = ["bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace", "present_files", "list_uploads"]


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


@pytest.mark.parametrize("style", BOTH)
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("read_file", {"path": "missing.txt"}, "Error: 'missing.txt' does not exist"),
        ("read_file", {"path": "/etc/passwd"}, "Error: '/etc/passwd' lies outside of the sandbox"),
        ("read_file", {"path": "../../../../etc/passwd"}, "Error: the path '../../../../etc/passwd' leaves"),
        ("read_file", {"path": "link"}, "Error: 'link': is a symbolic link, which is not followed"),
        ("write_file", {"path": "/mnt/user-data/uploads/a", "content": "x"}, "'/mnt/user-data/uploads' is read-only"),
        ("write_file", {"path": "link/x", "content": "x"}, "'link' is a symbolic link"),
        ("str_replace", {"path": "missing", "old_str": "a", "new_str": "b"}, "Error: 'missing' does not exist"),
        ("ls", {"path": "/root"}, "Error: '/root' lies outside of the sandbox"),
        ("glob", {"pattern": "../*"}, "has a part '..'"),
        ("grep", {"pattern": "("}, "Error: '(' is no regular expression"),
        (
            "bash",
            {"command": "sleep 30", "timeout_sec": 0.3},
            "Error: the command timed out after 0.3 s and was stopped",
        ),
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


@pytest.mark.parametrize("style", BOTH)
@pytest.mark.parametrize("name", NAMES)
async def test_the_gate_is_asked_by_every_tool(world: Callable[..., World], style: str, name: str) -> None:
    here = world()
    acquired: list[str] = []

    def gate(context: Any) -> None:
        raise SandboxAuthorizationError(
            "the sandbox is not permitted for the role 'user'", details={"reason_codes": ("authz.denied",)}
        )

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


@pytest.mark.parametrize("style", BOTH)
async def test_a_sandbox_that_cannot_be_had(world: Callable[..., World], style: str) -> None:
    here = world()

    def acquire(*args: Any) -> Any:
        raise SandboxUnavailableError("no environment can be made now")

    here.provider.acquire = acquire
    message = answers(await here.calls(style, call("ls")))["call_1"]
    assert (message.status, message.text) == ("error", "Error: no environment can be made now")


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied", "/host/path"), TimeoutError("it timed out")]
)
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
    for who in (
        {"user_id": "ada", "thread_id": "t1"},
        {"user_id": "eve", "thread_id": "t1"},
        {"user_id": "ada", "thread_id": "t2"},
    ):
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
        graph = create_agent(
            scripted(calls(call("bash", {"command": "echo hi"}))), build_tools(here.access, here.settings)
        )
        assert answers(await run(graph, style, context=WHO))["call_1"].text == "hi\n"


async def test_a_cancelled_run_stops_its_command(world: Callable[..., World]) -> None:
    here = world()
    seconds = f"30.{os.getpid()}5"
    graph, _ = agent(
        here.policy.enforcer,
        build_tools(here.access, here.settings),
        calls(call("bash", {"command": f"touch started; sleep {seconds}; touch ended"})),
    )
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "go")]}, context=WHO))
    await asyncio.to_thread(eventually, (here.paths.workspace / "started").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sandbox = here.provider.acquire("t1", "ada")
    await asyncio.to_thread(eventually, lambda: not sandbox.busy)
    assert not (here.paths.workspace / "ended").exists()


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
