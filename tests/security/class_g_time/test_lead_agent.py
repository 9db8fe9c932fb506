"""A policy that changes while an agent runs is obeyed by the next call, and by the sandbox that is open already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from tests.support.agents import STYLES, answers, code, run
from tests.support.leads import EVERYTHING, Deployment, who, written
from tests.support.scripted import call, calls

NO_BASH = 'version: 1\nroles:\n  user:\n    tools: {allow: "*", deny: [bash]}\n    sandbox: {allow: true}\n'
NO_SANDBOX = 'version: 1\nroles:\n  user:\n    tools: {allow: "*"}\n    sandbox: {allow: false}\n'


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("after", [NO_BASH, NO_SANDBOX], ids=["no-bash", "no-sandbox"])
async def test_between_two_calls_of_one_run(
    deploy: Callable[..., Deployment], tmp_path: Path, style: str, after: str
) -> None:
    deployment = deploy(EVERYTHING)

    def edited(messages: Any) -> AIMessage:
        deployment.roles.write_text(after, encoding="utf-8")
        deployment.services.enforcer.provider.reload()  # type: ignore[union-attr]
        return calls(call("bash", {"command": "echo two > two.txt"}, "c2"))

    made, model = deployment.agent(calls(call("bash", {"command": "echo one > one.txt"}, "c1")), edited)
    state = await run(made.graph, style, context=who("user"))
    found = answers(state)
    assert found["c1"].status == "success"
    assert found["c2"].status == "error"
    if after == NO_BASH:
        assert code(found["c2"]) == "authz.denied"
        assert "bash" not in model.bound[-1]
    else:
        assert "sandbox" in found["c2"].text
    assert written(tmp_path, "*.txt") == ["one.txt"]
