"""A thousand tools: one question per model call, and little work per tool call."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from tests.support.agents import agent, answers, run
from tests.support.policies import allow
from tests.support.scripted import call, calls

from remit.authz.gates.arming import arm

BUDGET_SECONDS = 0.5
"""For one model call's view of a thousand tools. It takes a few milliseconds; the rest is for a busy machine."""


def body(value: str = "") -> str:
    return f"ran {value}"


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_a_thousand_tools_are_filtered_in_one_question(style: str, policy: Any) -> None:
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    tools = [StructuredTool(name=f"tool_{n}", description="d", args_schema=schema, func=body) for n in range(1000)]
    world = policy(allow("guest", "tool_1*"))
    asked: list[int] = []
    spent: list[float] = []
    show = world.provider.filter_resources

    def counted(principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
        asked.append(len(candidates))
        started = time.perf_counter()
        shown = show(principal, resource_type, candidates)
        spent.append(time.perf_counter() - started)
        return shown

    world.provider.filter_resources = counted
    graph, model = agent(world.enforcer, tools, calls(call("tool_17", {"value": "x"})))
    state = await run(graph, style, context={"user_id": "gina"})
    assert answers(state)["call_1"].content == "ran x"
    assert asked == [1000, 1000]
    assert max(spent) < BUDGET_SECONDS
    assert [len(bound) for bound in model.bound] == [111, 111]


def test_arming_again_is_cheap() -> None:
    """The guard arms what the agent has at every call: for tools that are armed already that is a look each."""
    tools = [StructuredTool.from_function(body, name=f"tool_{n}", description="d") for n in range(1000)]
    arm(tools)
    started = time.perf_counter()
    for _ in range(10):
        arm(tools)
    assert (time.perf_counter() - started) / 10 < 0.02
