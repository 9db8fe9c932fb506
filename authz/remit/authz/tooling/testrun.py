"""Runs policy tests against a provider and counts which of its rules they exercise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from remit.authz.errors import ConfigError
from remit.authz.provider import AuthorizationProvider, Explains, ValidatesRole
from remit.authz.tooling.capabilities import ListedRule, Traces, listed_rules
from remit.authz.tooling.policytests import Expectation, PolicyTest, Verdict
from remit.authz.tooling.request import build_request
from remit.authz.tooling.trace import traced
from remit.authz.types import AuthzDecision, AuthzRequest, Explanation, Principal

UNKNOWN_ROLE = "authz.unknown_role"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one expectation."""

    test: PolicyTest
    expectation: Expectation
    decision: AuthzDecision
    failure: str | None
    """Why it failed, for operators; None when it held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCoverage:
    """Which rules decided, or took part in, some tested decision."""

    total: int
    missing: tuple[ListedRule, ...]
    """In the order of the policy."""

    @property
    def exercised(self) -> int:
        return self.total - len(self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The outcome of a whole run."""

    outcomes: tuple[Outcome, ...]
    coverage: RuleCoverage | None
    """None when the provider cannot list its rules."""
    seconds: float

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failure is not None)


def verdict(decision: AuthzDecision) -> Verdict:
    """The one word for a decision."""
    return "allow" if decision.allow else "ask" if decision.asks else "deny"


def run_policy_tests(
    tests: Iterable[PolicyTest],
    *,
    provider: AuthorizationProvider,
    decide: Callable[[AuthzRequest], AuthzDecision],
    default_role: str | None,
) -> RunReport:
    """Ask everything that the tests ask.

    Args:
        tests: What to ask and expect.
        provider: For the roles it knows, its rules and its traces, as far as it has these capabilities.
        decide: The judged decision of the enforcement points.
        default_role: Role of callers without one.

    Raises:
        ProviderError: The provider decides, but cannot explain what it decided.
    """
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    seen = _Seen(provider)
    for test in tests:
        principal = Principal(test.user, test.role or default_role, attributes=test.attributes)
        for expectation in test.expect:
            request = build_request(principal, expectation.asked, expectation.args)
            decision = decide(request)
            seen.note(request, decision)
            failure = _failure(expectation, decision, principal.role, provider)
            outcomes.append(Outcome(test=test, expectation=expectation, decision=decision, failure=failure))
    return RunReport(outcomes=tuple(outcomes), coverage=seen.coverage(), seconds=time.perf_counter() - started)


def _failure(
    expectation: Expectation, decision: AuthzDecision, role: str | None, provider: AuthorizationProvider
) -> str | None:
    """Why the decision is not the expected one. A denial for the wrong cause is none: a typo in a role would pass."""
    got, code = verdict(decision), decision.code
    if expectation.reason is None:
        if decision.metadata.get("failure"):
            return f"the provider failed ({code}): {_messages(decision)}"
        if code == UNKNOWN_ROLE:
            return f"{_unknown(role, provider)}; if that is what you test, add `reason: {UNKNOWN_ROLE}`"
    by = f" by {decision.policy_id}" if decision.policy_id else ""
    if got != expectation.decision:
        return f"expected {expectation.decision}, got {got}{by} ({code})"
    if expectation.rule is not None and expectation.rule != decision.policy_id:
        return f"expected {got} by {expectation.rule}, got it{by or ' by no rule'} ({code})"
    if expectation.reason is not None and expectation.reason not in [reason.code for reason in decision.reasons]:
        return f"expected {got} for the reason {expectation.reason}, got it{by} for {code}"
    return None


def _messages(decision: AuthzDecision) -> str:
    return "; ".join(reason.message for reason in decision.reasons if reason.message) or "no message"


def _unknown(role: str | None, provider: AuthorizationProvider) -> str:
    if role is None:
        return "the caller has no role and authorization.default_role is not set"
    if isinstance(provider, ValidatesRole):
        try:
            provider.validate_role(role, field="given.role")
        except ConfigError as exc:
            return " ".join(str(exc).split())
        except Exception as exc:
            return (
                f"the policy does not know the role {role!r} (asked about it, the provider raised {type(exc).__name__})"
            )
    return f"the policy does not know the role {role!r}"


class _Seen:
    """Which rules took part in the decisions so far.

    Several rules may come from one line and share its policy id; a provider that explains tells them apart by text.
    """

    def __init__(self, provider: AuthorizationProvider) -> None:
        self.provider = provider.name
        self.rules = listed_rules(provider)
        self.explain: Callable[[AuthzRequest], Explanation] | None = None
        if isinstance(provider, Traces):
            self.explain = provider.trace
        elif isinstance(provider, Explains):
            self.explain = provider.explain
        self.found: set[tuple[str, str]] = set()

    def note(self, request: AuthzRequest, decision: AuthzDecision) -> None:
        if self.rules is None or decision.metadata.get("failure"):
            return
        if self.explain is not None:
            for rule in traced(self.explain, request, provider=self.provider).rules:
                if rule.outcome in ("decides", "applies"):
                    self.found.add((rule.policy_id, rule.text))
        elif decision.policy_id is not None:
            self.found.add((decision.policy_id, ""))

    def coverage(self) -> RuleCoverage | None:
        if self.rules is None:
            return None
        texts = self.explain is not None
        missing = [r for r in self.rules if (r.policy_id, r.text if texts else "") not in self.found]
        return RuleCoverage(total=len(self.rules), missing=tuple(missing))
