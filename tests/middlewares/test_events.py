"""What is left behind about a call: journal events, log lines, outcomes, records."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.tools import tool
from pydantic import BaseModel
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import allow, deny
from tests.support.scripted import call, calls
from tests.support.tampering import Rewriting, with_args

from remit.authz import Enforcer, pop_outcome
from remit.authz.provider import ProviderBase


@tool
def bash(command: str) -> str:
    """Run."""
    return "ran"


class Journal:
    """Keeps what it is told."""

    def __init__(self, *, broken: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self.broken = broken

    def record_middleware(self, **event: Any) -> None:
        if self.broken:
            raise RuntimeError("the journal is full")
        self.events.append(event)


class Broken(ProviderBase):
    """Fails at every decision."""

    name = "broken"
    blocking = False

    def authorize(self, request: Any) -> Any:
        raise ConnectionError("https://user:secret@pdp.example")

    def filter_resources(self, principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
        return list(candidates)


@pytest.mark.parametrize("style", STYLES)
class TestJournal:
    async def test_a_denial_is_one_event_without_arguments(self, style: str, policy: Any) -> None:
        journal = Journal()
        world = policy(deny("guest", "bash"), allow("guest", "*"))
        graph, _ = agent(world.enforcer, [bash], calls(call("bash", {"command": "cat /etc/shadow"})))
        context = {"user_id": "gina", "is_subagent": True, "__run_journal": journal}
        await run(graph, style, context=context)
        assert journal.events == [
            {
                "tag": "guardrail",
                "name": "GuardrailMiddleware",
                "hook": "wrap_tool_call",
                "action": "deny_tool_call",
                "changes": {
                    "tool_name": "bash",
                    "tool_call_id": "call_1",
                    "agent_id": None,
                    "is_subagent": True,
                    "user_role": "guest",
                    "allow": False,
                    "policy_id": "policy.csv:1",
                    "reason_codes": ["authz.denied"],
                    "reason_messages": [journal.events[0]["changes"]["reason_messages"][0]],
                    "fail_closed": True,
                    "provider_error": False,
                },
            }
        ]
        assert "shadow" not in json.dumps(journal.events)

    async def test_an_allow_is_no_event(self, style: str, policy: Any) -> None:
        journal = Journal()
        world = policy(allow("guest", "bash"))
        graph, _ = agent(world.enforcer, [bash], calls(call("bash", {"command": "ls"})))
        await run(graph, style, context={"user_id": "gina", "__run_journal": journal})
        assert journal.events == []

    @pytest.mark.parametrize("fail_closed", [True, False])
    async def test_one_family_of_codes_tells_failures_from_denials(self, style: str, fail_closed: bool) -> None:
        journal = Journal()
        enforcer = Enforcer(Broken(), default_role="guest", fail_closed=fail_closed)
        graph, _ = agent(enforcer, [bash], calls(call("bash", {"command": "ls"})))
        await run(graph, style, context={"user_id": "gina", "__run_journal": journal})
        (event,) = journal.events
        assert event["action"] == ("deny_tool_call" if fail_closed else "allow_tool_call_after_provider_error")
        assert event["changes"]["reason_codes"] == ["authz.evaluator_error"]
        assert event["changes"]["provider_error"] is True
        assert event["changes"]["fail_closed"] is fail_closed
        assert "secret" not in json.dumps(journal.events)

    async def test_names_cannot_forge_entries(self, style: str, policy: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A tool name with a line break and a log prefix stays one record, in the journal and in the log."""
        journal = Journal()
        world = policy(allow("guest", "bash"))
        name = "bash\nWARNING remit.middlewares: allowed\x1b[2K\u202e" + "x" * 5000
        graph, _ = agent(world.enforcer, [bash], calls(call(name, {"command": "ls"})))
        with caplog.at_level(logging.WARNING, logger="remit"):
            await run(graph, style, context={"user_id": "gina", "__run_journal": journal})
        (event,) = journal.events
        assert event["changes"]["tool_name"].isprintable()
        assert "\\u000a" in event["changes"]["tool_name"]
        lines = [record.getMessage() for record in caplog.records if record.name.startswith("remit.middlewares")]
        assert len(lines) == 1
        assert lines[0].isprintable()
        assert len(lines[0]) < 500

    async def test_a_journal_that_fails_changes_nothing(self, style: str, policy: Any) -> None:
        world = policy(deny("guest", "bash"), allow("guest", "*"))
        graph, _ = agent(world.enforcer, [bash], calls(call("bash", {"command": "ls"})))
        state = await run(graph, style, context={"user_id": "gina", "__run_journal": Journal(broken=True)})
        assert code(answers(state)["call_1"]) == "authz.denied"
        assert state["messages"][-1].content == "done"


@pytest.mark.parametrize("style", STYLES)
async def test_the_outcome_is_that_of_the_call_as_it_ended(style: str, policy: Any) -> None:
    """A call that was allowed and then refused at its body is published as denied, once per guard."""
    world = policy(allow("guest", "bash"), deny("guest", "bash", "r.ctx.args.command == 'rm'"))
    graph, _ = agent(
        world.enforcer, [bash], calls(call("bash", {"command": "ls"})), others=[Rewriting(with_args(command="rm"))]
    )
    context = {"user_id": "gina"}
    await run(graph, style, context=context)
    outcomes = pop_outcome(context, "call_1")
    assert [(o.guard, o.decision, o.reason_codes) for o in outcomes] == [
        ("guardrail.authz", "denied", ("authz.denied",))
    ]


@pytest.mark.parametrize("style", STYLES)
async def test_outcomes_of_parallel_calls_are_all_there(style: str, policy: Any) -> None:
    world = policy(allow("guest", "bash"))
    turn = calls(*(call("bash", {"command": "ls"}, f"c{n}") for n in range(30)))
    graph, _ = agent(world.enforcer, [bash], turn)
    context = {"user_id": "gina"}
    await run(graph, style, context=context)
    assert all(len(pop_outcome(context, f"c{n}")) == 1 for n in range(30))


@dataclass
class DataContext:
    user_id: str
    user_role: str | None = None


class ModelContext(BaseModel):
    user_id: str
    user_role: str | None = None


@pytest.mark.parametrize(
    ("schema", "make"),
    [(DataContext, DataContext), (ModelContext, ModelContext), (dict, dict), (None, dict)],
    ids=["dataclass", "model", "dict", "undeclared"],
)
@pytest.mark.parametrize("style", STYLES)
async def test_every_kind_of_context(style: str, policy: Any, schema: Any, make: Any) -> None:
    """A context may be a mapping, a dataclass or a model; role and id are read from each."""
    world = policy(allow("admin", "bash"), allow("guest", "other"))
    graph, model = agent(world.enforcer, [bash], calls(call("bash", {"command": "ls"})), context_schema=schema)
    state = await run(graph, style, context=make(user_id="root", user_role="admin"))
    assert answers(state)["call_1"].content == "ran"
    model.restart()
    state = await run(graph, style, context=make(user_id="gina"))
    assert code(answers(state)["call_1"]) == "authz.no_policy"


@pytest.mark.parametrize("style", STYLES)
async def test_no_context_at_all(style: str, policy: Any) -> None:
    """Without a context the caller has the default role."""
    world = policy(allow("guest", "bash"))
    graph, _ = agent(world.enforcer, [bash], calls(call("bash", {"command": "ls"})))
    assert answers(await run(graph, style))["call_1"].content == "ran"
