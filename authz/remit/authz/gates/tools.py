"""Layer 1: which tools a principal is shown, decided by the same provider that decides each call (Layer 2)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from remit.authz.config import AuthorizationConfig
from remit.authz.judge import Judge
from remit.authz.principal import build_principal_from_context
from remit.authz.provider import AuthorizationProvider
from remit.authz.registry import resolve_authorization_provider
from remit.authz.types import Principal

log = logging.getLogger("remit.authz")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAuthorization:
    """What Layer 1 left, and what Layer 2 of the same build must reuse."""

    tools: list[Any]
    provider: AuthorizationProvider | None
    """The one instance for both layers; None when authorization is disabled."""
    principal: Principal | None
    """Who was asked for; None when authorization is disabled or the identity was malformed (then no tool is left)."""
    hidden: tuple[str, ...] = ()
    """Names that were removed, in order."""


def tool_name(tool: Any) -> str:
    """The policy name of a tool: its `name`; for a provider-hosted dict its ``name``, else its ``type``.

    An OpenAI-style function dict is named by its function. A tool without a name has the empty name, which no policy
    allows.
    """
    if isinstance(tool, dict):
        function = tool.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        name = name or tool.get("name") or tool.get("type")
    else:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    return name if isinstance(name, str) else ""


def filter_tools_by_authorization(
    tools: Sequence[Any], *, provider: AuthorizationProvider, principal: Principal, fail_closed: bool
) -> list[Any]:
    """`tools` without those that `principal` may never use, in their order.

    The provider can only shrink the list. A failing provider leaves nothing under `fail_closed`, everything otherwise.
    """
    return _kept(tools, Judge(fail_closed=fail_closed), provider, principal)


def _kept(tools: Sequence[Any], judge: Judge, provider: AuthorizationProvider, principal: Principal) -> list[Any]:
    names = [tool_name(tool) for tool in tools]
    shown = set(judge.filter(provider, principal, "tool", [name for name in names if name]))
    return [tool for tool, name in zip(tools, names, strict=True) if name in shown]


def apply_tool_authorization(
    tools: Sequence[Any], *, context: Any, config: AuthorizationConfig, provider: AuthorizationProvider | None = None
) -> ToolAuthorization:
    """Filter the candidates of one agent build for the caller in `context`.

    Disabled: the very list object is handed back and no provider is imported. A malformed identity hides everything,
    under fail-open too.

    Args:
        tools: Candidates, in the order in which they would be bound.
        context: Server-owned run context: a mapping, dataclass or model.
        config: The loaded configuration.
        provider: The instance to reuse; resolved from `config` when None.

    Raises:
        ConfigError: The provider cannot be built.
    """
    if config.enabled is not True:
        return ToolAuthorization(tools=tools if isinstance(tools, list) else list(tools), provider=None, principal=None)
    if provider is None:
        provider = resolve_authorization_provider(config)
        assert provider is not None  # noqa: S101 - an enabled configuration resolves or raises
    try:
        principal = build_principal_from_context(context, default_role=config.default_role)
    except (TypeError, ValueError) as exc:
        log.warning("authz.malformed_identity: no tool is shown: %s", exc)
        return ToolAuthorization(tools=[], provider=provider, principal=None, hidden=tuple(map(tool_name, tools)))
    judge = Judge(fail_closed=config.fail_closed, deadline=config.deadline_ms / 1000)
    kept = _kept(tools, judge, provider, principal)
    left = set(map(id, kept))
    hidden = tuple(tool_name(tool) for tool in tools if id(tool) not in left)
    return ToolAuthorization(tools=kept, provider=provider, principal=principal, hidden=hidden)
