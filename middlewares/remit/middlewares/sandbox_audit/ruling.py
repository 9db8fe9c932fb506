"""What becomes of a command: the classifier's verdict, and what the policy makes of it.

The policy is asked about the rule that matched (``command:execute`` on the rule's id), never about commands that no
rule matches, and can move the verdict in both directions. Only a rule that speaks of commands counts: one that allows
everything says nothing about this class of commands. What fails, or has no opinion, never lowers a verdict.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from remit.authz import wire
from remit.authz.enforcer import Enforcer
from remit.authz.outcome import AuthorizationOutcome, publish_outcome
from remit.authz.principal import read
from remit.authz.tickets import Call
from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.middlewares import sandbox_audit
from remit.middlewares.results import safe_code
from remit.middlewares.sandbox_audit.verdicts import MAX_COMMAND, Verdict
from remit.middlewares.shells import settled

log = logging.getLogger("remit.middlewares")

GUARD: Final = "gate.command"
_WORSE: Final[dict[Verdict, int]] = {"pass": 0, "warn": 1, "block": 2}
_NO_RULE: Final = "remit.no-such-rule"
"""A rule id that no rule has. What allows it allows everything."""
_IN_PLACE: Final = 1_000
"""Characters of the longest command that is classified on the event loop itself."""
_UNDECIDED: Final = frozenset(
    {
        "authz.unknown_role",
        "authz.evaluator_error",
        "authz.invalid_target",
        "authz.invalid_request",
        "authz.timeout",
        "authz.malformed_decision",
    }
)
"""Answers that say that the policy could not be applied, not what it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the audit says about one call."""

    verdict: Verdict
    """What becomes of it."""
    classified: Verdict
    """What the classifier said."""
    rule_id: str | None = None
    span: tuple[int, int] | None = None
    """The part of the command that matched: first character and the one behind the last."""
    message: str = ""
    """Why, for the model; empty when only the policy knows."""
    policy_id: str | None = None
    """The rule of the policy that moved the verdict, or confirmed it."""
    codes: tuple[str, ...] = ()
    """Reason codes of the policy's answer, when it was asked."""
    others: tuple[Finding, ...] = ()
    """What else matched, the worst first. A policy that lowers one rule says nothing about the others."""


PASSED: Final = Finding(verdict="pass", classified="pass")


class Subject(NamedTuple):
    """Who runs a command, and where."""

    context: Any
    thread_id: str | None
    run_id: str | None


class Port(NamedTuple):
    """How the core reaches the outside: at once in the synchronous shell, awaitable in the other."""

    classify: Callable[[str], Any]
    decide: Callable[[AuthzRequest], Any]
    probe: Callable[[AuthzRequest], Any]
    """As `decide`, without a record: a question about nothing that happens."""


def classify_now(command: str) -> Any:
    """The classifier's verdict, here and now."""
    return sandbox_audit.classify(command)


async def classify_soon(command: str) -> Any:
    """The classifier's verdict; a long command is parsed beside the event loop."""
    if len(command) <= _IN_PLACE:
        return sandbox_audit.classify(command)
    return await asyncio.to_thread(sandbox_audit.classify, command)


def malformed(command: Any, *, missing: bool) -> Finding | None:
    """Why `command` is refused unread, or None. No policy can change that.

    Args:
        command: The argument as it came.
        missing: Whether the call has no such argument.
    """
    if missing or command is None:
        return _refused("malformed", "the call has no command")
    if not isinstance(command, str):
        return _refused("malformed", f"the command is no text but {type(command).__name__[:40]}")
    if len(command) > MAX_COMMAND:
        return _refused(
            "command-too-long", f"the command has {len(command)} characters and may have {MAX_COMMAND}; use a file"
        )
    if not command.strip():
        return _refused("empty-command", "the command is empty")
    if "\x00" in command:
        return _refused("null-byte", "the command holds a NUL character")
    return None


def _refused(rule_id: str, message: str) -> Finding:
    return Finding(verdict="block", classified="block", rule_id=rule_id, message=message)


async def found(command: Any, classify: Callable[[str], Any]) -> Finding:
    """What the classifier says about a well-formed command. Never raises: a classifier that fails blocks."""
    try:
        answer = await settled(classify(command))
        verdict, rule_id = answer.verdict, answer.rule_id
        if verdict not in _WORSE or not isinstance(rule_id, str | None):
            raise TypeError(f"the classifier answered {verdict!r}, {rule_id!r}")
    except Exception:
        log.exception("a command could not be classified, so it is blocked")
        return _refused("audit-failure", "the command could not be checked")
    if verdict == "pass":
        return PASSED
    others = [_found(one.severity, one) for one in answer.findings if one.rule_id != rule_id]
    return replace(_found(verdict, answer), others=tuple(others))


def _found(verdict: Verdict, match: Any) -> Finding:
    where = None if match.span is None else (int(match.span[0]), int(match.span[1]))
    message = str(match.message or "")
    return Finding(verdict=verdict, classified=verdict, rule_id=match.rule_id, span=where, message=message)


async def ruled(finding: Finding, call: Call, subject: Subject, enforcer: Enforcer | None, port: Port) -> Finding:
    """`finding` as the policy wants it: the worst of what it says about each rule that matched."""
    worst = await _ruled(finding, call, subject, enforcer, port)
    for other in finding.others:
        if worst.verdict == "block":
            break
        one = await _ruled(other, call, subject, enforcer, port)
        if _WORSE[one.verdict] > _WORSE[worst.verdict]:
            worst = one
    return worst


async def _ruled(finding: Finding, call: Call, subject: Subject, enforcer: Enforcer | None, port: Port) -> Finding:
    if enforcer is None or not enforcer.enabled or finding.rule_id is None or finding.verdict == "pass":
        return finding
    try:
        principal = enforcer.principal(subject.context)
    except (TypeError, ValueError) as exc:
        log.warning("sandbox_audit: malformed identity: %r", str(exc)[:200])
        return replace(finding, verdict="block", codes=("authz.malformed_identity",))
    try:
        request = _question(principal, finding.rule_id, call, subject)
    except (TypeError, ValueError):  # a rule id that is no target
        return replace(finding, verdict="block", codes=("authz.invalid_request",))
    decision: AuthzDecision = await settled(port.decide(request))
    if decision.allow is True and decision.policy_id is not None:
        probe: AuthzDecision = await settled(port.probe(_question(principal, _NO_RULE, call, subject)))
        if probe.allow is True and probe.policy_id == decision.policy_id:
            return replace(finding, codes=_codes(decision))
    return _moved(finding, decision, call, subject, enforcer)


def _question(principal: Principal, rule_id: str, call: Call, subject: Subject) -> AuthzRequest:
    return AuthzRequest(
        principal,
        "command",
        "execute",
        rule_id,
        {
            wire.CTX_ARGS: call.args,
            wire.CTX_TOOL_CALL_ID: call.call_id,
            wire.THREAD_ID: subject.thread_id,
            wire.RUN_ID: subject.run_id,
            wire.IS_SUBAGENT: read(subject.context, wire.IS_SUBAGENT) is True,
            wire.CTX_AGENT_ID: None,
            wire.CTX_TIMESTAMP: datetime.now(UTC).isoformat(),
        },
    )


def _moved(finding: Finding, decision: AuthzDecision, call: Call, subject: Subject, enforcer: Enforcer) -> Finding:
    failed = decision.metadata.get("failure") is True or decision.code in _UNDECIDED
    codes = _codes(decision)
    verdict: Verdict = finding.verdict
    policy_id: str | None = None
    if failed:
        if enforcer.fail_closed:
            verdict = "block"
    elif decision.allow is True:
        if decision.policy_id is not None:
            verdict, policy_id = "pass", decision.policy_id
    elif decision.code != "authz.no_policy":
        verdict, policy_id = "block", decision.policy_id
    if policy_id is not None or verdict != finding.verdict:
        publish_outcome(
            subject.context,
            call.call_id,
            AuthorizationOutcome(
                guard=GUARD,
                decision="denied" if verdict == "block" else "allowed",
                policy_id=policy_id,
                policy_version=decision.policy_version or enforcer.policy_version,
                reason_codes=codes,
            ),
        )
    return replace(finding, verdict=verdict, policy_id=policy_id, codes=codes)


def _codes(decision: AuthzDecision) -> tuple[str, ...]:
    return tuple(safe_code(reason.code) for reason in decision.reasons) or (decision.code,)
