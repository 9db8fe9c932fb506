"""A complete third-party provider in one file: the rules of the kit's world, looked up in a dict."""

from __future__ import annotations

from collections.abc import Sequence

from remit.authz.provider import ProviderBase
from remit.authz.testing import Rule, When
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal
from remit.authz.vocabulary import visibility_action


class WorldProvider(ProviderBase):
    """Decides by a table in memory.

    Args:
        rules: What roles may do, must not do, or may do once a human agrees.
    """

    name = "world"
    blocking = False

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules: dict[tuple[str | None, str, str, str], list[Rule]] = {}
        for rule in rules:
            self.rules.setdefault((rule.role, rule.resource, rule.action, rule.target), []).append(rule)

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        key = (request.principal.role, request.resource, request.action, request.target)
        effects = {rule.effect for rule in self.rules.get(key, ()) if applies(rule, request)}
        if "deny" in effects:
            return AuthzDecision(False, (AuthzReason("world.denied"),))
        if "ask" in effects:
            return AuthzDecision(False, (AuthzReason("world.ask"),), obligations=(Obligation("approval"),))
        if "allow" in effects:
            return AuthzDecision(True, (AuthzReason("world.allowed"),))
        return AuthzDecision(False, (AuthzReason("world.no_rule"),))

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        return [name for name in candidates if self._ever(principal.role, resource_type, name)]

    def _ever(self, role: str | None, resource: str, name: str) -> bool:
        rules = self.rules.get((role, resource, visibility_action(resource, name), name), ())
        effects = {rule.effect for rule in rules if rule.effect != "deny" or rule.when is None}
        return bool(effects) and "deny" not in effects


def applies(rule: Rule, request: AuthzRequest) -> bool:
    """Whether `rule` applies; what cannot be judged makes a deny apply and an allow not."""
    if rule.when is None:
        return True
    try:
        return _holds(rule.when, request.context["args"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        return rule.effect != "allow"


def _holds(when: When, args: dict[str, object]) -> bool:
    value = args[when.argument]
    if when.operator == "==":
        if not isinstance(value, str):
            raise TypeError(f"{when.argument} is no text")
        return value == when.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{when.argument} is no number")
    return value <= when.value  # type: ignore[operator]  # a rule with "<=" holds a number
