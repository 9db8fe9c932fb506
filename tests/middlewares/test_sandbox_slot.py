"""The environment of a thread: noted when a call opened it, let go by its owner, and never made against the policy."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, interrupt
from pydantic import BaseModel
from tests.support.agents import STYLES, answers, run
from tests.support.blocking import no_blocking_calls
from tests.support.policies import allow, write_policy
from tests.support.scripted import call, calls, scripted

from remit.authz import Enforcer, SandboxAuthorizationError, load_config, wire
from remit.authz.gates.sandbox import aauthorize_sandbox_execution, authorize_sandbox_execution
from remit.harness.sandbox.local import LocalSandboxProvider
from remit.middlewares import guard
from remit.middlewares.fusion import fused
from remit.middlewares.results import EVERY_CALL, map_messages
from remit.middlewares.sandbox import Projection, SandboxMiddleware, with_update
from remit.middlewares.thread_data import ThreadDataMiddleware
from remit.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from remit.runtime.config import SandboxConfig, load_app_config
from remit.runtime.sandboxes import SandboxAccess, SandboxUnavailableError
from remit.runtime.state import ThreadState

WHO: dict[str, Any] = {"user_id": "u1", "thread_id": "t1"}
BASH = calls(call("bash", {"command": "echo hi"}))


class Recording(LocalSandboxProvider):
    """The local provider, with a note of what it was asked."""

    keeps_environments = False

    def __init__(self, settings: SandboxConfig) -> None:
        super().__init__(settings)
        self.acquired: list[tuple[str, str]] = []
        self.released: list[tuple[str, bool]] = []
        self.broken: Exception | None = None

    def acquire(self, thread_id: str, user_id: str) -> Any:
        if self.broken is not None:
            raise self.broken
        self.acquired.append((thread_id, user_id))
        return super().acquire(thread_id, user_id)

    def release(self, sandbox_id: str, *, thread_id: str, user_id: str) -> bool:
        if self.broken is not None:
            raise self.broken
        done = super().release(sandbox_id, thread_id=thread_id, user_id=user_id)
        self.released.append((sandbox_id, done))
        return done


class World:
    """A provider, the door to it behind a gate that can be closed, and tools that go through the door."""

    def __init__(self) -> None:
        self.provider = Recording(SandboxConfig(use="local"))
        self.closed = False
        self.access = SandboxAccess(self.provider, self._gate, self._agate)

    def _gate(self, context: Any) -> None:
        if self.closed:
            raise SandboxAuthorizationError("the sandbox is not permitted for the role 'guest'")

    async def _agate(self, context: Any) -> None:
        await asyncio.sleep(0)
        self._gate(context)

    def tools(self, answer: Callable[[ToolMessage], Any] | None = None) -> list[Any]:
        """``bash`` in both forms, which hands back what `answer` makes of its message, and a tool without a sandbox."""
        access = self.access

        def ended(sandbox: Any, command: str, call_id: str | None) -> Any:
            message = ToolMessage(sandbox.execute_command(command).output, tool_call_id=call_id, name="bash")
            return answer(message) if answer is not None else message

        async def soon(command: str, runtime: ToolRuntime[Any, Any]) -> Any:
            sandbox = await access.aensure(runtime)
            return await asyncio.to_thread(ended, sandbox, command, runtime.tool_call_id)

        @tool
        def bash(command: str, runtime: ToolRuntime[Any, Any]) -> Any:
            """Run a command."""
            return ended(access.ensure(runtime), command, runtime.tool_call_id)

        bash.coroutine = soon

        @tool
        def web_search(query: str) -> str:
            """Search the web."""
            return f"pages about {query}"

        return [bash, web_search]

    def agent(self, *steps: Any, answer: Any = None, saver: Any = None, inner: Any = (), **options: Any) -> Any:
        slot = SandboxMiddleware(self.access, **options)
        errors = ToolErrorHandlingMiddleware(load_app_config({}))
        return create_agent(scripted(*steps), self.tools(answer), middleware=[slot, *inner, errors], checkpointer=saver)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.provider.close()


@pytest.mark.parametrize("style", STYLES)
async def test_what_a_call_opened_stands_in_the_state(world: World, style: str) -> None:
    state = await run(world.agent(BASH, owner=False), style, context=WHO)
    assert answers(state)["call_1"].text.strip() == "hi"
    mine = world.provider.acquire("t1", "u1")
    assert state[wire.SANDBOX] == {"sandbox_id": mine.id}


@pytest.mark.parametrize("style", STYLES)
async def test_a_call_without_a_sandbox_writes_none(world: World, style: str) -> None:
    state = await run(world.agent(calls(call("web_search", {"query": "x"}))), style, context=WHO)
    assert wire.SANDBOX not in state
    assert world.provider.acquired == []
    assert world.provider.released == []


@pytest.mark.parametrize("style", STYLES)
async def test_the_same_environment_is_noted_once(world: World, style: str) -> None:
    seen: list[Any] = []

    class Seeing(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            seen.append(state.get(wire.SANDBOX))

    again = calls(call("bash", {"command": "echo again"}, "call_2"))
    await run(world.agent(BASH, again, inner=[Seeing()]), style, context=WHO)
    assert seen[0] is None
    assert seen[1] == seen[2]
    assert len(world.provider.acquired) == 1, "the second call finds the id in the state"


@pytest.mark.parametrize("style", STYLES)
async def test_parallel_calls_share_one_environment(world: World, style: str) -> None:
    both = calls(*[call("bash", {"command": f"echo {n} >> f"}, f"c{n}") for n in range(4)])
    state = await run(world.agent(both, owner=False), style, context=WHO)
    assert {message.status for message in answers(state).values()} == {"success"}
    assert state[wire.SANDBOX] == {"sandbox_id": world.provider.acquire("t1", "u1").id}


async def test_two_agents_at_once_share_one_environment(world: World) -> None:
    lead, helper = world.agent(BASH, owner=False), world.agent(BASH, owner=False)
    payload = {"messages": [("user", "go")]}
    with no_blocking_calls():
        one, other = await asyncio.gather(
            lead.ainvoke(payload, context=WHO), helper.ainvoke(payload, context={**WHO, wire.IS_SUBAGENT: True})
        )
    assert one[wire.SANDBOX] == other[wire.SANDBOX]


class Update(BaseModel):
    messages: Annotated[list[Any], add_messages]


FORMS: list[tuple[str, Callable[[ToolMessage], Any]]] = [
    ("a message", lambda message: message),
    ("a mapping", lambda message: Command(update={"messages": [message], "title": "kept"})),
    ("one message in a mapping", lambda message: Command(update={"messages": message})),
    ("pairs", lambda message: Command(update=[("messages", [message]), ("title", "kept")])),
    ("an object", lambda message: Command(update=Update(messages=[message]))),
    ("a list", lambda message: [message]),
    ("a list of both", lambda message: [message, Command(update={"title": "kept"})]),
    ("an end", lambda message: Command(update={"messages": [message]}, goto=END)),
]


class Naked(AgentMiddleware[Any, Any, Any]):
    """Hands on what `answer` makes of the message, past everything that would bring it in shape."""

    state_schema = ThreadState

    def __init__(self, answer: Callable[[ToolMessage], Any]) -> None:
        super().__init__()
        self.answer = answer

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.answer(handler(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.answer(await handler(request))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("answer", [f[1] for f in FORMS], ids=[f[0] for f in FORMS])
async def test_every_form_of_a_result(world: World, style: str, answer: Any) -> None:
    graph = world.agent(BASH, inner=[Naked(answer)], owner=False)
    state = await run(graph, style, context=WHO)
    assert answers(state)["call_1"].text.strip() == "hi"
    assert state[wire.SANDBOX] == {"sandbox_id": world.provider.acquire("t1", "u1").id}


MESSAGE = ToolMessage("ok", tool_call_id="c", artifact={"a": 1})
NOTED = {"sandbox_id": "s"}
SHAPES: list[tuple[str, Any, Any]] = [
    ("no update", Command(goto="x"), Command(update={"sandbox": NOTED}, goto="x")),
    (
        "a jump out of the graph",
        Command(graph=Command.PARENT, update={"a": 1}, goto="x", resume="r"),
        Command(graph=Command.PARENT, update={"a": 1, "sandbox": NOTED}, goto="x", resume="r"),
    ),
    ("written over", Command(update={"sandbox": {"sandbox_id": "forged"}}), Command(update={"sandbox": NOTED})),
    (
        "a pair written over",
        Command(update=[("sandbox", 1), ("a", 2)]),
        Command(update=[("a", 2), ("sandbox", NOTED)]),
    ),
    ("no pairs", Command(update=()), Command(update=[("sandbox", NOTED)])),
    ("a bare message", Command(update=MESSAGE), [Command(update=MESSAGE), Command(update={"sandbox": NOTED})]),
    ("bare messages", Command(update=[MESSAGE]), [Command(update=[MESSAGE]), Command(update={"sandbox": NOTED})]),
    ("text", Command(update="x"), [Command(update="x"), Command(update={"sandbox": NOTED})]),
    ("an empty list", [], [Command(update={"sandbox": NOTED})]),
    ("nothing", None, None),
    ("a mapping that is no result", {"messages": []}, {"messages": []}),
]


@pytest.mark.parametrize(("result", "wanted"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES])
def test_one_more_channel(result: Any, wanted: Any) -> None:
    before = repr(result)
    assert with_update(result, "sandbox", NOTED) == wanted
    assert repr(result) == before


def test_the_message_is_handed_on_as_it_is() -> None:
    update = with_update(MESSAGE, "sandbox", NOTED)
    found: list[ToolMessage] = []
    map_messages(update, lambda message: found.append(message) or message, call_id=EVERY_CALL)
    assert found[0] is MESSAGE


@pytest.mark.parametrize("style", STYLES)
async def test_an_agent_called_as_a_tool(world: World, style: str) -> None:
    """What a subagent opened for the thread, the lead knows; what belongs to another thread, it does not."""
    inner = world.agent(BASH, owner=False)

    def delegate(thread: str) -> Any:
        @tool
        def task(text: str) -> str:
            """Delegate."""
            inner.invoke({"messages": [("user", text)]}, context={**WHO, "thread_id": thread})
            return "delegated"

        async def soon(text: str) -> str:
            await inner.ainvoke({"messages": [("user", text)]}, context={**WHO, "thread_id": thread})
            return "delegated"

        task.coroutine = soon
        return task

    for thread, known in (("t1", True), ("t2", False)):
        inner.get_graph()
        script = scripted(calls(call("task", {"text": "go"})))
        lead = create_agent(script, [delegate(thread)], middleware=[SandboxMiddleware(world.access, owner=False)])
        state = await run(lead, style, context=WHO)
        assert answers(state)["call_1"].text == "delegated"
        assert (wire.SANDBOX in state) is known
        inner = world.agent(BASH, owner=False)


@pytest.mark.parametrize("style", STYLES)
async def test_an_interrupted_call_runs_again(world: World, style: str) -> None:
    def asking(message: ToolMessage) -> Any:
        return message.model_copy(update={"content": interrupt("sure?")})

    graph = world.agent(BASH, inner=[Naked(asking)], saver=InMemorySaver())
    config = {"configurable": {"thread_id": "t1"}}
    await run(graph, style, context=WHO, config=config)
    assert world.provider.released == [], "a run that waits keeps its environment"
    state = await run(graph, style, Command(resume="yes"), context=WHO, config=config)
    assert answers(state)["call_1"].text == "yes"
    assert world.provider.released == [(state[wire.SANDBOX]["sandbox_id"], True)]


@pytest.mark.parametrize("error", [GraphInterrupt(()), ValueError("x"), asyncio.CancelledError()], ids=repr)
async def test_what_is_raised_passes_untouched(world: World, error: BaseException) -> None:
    slot = SandboxMiddleware(world.access)
    request: Any = SimpleNamespace(runtime=SimpleNamespace(context=WHO), state={})

    def handler(_: Any) -> Any:
        world.access.ensure(request.runtime)
        raise error

    async def ahandler(_: Any) -> Any:
        await world.access.aensure(request.runtime)
        raise error

    with pytest.raises(type(error)) as caught:
        slot.wrap_tool_call(request, handler)
    assert caught.value is error
    with pytest.raises(type(error)) as caught:
        await slot.awrap_tool_call(request, ahandler)
    assert caught.value is error


def test_nothing_opened_is_the_very_same_result(world: World) -> None:
    slot = SandboxMiddleware(world.access)
    request: Any = SimpleNamespace(runtime=None, state=None)
    for result in (MESSAGE, Command(goto="x"), None, b"x"):
        assert slot.wrap_tool_call(request, lambda _, result=result: result) is result


@pytest.mark.parametrize("style", STYLES)
async def test_a_closed_gate_is_a_readable_answer(world: World, style: str) -> None:
    world.closed = True
    both = calls(call("bash", {"command": "echo hi"}), call("web_search", {"query": "x"}, "call_2"))
    for lazy in (True, False):
        state = await run(world.agent(both, lazy_init=lazy), style, context=WHO)
        found = answers(state)
        assert found["call_1"].status == "error"
        assert "needs a sandbox, and this run may not use one" in found["call_1"].text
        assert found["call_2"].text == "pages about x"
        assert wire.SANDBOX not in state
    assert world.provider.acquired == []


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "eager"])
@pytest.mark.parametrize("broken", [False, True], ids=["denied", "provider fails"])
async def test_the_real_gate(tmp_path: Path, world: World, style: str, lazy: bool, broken: bool) -> None:
    """A policy without sandbox, or one that cannot be asked: the run starts, and nothing is acquired."""
    write_policy(tmp_path, [allow("guest", "*")])
    provider = {"use": "casbin", "config": {"policies": [str(tmp_path / "policy.csv")]}}
    if broken:
        provider = {"use": "nowhere_at_all:Provider", "config": {}}
    authz = load_config({"authorization": {"enabled": True, "default_role": "guest", "provider": provider}})
    world.access = SandboxAccess(
        world.provider,
        gate=partial(authorize_sandbox_execution, config=authz),
        agate=partial(aauthorize_sandbox_execution, config=authz),
    )
    both = calls(call("bash", {"command": "echo hi"}), call("web_search", {"query": "x"}, "call_2"))
    inner = () if broken else guard(Enforcer.from_config(authz))
    state = await run(world.agent(both, lazy_init=lazy, inner=inner), style, context={**WHO, "user_role": "guest"})
    found = answers(state)
    assert (found["call_1"].status, found["call_2"].text) == ("error", "pages about x")
    assert "needs a sandbox, and this run may not use one" in found["call_1"].text
    assert world.provider.acquired == []


@pytest.mark.parametrize("style", STYLES)
async def test_eager(world: World, style: str) -> None:
    state = await run(world.agent(lazy_init=False), style, context=WHO)
    assert world.provider.acquired == [("t1", "u1")]
    assert world.provider.released == [(state[wire.SANDBOX]["sandbox_id"], True)]


PUT_OFF: list[tuple[str, Any, dict[str, Any], str]] = [
    ("denied", None, WHO, "not permitted"),
    ("unavailable", SandboxUnavailableError("bubblewrap cannot run here"), WHO, "bubblewrap cannot run here"),
    ("no thread", None, {"user_id": "u1"}, "this run has none"),
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("error", "context", "says"), [p[1:] for p in PUT_OFF], ids=[p[0] for p in PUT_OFF])
async def test_eager_skips_instead_of_raising(
    world: World, style: str, error: Any, context: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.provider.broken = error
    world.closed = says == "not permitted"
    with caplog.at_level(logging.INFO, "remit.middlewares"):
        state = await run(world.agent(lazy_init=False), style, context=context)
    assert state["messages"][-1].text == "done"
    assert wire.SANDBOX not in state
    assert says in caplog.text
    assert {record.levelname for record in caplog.records if record.name == "remit.middlewares"} == {"INFO"}


@pytest.mark.parametrize("style", STYLES)
async def test_eager_lets_a_bug_be_seen(world: World, style: str) -> None:
    world.provider.broken = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        await run(world.agent(lazy_init=False), style, context=WHO)


@pytest.mark.parametrize("style", STYLES)
async def test_others_neither_acquire_nor_project_nor_release(world: World, style: str) -> None:
    projected = Projected()
    graph = world.agent(BASH, lazy_init=False, owner=False, projection=projected)
    await run(world.agent(lazy_init=False, owner=False, projection=projected), style, context=WHO)
    assert world.provider.acquired == []
    state = await run(graph, style, context=WHO)
    assert answers(state)["call_1"].text.strip() == "hi"
    assert world.provider.released == []
    assert projected.calls == []


class Projected:
    """Notes when it was called, and in which thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.threads: list[int] = []
        self.error: Exception | None = None

    def project(self, user_id: str, thread_id: str) -> None:
        self.threads.append(threading.get_ident())
        self.calls.append((user_id, thread_id))
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "eager"])
async def test_an_owner_projects_once_a_run(world: World, style: str, lazy: bool) -> None:
    projected = Projected()
    assert isinstance(projected, Projection)
    graph = world.agent(BASH, lazy_init=lazy, projection=projected)
    await run(graph, style, context=WHO)
    assert projected.calls == [("u1", "t1")]
    assert threading.get_ident() not in projected.threads, "never on the event loop"


@pytest.mark.parametrize("style", STYLES)
async def test_a_projection_that_fails_fails_the_run(world: World, style: str) -> None:
    """A stale view may show what must not be seen any more."""
    projected = Projected()
    projected.error = OSError("no space left")
    with pytest.raises(OSError, match="no space left"):
        await run(world.agent(projection=projected), style, context=WHO)


@pytest.mark.parametrize("style", STYLES)
async def test_release(world: World, style: str) -> None:
    state = await run(world.agent(BASH), style, context=WHO)
    assert world.provider.released == [(state[wire.SANDBOX]["sandbox_id"], True)]


HELD: list[tuple[str, Any, list[Any]]] = [
    ("forged", {"sandbox_id": "made-up"}, [("made-up", False)]),
    ("junk", {"sandbox_id": 7}, []),
    ("restored by a fork", Overwrite({"sandbox_id": "MINE"}), []),
    ("restored, as JSON", {"__overwrite__": {"sandbox_id": "MINE"}}, []),
    ("restored, erased", {"type": "__overwrite__", "value": {"sandbox_id": "MINE"}}, []),
    ("text", "MINE", []),
    ("the run's own", {"sandbox_id": "MINE"}, [("MINE", True)]),
    ("of another thread", {"sandbox_id": "THEIRS"}, [("THEIRS", False)]),
]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["after_agent", "aafter_agent"])
@pytest.mark.parametrize("owner", [True, False], ids=["owner", "other"])
@pytest.mark.parametrize(("held", "released"), [h[1:] for h in HELD], ids=[h[0] for h in HELD])
async def test_what_is_released(world: World, held: Any, released: list[Any], owner: bool, asynchronous: bool) -> None:
    mine, theirs = world.provider.acquire("t1", "u1"), world.provider.acquire("t2", "u1")

    def named(value: Any) -> Any:
        if isinstance(value, Overwrite):
            return Overwrite(named(value.value))
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        return {"MINE": mine.id, "THEIRS": theirs.id}.get(value, value) if isinstance(value, str) else value

    slot = SandboxMiddleware(world.access, owner=owner)
    state, runtime = {wire.SANDBOX: named(held)}, SimpleNamespace(context={**WHO, wire.SANDBOX_ID: mine.id})
    if asynchronous:
        await slot.aafter_agent(state, runtime)
    else:
        slot.after_agent(state, runtime)
    assert world.provider.released == ([(named(one), done) for one, done in released] if owner else [])


@pytest.mark.parametrize("style", STYLES)
async def test_a_fork_keeps_the_environment_of_its_source(world: World, style: str) -> None:
    graph = world.agent(BASH, saver=InMemorySaver())
    source = world.provider.acquire("t1", "u1")
    fork = {"configurable": {"thread_id": "t1"}}
    graph.update_state(fork, {wire.SANDBOX: Overwrite({"sandbox_id": source.id})}, as_node="model")
    model_only = world.agent(saver=graph.checkpointer)
    await run(model_only, style, context=WHO, config=fork)
    assert world.provider.released == []
    state = await run(graph, style, context=WHO, config=fork)
    assert state[wire.SANDBOX] == {"sandbox_id": source.id}
    assert world.provider.released == [(source.id, True)], "now the run used it itself"


def test_the_context_names_it_where_the_state_does_not(world: World) -> None:
    mine = world.provider.acquire("t1", "u1")
    slot = SandboxMiddleware(world.access)
    slot.after_agent({}, SimpleNamespace(context={**WHO, wire.SANDBOX_ID: mine.id}))
    assert world.provider.released == [(mine.id, True)]
    slot.after_agent({}, SimpleNamespace(context={**WHO, wire.SANDBOX_ID: ["x"]}))
    slot.after_agent({}, SimpleNamespace(context=None))
    assert len(world.provider.released) == 1


@pytest.mark.parametrize("style", STYLES)
async def test_a_failing_release_keeps_the_answer(world: World, style: str, caplog: pytest.LogCaptureFixture) -> None:
    class Breaking(AgentMiddleware[Any, Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> None:
            if not state["messages"][-1].tool_calls:
                world.provider.broken = RuntimeError("cannot let go")

    state = await run(world.agent(BASH, inner=[Breaking()]), style, context=WHO)
    assert state["messages"][-1].text == "done"
    assert "could not be released" in caplog.text


@pytest.mark.parametrize("style", STYLES)
async def test_in_one_node_with_thread_data(world: World, style: str) -> None:
    chain = fused([ThreadDataMiddleware(), SandboxMiddleware(world.access, lazy_init=False)])
    state = await run(create_agent(scripted(), [], middleware=chain), style, context=WHO)
    assert world.provider.released == [(state[wire.SANDBOX]["sandbox_id"], True)]
    assert "t1" in state[wire.THREAD_DATA]["workspace_path"]


class Outer(TypedDict):
    messages: Annotated[list[Any], add_messages]


async def test_a_jump_to_a_parent_that_knows_no_sandbox(world: World) -> None:
    def leaving(message: ToolMessage) -> Any:
        return Command(graph=Command.PARENT, update={"messages": [message]}, goto="after")

    inner = world.agent(BASH, inner=[Naked(leaving)], owner=False)
    builder = StateGraph(Outer, context_schema=dict)
    builder.add_node("agent", inner)
    builder.add_node("after", lambda state: {"messages": [HumanMessage("after")]})
    builder.add_edge(START, "agent")
    state = await builder.compile().ainvoke({"messages": [("user", "go")]}, context=WHO)
    assert state["messages"][-1].text == "after"


def test_what_it_declares(world: World) -> None:
    slot = SandboxMiddleware(world.access, lazy_init=False, projection=Projected())
    assert slot.release_policy_parameters() == {"lazy_init": False, "owner": True, "projection": True}
    other = SandboxMiddleware(world.access, lazy_init=False, owner=False, projection=Projected())
    assert other.release_policy_parameters() == {"lazy_init": True, "owner": False, "projection": False}


@pytest.mark.parametrize("style", STYLES)
async def test_what_is_kept_anyway_is_not_released(world: World, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that lets idle environments go by itself: the next run of the thread finds the same one."""
    monkeypatch.setattr(Recording, "keeps_environments", True)
    first = await run(world.agent(BASH), style, context=WHO)
    second = await run(world.agent(BASH), style, context=WHO)
    assert first["sandbox"] == second["sandbox"]
    assert world.provider.released == []
