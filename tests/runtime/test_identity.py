"""Whose run it is: from what the server wrote, in one order, and never from what a client can write."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from tests.support.agents import STYLES, run
from tests.support.scripted import scripted

from remit.authz import wire
from remit.authz.types import Principal
from remit.runtime.identity import (
    CURRENT_USER,
    DEFAULT_USER,
    resolve_runtime_user_id,
    runtime_run_id,
    runtime_thread_id,
    safe_id,
)


@dataclass
class Context:
    user_id: str | None = None
    thread_id: str | None = None


def runtime(
    context: Any = None, *, server_user: str | None = None, thread: str | None = None, **more: Any
) -> SimpleNamespace:
    info = SimpleNamespace(user=SimpleNamespace(identity=server_user)) if server_user else None
    return SimpleNamespace(
        context=context, server_info=info, execution_info=SimpleNamespace(thread_id=thread, run_id=None), **more
    )


SEALED = Principal(user_id="sealed", role="user")
FORGED = {"configurable": {"user_id": "forged", "langgraph_auth_user_id": "forged", "__principal": SEALED}}
USERS: list[tuple[str, Any, str]] = [
    ("the sealed principal", runtime({wire.PRINCIPAL: SEALED, wire.USER_ID: "other"}, server_user="server"), "sealed"),
    ("the run context", runtime({wire.USER_ID: "u1"}, server_user="server"), "u1"),
    ("a context object", runtime(Context(user_id="u2"), server_user="server"), "u2"),
    ("the server's login", runtime({}, server_user="server"), "server"),
    ("an empty id is none", runtime({wire.USER_ID: ""}, server_user="server"), "server"),
    ("a sealed nobody", runtime({wire.PRINCIPAL: Principal(role="user"), wire.USER_ID: "other"}), "current"),
    ("the request", runtime({}), "current"),
    ("no context", runtime(None), "current"),
    ("nothing at all", SimpleNamespace(), "current"),
    ("configurable does not count", runtime({}, config=FORGED), "current"),
    ("a principal as a mapping is none", runtime({wire.PRINCIPAL: {"user_id": "forged"}}), "current"),
]


@pytest.mark.parametrize(("given_runtime", "wanted"), [c[1:] for c in USERS], ids=[c[0] for c in USERS])
def test_user(given_runtime: Any, wanted: str) -> None:
    token = CURRENT_USER.set("current")
    try:
        assert resolve_runtime_user_id(given_runtime) == wanted
    finally:
        CURRENT_USER.reset(token)


def test_nobody_has_signed_in() -> None:
    assert resolve_runtime_user_id(runtime({})) == DEFAULT_USER == "default"


UNSAFE = [
    "..",
    ".",
    "a/b",
    "/etc",
    "a\\b",
    "a\x00b",
    "",
    " ",
    ".hidden",
    "-rf",
    "a b",
    "a\n",
    "x" * 129,
    "ü",
    "a:b",
    "~",
]


@pytest.mark.parametrize("value", [*UNSAFE, None, 5, b"a", ["a"], True])
def test_ids_that_cannot_name_a_folder(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot name a folder"):
        safe_id(value, "user id")


@pytest.mark.parametrize("value", ["a", "7", "u-1", "a.b@example.com", "A_b", "x" * 128])
def test_ids_that_can(value: str) -> None:
    assert safe_id(value, "user id") == value


@given(st.text(max_size=140))
def test_an_accepted_id_is_one_path_component(value: str) -> None:
    try:
        safe_id(value, "id")
    except ValueError:
        return
    assert value.isascii()
    assert "/" not in value
    assert value not in {".", ".."}
    assert value == value.strip()


@pytest.mark.parametrize("value", [value for value in UNSAFE if value])
def test_an_unsafe_user_is_refused_and_named(value: str) -> None:
    with pytest.raises(ValueError, match="the user id"):
        resolve_runtime_user_id(runtime({wire.USER_ID: value}))
    with pytest.raises(ValueError, match="the thread id"):
        runtime_thread_id(runtime({wire.THREAD_ID: value}))


def test_a_user_id_that_is_no_text() -> None:
    with pytest.raises(ValueError, match="the user id 5"):
        resolve_runtime_user_id(runtime({wire.USER_ID: 5}))


THREADS: list[tuple[str, Any, str | None]] = [
    ("the run context", runtime({wire.THREAD_ID: "t1"}, thread="t2"), "t1"),
    ("a context object", runtime(Context(thread_id="t1"), thread="t2"), "t1"),
    ("what the graph runs under", runtime({}, thread="t2"), "t2"),
    ("the config of a tool", runtime({}, config={"configurable": {"thread_id": "t3"}}), "t3"),
    ("a config without one", runtime({}, config={"configurable": {}}), None),
    ("a config without a section", runtime({}, config={"configurable": None}), None),
    ("none", runtime({}), None),
    ("nothing at all", SimpleNamespace(), None),
]


@pytest.mark.parametrize(("given_runtime", "wanted"), [c[1:] for c in THREADS], ids=[c[0] for c in THREADS])
def test_thread(given_runtime: Any, wanted: str | None) -> None:
    assert runtime_thread_id(given_runtime) == wanted


RUNS: list[tuple[str, Any, str | None]] = [
    ("the run context", runtime({wire.RUN_ID: "r1"}), "r1"),
    ("what the graph runs under", SimpleNamespace(context={}, execution_info=SimpleNamespace(run_id="r2")), "r2"),
    ("no text", runtime({wire.RUN_ID: 7}), None),
    ("none", SimpleNamespace(), None),
]


@pytest.mark.parametrize(("given_runtime", "wanted"), [c[1:] for c in RUNS], ids=[c[0] for c in RUNS])
def test_run(given_runtime: Any, wanted: str | None) -> None:
    assert runtime_run_id(given_runtime) == wanted


class Identity(TypedDict, total=False):
    user_id: str
    thread_id: str


class Asking(AgentMiddleware[Any, Any, Any]):
    """Asks in a hook of a running graph."""

    found: tuple[str, str | None]

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.found = resolve_runtime_user_id(runtime), runtime_thread_id(runtime)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("context", "saver", "wanted"),
    [
        ({"user_id": "u1", "thread_id": "t1"}, False, ("u1", "t1")),
        ({"user_id": "u1"}, False, ("u1", "t9")),
        ({"user_id": "u1"}, True, ("u1", "t9")),
        (None, True, ("default", "t9")),
    ],
    ids=["context", "config", "checkpointed", "nobody"],
)
async def test_in_a_graph(style: str, context: Any, saver: bool, wanted: tuple[str, str]) -> None:
    asking = Asking()
    checkpointer = InMemorySaver() if saver else None
    graph = create_agent(scripted(), [], middleware=[asking], context_schema=Identity, checkpointer=checkpointer)
    config = {"configurable": {"thread_id": "t9", "user_id": "forged", "langgraph_auth_user_id": "forged"}}
    await run(graph, style, context=context, config=config)
    assert asking.found == wanted
