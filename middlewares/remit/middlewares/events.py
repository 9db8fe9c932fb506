"""What a guard leaves behind about a call: outcome, log line and journal event. None of them can change the outcome."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

from remit.authz import wire
from remit.authz.outcome import AuthorizationOutcome, publish_outcome
from remit.authz.principal import read
from remit.authz.provider import GuardrailDecision
from remit.authz.types import AuthzDecision, Principal
from remit.middlewares.results import escaped, safe_code

Decision = AuthzDecision | GuardrailDecision
"""The answer of either kind of provider. Both have the same attributes here."""

log = logging.getLogger("remit.middlewares")

MAX_REASON: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One answer of one guard about one call."""

    guard: str
    tool_name: str
    call_id: str | None
    context: Any
    principal: Principal | None
    decision: Decision
    agent_id: str | None
    fail_closed: bool
    policy_version: str

    @property
    def failed(self) -> bool:
        """Whether the provider failed and the answer is what the operator chose for that case."""
        return self.decision.metadata.get("failure") is True

    @property
    def codes(self) -> tuple[str, ...]:
        if self.decision.reasons:
            return tuple(safe_code(reason.code) for reason in self.decision.reasons)
        return ("authz.allowed" if self.decision.allow else "authz.denied",)


def leave(event: Event, *, allowed: bool) -> None:
    """Publish the outcome of `event`, and report it when it is a denial or an allow after a failure.

    Args:
        event: What was answered.
        allowed: What became of it: an ask that was answered is allowed, one that was not is denied.
    """
    try:
        _publish(event, "allowed" if allowed else "denied")
        if not allowed or event.failed:
            _report(event, "deny_tool_call" if not allowed else "allow_tool_call_after_provider_error")
    except Exception:
        log.exception("an authorization event could not be recorded")


def publish_allowed(guard: str, decision: Decision, version: str, context: Any, call_id: str | None) -> None:
    """What `leave` does for a plain allow, which happens at every call."""
    reasons = decision.reasons
    try:
        publish_outcome(
            context,
            call_id,
            AuthorizationOutcome(
                guard=guard,
                decision="allowed",
                policy_id=decision.policy_id,
                policy_version=decision.policy_version or version,
                reason_codes=tuple(safe_code(reason.code) for reason in reasons) if reasons else ("authz.allowed",),
            ),
        )
    except Exception:
        log.exception("an authorization outcome could not be published")


def _publish(event: Event, decision: Literal["allowed", "denied"]) -> None:
    outcome = AuthorizationOutcome(
        guard=event.guard,
        decision=decision,
        policy_id=event.decision.policy_id,
        policy_version=event.decision.policy_version or event.policy_version,
        reason_codes=event.codes,
    )
    publish_outcome(event.context, event.call_id, outcome)


def _report(event: Event, action: str) -> None:
    tool = escaped(event.tool_name[:200])
    log.warning("%s: %s: tool %r: %s", event.guard, action, tool, ", ".join(event.codes))
    journal = read(event.context, wire.RUN_JOURNAL)
    if journal is None:
        return
    who = event.principal
    decision = event.decision
    journal.record_middleware(
        tag="guardrail",
        name="GuardrailMiddleware",
        hook="wrap_tool_call",
        action=action,
        changes={
            "tool_name": tool,
            "tool_call_id": _escaped(event.call_id),
            "agent_id": _escaped(event.agent_id),
            "is_subagent": read(event.context, wire.IS_SUBAGENT) is True,
            "user_role": _escaped(who.role if who else None),
            "allow": decision.allow,
            "policy_id": _escaped(decision.policy_id),
            "reason_codes": list(event.codes),
            "reason_messages": [escaped(reason.message[:MAX_REASON]) for reason in decision.reasons],
            "fail_closed": event.fail_closed,
            "provider_error": event.failed,
        },
    )


def _escaped(text: str | None) -> str | None:
    return None if text is None else escaped(text)
