"""What fails inside of a lead agent ends in a refusal that the model can read, and never in an effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agents import STYLES, answers, run
from tests.support.leads import Deployment, who, written
from tests.support.scripted import call, calls

from remit.middlewares.input_sanitization import InputSanitizationMiddleware
from remit.providers.casbin import CasbinAuthorizationProvider

WRITE = call("write_file", {"path": "/mnt/user-data/workspace/new.txt", "content": "x"})


def raising(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the engine is down")


async def araising(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the engine is down")


@pytest.mark.parametrize("style", STYLES)
async def test_the_provider_fails_at_every_question(
    deploy: Callable[..., Deployment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    deployment = deploy()
    made, model = deployment.agent(calls(WRITE))
    monkeypatch.setattr(CasbinAuthorizationProvider, "authorize", raising)
    monkeypatch.setattr(CasbinAuthorizationProvider, "aauthorize", araising)
    monkeypatch.setattr(CasbinAuthorizationProvider, "filter_resources", raising)
    state = await run(made.graph, style, context=who("user"))
    assert model.bound[0] == []
    assert answers(state)["call_1"].artifact["code"] == "authz.evaluator_error"
    assert written(tmp_path) == []


@pytest.mark.parametrize("style", STYLES)
async def test_the_provider_fails_at_the_sandbox_gate_only(
    deploy: Callable[..., Deployment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    deployment = deploy()
    made, _ = deployment.agent(calls(WRITE))
    real = CasbinAuthorizationProvider.authorize

    def authorize(self: Any, request: Any) -> Any:
        return raising() if request.resource == "sandbox" else real(self, request)

    async def aauthorize(self: Any, request: Any) -> Any:
        return authorize(self, request)

    monkeypatch.setattr(CasbinAuthorizationProvider, "authorize", authorize)
    monkeypatch.setattr(CasbinAuthorizationProvider, "aauthorize", aauthorize)
    state = await run(made.graph, style, context=who("user"))
    assert answers(state)["call_1"].status == "error"
    assert answers(state)["call_1"].artifact["code"] == "authz.evaluator_error"
    assert "needs a sandbox" in answers(state)["call_1"].text
    assert written(tmp_path) == []


@pytest.mark.parametrize("style", STYLES)
async def test_a_sandbox_that_cannot_be_made(
    deploy: Callable[..., Deployment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    from remit.runtime.sandboxes import SandboxUnavailableError

    def unavailable(thread_id: str, user_id: str) -> Any:
        raise SandboxUnavailableError("no environment can be made now")

    deployment = deploy()
    made, _ = deployment.agent(calls(call("ls", {"path": "/mnt/user-data/workspace"}, "l1"), WRITE))
    monkeypatch.setattr(deployment.services.access.provider, "acquire", unavailable)
    state = await run(made.graph, style, context=who("user"))
    assert answers(state)["call_1"].status == "error"
    assert "no environment can be made now" in answers(state)["l1"].text
    assert state["messages"][-1].text == "done"
    assert written(tmp_path) == []


@pytest.mark.parametrize("style", STYLES)
async def test_a_malformed_identity(deploy: Callable[..., Deployment], tmp_path: Path, style: str) -> None:
    made, model = deploy().agent(calls(WRITE))
    context = {**who("user"), "authz_attributes": ["not", "a", "mapping"]}
    state = await run(made.graph, style, context=context)
    assert model.bound[0] == []
    assert answers(state)["call_1"].artifact["code"] == "authz.malformed_identity"
    assert written(tmp_path) == []


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("thread", ["../../etc", "a/b", "", "a\x00b", " "], ids=repr)
async def test_a_thread_that_cannot_name_a_folder(
    deploy: Callable[..., Deployment], tmp_path: Path, style: str, thread: str
) -> None:
    made, _ = deploy().agent(calls(WRITE))
    with pytest.raises(ValueError, match="thread"):
        await run(made.graph, style, context={**who("user"), "thread_id": thread})
    assert written(tmp_path) == []


def test_sanitising_is_part_of_every_chain(deploy: Callable[..., Deployment]) -> None:
    made, _ = deploy().agent()
    assert isinstance(made.middlewares[0], InputSanitizationMiddleware)
