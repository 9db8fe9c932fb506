"""What the framework-free gates share: whom to ask, for whom, and what becomes of the answer.

A gate is called with a configuration, wherever the host meets a route, a model or a sandbox. Two things can go wrong
before the policy is even asked. They take the place of the provider here, so that no gate can forget them:

- the provider cannot be built: `Unavailable` fails at every question, and the judge treats that as any failure;
- the caller's identity is malformed: `Refusing` denies every question, under ``fail_closed: false`` too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from remit.authz import wire
from remit.authz.config import AuthorizationConfig
from remit.authz.errors import ConfigError, ProviderError
from remit.authz.judge import Judge
from remit.authz.ledger import shared_log
from remit.authz.principal import build_principal_from_context, read
from remit.authz.provider import AuthorizationProvider, ProviderBase
from remit.authz.registry import shared_provider
from remit.authz.types import EMPTY, AuthzDecision, AuthzReason, AuthzRequest, FrozenDict, Principal

log = logging.getLogger("remit.authz")

SYNTHETIC_ROLE: Final = "internal"
"""What platforms write into the role of a caller who is a service and acts for nobody. It is no role of any policy."""
UNRECORDED: Final = AuthzDecision(
    False, (AuthzReason("authz.unrecorded", "the decision could not be recorded and ledger.required is set"),)
)


class Unavailable(ProviderBase):
    """Stands in for a provider that could not be built."""

    name = "unavailable"
    blocking = False

    def __init__(self, cause: ConfigError) -> None:
        self.cause = cause

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        raise ProviderError(f"the provider cannot be built: {self.cause}") from self.cause


class Refusing(ProviderBase):
    """Stands in for the provider when there is nobody who could be judged."""

    name = "refusing"
    blocking = False

    def __init__(self, why: Exception) -> None:
        self._answer = AuthzDecision(False, (AuthzReason("authz.malformed_identity", str(why)),))

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return self._answer


class Recorder(Protocol):
    """What a gate needs of a decision log."""

    def record(self, request: AuthzRequest, decision: AuthzDecision, *, latency_ns: int, guard: str = ...) -> bool: ...


class _NoLog:
    """Stands in for a log that is not wanted, or that cannot be opened."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer

    def record(self, request: AuthzRequest, decision: AuthzDecision, *, latency_ns: int, guard: str = "") -> bool:
        return self.answer


_NOT_WANTED: Final = _NoLog(True)


class Gate:
    """The provider, judge and log of one configuration. Safe to share between threads and tasks.

    Args:
        provider: Whom to ask.
        judge: What a failing provider amounts to.
        recorder: Where decisions are noted.
    """

    __slots__ = ("judge", "provider", "recorder")

    def __init__(self, provider: AuthorizationProvider, judge: Judge, recorder: Recorder) -> None:
        self.provider, self.judge, self.recorder = provider, judge, recorder

    def instead(self, provider: AuthorizationProvider) -> Gate:
        """The same gate with another provider behind it."""
        return Gate(provider, self.judge, self.recorder)

    def decide(self, request: AuthzRequest, guard: str) -> AuthzDecision:
        """One judged, recorded decision. Never raises for a provider's failure."""
        started = time.perf_counter_ns()
        return self._recorded(request, self.judge.decide(self.provider, request), guard, started)

    async def adecide(self, request: AuthzRequest, guard: str) -> AuthzDecision:
        """`decide` for the event loop."""
        started = time.perf_counter_ns()
        return self._recorded(request, await self.judge.adecide(self.provider, request), guard, started)

    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """What `principal` may ever use of `candidates`, in their order."""
        return self.judge.filter(self.provider, principal, resource, candidates)

    async def afilter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """`filter` for the event loop."""
        return await self.judge.afilter(self.provider, principal, resource, candidates)

    def _recorded(self, request: AuthzRequest, decision: AuthzDecision, guard: str, started: int) -> AuthzDecision:
        latency_ns = time.perf_counter_ns() - started
        return decision if self.recorder.record(request, decision, latency_ns=latency_ns, guard=guard) else UNRECORDED


_gates: WeakKeyDictionary[AuthorizationConfig, Gate] = WeakKeyDictionary()


def gate_of(config: AuthorizationConfig, provider: AuthorizationProvider | None = None) -> Gate:
    """The gate of an enabled configuration. The first call may read files; a failure to build is not remembered.

    Args:
        config: The loaded configuration.
        provider: The instance to ask instead of the one that `config` names.
    """
    found = _gates.get(config)
    if found is None:
        found = _open(config, provider)
    return found if provider is None or found.provider is provider else found.instead(provider)


async def agate_of(config: AuthorizationConfig, provider: AuthorizationProvider | None = None) -> Gate:
    """`gate_of` for the event loop: what may read files happens in a thread."""
    if config in _gates:
        return gate_of(config, provider)
    return await asyncio.to_thread(gate_of, config, provider)


def _open(config: AuthorizationConfig, provider: AuthorizationProvider | None) -> Gate:
    judge = Judge(fail_closed=config.fail_closed, deadline=config.deadline_ms / 1000)
    recorder: Recorder = _NOT_WANTED
    complete = provider is None
    try:
        recorder = shared_log(config) or _NOT_WANTED
    except ConfigError as exc:
        complete = False
        recorder = _NoLog(not config.ledger.required)
        log.error("%s; %s", exc, "every decision is denied" if config.ledger.required else "decisions go on")
    if provider is None:
        try:
            provider = shared_provider(config)
            assert provider is not None  # noqa: S101 - gates ask only where authorization is enabled
        except ConfigError as exc:
            complete = False
            provider = Unavailable(exc)
    gate = Gate(provider, judge, recorder)
    if complete:
        gate = _gates.setdefault(config, gate)
    return gate


def named(build: Callable[[], Principal], gate: Gate) -> tuple[Gate, Principal]:
    """The gate to go through and the principal that `build` makes.

    When the identity is malformed, the gate refuses everything and the principal is nobody.
    """
    try:
        return gate, build()
    except (TypeError, ValueError) as exc:
        log.warning("authz.malformed_identity: %s", exc)
        return gate.instead(Refusing(exc)), Principal()


def principal_of_user(user: Any, *, is_internal: bool, default_role: str | None) -> Principal:
    """Who makes a request, from the user record of the host's own session: a mapping or an object.

    Read are `id`, `role` (or `system_role`), `oauth_provider`, `oauth_id` and `authz_attributes`, nothing else; None is
    a caller without a record, and a record must have an `id`. An internal caller who acts for nobody has no role of its
    own and gets `default_role`.

    Args:
        user: The record, taken from the session; never from a request body.
        is_internal: Whether the host authenticated the caller as one of its own services. Only True counts.
        default_role: Role of a caller who has none.

    Raises:
        TypeError: As `build_principal_from_context`.
        ValueError: As before; also when `role` and `system_role` are both there and differ, or there is no `id`.
    """
    user_id = None if user is None else read(user, "id", _MISSING)
    if user_id is _MISSING:
        raise ValueError(f"the user, a {type(user).__name__}, has no id; rules about users would not be seen to apply")
    role, system_role = read(user, "role"), read(user, "system_role")
    if role is not None and system_role is not None and role != system_role:
        raise ValueError(f"the user has two roles, role {role!r} and system_role {system_role!r}; state one")
    role = system_role if role is None else role
    internal = is_internal is True
    if internal and role == SYNTHETIC_ROLE:
        role = None
    context = {
        wire.USER_ID: user_id,
        wire.USER_ROLE: role,
        wire.OAUTH_PROVIDER: read(user, "oauth_provider"),
        wire.OAUTH_ID: read(user, "oauth_id"),
        wire.IS_INTERNAL: internal,
        wire.AUTHZ_ATTRIBUTES: read(user, "authz_attributes"),
    }
    return build_principal_from_context(context, default_role=default_role)


_MISSING: Final = object()


def run_ids(context: Any) -> Mapping[str, Any]:
    """The ids of the run that `context` belongs to, for the request's own context."""
    ids = {key: read(context, key) for key in (wire.THREAD_ID, wire.RUN_ID)}
    return FrozenDict({key: value for key, value in ids.items() if isinstance(value, str)}) or EMPTY
