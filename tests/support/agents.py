"""Compiled agents for tests, and the four ways to run one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, ToolMessage
from tests.support.blocking import no_blocking_calls
from tests.support.scripted import ScriptedChatModel, scripted

from remit.authz import Enforcer
from remit.middlewares import guard

STYLES = ("invoke", "stream", "ainvoke", "astream")
HELLO: dict[str, Any] = {"messages": [("user", "hello")]}


def agent(
    enforcer: Enforcer,
    tools: Sequence[Any],
    *steps: Any,
    others: Sequence[Any] = (),
    before: Sequence[Any] = (),
    approvals: Any = None,
    **options: Any,
) -> tuple[Any, ScriptedChatModel]:
    """An agent of `create_agent` behind the guard, and its model.

    Args:
        enforcer: Decides.
        tools: The agent's tools, given to it through `visible_tools`.
        steps: What the model does.
        others: Middlewares inside of the guard.
        before: Middlewares outside of it.
        approvals: How people are asked.
        options: For `create_agent`.
    """
    model = options.pop("model", None) or scripted(*steps)
    middleware = [*before, *guard(enforcer, *others, approvals=approvals)]
    return create_agent(model, enforcer.visible_tools(tools), middleware=middleware, **options), model


async def run(
    graph: Any, style: str, payload: Any = None, *, context: Any = None, config: Any = None
) -> dict[str, Any]:
    """Run `graph` once in the given style and return the final state.

    Synchronous styles run off the event loop; in the others a call that blocks the loop raises.
    """
    payload = HELLO if payload is None else payload
    if style == "invoke":
        return await asyncio.to_thread(graph.invoke, payload, config, context=context)
    if style == "stream":
        return await asyncio.to_thread(
            lambda: list(graph.stream(payload, config, context=context, stream_mode="values"))[-1]
        )
    with no_blocking_calls():
        if style == "ainvoke":
            return await graph.ainvoke(payload, config, context=context)
        last: dict[str, Any] = {}
        async for state in graph.astream(payload, config, context=context, stream_mode="values"):
            last = state
        return last


def answers(state: dict[str, Any]) -> dict[str, ToolMessage]:
    """The tool messages of `state` by call id."""
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


def code(message: BaseMessage) -> str | None:
    """The reason code of a denial message; None for any other message."""
    artifact = getattr(message, "artifact", None)
    return artifact.get("code") if isinstance(artifact, dict) else None
