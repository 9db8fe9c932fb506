"""Results as JSON values. Each document states its `version`, which changes when a key changes its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from remit.authz import wire
from remit.authz.errors import Problem
from remit.authz.tooling.testrun import Outcome, RunReport, verdict
from remit.authz.types import AuthzDecision, AuthzRequest, Explanation

VERSION: Final = 1


def lint_json(problems: Sequence[Problem]) -> dict[str, Any]:
    """What `remit lint --format json` prints."""
    return {
        "version": VERSION,
        "errors": sum(problem.severity == "error" for problem in problems),
        "warnings": sum(problem.severity == "warning" for problem in problems),
        "findings": [
            {
                "severity": problem.severity,
                "code": problem.code,
                "file": problem.file,
                "line": problem.line or None,
                "key": problem.key or None,
                "message": problem.message,
                "advice": problem.advice or None,
            }
            for problem in problems
        ],
    }


def decision_json(request: AuthzRequest, decision: AuthzDecision) -> dict[str, Any]:
    """What `remit check --format json` prints."""
    who = request.principal
    return {
        "version": VERSION,
        "request": f"{request.resource}:{request.action}:{request.target}",
        "principal": {"user": who.user_id, "role": who.role, "attributes": plain(who.attributes)},
        "args": plain(request.context.get(wire.CTX_ARGS, {})),
        "decision": verdict(decision),
        "rule": decision.policy_id,
        "policy_version": decision.policy_version,
        "reasons": [{"code": reason.code, "message": reason.message} for reason in decision.reasons],
        "failure": bool(decision.metadata.get("failure")),
    }


def explanation_json(explanation: Explanation, decision: AuthzDecision) -> dict[str, Any]:
    """What `remit explain --format json` prints: the decision and its trace."""
    return decision_json(explanation.request, decision) | {
        "subjects": list(explanation.subjects),
        "rules": [
            {"rule": r.policy_id, "text": r.text, "effect": r.effect, "outcome": r.outcome, "note": r.note or None}
            for r in explanation.rules
        ],
        "changes": list(explanation.changes),
        "notes": list(explanation.notes),
    }


def run_json(report: RunReport) -> dict[str, Any]:
    """What `remit test --format json` prints."""
    coverage = report.coverage
    return {
        "version": VERSION,
        "expectations": len(report.outcomes),
        "failures": len(report.failures),
        "seconds": round(report.seconds, 3),
        "outcomes": [_outcome(outcome) for outcome in report.outcomes],
        "coverage": None
        if coverage is None
        else {
            "rules": coverage.total,
            "exercised": coverage.exercised,
            "missing": [{"rule": rule.policy_id, "text": rule.text} for rule in coverage.missing],
        },
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "test": outcome.test.name,
        "file": outcome.test.file,
        "line": outcome.expectation.line,
        "request": str(outcome.expectation.asked),
        "expected": outcome.expectation.decision,
        "decision": verdict(outcome.decision),
        "rule": outcome.decision.policy_id,
        "failure": outcome.failure,
    }


def plain(value: Any) -> Any:
    """`value` as JSON can carry it: frozen containers as dict and list, anything else that is no JSON value as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    return value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)
