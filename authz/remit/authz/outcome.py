"""What was decided about a tool call, published into the run context for whoever records the call.

The publisher and its consumers share this module only. The key starts with a double underscore, so that copies sent by
a client are stripped.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from remit.authz import wire

MAX_CALLS: Final = 500
"""Calls whose outcomes are kept at most; the oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationOutcome:
    """The answer of one guard about one call. A call has one per guard; it was denied if any of them denied."""

    guard: str
    """Name of the guard: ``guardrail.authz``, ``guardrail.<provider>``."""
    decision: Literal["allowed", "denied"]
    policy_id: str | None = None
    policy_version: str = "unknown"
    reason_codes: tuple[str, ...] = ()


def publish_outcome(context: Any, tool_call_id: str | None, outcome: AuthorizationOutcome) -> None:
    """Add `outcome` to those of the call, in place of an earlier one of the same guard.

    Does nothing without a mutable mapping or a call id.
    """
    if not isinstance(context, MutableMapping) or not tool_call_id:
        return
    calls = context.setdefault(wire.AUTHORIZATION_OUTCOME, {})  # one step: parallel calls publish at the same time
    if not isinstance(calls, dict):
        calls = context[wire.AUTHORIZATION_OUTCOME] = {}
    earlier = calls.pop(tool_call_id, None)
    calls[tool_call_id] = (*_others(earlier, outcome.guard), outcome) if earlier else (outcome,)
    while len(calls) > MAX_CALLS:
        calls.pop(next(iter(calls)), None)


def _others(earlier: Any, guard: str) -> list[AuthorizationOutcome]:
    """What was published by other guards; anything else in its place was not published here."""
    found = earlier if isinstance(earlier, tuple) else ()
    return [item for item in found if isinstance(item, AuthorizationOutcome) and item.guard != guard]


def pop_outcome(context: Any, tool_call_id: str | None) -> tuple[AuthorizationOutcome, ...]:
    """Take the outcomes of the call, in the order in which the guards answered; empty when there are none."""
    if not isinstance(context, MutableMapping) or not tool_call_id:
        return ()
    calls = context.get(wire.AUTHORIZATION_OUTCOME)
    if not isinstance(calls, dict):
        return ()
    found = calls.pop(tool_call_id, ())
    return tuple(item for item in found if isinstance(item, AuthorizationOutcome))


def denied(outcomes: tuple[AuthorizationOutcome, ...]) -> bool:
    """The combined view: denied if any guard denied."""
    return any(outcome.decision == "denied" for outcome in outcomes)
