"""`remit coverage`: the proof over an agent that a module builds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Cli, process

AGENTS = '''
"""Agents of an application."""

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph

from remit.authz import Enforcer
from remit.mediation import audit
from remit.middlewares import guard
from remit.providers.casbin import CasbinAuthorizationProvider

print("loading the agents")
MODEL = FakeListChatModel(responses=["done"])


@tool
def search(query: str) -> str:
    """Search."""
    return query


class Cache(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        return handler(request)

    async def awrap_tool_call(self, request, handler):
        return await handler(request)


def enforcer():
    return Enforcer(CasbinAuthorizationProvider(policies=["policy.csv"]), default_role="guest")


def guarded(*others):
    brain = enforcer()
    return create_agent(MODEL, brain.visible_tools([search]), middleware=guard(brain, *others))


def build():
    return guarded()


async def abuild():
    return guarded()


def cached():
    return guarded(Cache())


def bare():
    return create_agent(MODEL, [search])


def proving():
    agent = cached()
    audit(agent).raise_if_failed()
    return agent


def planning():
    graph = StateGraph(MessagesState)
    graph.add_node("plan", lambda state: state)
    graph.set_entry_point("plan")
    return graph.compile()


def broken():
    raise RuntimeError("no\\nkey")


def wanting(model):
    return bare()


def text():
    return "an agent"


class Factories:
    build = staticmethod(build)


AGENT = build()
'''
TABLE = "  agent > tools > search  tool  dominated  both  guardrail.authz  -\n"


@pytest.fixture(autouse=True)
def application(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "policy.csv").write_text("p, role:guest, tool, search, call, allow,\n")
    (tmp_path / "my_agents.py").write_text(AGENTS)
    (tmp_path / "my_broken.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "my_faulty.py").write_text("1 / 0\n")
    yield
    for name in ("my_agents", "my_broken", "my_faulty"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("target", ["build", "abuild", "AGENT", "Factories.build"])
def test_a_guarded_agent(cli: Cli, target: str) -> None:
    before = list(sys.path)
    ran = cli("coverage", f"my_agents:{target}")
    assert ran.code == 0, ran.err
    assert ran.out == f"{TABLE}middlewares of agent: guardrail.authz (guard)\n1 row, everything is covered\n"
    assert ran.err == "loading the agents\n"
    assert sys.path == before


def test_an_agent_without_a_guard(cli: Cli) -> None:
    ran = cli("coverage", "my_agents:bare")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "  agent > tools > search  tool  uncovered  -  -  no authorization guard stands around it",
        "agent > tools > search: no authorization guard stands around it; "
        "build the agent with middleware=[*guard(enforcer, ...)]",
        "1 problem",
    ]


@pytest.mark.parametrize("target", ["cached", "proving"])
def test_the_path_to_the_culprit(cli: Cli, target: str) -> None:
    ran = cli("coverage", f"my_agents:{target}")
    assert ran.code == 1
    assert "agent > tools > Cache: my_agents.Cache wraps tool calls inside of guardrail.authz" in ran.out


def test_exceptions(cli: Cli) -> None:
    assert cli("coverage", "my_agents:planning").code == 1
    ran = cli("coverage", "my_agents:planning", "--allow", "plan=it plans; a = b")
    assert ran.code == 0
    assert "accepted: it plans; a = b" in ran.out


def test_json(cli: Cli) -> None:
    ran = cli("coverage", "my_agents:cached", "--format", "json")
    assert ran.code == 1
    found = ran.json
    assert found["ok"] is False
    assert [(row["path"], row["verdict"]) for row in found["rows"]] == [
        ("agent > tools > search", "dominated"),
        ("agent > tools > Cache", "opaque"),
    ]
    assert [(one["name"], one["place"]) for one in found["middlewares"]] == [
        ("guardrail.authz", "guard"),
        ("Cache", "inside"),
    ]
    assert len(found["problems"]) == 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["my_agents"], "'my_agents' is not of the form MODULE:FACTORY", id="form"),
        pytest.param(["my_agents:"], "is not of the form MODULE:FACTORY", id="no-name"),
        pytest.param(["../x:y"], "is not of the form MODULE:FACTORY", id="path"),
        pytest.param(["nowhere.at_all:build"], "there is no module 'nowhere'", id="module"),
        pytest.param(["my_broken:build"], "cannot be imported: ModuleNotFoundError: No module named", id="import"),
        pytest.param(["my_faulty:build"], "cannot be imported: ZeroDivisionError: division by zero", id="fault"),
        pytest.param(["my_agents:nothing"], "module 'my_agents' has no 'nothing'; check the name", id="name"),
        pytest.param(["my_agents:wanting"], "cannot be called without arguments", id="arguments"),
        pytest.param(["my_agents:broken"], "'my_agents:broken' failed: RuntimeError: no key", id="fails"),
        pytest.param(["my_agents:text"], "only compiled LangGraph agents can be audited, got str", id="no-agent"),
        pytest.param(["my_agents:MODEL"], "only compiled LangGraph agents can be audited", id="a-model"),
        pytest.param(["my_agents:build", "--allow", "plan"], "--allow 'plan': say what is accepted and why", id="why"),
        pytest.param(["my_agents:build", "--allow", "plan= "], "say what is accepted and why", id="empty-reason"),
        pytest.param(["my_agents:build", "--allow", "a=b", "--allow", "a=c"], "'a' is accepted twice", id="twice"),
        pytest.param([], "missing argument 'MODULE:FACTORY'", id="nothing"),
    ],
)
def test_what_cannot_be_used_is_one_clear_message(cli: Cli, argv: list[str], says: str) -> None:
    ran = cli("coverage", *argv)
    assert ran.code == 2
    assert ran.out == ""
    message = [line for line in ran.lines if line != "loading the agents"]
    assert len(message) == 1
    assert says in message[0]


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    ran = process("coverage", "my_agents:build", cwd=tmp_path)
    assert (ran.code, ran.out.startswith(TABLE)) == (0, True), ran.err
