"""A fault in a middleware is seen: by the model as an error message, or by the caller as a failed run. Never a pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from tests.support.agents import STYLES, answers, run
from tests.support.leads import Deployment, who
from tests.support.scripted import call, calls

from remit.authz import wire


class Faulty(AgentMiddleware[Any, Any, Any]):
    """Raises in one hook, before or after what it wraps."""

    remit_power = "transform"

    def __init__(self, hook: str, *, late: bool) -> None:
        super().__init__()
        self.hook, self.late = hook, late

    def _fault(self, hook: str) -> None:
        if hook == self.hook:
            raise RuntimeError("a fault of the middleware")

    def before_agent(self, state: Any, runtime: Any) -> None:
        self._fault("before_agent")

    def before_model(self, state: Any, runtime: Any) -> None:
        self._fault("before_model")

    def after_model(self, state: Any, runtime: Any) -> None:
        self._fault("after_model")

    def after_agent(self, state: Any, runtime: Any) -> None:
        self._fault("after_agent")

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        if not self.late:
            self._fault("wrap_tool_call")
        result = handler(request)
        self._fault("wrap_tool_call")
        return result

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        if not self.late:
            self._fault("wrap_tool_call")
        result = await handler(request)
        self._fault("wrap_tool_call")
        return result

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        if not self.late:
            self._fault("wrap_model_call")
        result = handler(request)
        self._fault("wrap_model_call")
        return result

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        if not self.late:
            self._fault("wrap_model_call")
        result = await handler(request)
        self._fault("wrap_model_call")
        return result


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    made = Deployment(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def look_up(ran: list[str]) -> Any:
    @tool
    def look_up(topic: str) -> str:
        """Look something up."""
        ran.append(topic)
        return f"found {topic}"

    return look_up


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("late", [False, True], ids=["before-the-tool", "after-the-tool"])
async def test_around_a_tool_the_model_is_told(
    deployment: Deployment, look_up: Any, ran: list[str], style: str, late: bool
) -> None:
    made, model = deployment.agent(
        calls(call("look_up", {"topic": "x"})), tools=[look_up], middlewares=[Faulty("wrap_tool_call", late=late)]
    )
    state = await run(made.graph, style, context=who("user"))
    answer = answers(state)["call_1"]
    assert answer.status == "error"
    assert "RuntimeError" in answer.text
    assert answer.additional_kwargs[wire.TOOL_META]["status"] == "error"
    assert ran == (["x"] if late else [])
    assert len(model.seen) == 2


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("late", [False, True], ids=["before-the-model", "after-the-model"])
async def test_around_the_model_the_user_is_told(deployment: Deployment, look_up: Any, style: str, late: bool) -> None:
    made, _ = deployment.agent(tools=[look_up], middlewares=[Faulty("wrap_model_call", late=late)])
    state = await run(made.graph, style, context=who("user"))
    assert state["messages"][-1].additional_kwargs[wire.ERROR_FALLBACK] is True


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
async def test_in_a_node_the_run_fails(deployment: Deployment, look_up: Any, style: str, hook: str) -> None:
    made, _ = deployment.agent(tools=[look_up], middlewares=[Faulty(hook, late=False)])
    with pytest.raises(RuntimeError, match="a fault of the middleware"):
        await run(made.graph, style, context=who("user"))
