"""Providers that are wrong on purpose: what the conformance kit must find."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tests.support.world_provider import WorldProvider

from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal

ALLOW = AuthzDecision(True, (AuthzReason("world.allowed"),))
DENY = AuthzDecision(False, (AuthzReason("world.denied"),))


class LooseFilterProvider(WorldProvider):
    """Its filter adds names and ignores denies, and its asynchronous answers are not the synchronous ones."""

    name = "loose-filter"

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        role = request.principal.role
        rules = self.rules.get((role, request.resource, request.action, request.target), ())
        return ALLOW if any(rule.effect == "allow" for rule in rules) else DENY

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        granted = {key[3] for key in self.rules if key[0] == principal.role and key[1] == resource_type}
        return sorted(granted | set(candidates[-1:]))


class CarelessProvider(WorldProvider):
    """It answers truthy things that are no booleans, allows when it fails, and does not look at upper and lower case."""

    name = "careless"

    def authorize(self, request: AuthzRequest) -> Any:
        try:
            role = (request.principal.role or "reader").casefold()
            principal = Principal(user_id=request.principal.user_id, role=role)
            target = request.target.casefold()
            answer = super().authorize(
                AuthzRequest(principal, request.resource.casefold(), request.action.casefold(), target, request.context)
            )
        except Exception:
            return ALLOW
        verdict = "yes" if answer.allow else ""
        return SimpleNamespace(
            allow=verdict,
            asks=answer.asks,
            reasons=answer.reasons,
            policy_id=None,
            policy_version=None,
            obligations=answer.obligations,
        )

    async def aauthorize(self, request: AuthzRequest) -> Any:
        return self.authorize(request)


class TrimmingProvider(WorldProvider):
    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        target = "".join(char for char in request.target if char.isprintable()).strip() or "-"
        asked = AuthzRequest(request.principal, request.resource, request.action, target, request.context)
        return super().authorize(asked)


class PrefixProvider(WorldProvider):
    """A granted name grants every longer one."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        answer = super().authorize(request)
        role, resource, action = request.principal.role, request.resource, request.action
        names = [key[3] for key in self.rules if key[:3] == (role, resource, action)]
        if answer.allow is False and any(request.target.startswith(n) and request.target != n for n in names):
            return ALLOW
        return answer


class ResourceBlindProvider(WorldProvider):
    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return super().authorize(AuthzRequest(request.principal, "tool", "call", request.target, request.context))


class UserIsRoleProvider(WorldProvider):
    """Looks rules up for the user id as if it were a role."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        own = super().authorize(request)
        as_role = Principal(role=request.principal.user_id)
        asked = AuthzRequest(as_role, request.resource, request.action, request.target, request.context)
        return own if own.allow else super().authorize(asked)


class InternalMayAllProvider(WorldProvider):
    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return ALLOW if request.principal.is_internal else super().authorize(request)


class CacheWithoutRoleProvider(WorldProvider):
    """Remembers answers per user, whoever the user is at the moment."""

    def __init__(self, rules: Sequence[Any]) -> None:
        super().__init__(rules)
        self._seen: dict[Any, AuthzDecision] = {}

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        key = (request.principal.user_id, request.resource, request.action, request.target)
        if key not in self._seen:
            self._seen[key] = super().authorize(request)
        return self._seen[key]


class CacheWithoutArgumentsProvider(WorldProvider):
    def __init__(self, rules: Sequence[Any]) -> None:
        super().__init__(rules)
        self._seen: dict[Any, AuthzDecision] = {}

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        key = (request.principal, request.resource, request.action, request.target)
        if key not in self._seen:
            self._seen[key] = super().authorize(request)
        return self._seen[key]


class CoercingProvider(WorldProvider):
    """Turns arguments into numbers before it looks at them."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        args = dict(request.context.get("args") or {}) if isinstance(request.context.get("args"), dict) else {}
        if isinstance(args.get("amount"), (str, bool)):
            args["amount"] = int(args["amount"])
        context = {**request.context, "args": args}
        return super().authorize(
            AuthzRequest(request.principal, request.resource, request.action, request.target, context)
        )


class ForgivingDenyProvider(WorldProvider):
    """A deny rule whose condition cannot be judged does not apply."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        args = request.context.get("args")
        if request.target == "fetch" and request.principal.role == "reader":
            topic = args.get("topic") if isinstance(args, dict) else None
            return DENY if topic == "payroll" else ALLOW
        return super().authorize(request)


class AllowsAskProvider(WorldProvider):
    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        answer = super().authorize(request)
        return ALLOW if answer.asks else answer


class ForeignObligationProvider(WorldProvider):
    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return AuthzDecision(
            (answer := super().authorize(request)).allow, answer.reasons, obligations=(Obligation("log-it"),)
        )


class MutatingFilterProvider(WorldProvider):
    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        shown = super().filter_resources(principal, resource_type, candidates)
        candidates[:] = shown
        return candidates


class MutatingProvider(WorldProvider):
    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        answer = super().authorize(request)
        args = request.context.get("args")
        if isinstance(args, dict):
            args["seen"] = True
        return answer


class SetFilterProvider(WorldProvider):
    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> Any:
        return set(super().filter_resources(principal, resource_type, candidates))


class SortingFilterProvider(WorldProvider):
    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        return sorted(super().filter_resources(principal, resource_type, candidates))


class DeduplicatingFilterProvider(WorldProvider):
    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        return list(dict.fromkeys(super().filter_resources(principal, resource_type, candidates)))


class TruncatingFilterProvider(WorldProvider):
    """Looks at the first thousand candidates only."""

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        return super().filter_resources(principal, resource_type, candidates[:1_000])


class TimidFilterProvider(WorldProvider):
    """Hides what it allows under a condition only."""

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        shown = super().filter_resources(principal, resource_type, candidates)
        return [name for name in shown if name not in {"transfer", "fetch", "send_mail"}]


class ShuffledBatchProvider(WorldProvider):
    def authorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]:
        return super().authorize_many(requests)[::-1]


class LossyBatchProvider(WorldProvider):
    def authorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]:
        return [answer for answer in super().authorize_many(requests) if answer.allow]


class HalfBatchProvider(WorldProvider):
    """A batch for one world only."""

    def __getattribute__(self, name: str) -> Any:
        if name == "aauthorize_many":
            raise AttributeError(name)
        return super().__getattribute__(name)


class BlockingLoopProvider(WorldProvider):
    """Sleeps on the event loop, and says of itself that it only computes."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        time.sleep(0.04)
        return super().authorize(request)


class SwallowingProvider(WorldProvider):
    """Takes a cancellation for a failure and answers."""

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        try:
            await asyncio.sleep(0.01)
        except BaseException:
            return DENY
        return self.authorize(request)


class OneLoopProvider(WorldProvider):
    """Keeps what belongs to the first event loop."""

    def __init__(self, rules: Sequence[Any]) -> None:
        super().__init__(rules)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        self._loop = self._loop or asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return self.authorize(request)


class RacingProvider(WorldProvider):
    """Keeps the request it is working on in itself."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        self._current = request
        time.sleep(0.0002)
        return super().authorize(self._current)


class NewVersionProvider(WorldProvider):
    """Another policy version at every look."""

    _count = 0

    @property
    def policy_version(self) -> str:
        self._count += 1
        return str(self._count)


class EveryRoleProvider(WorldProvider):
    def validate_role(self, role: str, *, field: str) -> None:
        return


class WrongExplanationProvider(WorldProvider):
    def explain(self, request: AuthzRequest) -> Any:
        return "because"


class ClosesOnceProvider(WorldProvider):
    _closed = False

    async def aclose(self) -> None:
        if self._closed:
            raise RuntimeError("already closed")
        self._closed = True


class FailingOpenProvider(WorldProvider):
    """Answers with an allow when its engine is gone."""

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return ALLOW if not self.rules else super().authorize(request)


class FailingClosedProvider(WorldProvider):
    """Answers with a denial when its engine is gone, so that nobody learns that it is."""
