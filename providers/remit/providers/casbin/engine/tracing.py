"""Why a request was decided as it was: every rule that matched, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from remit.authz.types import AuthzDecision, AuthzRequest, RuleTrace
from remit.providers.casbin.engine.decisions import Condition, Decisions, answer
from remit.providers.casbin.rules import Rule


def traces(
    rows: Sequence[int],
    decision: AuthzDecision,
    request: AuthzRequest,
    decisions: Decisions,
    conditions: Mapping[int, Condition],
) -> tuple[RuleTrace, ...]:
    """What became of the matching `rows`, in policy order."""
    decider = next((row for row in rows if decisions.of(row) is decision), None)
    kind = None if decider is None else decisions.effects[decider]
    return tuple(_trace(row, decider, kind, request, decisions, conditions.get(row)) for row in rows)


def _trace(
    row: int,
    decider: int | None,
    kind: str | None,
    request: AuthzRequest,
    decisions: Decisions,
    condition: Condition | None,
) -> RuleTrace:
    rule, effect = decisions.rules[row], decisions.effects[row]
    known = True if condition is None else answer(condition, request)
    note = "" if condition is None else condition.describe(request)
    if known is None and effect != "allow":
        note = f"its condition cannot be told, so it restricts: {note}"
    if known is False:
        outcome = "condition-false"
    elif known is None and effect == "allow":
        outcome = "condition-unknown"
    elif row == decider:
        outcome = "decides"
    else:
        outcome = "applies" if kind in (effect, None) else "overridden"
    return RuleTrace(
        policy_id=rule.policy_id,
        text=written(rule),
        effect=effect,  # type: ignore[arg-type]  # one of the three: the loader knows no other
        outcome=outcome,  # type: ignore[arg-type]
        note=note,
    )


def written(rule: Rule) -> str:
    """`rule` as a line of a policy file, with its place in `roles.yaml` where it comes from there."""
    line = ", ".join([rule.ptype, *rule.values]).rstrip(", ")
    return f"{rule.key}: {line}" if rule.key else line
