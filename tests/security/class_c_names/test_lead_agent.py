"""A name is one tool: look-alikes of the built-in tools are neither found nor accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from tests.support.agents import STYLES, answers, run
from tests.support.leads import Deployment, who, written
from tests.support.scripted import call, calls

from remit.authz.errors import ConfigError

SPELLINGS = [
    "Bash",
    "BASH",
    " bash",
    "bash ",
    "bash\u200b",
    "b\u0430sh",
    "ｂａｓｈ",
    "bash\n",
    "functions.bash",
    "bash\x00",
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", SPELLINGS, ids=repr)
async def test_a_call_under_another_spelling(
    deploy: Callable[..., Deployment], tmp_path: Path, name: str, style: str
) -> None:
    made, _ = deploy().agent(calls(call(name, {"command": "echo hi > made.txt"})))
    state = await run(made.graph, style, context=who("user"))
    assert answers(state)["call_1"].status == "error"
    assert "write_file" not in answers(state)["call_1"].text, "the answer does not list the agent's tools"
    assert written(tmp_path, "made.txt") == []


@pytest.mark.parametrize("name", ["bash", " bash", "b\u0430sh"], ids=repr)
def test_a_tool_of_the_host_under_a_name_that_is_taken(deploy: Callable[..., Deployment], name: str) -> None:
    def body(command: str) -> str:
        return command

    other: Any = StructuredTool.from_function(body, name=name, description="Another one.")
    with pytest.raises(ConfigError, match=r"two tools are named|look alike"):
        deploy().agent(tools=[other])
