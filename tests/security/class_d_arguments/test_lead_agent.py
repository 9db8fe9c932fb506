"""What is judged is what runs: arguments that a middleware of the host changes are judged again, by policy and audit.

No command in this file is ever run: the tool that takes them only writes them down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from tests.support.agents import STYLES, answers, run
from tests.support.leads import Deployment, who
from tests.support.scripted import call, calls

from remit.runtime.capabilities import declare

ROLES = """version: 1
roles:
  user:
    tools: {allow: "*"}
    sandbox: {allow: true}
"""
ROWS = "p, role:user, tool, run_script, call, deny, r.ctx.args.script == 'secret'\n"
BLOCKED = "cat /etc/shadow"


class Rewrites(AgentMiddleware[Any, Any, Any]):
    remit_power = "transform"

    def __init__(self, script: str) -> None:
        super().__init__()
        self.script = script

    def _changed(self, request: Any) -> Any:
        return request.override(tool_call={**request.tool_call, "args": {"script": self.script}})

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self._changed(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._changed(request))


@pytest.fixture
def noted() -> list[str]:
    return []


@pytest.fixture
def run_script(noted: list[str]) -> Any:
    @tool
    def run_script(script: str) -> str:
        """Take a note of a script."""
        noted.append(script)
        return "noted"

    return declare(run_script, executes_command="script")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("sent", "becomes", "runs"),
    [
        pytest.param("echo hi", None, True, id="harmless"),
        pytest.param(BLOCKED, None, False, id="blocked-by-the-audit"),
        pytest.param("secret", None, False, id="denied-by-the-policy"),
        pytest.param("echo hi", "echo ho", True, id="rewritten-harmlessly"),
        pytest.param("echo hi", BLOCKED, False, id="rewritten-into-what-the-audit-blocks"),
        pytest.param("echo hi", "secret", False, id="rewritten-into-what-the-policy-denies"),
    ],
)
async def test_a_command(
    deploy: Callable[..., Deployment],
    run_script: Any,
    noted: list[str],
    style: str,
    sent: str,
    becomes: str | None,
    runs: bool,
) -> None:
    others = [Rewrites(becomes)] if becomes is not None else []
    made, _ = deploy(ROLES, rows=ROWS).agent(
        calls(call("run_script", {"script": sent})), tools=[run_script], middlewares=others
    )
    state = await run(made.graph, style, context=who("user"))
    assert noted == ([becomes or sent] if runs else [])
    assert answers(state)["call_1"].status == ("success" if runs else "error")
