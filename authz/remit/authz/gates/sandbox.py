"""The sandbox gate: asked before an environment is acquired, and again before one is reused."""

from __future__ import annotations

from typing import Any, Final

from remit.authz.config import AuthorizationConfig
from remit.authz.errors import SandboxAuthorizationError
from remit.authz.gates.access import Gate, agate_of, gate_of, named, run_ids
from remit.authz.principal import build_principal_from_context
from remit.authz.provider import AuthorizationProvider
from remit.authz.types import AuthzDecision, AuthzRequest

GUARD: Final = "gate.sandbox"


def authorize_sandbox_execution(
    context: Any, *, config: AuthorizationConfig, provider: AuthorizationProvider | None = None
) -> None:
    """Return when the caller in `context` may use a sandbox, or when authorization is disabled.

    Args:
        context: Server-owned run context: a mapping, dataclass or model.
        config: The loaded configuration.
        provider: The instance that the run uses already; the one that serves `config` when None.

    Raises:
        SandboxAuthorizationError: Denied, asked (nobody can be asked here), or, unless fail-open, not decided.
    """
    if config.enabled is True:
        gate, request = _question(context, config, gate_of(config, provider))
        _admit(request, gate.decide(request, GUARD))


async def aauthorize_sandbox_execution(
    context: Any, *, config: AuthorizationConfig, provider: AuthorizationProvider | None = None
) -> None:
    """`authorize_sandbox_execution` for the event loop.

    Raises:
        SandboxAuthorizationError: As there.
    """
    if config.enabled is True:
        gate, request = _question(context, config, await agate_of(config, provider))
        _admit(request, await gate.adecide(request, GUARD))


def _question(context: Any, config: AuthorizationConfig, gate: Gate) -> tuple[Gate, AuthzRequest]:
    gate, principal = named(lambda: build_principal_from_context(context, default_role=config.default_role), gate)
    return gate, AuthzRequest(principal, "sandbox", "execute", "*", run_ids(context))


def _admit(request: AuthzRequest, decision: AuthzDecision) -> None:
    if decision.allow is not True:
        role = request.principal.role
        raise SandboxAuthorizationError(
            f"the sandbox is not permitted for the role {role!r}" if role else "the sandbox is not permitted",
            details={
                "role": role,
                "reason_codes": tuple(reason.code for reason in decision.reasons) or (decision.code,),
                "policy_id": decision.policy_id,
            },
        )
