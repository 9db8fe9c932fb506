"""The demo's agent: a real LangGraph agent with a scripted model, four harmless tools, and remit around it.

Imported only when the demo runs; needs the extra ``agent``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from remit.authz import wire
from remit.authz.config import load_config
from remit.authz.enforcer import Enforcer
from remit.authz.outcome import denied, pop_outcome
from remit.authz.provider import AuthorizationProvider, Closes
from remit.authz.types import AuthzRequest, Principal
from remit.cli._scripted_model import Script, ScriptedModel
from remit.middlewares import guard

Verdict = Literal["allowed", "asked", "denied"]

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "web_search": {"query": "quarterly report"},
    "write_file": {"path": "notes.txt", "content": "a draft"},
    "bash": {"command": "ls"},
    "send_email": {"to": "press@elsewhere.example", "subject": "a draft"},
}


@dataclass(frozen=True)
class Answer:
    """What became of a call, or what should."""

    verdict: Verdict
    rule: str | None
    """``policy.csv:12``; None when no rule decided."""
    runs: bool
    """Whether the tool's body ran. An asked call runs here, since the demo's human says yes."""


@dataclass(frozen=True)
class Call:
    tool: str
    answer: Answer
    by_policy: Answer
    """What the policy said when it was asked directly, right before the call."""


@dataclass(frozen=True)
class Episode:
    """One run of the agent."""

    shown: tuple[tuple[str, ...], ...]
    """The tools that the model was bound to, for each time it spoke."""
    shown_by_policy: tuple[tuple[str, ...], ...]
    calls: tuple[Call, ...]

    @property
    def mismatches(self) -> list[str]:
        """Every difference between what happened and what the policy says; empty when all is well."""
        found = [
            f"{call.tool}: {call.answer}, by policy {call.by_policy}"
            for call in self.calls
            if call.answer != call.by_policy
        ]
        return found + [
            f"shown {shown}, by policy {by_policy}"
            for shown, by_policy in zip(self.shown, self.shown_by_policy, strict=True)
            if shown != by_policy
        ]


@dataclass(frozen=True)
class Turn:
    """The model asks for `tools`, in parallel, after `first` was done."""

    tools: tuple[str, ...]
    first: Callable[[], None] | None = None


class DemoAgent:
    """One compiled agent for everybody: who asks is known per run, and the policy decides what that means.

    Args:
        folder: Holds ``authz.yaml`` and what it names.

    Raises:
        ConfigError: The policy does not load.
    """

    def __init__(self, folder: Path) -> None:
        self.enforcer = Enforcer.from_config(load_config(folder / "authz.yaml"))
        assert self.enforcer.provider is not None  # noqa: S101 - the starter policy is enabled
        self.provider: AuthorizationProvider = self.enforcer.provider
        self.ran: list[str] = []
        self._script = Script(())
        self._agent: Any = create_agent(
            ScriptedModel(script=self._script),
            self.enforcer.visible_tools(self._tools()),
            middleware=guard(self.enforcer),
            checkpointer=InMemorySaver(),
        )
        self._threads = 0

    def close(self) -> None:
        """Release what the folder of the policy and the log are needed for."""
        if self.enforcer.ledger is not None:
            self.enforcer.ledger.close()
        if isinstance(self.provider, Closes):
            asyncio.run(self.provider.aclose())

    def _tools(self) -> list[BaseTool]:
        """Tools whose bodies note that they ran, and do nothing else."""

        def web_search(query: str) -> str:
            """Search the web."""
            return self._note("web_search")

        def write_file(path: str, content: str) -> str:
            """Write a file."""
            return self._note("write_file")

        def bash(command: str) -> str:
            """Run a shell command."""
            return self._note("bash")

        def send_email(to: str, subject: str) -> str:
            """Send an e-mail."""
            return self._note("send_email")

        return [StructuredTool.from_function(body) for body in (web_search, write_file, bash, send_email)]

    def _note(self, tool: str) -> str:
        self.ran.append(tool)
        return "done"

    def run(self, user: str, role: str, turns: Sequence[Turn]) -> Episode:
        """One run for one person. Whatever asks is approved."""
        principal = Principal(user_id=user, role=role)
        context: dict[str, Any] = {wire.USER_ID: user, wire.USER_ROLE: role}
        self._threads += 1
        config: Any = {"configurable": {"thread_id": str(self._threads)}}
        expected: dict[str, tuple[str, Answer]] = {}
        shown_by_policy: list[tuple[str, ...]] = []

        def speak(turn: Turn, number: int) -> AIMessage:
            visible = self.provider.filter_resources(principal, "tool", list(ARGUMENTS))
            shown_by_policy.append(tuple(visible))
            if turn.first is not None:
                turn.first()
            calls = []
            for tool in turn.tools:
                call_id = f"{number}-{tool}"
                expected[call_id] = tool, self._by_policy(principal, tool)
                calls.append({"name": tool, "args": dict(ARGUMENTS[tool]), "id": call_id})
            return AIMessage("" if calls else "done", tool_calls=calls)

        self._script.shown.clear()
        self._script.turns = [partial(speak, turn, number) for number, turn in enumerate((*turns, Turn(())))]
        already = len(self.ran)
        result = self._agent.invoke({"messages": [("user", "please do")]}, config, context=context)
        asked: set[str] = set()
        while pending := result.get("__interrupt__"):
            asked |= {interrupt.value["tool_call_id"] for interrupt in pending}
            yes: Command[Any] = Command(resume={interrupt.id: {"type": "approve"} for interrupt in pending})
            result = self._agent.invoke(yes, config, context=context)
        ran = self.ran[already:]

        calls = []
        for call_id, (tool, by_policy) in expected.items():
            outcomes = pop_outcome(context, call_id)
            verdict: Verdict = "asked" if call_id in asked else "denied" if denied(outcomes) else "allowed"
            rule = next((outcome.policy_id for outcome in outcomes), None)
            runs = tool in ran
            if runs:
                ran.remove(tool)
            calls.append(Call(tool, Answer(verdict, rule, runs), by_policy))
        return Episode(tuple(self._script.shown), tuple(shown_by_policy), tuple(calls))

    def _by_policy(self, principal: Principal, tool: str) -> Answer:
        decision = self.provider.authorize(
            AuthzRequest(principal, "tool", "call", tool, {wire.CTX_ARGS: dict(ARGUMENTS[tool])})
        )
        verdict: Verdict = "asked" if decision.asks else "allowed" if decision.allow is True else "denied"
        return Answer(verdict, decision.policy_id, verdict != "denied")
