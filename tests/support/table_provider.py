"""A small third-party provider over a table: what tools see of a policy brain that is not ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from remit.authz.errors import ConfigError, Problem
from remit.authz.provider import ProviderBase
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Explanation, Obligation, RuleTrace

Effect = Literal["allow", "deny", "ask"]


@dataclass(frozen=True)
class Row:
    """One rule: who may what. `line` is its place in an imagined file ``table.txt``."""

    role: str
    resource: str | None
    target: str | None
    effect: Effect
    line: int

    @property
    def policy_id(self) -> str:
        return f"table.txt:{self.line}"

    @property
    def text(self) -> str:
        return f"{self.role} {self.effect} {self.resource} {self.target}"

    def matches(self, name: str) -> bool:
        return self.target is None or fnmatchcase(name, self.target)


class Plain(ProviderBase):
    """Decides by the first row that fits. Answers nothing beyond the protocol."""

    name = "table"
    blocking = False

    def __init__(self, rows: Sequence[Row], *, broken: Sequence[str] = ()) -> None:
        self.rows = tuple(rows)
        self.broken = frozenset(broken)

    def fitting(self, request: AuthzRequest) -> list[Row]:
        return [
            row
            for row in self.rows
            if row.role == request.principal.role
            and row.resource in (None, request.resource)
            and row.matches(request.target)
        ]

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        if request.target in self.broken:
            raise RuntimeError("the table fell over")
        if request.principal.role not in {row.role for row in self.rows}:
            return AuthzDecision(False, (AuthzReason("authz.unknown_role"),))
        row = next(iter(self.fitting(request)), None)
        if row is None:
            return AuthzDecision(False, (AuthzReason("authz.no_policy"),))
        if row.effect == "ask":
            return AuthzDecision(
                False, (AuthzReason("authz.ask"),), row.policy_id, obligations=(Obligation("approval"),)
            )
        code = "authz.allowed" if row.effect == "allow" else "authz.denied"
        return AuthzDecision(row.effect == "allow", (AuthzReason(code),), row.policy_id)


class Listing(Plain):
    """Lists its rules and knows its roles."""

    def rules(self) -> Sequence[Row]:
        return self.rows

    def validate_role(self, role: str, *, field: str) -> None:
        if role not in {row.role for row in self.rows}:
            raise ConfigError(f"{field}: unknown role {role!r}; did you mean {self.rows[0].role!r}?")


class Explaining(Listing):
    """Explains and lints, too."""

    def explain(self, request: AuthzRequest) -> Explanation:
        first, *others = [*self.fitting(request), None]
        rules = [_trace(first, "decides")] if first else []
        rules += [_trace(row, "overridden") for row in others if row]
        return Explanation(request=request, decision=self.authorize(request), rules=tuple(rules))

    def lint(self) -> list[Problem]:
        return []


def _trace(row: Row, outcome: Literal["decides", "overridden"]) -> RuleTrace:
    return RuleTrace(policy_id=row.policy_id, text=row.text, effect=row.effect, outcome=outcome)


class FromConfig(Explaining):
    """Built from plain values: ``rows: [[role, resource, target, effect], …]``."""

    def __init__(self, rows: Sequence[Sequence[Any]], broken: Sequence[str] = ()) -> None:
        super().__init__([Row(*row, line) for line, row in enumerate(rows, 1)], broken=broken)


class PlainFromConfig(Plain):
    """As `FromConfig`, without anything beyond the protocol."""

    def __init__(self, rows: Sequence[Sequence[Any]], broken: Sequence[str] = ()) -> None:
        super().__init__([Row(*row, line) for line, row in enumerate(rows, 1)], broken=broken)


class Contradicting(FromConfig):
    """Its traces say something else than its decisions."""

    def explain(self, request: AuthzRequest) -> Explanation:
        return Explanation(request=request, decision=AuthzDecision(True))


class LintRaises(FromConfig):
    def lint(self) -> list[Problem]:
        raise RuntimeError("no lint today")


class LintTalks(FromConfig):
    def lint(self) -> Any:
        return "looks fine to me"


class LintFinds(FromConfig):
    def lint(self) -> list[Problem]:
        return [Problem("table.txt", 2, "rows overlap", "merge them", "overlap", severity="warning")]


class RulesRaise(FromConfig):
    def rules(self) -> Sequence[Row]:
        raise RuntimeError("no rules today")


class Tracing(FromConfig):
    """Has a cheaper trace, which is then the one that is asked for."""

    def trace(self, request: AuthzRequest) -> Explanation:
        return super().explain(request)

    def explain(self, request: AuthzRequest) -> Explanation:
        raise AssertionError("too expensive")


class CloseRaises(FromConfig):
    async def aclose(self) -> None:
        raise OSError("already gone")


class Closing(FromConfig):
    """Says when it is closed."""

    async def aclose(self) -> None:
        sys.stderr.write("table closed\n")


ROWS = ()
