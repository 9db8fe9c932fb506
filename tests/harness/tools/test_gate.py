"""A role without a sandbox: its run starts, the tools that need one say so, and everything else works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.leads import Deployment, who
from tests.support.scripted import call, calls

from remit.harness.tools import build_tools
from remit.middlewares.sandbox import SandboxMiddleware
from remit.providers.casbin import CasbinAuthorizationProvider
from remit.runtime.state import ThreadState

ROLES = """version: 1
roles:
  without:
    tools: {allow: "*"}
  with:
    tools: {allow: "*"}
    sandbox: {allow: true}
"""


@tool
def web_search(query: str) -> str:
    """Search the web."""
    return f"pages about {query}"


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    made = Deployment(tmp_path, ROLES, default_role="without", rows="# none\n")
    yield made
    made.close()


@pytest.fixture
def acquired(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Who acquired an environment."""
    noted: list[tuple[str, str]] = []
    acquire = deployment.services.access.provider.acquire

    def noting(thread_id: str, user_id: str) -> Any:
        noted.append((thread_id, user_id))
        return acquire(thread_id, user_id)

    monkeypatch.setattr(deployment.services.access.provider, "acquire", noting)
    return noted


async def turn(deployment: Deployment, style: str, role: str, *, lazy: bool) -> dict[str, Any]:
    access = deployment.services.access
    graph, _ = await asyncio.to_thread(
        agent,
        deployment.services.enforcer,
        [*build_tools(access, deployment.config.sandbox), web_search],
        calls(call("bash", {"command": "echo hi"}, "b1")),
        calls(call("web_search", {"query": "x"}, "w1")),
        before=[SandboxMiddleware(access, lazy_init=lazy)],
        state_schema=ThreadState,
    )
    return await run(graph, style, context=who(role))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "eager"])
async def test_a_role_without(deployment: Deployment, acquired: list[Any], style: str, lazy: bool) -> None:
    state = await turn(deployment, style, "without", lazy=lazy)
    found = answers(state)
    assert acquired == []
    assert found["b1"].status == "error"
    assert "the sandbox is not permitted in this run" in found["b1"].text
    assert "without" not in found["b1"].text.replace("without it", "")  # the name of the role
    assert (code(found["b1"]) or "").startswith("authz.")
    assert found["w1"].text == "pages about x"
    assert state["messages"][-1].text == "done"


@pytest.mark.parametrize("style", STYLES)
async def test_a_role_with(deployment: Deployment, acquired: list[Any], style: str) -> None:
    state = await turn(deployment, style, "with", lazy=True)
    assert answers(state)["b1"].text == "hi\n"
    assert acquired == [("t1", "with-1")]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "eager"])
async def test_a_policy_that_cannot_answer(
    deployment: Deployment, acquired: list[Any], monkeypatch: pytest.MonkeyPatch, style: str, lazy: bool
) -> None:
    decide: Callable[..., Any] = CasbinAuthorizationProvider.authorize

    def authorize(self: Any, request: Any) -> Any:
        if request.resource == "sandbox":
            raise RuntimeError("the engine is down")
        return decide(self, request)

    async def aauthorize(self: Any, request: Any) -> Any:
        return authorize(self, request)

    monkeypatch.setattr(CasbinAuthorizationProvider, "authorize", authorize)
    monkeypatch.setattr(CasbinAuthorizationProvider, "aauthorize", aauthorize)
    found = answers(await turn(deployment, style, "with", lazy=lazy))
    assert acquired == []
    assert "the sandbox is not permitted in this run" in found["b1"].text
    assert code(found["b1"]) == "authz.evaluator_error"
    assert found["w1"].text == "pages about x"
