"""Node hooks of many slots in one graph node: same order, same state, same jumps as LangChain's own nodes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from tests.support.agents import HELLO, STYLES, run
from tests.support.scripted import scripted

from remit.middlewares.fusion import HOOKS, fused, has_hook, hosted_by, original_class, without


def concat(old: list[str] | None, new: list[str] | None) -> list[str]:
    return [*(old or []), *(new or [])]


class Trail(AgentState[Any]):
    trail: NotRequired[Annotated[list[str], concat]]
    last: NotRequired[str]


class Every(AgentMiddleware[Any, Any, Any]):
    """Notes every hook, and what it saw of those before it."""

    state_schema = Trail

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.saw: list[tuple[str, int, str | None]] = []

    @property
    def name(self) -> str:
        return self._name

    def _note(self, hook: str, state: Any) -> dict[str, Any]:
        self.saw.append((hook, len(state.get("trail") or []), state.get("last")))
        return {"trail": [f"{self._name}.{hook}"], "last": f"{self._name}.{hook}"}

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return self._note("before_agent", state)

    def before_model(self, state: Any, runtime: Any) -> Any:
        return self._note("before_model", state)

    def after_model(self, state: Any, runtime: Any) -> Any:
        return self._note("after_model", state)

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return self._note("after_agent", state)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


def names() -> list[Every]:
    return [Every("a"), Every("b"), Every("c")]


@pytest.mark.parametrize("style", STYLES)
async def test_fused_nodes_leave_what_separate_nodes_leave(style: str) -> None:
    apart, together = names(), names()
    before = await run(create_agent(scripted(), middleware=apart), style)
    graph = create_agent(scripted(), middleware=fused(together))
    after = await run(graph, style)
    assert after["trail"] == before["trail"]
    assert after["trail"][:3] == ["a.before_agent", "b.before_agent", "c.before_agent"]
    assert after["trail"][6:9] == ["c.after_model", "b.after_model", "a.after_model"]
    assert after["last"] == before["last"] == "a.after_agent"
    assert [slot.saw for slot in together] == [slot.saw for slot in apart]


def test_at_most_one_node_for_each_kind_of_hook() -> None:
    graph = create_agent(scripted(), middleware=fused(names()))
    nodes = [name for name in graph.nodes if "." in name]
    assert nodes == ["a.before_agent", "a.before_model", "a.after_model", "a.after_agent"]


def test_slots_stay_what_they_are() -> None:
    slots = names()
    views = fused(slots)
    assert [view.name for view in views] == ["a", "b", "c"]
    assert all(isinstance(view, Every) and original_class(view) is Every for view in views)
    assert [type(view).__name__ for view in views] == ["Every"] * 3
    views[1].saw.append(("x", 0, None))
    assert slots[1].saw == [("x", 0, None)], "a view has the attributes of its slot, not copies"
    assert [slot.name for slot in hosted_by(views[0], "after_model")] == ["c", "b", "a"]
    assert hosted_by(views[1], "after_model") == ()
    assert all(has_hook(type(slot), hook) for slot in slots for hook in HOOKS), "the slots themselves are unchanged"
    assert create_agent(scripted(), middleware=[slots[1]]).invoke(HELLO)["trail"][0] == "b.before_agent"


def test_a_hook_of_one_slot_stays_where_it_is() -> None:
    class One(AgentMiddleware[Any, Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> Any:
            return None

    slot = One()
    assert fused([slot]) == [slot]
    assert fused([]) == []


def test_a_slot_without_one_of_its_hooks() -> None:
    slots = names()
    slots[0] = without(slots[0], "after_agent", "before_model")  # type: ignore[assignment]
    assert original_class(slots[0]) is Every
    views = fused(slots)
    assert [original_class(view) for view in views] == [Every, Every, Every]
    graph = create_agent(scripted(), middleware=views)
    assert [name for name in graph.nodes if "." in name] == [
        "a.before_agent",
        "a.after_model",
        "b.before_model",
        "b.after_agent",
    ]
    assert [step for step in graph.invoke(HELLO)["trail"] if step.endswith("after_agent")] == [
        "c.after_agent",
        "b.after_agent",
    ]


class Says(AgentMiddleware[Any, Any, Any]):
    """Adds or removes messages before the agent runs."""

    def __init__(self, name: str, update: Any) -> None:
        super().__init__()
        self._name, self._update = name, update
        self.saw: list[str] = []

    @property
    def name(self) -> str:
        return self._name

    def before_agent(self, state: Any, runtime: Any) -> Any:
        self.saw = [message.text for message in state["messages"]]
        return self._update(state) if callable(self._update) else self._update


@pytest.mark.parametrize("style", STYLES)
async def test_messages_are_joined_by_their_ids(style: str) -> None:
    slots = [
        Says("adds", {"messages": ("user", "second")}),
        Says("rewrites", lambda state: {"messages": HumanMessage("2nd", id=state["messages"][-1].id)}),
        Says("removes", lambda state: {"messages": [RemoveMessage(id=state["messages"][0].id)]}),
        Says("looks", None),
    ]
    state = await run(create_agent(scripted(), middleware=fused(slots)), style)
    assert [slot.saw for slot in slots] == [["hello"], ["hello", "second"], ["hello", "2nd"], ["2nd"]]
    assert [message.text for message in state["messages"]] == ["2nd", "done"]


class Jumps(AgentMiddleware[Any, Any, Any]):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end", "messages": [AIMessage("stopped")]}


class Later(AgentMiddleware[Any, Any, Any]):
    ran = 0

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.ran += 1


@pytest.mark.parametrize("style", STYLES)
async def test_a_jump_is_taken_after_all_of_them(style: str) -> None:
    later, model = Later(), scripted()
    state = await run(create_agent(model, middleware=fused([Jumps(), later])), style)
    assert [message.text for message in state["messages"]] == ["hello", "stopped"]
    assert (later.ran, model.seen) == (1, [])


class AsyncOnly(AgentMiddleware[Any, Any, Any]):
    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        await asyncio.sleep(0)
        return {"messages": [HumanMessage("from async")]}


async def test_a_half_that_is_missing() -> None:
    graph = create_agent(scripted(), middleware=fused([Later(), AsyncOnly()]))
    state = await graph.ainvoke(HELLO)
    assert [message.text for message in state["messages"]] == ["hello", "from async", "done"]
    with pytest.raises(NotImplementedError, match="AsyncOnly has no synchronous `before_model`"):
        await asyncio.to_thread(graph.invoke, HELLO)


def test_an_update_of_another_kind_is_an_error() -> None:
    graph = create_agent(scripted(), middleware=fused([Says("odd", ["not a mapping"]), Says("fine", None)]))
    with pytest.raises(TypeError, match="a node hook answers with a mapping or None, got list"):
        graph.invoke(HELLO)
