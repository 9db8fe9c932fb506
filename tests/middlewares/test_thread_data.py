"""The folders of a run, and the stamp on the message that starts it."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from tests.support.agents import STYLES, run
from tests.support.scripted import scripted

from remit.authz import wire
from remit.authz.types import Principal
from remit.middlewares.thread_data import ThreadDataMiddleware

WHO: dict[str, Any] = {"user_id": "u1", "thread_id": "t1", "run_id": "r1"}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))


def agent(*steps: Any, saver: Any = None, **options: Any) -> Any:
    return create_agent(scripted(*steps), [], middleware=[ThreadDataMiddleware(**options)], checkpointer=saver)


def folders(base: Path, user: str = "u1", thread: str = "t1") -> dict[str, str]:
    root = base / "users" / user / "threads" / thread / "user-data"
    return {f"{area}_path": str(root / area) for area in ("workspace", "uploads", "outputs")}


@pytest.mark.parametrize("style", STYLES)
async def test_folders_are_named_and_not_made(style: str, tmp_path: Path) -> None:
    state = await run(agent(), style, context=WHO)
    assert state[wire.THREAD_DATA] == folders(tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("style", STYLES)
async def test_folders_are_made_when_asked(style: str, tmp_path: Path) -> None:
    state = await run(agent(lazy_init=False), style, context=WHO)
    for folder in map(Path, state[wire.THREAD_DATA].values()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await run(agent(lazy_init=False), style, context=WHO)


@pytest.mark.parametrize("style", STYLES)
async def test_another_base(style: str, tmp_path: Path) -> None:
    state = await run(agent(base_dir=tmp_path / "elsewhere"), style, context=WHO)
    assert state[wire.THREAD_DATA] == folders(tmp_path / "elsewhere")


@pytest.mark.parametrize("style", STYLES)
async def test_a_relative_state_folder(style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMIT_STATE_DIR")
    monkeypatch.chdir(tmp_path)
    state = await run(agent(), style, context=WHO)
    assert state[wire.THREAD_DATA] == folders(tmp_path / ".remit")


OWNERS: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, str]]] = [
    ("context", {"user_id": "u2", "thread_id": "t2"}, {"thread_id": "t9", "user_id": "forged"}, ("u2", "t2")),
    ("the thread of the graph", {"user_id": "u2"}, {"thread_id": "t9"}, ("u2", "t9")),
    ("nobody signed in", {}, {"thread_id": "t9", "user_id": "forged"}, ("default", "t9")),
    (
        "the sealed principal",
        {wire.PRINCIPAL: Principal(user_id="sealed", role="user"), "user_id": "forged"},
        {"thread_id": "t9"},
        ("sealed", "t9"),
    ),
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("context", "configurable", "owner"), [o[1:] for o in OWNERS], ids=[o[0] for o in OWNERS])
async def test_whose_folders(
    style: str, context: dict[str, Any], configurable: dict[str, Any], owner: tuple[str, str], tmp_path: Path
) -> None:
    state = await run(agent(), style, context=context, config={"configurable": configurable})
    assert state[wire.THREAD_DATA] == folders(tmp_path / "state", *owner)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"user_id": "u1"}, "this run has no thread; pass 'thread_id'"),
        ({"user_id": "../x", "thread_id": "t"}, "the user id '../x' cannot name a folder"),
        ({"user_id": "u", "thread_id": "../../x"}, r"the thread id '\.\./\.\./x' cannot name a folder"),
    ],
    ids=["no thread", "user", "thread"],
)
async def test_a_run_without_a_place(style: str, context: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        await run(agent(lazy_init=False), style, context=context)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("style", STYLES)
async def test_forged_folders_are_written_over_each_run(style: str, tmp_path: Path) -> None:
    graph = agent(saver=InMemorySaver())
    config = {"configurable": {"thread_id": "t1"}}
    forged = {"workspace_path": "/", "uploads_path": "/etc", "outputs_path": "/etc"}
    for _ in range(2):
        graph.update_state(config, {wire.THREAD_DATA: forged}, as_node="model")
        payload = {"messages": [HumanMessage("hello")], wire.THREAD_DATA: forged}
        state = await run(graph, style, payload, context=WHO, config=config)
        assert state[wire.THREAD_DATA] == folders(tmp_path / "state")


@pytest.mark.parametrize("style", STYLES)
async def test_the_message_is_stamped(style: str) -> None:
    before = datetime.now(UTC)
    message = HumanMessage(
        [{"type": "text", "text": "hello"}],
        id="m1",
        additional_kwargs={"mine": 1, wire.RUN_ID: "forged", wire.MESSAGE_TIMESTAMP: "1970-01-01"},
        response_metadata={"kept": True},
    )
    state = await run(agent(), style, {"messages": [SystemMessage("s"), message]}, context=WHO)
    assert [one.type for one in state["messages"]] == ["system", "human", "ai"], "nothing is doubled or moved"
    stamped = state["messages"][1]
    assert (stamped.id, stamped.name, stamped.content) == ("m1", "user-input", message.content)
    assert stamped.response_metadata == {"kept": True}
    assert stamped.additional_kwargs["mine"] == 1
    assert stamped.additional_kwargs[wire.RUN_ID] == "r1"
    stamp = datetime.fromisoformat(stamped.additional_kwargs[wire.MESSAGE_TIMESTAMP])
    assert before <= stamp <= datetime.now(UTC)
    assert message.additional_kwargs[wire.RUN_ID] == "forged", "what was given stays as it is"


@pytest.mark.parametrize("style", STYLES)
async def test_a_name_is_kept_and_a_run_may_have_no_id(style: str) -> None:
    context = {"user_id": "u1", "thread_id": "t1"}
    state = await run(agent(), style, {"messages": [HumanMessage("hi", name="alice")]}, context=context)
    assert state["messages"][0].name == "alice"
    assert state["messages"][0].additional_kwargs[wire.RUN_ID] is None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("messages", [[], [HumanMessage("q"), AIMessage("a")]], ids=["none", "ends with an answer"])
async def test_nothing_to_stamp(style: str, messages: list[Any], tmp_path: Path) -> None:
    state = await run(agent(), style, {"messages": messages}, context=WHO)
    assert state[wire.THREAD_DATA] == folders(tmp_path / "state")
    assert all(not message.additional_kwargs for message in state["messages"])


def test_what_it_declares(tmp_path: Path) -> None:
    assert ThreadDataMiddleware(base_dir=tmp_path, lazy_init=False).release_policy_parameters() == {"lazy_init": False}
