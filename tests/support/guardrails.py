"""Guardrail requests, and both ways to ask a guardrail, for tables that must hold for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from remit.authz.provider import GuardrailDecision, GuardrailProvider, GuardrailRequest

Ask = Callable[[GuardrailProvider, GuardrailRequest], GuardrailDecision]


def call(tool_name: str = "search", tool_input: Any = None, **members: Any) -> GuardrailRequest:
    """A call as the middleware would put it."""
    usual: dict[str, Any] = {
        "tool_call_id": "call-1",
        "thread_id": "thread-1",
        "run_id": "run-1",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "user_id": "u-1",
        "user_role": "reader",
    }
    return GuardrailRequest(tool_name=tool_name, tool_input=tool_input or {}, **{**usual, **members})


def sync(provider: GuardrailProvider, request: GuardrailRequest) -> GuardrailDecision:
    return provider.evaluate(request)


def later(provider: GuardrailProvider, request: GuardrailRequest) -> GuardrailDecision:
    return asyncio.run(_awaited(provider, request))


async def _awaited(provider: GuardrailProvider, request: GuardrailRequest) -> GuardrailDecision:
    return await provider.aevaluate(request)


BOTH = [sync, later]
