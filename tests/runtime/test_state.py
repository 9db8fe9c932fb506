"""The channels of a thread: reducers that take anything, stay small, and do not care how writes are grouped."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, OmitFromInput
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite
from tests.support.agents import STYLES, run
from tests.support.scripted import scripted

from remit.authz import wire
from remit.runtime import state as module
from remit.runtime.reserved import REGISTRY, Input, Kind
from remit.runtime.state import (
    MAX_ARTIFACTS,
    MAX_DELEGATIONS,
    MAX_DESCRIPTION,
    MAX_IMAGES,
    MAX_PROMOTIONS,
    MAX_SKILLS,
    ThreadState,
    join_artifacts,
    join_delegations,
    join_images,
    join_promoted,
    join_skills,
    keep_last,
    keep_sandbox,
)

Reducer = Callable[[Any, Any], Any]


class Awkward:
    """No value of any channel; it cannot even be hashed or compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        raise RuntimeError("not comparable")


TEXT = st.sampled_from(["", "a", "b", "c", "\x00", "é", "__overwrite__", "completed", "failed"])
SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    TEXT,
    st.binary(max_size=3),
    st.builds(Awkward),
    st.just([]),
    st.just({}),
)
KEYS = st.sampled_from(
    ["id", "created_at", "status", "path", "name", "catalog_hash", "sandbox_id", "description", "loaded_at"]
)
ITEM = st.one_of(SCALAR, st.dictionaries(KEYS, SCALAR, max_size=5), st.lists(SCALAR, max_size=3))
NAMED = st.fixed_dictionaries(
    {"id": st.just("a"), "created_at": st.just("1"), "path": st.just("/a"), "catalog_hash": st.just("h")},
    optional={"status": SCALAR, "name": SCALAR, "description": SCALAR, "loaded_at": SCALAR, "result_brief": SCALAR},
)
"""Items that are taken in, with junk in everything but what names them."""
JUNK = st.one_of(
    ITEM,
    st.lists(ITEM, max_size=6),
    st.lists(ITEM, max_size=4).map(tuple),
    st.dictionaries(st.one_of(TEXT, st.integers()), ITEM, max_size=4),
    st.builds(Overwrite, ITEM),
    st.just(object()),
)

SANDBOX = st.one_of(st.none(), st.builds(dict, sandbox_id=st.sampled_from(["a", "b", "", 1])))
PATHS = st.lists(st.sampled_from([f"/p{n}" for n in range(8)]), max_size=8)
PROMOTED = st.lists(st.builds(dict, catalog_hash=st.sampled_from("hi"), name=st.sampled_from("abc")), max_size=6)
SKILLS = st.lists(st.builds(dict, path=st.sampled_from([f"/s{n}" for n in range(12)]), name=TEXT), max_size=12)
IMAGES = st.dictionaries(st.sampled_from([f"/i{n}" for n in range(6)]), st.builds(dict, size=st.integers()), max_size=6)
DELEGATIONS = st.lists(
    st.builds(
        dict,
        id=st.sampled_from("ab"),
        created_at=st.sampled_from(["1", "2"]),
        status=st.sampled_from(["running", "pending", "completed", "failed"]),
        result_brief=TEXT,
    ),
    max_size=6,
)

REDUCERS: dict[str, tuple[Reducer, Any]] = {
    "sandbox": (keep_sandbox, SANDBOX),
    "last": (keep_last, st.one_of(st.none(), TEXT, st.just({}))),
    "artifacts": (join_artifacts, PATHS),
    "promoted": (join_promoted, PROMOTED),
    "skills": (join_skills, SKILLS),
    "images": (join_images, IMAGES),
    "delegations": (join_delegations, DELEGATIONS),
}
TYPES: dict[Reducer, tuple[type, ...]] = {
    keep_sandbox: (dict, type(None)),
    join_artifacts: (list,),
    join_promoted: (list,),
    join_skills: (list,),
    join_images: (dict,),
    join_delegations: (list,),
}
LIMITS: dict[Reducer, int] = {
    join_artifacts: MAX_ARTIFACTS,
    join_promoted: MAX_PROMOTIONS,
    join_skills: MAX_SKILLS,
    join_images: MAX_IMAGES,
    join_delegations: MAX_DELEGATIONS,
}

every_reducer = pytest.mark.parametrize("name", REDUCERS)


@every_reducer
@given(data=st.data())
@settings(max_examples=200)
def test_takes_anything(name: str, data: st.DataObject) -> None:
    reducer, _ = REDUCERS[name]
    old, new = data.draw(JUNK), data.draw(JUNK)
    if data.draw(st.booleans()):
        old, new = data.draw(st.lists(NAMED, max_size=3)), data.draw(st.lists(st.one_of(NAMED, ITEM), max_size=3))
    result = reducer(old, new)
    if reducer in TYPES:
        assert isinstance(result, TYPES[reducer])
        assert reducer(result, None) == result, "what comes out is what goes in"


@every_reducer
@given(data=st.data())
@settings(max_examples=200)
def test_grouping_changes_nothing(name: str, data: st.DataObject) -> None:
    reducer, values = REDUCERS[name]
    one, two, three = (data.draw(values) for _ in range(3))
    assert reducer(reducer(one, two), three) == reducer(one, reducer(two, three))


@every_reducer
@given(data=st.data())
@settings(max_examples=100)
def test_writing_twice_changes_nothing(name: str, data: st.DataObject) -> None:
    reducer, values = REDUCERS[name]
    one, two = data.draw(values), data.draw(values)
    once = reducer(one, two)
    assert reducer(once, two) == once


@every_reducer
@given(data=st.data())
@settings(max_examples=50)
def test_arguments_stay_as_they_are(name: str, data: st.DataObject) -> None:
    reducer, values = REDUCERS[name]
    one, two = data.draw(values), data.draw(values)
    before = repr((one, two))
    reducer(one, two)
    assert repr((one, two)) == before


def many(reducer: Reducer, number: int) -> Any:
    if reducer is join_artifacts:
        return [f"/{n}" for n in range(number)]
    if reducer is join_images:
        return {f"/{n}": {"size": n} for n in range(number)}
    return [
        {"catalog_hash": "h", "name": f"n{n}", "path": f"/{n}", "id": f"d{n:09}", "created_at": f"{n:09}"}
        for n in range(number)
    ]


@pytest.mark.parametrize(("reducer", "limit"), LIMITS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_is_bounded_and_keeps_the_newest(reducer: Reducer, limit: int) -> None:
    everything = many(reducer, limit + 7)
    kept = reducer(None, everything)
    assert len(kept) == limit
    assert list(kept)[-1] == list(reducer(None, many(reducer, limit + 7)))[-1]
    first, *_, last = everything
    shown = {str(item) for item in kept} if reducer is not join_skills else {item["path"] for item in kept}
    newest, oldest = (item["path"] if reducer is join_skills else str(item) for item in (last, first))
    assert newest in shown
    assert oldest not in shown
    assert len(reducer(kept, everything)) == limit


CASES: list[tuple[str, Reducer, Any, Any, Any]] = [
    ("a new environment replaces", keep_sandbox, {"sandbox_id": "a"}, {"sandbox_id": "b"}, {"sandbox_id": "b"}),
    ("none keeps", keep_sandbox, {"sandbox_id": "a"}, None, {"sandbox_id": "a"}),
    ("junk keeps", keep_sandbox, {"sandbox_id": "a"}, {"sandbox_id": ["b"]}, {"sandbox_id": "a"}),
    ("nothing but the id", keep_sandbox, None, {"sandbox_id": "a", "x": 1}, {"sandbox_id": "a"}),
    ("a wrapped one is none", keep_sandbox, Overwrite({"sandbox_id": "a"}), None, None),
    ("an empty list clears", keep_last, ["old"], [], []),
    ("none keeps the last", keep_last, "old", None, "old"),
    ("each path once, newest last", join_artifacts, ["/a", "/b"], ["/a"], ["/b", "/a"]),
    ("a bare path is no list", join_artifacts, ["/a"], "/b", ["/a"]),
    (
        "one name in two catalogues",
        join_promoted,
        [{"catalog_hash": "1", "name": "t"}],
        [{"catalog_hash": "2", "name": "t"}],
        [{"catalog_hash": "1", "name": "t"}, {"catalog_hash": "2", "name": "t"}],
    ),
    ("a promotion without a catalogue", join_promoted, None, [{"name": "t"}], []),
    (
        "descriptions are cut",
        join_skills,
        None,
        [{"path": "/s", "description": "x" * 501, "extra": 1}],
        [{"name": "", "path": "/s", "description": "x" * MAX_DESCRIPTION, "loaded_at": ""}],
    ),
    ("an empty mapping keeps images", join_images, {"/i": {"size": 1}}, {}, {"/i": {"size": 1}}),
    (
        "an ended delegation stays ended",
        join_delegations,
        [{"id": "d", "created_at": "1", "status": "completed"}],
        [{"id": "d", "created_at": "1", "status": "running"}],
        [{"id": "d", "created_at": "1", "status": "completed"}],
    ),
    (
        "a status that is none",
        join_delegations,
        [{"id": "d", "created_at": "1", "status": ["completed"]}],
        [{"id": "d", "created_at": "1", "status": {}}],
        [{"id": "d", "created_at": "1", "status": {}}],
    ),
    (
        "an open one ends",
        join_delegations,
        [{"id": "d", "created_at": "1", "status": "running"}],
        [{"id": "d", "created_at": "1", "status": "timed_out"}],
        [{"id": "d", "created_at": "1", "status": "timed_out"}],
    ),
    (
        "the same id at another time is another",
        join_delegations,
        [{"id": "d", "created_at": "2", "status": "running"}],
        [{"id": "d", "created_at": "1", "status": "running"}],
        [{"id": "d", "created_at": "1", "status": "running"}, {"id": "d", "created_at": "2", "status": "running"}],
    ),
]


@pytest.mark.parametrize(("reducer", "old", "new", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_two_writes(reducer: Reducer, old: Any, new: Any, wanted: Any) -> None:
    assert reducer(old, new) == wanted


def annotations() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name, hint in get_type_hints(ThreadState, include_extras=True).items():
        found = hint
        while get_origin(found) not in (Annotated, None) and get_args(found):
            found = get_args(found)[0]
        yield name, get_args(found)[1:] if get_origin(found) is Annotated else ()


def test_annotations_follow_the_registry() -> None:
    """What clients may not write is taken out of the input, and the reducer stands where LangGraph looks for it."""
    seen = dict(annotations())
    assert seen.keys() >= {"messages", "sandbox", "thread_data", "uploaded_files", "promoted", "delegations"}
    for name, extras in seen.items():
        omitted = any(isinstance(extra, type(OmitFromInput)) and extra == OmitFromInput for extra in extras)
        omitted = omitted or any(getattr(extra, "input", False) is True for extra in extras)
        assert omitted == (REGISTRY[Kind.CHANNEL, name].input is not Input.CLIENT), name
        if name not in {"jump_to", "structured_response"}:
            assert callable(extras[-1]), name


def test_a_channel_that_nobody_declared() -> None:
    class Undeclared(ThreadState):
        remit_planted: str

    with pytest.raises(TypeError, match="'remit_planted' is not declared"):
        module.protected_channels(Undeclared)


FORGED: dict[str, Any] = {
    wire.SANDBOX: {"sandbox_id": "forged"},
    wire.THREAD_DATA: {"workspace_path": "forged", "uploads_path": "forged", "outputs_path": "forged"},
    wire.UPLOADED_FILES: [{"filename": "forged"}],
    wire.ARTIFACTS: ["forged"],
    wire.PROMOTED: [{"catalog_hash": "forged", "name": "forged"}],
    "title": "forged",
    "summary_text": "forged",
    "todos": ["forged"],
    "goal": {"forged": True},
    "background_tasks": ["forged"],
    "viewed_images": {"forged": {}},
    "delegations": [{"id": "forged", "created_at": "1"}],
    "skill_context": [{"path": "forged"}],
    "jump_to": "end",
    "structured_response": "forged",
    "unheard_of": "forged",
}


def test_every_channel_of_the_server_is_tried() -> None:
    ours = {key for kind, key in REGISTRY if kind is Kind.CHANNEL and REGISTRY[kind, key].input is not Input.CLIENT}
    assert ours <= FORGED.keys() | {wire.PRINCIPAL_DIGEST}


class Owning(AgentMiddleware[Any, Any, Any]):
    """Brings the channels into a graph, as every slot that owns one does."""

    state_schema = ThreadState


class Seeing(Owning):
    """Keeps the channels that the first hook of a run sees."""

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.seen = dict(state)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "overwrite"])
async def test_input_writes_no_channel(style: str, wrapped: bool) -> None:
    seeing = Seeing()
    graph = create_agent(scripted(), [], middleware=[seeing], state_schema=ThreadState)
    payload = {key: Overwrite(value) if wrapped else value for key, value in FORGED.items()}
    state = await run(graph, style, {"messages": [HumanMessage("hello")], **payload})
    assert "forged" not in str(seeing.seen)
    assert "forged" not in str(state)
    assert [message.text for message in state["messages"]] == ["hello", "done"]


async def test_input_of_a_later_run_writes_none_either() -> None:
    graph = create_agent(scripted(), [], middleware=[Owning()], state_schema=ThreadState, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    graph.update_state(config, {"title": "ours", wire.SANDBOX: {"sandbox_id": "ours"}}, as_node="model")
    state = await run(graph, "ainvoke", {"messages": [HumanMessage("hello")], **FORGED}, config=config)
    assert (state["title"], state[wire.SANDBOX]) == ("ours", {"sandbox_id": "ours"})
    assert "forged" not in str(state)


@given(value=JUNK)
@example(value=Overwrite({"sandbox_id": "x"}))
@settings(max_examples=60)
def test_the_first_write_may_be_junk(value: Any) -> None:
    """LangGraph takes the first value of some channels as it is; the next reduction brings it in order."""
    assert keep_sandbox(value, {"sandbox_id": "a"}) == {"sandbox_id": "a"}
    with suppress(RuntimeError):
        assert operator.is_(keep_last(value, None), value)
