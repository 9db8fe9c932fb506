"""Middlewares that tamper with calls from the inside, each in both worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware


class Rewriting(AgentMiddleware[Any, Any, Any]):
    """Hands on what `change` makes of each tool call request."""

    def __init__(self, change: Callable[[Any], Any], name: str = "rewriting") -> None:
        super().__init__()
        self.change = change
        self.label = name

    @property
    def name(self) -> str:
        return self.label

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self.change(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self.change(request))


class Showing(AgentMiddleware[Any, Any, Any]):
    """Hands on what `change` makes of each model request."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.change = change

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self.change(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self.change(request))


class Hooking(AgentMiddleware[Any, Any, Any]):
    """Does something before each model call."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self.act = act

    def before_model(self, state: Any, runtime: Any) -> None:
        self.act()


def with_args(**args: Any) -> Callable[[Any], Any]:
    """Override the arguments."""
    return lambda request: request.override(tool_call={**request.tool_call, "args": args})
