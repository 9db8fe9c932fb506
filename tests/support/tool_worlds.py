"""Agents that use the built-in tools on a real sandbox, behind a real policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage
from tests.support.agents import agent, answers, run
from tests.support.policies import Policy, allow
from tests.support.scripted import call, calls

from remit.harness.tools import build_tools
from remit.runtime.config import SandboxConfig
from remit.runtime.paths import thread_paths
from remit.runtime.sandboxes import SandboxAccess
from remit.runtime.state import ThreadState

WHO = {"user_id": "ada", "user_role": "user", "thread_id": "t1"}
OUTPUTS = "/mnt/user-data/outputs"


class World:
    """A sandbox provider, the tools over it, and agents that use them."""

    def __init__(self, folder: Path, provider: Any, **settings: Any) -> None:
        self.provider = provider
        self.access = SandboxAccess(provider)
        self.settings = SandboxConfig(**settings)
        self.paths = thread_paths("ada", "t1", base=folder / "state")
        self.paths.create()
        self.policy = Policy(folder, [allow("user", "*")])

        self._agents: dict[str, tuple[Any, Any]] = {}

    async def calls(self, style: str, *made: dict[str, Any]) -> dict[str, Any]:
        """Run an agent that makes these calls, one after the other, and return its state."""
        if style not in self._agents:
            tools = build_tools(self.access, self.settings)
            self._agents[style] = agent(self.policy.enforcer, tools, state_schema=ThreadState)
        graph, model = self._agents[style]
        model.restart(*(calls(one) for one in made))
        return await run(graph, style, context=WHO)

    async def one(self, name: str, args: dict[str, Any], style: str = "ainvoke") -> ToolMessage:
        return answers(await self.calls(style, call(name, args)))["call_1"]
