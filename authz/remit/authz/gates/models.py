"""The model gate: which models a caller sees, and which one a run gets."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from remit.authz.config import AuthorizationConfig
from remit.authz.errors import ModelAuthorizationError
from remit.authz.gates.access import Gate, Unavailable, agate_of, gate_of, named, principal_of_user, run_ids
from remit.authz.ledger.record import is_failure
from remit.authz.principal import build_principal_from_context
from remit.authz.provider import AuthorizationProvider
from remit.authz.types import AuthzDecision, AuthzRequest, Principal

log = logging.getLogger("remit.authz")

T = TypeVar("T")
GUARD: Final = "gate.models"
BINDING: Final = frozenset({"authz.malformed_identity", "authz.unknown_role", "authz.unrecorded"})
"""Denials that are no opinion about a model: the caller is not known, or no record could be made. They hold under
fail-open too, where a denial by the policy leaves the original model."""


def resolve_model_authorization(
    user: Any, *, is_internal: bool, config: AuthorizationConfig
) -> tuple[AuthorizationProvider | None, Principal | None]:
    """Whom to ask, and for whom, when models are listed or looked up.

    The provider is to be called through a `Judge`. It always answers something that is safe to follow: one that cannot
    be built fails at every question, and for a malformed identity every question is denied.

    Args:
        user: The host's own record of the user (see `principal_of_user`), None for a caller without one.
        is_internal: Whether the host authenticated the caller as one of its own services.
        config: The loaded configuration.

    Returns:
        Provider and principal, or two times None when authorization is disabled.
    """
    if config.enabled is not True:
        return None, None
    gate, principal = named(
        lambda: principal_of_user(user, is_internal=is_internal, default_role=config.default_role), gate_of(config)
    )
    return gate.provider, principal


def authorize_model_name(
    name: str,
    *,
    context: Any,
    config: AuthorizationConfig,
    models: Iterable[str],
    provider: AuthorizationProvider | None = None,
) -> str:
    """The model that a run gets: `name` when it may be used, else the first configured one that may.

    Args:
        name: The model that is wanted, resolved against the configuration.
        context: Server-owned run context: a mapping, dataclass or model.
        config: The loaded configuration. When authorization is disabled `name` is returned unasked.
        models: Names of all configured models, in the order of preference.
        provider: The instance that the build uses already; the one that serves `config` when None.

    Raises:
        ConfigError: The provider cannot be built (unless fail-open).
        ModelAuthorizationError: No model may be used (under fail-open `name` is kept, with a warning), the provider
            failed (unless fail-open), or the caller's identity or role is not known (always).
    """
    if config.enabled is not True:
        return name
    search = _Search(name, list(models), context, config, gate_of(config, provider))
    return _run_now(search.run(search.ask_now, search.show_now))


async def aauthorize_model_name(
    name: str,
    *,
    context: Any,
    config: AuthorizationConfig,
    models: Iterable[str],
    provider: AuthorizationProvider | None = None,
) -> str:
    """`authorize_model_name` for the event loop.

    Raises:
        ConfigError: As there.
        ModelAuthorizationError: As there.
    """
    if config.enabled is not True:
        return name
    search = _Search(name, list(models), context, config, await agate_of(config, provider))
    return await search.run(search.ask, search.show)


class _Search:
    """One walk over the models. Written once; the sync form hands in ports that answer at once."""

    def __init__(self, name: str, models: list[str], context: Any, config: AuthorizationConfig, gate: Gate) -> None:
        self.name, self.models, self.fail_closed = name, models, config.fail_closed
        self.gate, self.principal = named(
            lambda: build_principal_from_context(context, default_role=config.default_role), gate
        )
        self.ids = run_ids(context)

    async def run(
        self, ask: Callable[[str], Awaitable[AuthzDecision]], show: Callable[[], Awaitable[list[str]]]
    ) -> str:
        """The walk itself."""
        tried = [self.name]
        first = await ask(self.name)
        if first.allow is True:
            return self.name
        self._stop_unless_denied(first, tried)
        for candidate in await show():
            if candidate in tried:
                continue
            tried.append(candidate)
            decision = await ask(candidate)
            if decision.allow is True:
                log.warning("model %r is denied to role %r: using %r", self.name, self.principal.role, candidate)
                return candidate
            self._stop_unless_denied(decision, tried)
        if self.fail_closed:
            raise ModelAuthorizationError(self.name, self.principal.role, tried, first.code)
        log.warning(
            "model %r is denied to role %r and so are all others: KEPT (fail_closed: false)",
            self.name,
            self.principal.role,
        )
        return self.name

    def _stop_unless_denied(self, decision: AuthzDecision, tried: list[str]) -> None:
        """Raise unless `decision` is the policy's own answer, after which another model may be tried."""
        if self.fail_closed and isinstance(self.gate.provider, Unavailable):
            raise self.gate.provider.cause
        if decision.code in BINDING or (self.fail_closed and is_failure(decision)):
            raise ModelAuthorizationError(self.name, self.principal.role, tried, decision.code)

    def _request(self, model: str) -> AuthzRequest:
        return AuthzRequest(self.principal, "model", "use", model, self.ids)

    async def ask(self, model: str) -> AuthzDecision:
        return await self.gate.adecide(self._request(model), GUARD)

    async def ask_now(self, model: str) -> AuthzDecision:
        return self.gate.decide(self._request(model), GUARD)

    async def show(self) -> list[str]:
        return await self.gate.afilter(self.principal, "model", self.models)

    async def show_now(self) -> list[str]:
        return self.gate.filter(self.principal, "model", self.models)


def _run_now(core: Coroutine[Any, Any, T]) -> T:
    """Run a core whose ports all answer at once, on this thread and without a loop."""
    try:
        core.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    core.close()
    raise RuntimeError("a core waited in a synchronous call")
