"""From the rules that match a request to its one decision, and the decisions themselves: each is made once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from remit.authz import wire
from remit.authz.types import APPROVAL, EMPTY, AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal
from remit.providers.casbin.rules import Effect, Rule

_STOPS: Final = {
    Effect.ALLOW_OVERRIDE: frozenset({"allow"}),
    Effect.DENY_OVERRIDE: frozenset({"deny"}),
    Effect.ALLOW_AND_DENY: frozenset({"deny"}),
    Effect.PRIORITY: frozenset({"allow", "deny"}),
    Effect.SUBJECT_PRIORITY: frozenset({"allow", "deny"}),
}

_REASONS: Final = {
    "allow": (AuthzReason("authz.allowed"),),
    "deny": (AuthzReason("authz.denied"),),
    "ask": (AuthzReason("authz.ask"),),
}


def pick(effect: Effect, rows: Iterable[int], effects: Sequence[str]) -> int | None:
    """The row of `rows` (in policy order) that decides and that Casbin explains, or None when no row matched.

    Casbin stops at the first row that settles the matter; without one it names the last row that matched.
    """
    stops, last = _STOPS[effect], None
    for row in rows:
        last = row
        if effects[row] in stops:
            break
    return last


class Condition(Protocol):
    """What a row's ``cond`` compiles to. Three-valued: None is "cannot be told"."""

    def __call__(self, request: AuthzRequest) -> bool | None: ...

    def outcomes(self, principal: Principal) -> frozenset[bool | None]:
        """Every answer that `principal` may get, whatever the arguments are."""
        ...

    def describe(self, request: AuthzRequest) -> str:
        """What it read, for operators."""
        ...


_ANY: Final = frozenset({True, False, None})


class Choice:
    """The rules for one name, some of them with a condition: decided anew for each request.

    An unknown condition never grants and never lifts a restriction.
    """

    __slots__ = ("otherwise", "steps")

    def __init__(self, steps: Iterable[tuple[bool, Condition | None, AuthzDecision]], otherwise: AuthzDecision) -> None:
        self.steps = tuple(steps)
        """``(restricts, condition, decision)``: denials, then questions, then grants."""
        self.otherwise = otherwise

    def __call__(self, request: AuthzRequest) -> AuthzDecision:
        for restricts, condition, decision in self.steps:
            if condition is None:
                return decision
            known = answer(condition, request)
            if known is True or (known is None and restricts):
                return decision
        return self.otherwise

    def visible(self, principal: Principal) -> bool:
        """May there be arguments under which `principal` is allowed or asked?"""
        for restricts, condition, decision in self.steps:
            if condition is None:
                return decision.allow or decision.asks
            try:
                outcomes = condition.outcomes(principal)
            except Exception:
                outcomes = _ANY
            if not (decision.allow or decision.asks):
                if False not in outcomes:
                    return False
            elif True in outcomes or (restricts and None in outcomes):
                return True
        return False


def answer(condition: Condition, request: AuthzRequest) -> bool | None:
    """What `condition` says; whatever goes wrong in it is "cannot be told"."""
    try:
        return condition(request)
    except Exception:
        return None


_write_allow, _write_reasons, _write_policy_id, _write_version, _write_obligations, _write_metadata, _write_asks = (
    AuthzDecision.__dict__[name].__set__
    for name in ("allow", "reasons", "policy_id", "policy_version", "obligations", "metadata", "asks")
)


def _settled(allow: bool, reasons: tuple[AuthzReason, ...], policy_id: str, version: str) -> AuthzDecision:
    """What the constructor makes of the same values, at a quarter of its price: they need no checks."""
    made = object.__new__(AuthzDecision)
    _write_allow(made, allow)
    _write_reasons(made, reasons)
    _write_policy_id(made, policy_id)
    _write_version(made, version)
    _write_obligations(made, ())
    _write_metadata(made, EMPTY)
    _write_asks(made, False)
    return made


Cell = AuthzDecision | Choice
"""What is remembered for a name."""


class Decisions:
    """The decisions of one snapshot. A rule's decision is made when it is first needed, then always the same object.

    Args:
        rules: In policy order.
        effects: ``"allow"``, ``"deny"`` or ``"ask"`` for each rule.
        version: Of the policy.
        effect: How they combine.
    """

    __slots__ = ("_made", "effect", "effects", "nothing", "reads", "rules", "version")

    def __init__(self, rules: Sequence[Rule], effects: Sequence[str], version: str, effect: Effect) -> None:
        self.rules, self.effects, self.version, self.effect = rules, effects, version, effect
        self.reads: dict[int, tuple[str, ...]] = {}
        """Rule number -> what its condition reads, for who records decisions. Filled before the first decision."""
        self._made: dict[int, AuthzDecision] = {}
        open_ = effect is Effect.DENY_OVERRIDE
        code = "authz.allowed" if open_ else "authz.no_policy"
        self.nothing = AuthzDecision(open_, (AuthzReason(code, "no rule matches"),), None, version)

    def of(self, row: int | None) -> AuthzDecision:
        """The decision that rule number `row` makes; for None the decision where no rule matches."""
        if row is None:
            return self.nothing
        made = self._made.get(row)
        if made is None:
            effect, policy_id = self.effects[row], self.rules[row].policy_id
            if effect == "ask" or row in self.reads:
                obligations = (Obligation(APPROVAL, policy_id),) if effect == "ask" else ()
                metadata = {wire.DECISION_READS: self.reads[row]} if row in self.reads else EMPTY
                made = AuthzDecision(
                    effect == "allow", _REASONS[effect], policy_id, self.version, obligations, metadata
                )
            else:
                made = _settled(effect == "allow", _REASONS[effect], policy_id, self.version)
            made = self._made.setdefault(row, made)
        return made

    def among(self, rows: Iterable[int]) -> AuthzDecision:
        """The decision of the matching `rows`, which must come in policy order."""
        return self.of(pick(self.effect, rows, self.effects))

    def refusal(self, code: str, message: str) -> AuthzDecision:
        """A denial that no rule stands behind."""
        return AuthzDecision(False, (AuthzReason(code, message),), None, self.version)
