"""The built-in tools of a lead agent have no door that the policy does not guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from tests.support.agents import STYLES, answers, run
from tests.support.leads import Deployment, who, written
from tests.support.scripted import call, calls, scripted

from remit.authz.errors import TicketRefused

ARGUMENTS: dict[str, dict[str, Any]] = {
    "bash": {"command": "echo hi"},
    "ls": {"path": "/mnt/user-data/workspace"},
    "glob": {"pattern": "*"},
    "grep": {"pattern": "x"},
    "read_file": {"path": "/mnt/user-data/workspace/a.txt"},
    "write_file": {"path": "/mnt/user-data/workspace/new.txt", "content": "x"},
    "str_replace": {"path": "/mnt/user-data/workspace/a.txt", "old_str": "a", "new_str": "b"},
    "present_files": {"paths": ["/mnt/user-data/outputs/a.txt"]},
    "list_uploads": {},
}


@pytest.mark.parametrize("name", ARGUMENTS)
async def test_a_tool_called_as_an_object(deploy: Callable[..., Deployment], tmp_path: Path, name: str) -> None:
    made, _ = deploy().agent()
    tool = next(one for one in made.tools if one.name == name)
    with pytest.raises(TicketRefused):
        await asyncio.to_thread(tool.invoke, {"name": name, "args": ARGUMENTS[name], "id": "c1", "type": "tool_call"})
    with pytest.raises(TicketRefused):
        await tool.ainvoke({"name": name, "args": ARGUMENTS[name], "id": "c1", "type": "tool_call"})
    assert written(tmp_path) == []


@pytest.mark.parametrize("style", STYLES)
async def test_a_tool_in_an_agent_without_a_guard(
    deploy: Callable[..., Deployment], tmp_path: Path, style: str
) -> None:
    made, _ = deploy().agent()
    tools = [one for one in made.tools if one.name == "write_file"]
    unguarded = create_agent(scripted(calls(call("write_file", ARGUMENTS["write_file"]))), tools)
    with pytest.raises(TicketRefused):
        await run(unguarded, style, context=who("user"))
    assert written(tmp_path) == []


@pytest.mark.parametrize("style", STYLES)
async def test_every_built_in_tool_is_decided(deploy: Callable[..., Deployment], tmp_path: Path, style: str) -> None:
    made, _ = deploy("version: 1\nroles:\n  user:\n    sandbox: {allow: true}\n").agent(
        calls(*(call(name, args, name) for name, args in ARGUMENTS.items()))
    )
    state = await run(made.graph, style, context=who("user"))
    found = answers(state)
    assert set(found) == set(ARGUMENTS)
    assert all(isinstance(one, ToolMessage) and one.artifact["code"] == "authz.no_policy" for one in found.values())
    assert written(tmp_path) == []
