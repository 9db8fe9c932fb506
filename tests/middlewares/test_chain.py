"""The table of the chain: what it says is what is built, and every reason for its order bites."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from tests.support.agents import answers, run
from tests.support.chains import SWITCHES, Noting, build, coverings, label, settings
from tests.support.scripted import call, calls, scripted

from remit.authz.errors import ConfigError
from remit.middlewares import build_lead_runtime_middlewares, build_middlewares, build_subagent_runtime_middlewares
from remit.middlewares.builders import build_chain, live_slots
from remit.middlewares.chain import EDGES, SLOTS
from remit.middlewares.fusion import HOOKS, has_hook
from remit.middlewares.slots import SCOPES, ChainOrderError, Conditions, Edge, check_order
from remit.runtime.reserved import Kind, declared
from remit.runtime.state import ThreadState

EVERY_HOOK = (*HOOKS, "wrap_model_call", "wrap_tool_call")
ORDER = ["1", "2", "3", "4", "5", "6", "7", "8", "13a", "9a", "9b", "10", "11", "12", "13b", "30"]


def fresh() -> Any:
    """A tool that no other test has armed."""

    @tool
    def look_up(topic: str) -> str:
        """Look something up."""
        return f"found {topic}"

    return look_up


def test_the_order_of_the_table() -> None:
    assert [slot.number for slot in SLOTS] == ORDER
    assert len({slot.id for slot in SLOTS}) == len(SLOTS)
    check_order([slot.id for slot in SLOTS], EDGES)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.outer}-{edge.inner}")
def test_every_edge_bites(edge: Edge) -> None:
    ids = [slot.id for slot in SLOTS]
    one, other = ids.index(edge.outer), ids.index(edge.inner)
    ids[one], ids[other] = ids[other], ids[one]
    with pytest.raises(ChainOrderError) as raised:
        check_order(ids, EDGES)
    assert f"{edge.outer} (index {other}) must come before {edge.inner} (index {one}): {edge.why}" in str(raised.value)


def test_edges_name_slots() -> None:
    ids = {slot.id for slot in SLOTS}
    assert {name for edge in EDGES for name in (edge.outer, edge.inner)} <= ids
    assert len({(edge.outer, edge.inner) for edge in EDGES}) == len(EDGES)


def test_a_slot_that_is_there_twice_and_one_that_must_be_adjacent() -> None:
    with pytest.raises(ChainOrderError, match="order of an extension: a stands there twice"):
        check_order(["a", "b", "a"], [], by="an extension")
    apart = [Edge(outer="a", inner="b", why="b reads what a publishes", adjacent=True)]
    check_order(["a", "b", "c"], apart)
    with pytest.raises(ChainOrderError, match=r"a \(index 0\) must come directly before b \(index 2\): b reads"):
        check_order(["a", "c", "b"], apart)


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot.home], ids=lambda slot: slot.id)
def test_a_slot_has_exactly_the_hooks_that_the_table_says(slot: Any) -> None:
    kind = slot.load()
    found = {hook for hook in EVERY_HOOK if has_hook(kind, hook)}
    assert found == set(slot.hooks)
    for hook in found:
        for name in (hook, f"a{hook}"):
            assert getattr(kind, name) is not getattr(AgentMiddleware, name), f"{kind.__name__} has no {name}"


def test_channels_are_declared_and_have_one_owner() -> None:
    owned = [channel for slot in SLOTS for channel in slot.channels]
    assert len(set(owned)) == len(owned)
    assert set(owned) <= declared(Kind.CHANNEL)


async def turn(graph: Any, style: str, folder: Path) -> dict[str, Any]:
    config = {"configurable": {"thread_id": "t1"}}
    return await run(graph, style, context={"user_id": "ada", "user_role": "user", "thread_id": "t1"}, config=config)


FULL = [dict(zip(SWITCHES, values, strict=True)) for values in itertools.product((True, False), repeat=len(SWITCHES))]
COMBINATIONS = FULL if os.environ.get("REMIT_FUZZ_EXAMPLES") else coverings()


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("on", COMBINATIONS, ids=label)
async def test_every_combination_runs_a_turn(scope: Any, on: dict[str, bool], tmp_path: Path) -> None:
    made = build(tmp_path, on, scope=scope)
    chain = build_chain(made)
    expected = [slot.title for slot in SLOTS if slot.fits(made.conditions) and slot.home]
    assert [type(one).__name__ for one in chain if not isinstance(one, Noting)] == expected
    look_up = fresh()
    model = scripted(calls(call("look_up", {"topic": "x"})))
    graph = create_agent(model, made.enforcer.visible_tools([look_up]), middleware=chain, state_schema=ThreadState)
    bare = create_agent(model, [look_up])
    assert len(graph.nodes) - len(bare.nodes) <= 4
    for style in ("invoke", "ainvoke"):
        model.restart()
        state = await turn(graph, style, tmp_path)
        assert answers(state)["call_1"].text == "found x"
        assert state["messages"][-1].text == "done"
    await asyncio.to_thread(made.access.provider.close)


def test_pairs_are_covered() -> None:
    chosen = coverings()
    for one, other in itertools.combinations(SWITCHES, 2):
        seen = {(on[one], on[other]) for on in chosen}
        assert seen == {(True, True), (True, False), (False, True), (False, False)}, (one, other)
    assert len(chosen) < 30


def test_builders(tmp_path: Path) -> None:
    made = build(tmp_path, {"custom": True})
    parts = {"access": made.access, "enforcer": made.enforcer}
    lead = [type(one).__name__ for one in build_lead_runtime_middlewares(made.config, **parts)]
    whole = [type(one).__name__ for one in build_middlewares(made.config, custom=made.custom, **parts)]
    child = [type(one).__name__ for one in build_subagent_runtime_middlewares(made.config, **parts)]
    assert lead[0] == "InputSanitizationMiddleware"
    assert lead[-1] == "ToolErrorHandlingMiddleware"
    assert whole == [*lead, "Noting"]
    assert child == [name for name in lead if name != "UploadsMiddleware"]


def test_a_builder_takes_everything_else_from_the_settings(tmp_path: Path) -> None:
    made = build(tmp_path, {})
    names = [type(one).__name__ for one in build_lead_runtime_middlewares(settings({}), access=made.access)]
    assert "AuthorizationMiddleware" not in names, "these settings name no policy"


def test_custom_middlewares_that_bring_one_name_are_refused(tmp_path: Path) -> None:
    class Brings(Noting):
        def __init__(self, name: str) -> None:
            super().__init__()
            self._name = name

            @tool("clash")
            def clash() -> str:
                """Clash."""
                return name

            self.tools = [clash]

        @property
        def name(self) -> str:
            return self._name

    made = build(tmp_path, {})
    twice = Brings("one"), Brings("two")
    with pytest.raises(ConfigError, match="two tools are named 'clash'"):
        build_middlewares(made.config, access=made.access, enforcer=made.enforcer, custom=twice)


@pytest.mark.parametrize(
    ("settings_", "absent"),
    [
        ({"verification": {"receipts_enabled": False}}, "tool_receipt"),
        ({"read_before_write": {"enabled": False}}, "read_before_write"),
        ({}, "tool_progress"),
        ({}, "authorization"),
        ({}, "guardrail"),
    ],
)
def test_conditions_come_from_the_settings(settings_: dict[str, Any], absent: str) -> None:
    from remit.runtime.config import load_app_config

    given = Conditions.of(load_app_config(settings_), "lead")
    assert absent not in {slot.id for slot in SLOTS if slot.fits(given)}


def test_live_slots_name_the_guard_in_its_place(tmp_path: Path) -> None:
    live = live_slots(build(tmp_path, dict.fromkeys(SWITCHES, True)))
    assert [one.slot.number for one in live] == ORDER
    assert all(len(one.middlewares) == 1 for one in live)
