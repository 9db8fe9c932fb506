"""From settings to the middlewares of one agent: filter the table, check the order, fuse the nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from remit.authz.enforcer import Enforcer
from remit.middlewares.chain import AUTHORIZATION, EDGES, SLOTS
from remit.middlewares.fusion import Middleware, fused
from remit.middlewares.guards import authorization_guard
from remit.middlewares.slots import Build, Scope, Slot, check_order
from remit.runtime.config import AppConfig

if TYPE_CHECKING:
    from remit.runtime.sandboxes import SandboxAccess


@dataclass(frozen=True)
class Live:
    """A slot of one chain and the middlewares that fill it."""

    slot: Slot
    middlewares: tuple[Middleware, ...] = field(default=())


def live_slots(build: Build) -> list[Live]:
    """The filled slots of one chain in their order, checked, not yet fused."""
    given = build.conditions
    slots = [slot for slot in SLOTS if slot.fits(given)]
    check_order([slot.id for slot in slots], EDGES)
    live = [Live(slot, tuple(slot.make(build, slot))) for slot in slots]
    if not any(one.slot.id == AUTHORIZATION for one in live):
        return live
    others = [middleware for one in live for middleware in one.middlewares]
    guard = authorization_guard(
        build.enforcer,
        others,
        approvals=build.approvals,
        passport=build.passport,
        model_name=build.model_name,
        infrastructure_tools=build.infrastructure_tools,
    )
    return [replace(one, middlewares=(guard,)) if one.slot.id == AUTHORIZATION else one for one in live]


def build_chain(build: Build) -> list[Middleware]:
    """The middlewares of one agent for `create_agent`, outermost first, with fused node hooks.

    Raises:
        ChainOrderError: The table contradicts itself.
        ConfigError: Two middlewares bring a tool of one name, or tools cannot be guarded.
    """
    return fused(middleware for one in live_slots(build) for middleware in one.middlewares)


def build_lead_runtime_middlewares(
    config: AppConfig, *, access: SandboxAccess, enforcer: Enforcer | None = None, scope: Scope = "lead", **parts: Any
) -> list[Middleware]:
    """The part of a lead agent's chain that guards calls: slots 1 to 13.

    Args:
        config: The settings.
        access: The door to the sandboxes.
        enforcer: Decides; made from `config.authz` when None.
        scope: ``lead``, ``bootstrap`` or ``embedded``.
        parts: Further fields of `Build`.

    Raises:
        ChainOrderError: As `build_chain`.
        ConfigError: As `build_chain`; also when the provider cannot be built.
    """
    return build_chain(_build(config, access, enforcer, scope, {**parts, "custom": ()}))


def build_subagent_runtime_middlewares(
    config: AppConfig, *, access: SandboxAccess, enforcer: Enforcer | None = None, **parts: Any
) -> list[Middleware]:
    """The chain of a delegated agent: no uploads, no middlewares of the host, no ownership of the environment.

    Raises:
        ChainOrderError: As `build_chain`.
        ConfigError: As `build_chain`; also when the provider cannot be built.
    """
    return build_chain(_build(config, access, enforcer, "subagent", parts))


def build_middlewares(
    config: AppConfig, *, access: SandboxAccess, enforcer: Enforcer | None = None, scope: Scope = "lead", **parts: Any
) -> list[Middleware]:
    """The whole chain of a lead agent, the middlewares of the host (`custom`) included.

    Raises:
        ChainOrderError: As `build_chain`.
        ConfigError: As `build_chain`; also when the provider cannot be built.
    """
    return build_chain(_build(config, access, enforcer, scope, parts))


def _build(
    config: AppConfig, access: SandboxAccess, enforcer: Enforcer | None, scope: Scope, parts: dict[str, Any]
) -> Build:
    enforcer = enforcer or Enforcer.from_config(config.authz)
    if "guardrail" not in parts and config.authz.guardrails.enabled:
        from remit.authz.registry import resolve_guardrail_provider

        parts = {**parts, "guardrail": resolve_guardrail_provider(config.authz)}
    return Build(config=config, scope=scope, enforcer=enforcer, access=access, **parts)
