"""The decision layer: one policy, one identity, one place that judges. Needs no framework.

Names are resolved at first use, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

if TYPE_CHECKING:
    from remit.authz.config import AuthorizationConfig, load_config
    from remit.authz.enforcer import Enforcer
    from remit.authz.errors import AuthzError, ConfigError, PolicyError, ProviderError, SandboxAuthorizationError
    from remit.authz.gates.guardrail import GuardrailAuthorizationAdapter
    from remit.authz.gates.models import authorize_model_name, resolve_model_authorization
    from remit.authz.gates.routes import resolve_route_permissions
    from remit.authz.gates.sandbox import authorize_sandbox_execution
    from remit.authz.gates.tools import ToolAuthorization, apply_tool_authorization, filter_tools_by_authorization
    from remit.authz.outcome import AuthorizationOutcome, pop_outcome, publish_outcome
    from remit.authz.principal import build_principal_from_context, normalize_authz_attributes
    from remit.authz.provider import (
        AuthorizationProvider,
        GuardrailDecision,
        GuardrailProvider,
        GuardrailReason,
        GuardrailRequest,
    )
    from remit.authz.registry import resolve_authorization_provider
    from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Explanation, Obligation, Principal

__all__ = [
    "AuthorizationConfig",
    "AuthorizationOutcome",
    "AuthorizationProvider",
    "AuthzDecision",
    "AuthzError",
    "AuthzReason",
    "AuthzRequest",
    "ConfigError",
    "Enforcer",
    "Explanation",
    "GuardrailAuthorizationAdapter",
    "GuardrailDecision",
    "GuardrailProvider",
    "GuardrailReason",
    "GuardrailRequest",
    "Obligation",
    "PolicyError",
    "Principal",
    "ProviderError",
    "SandboxAuthorizationError",
    "ToolAuthorization",
    "apply_tool_authorization",
    "authorize_model_name",
    "authorize_sandbox_execution",
    "build_principal_from_context",
    "filter_tools_by_authorization",
    "load_config",
    "normalize_authz_attributes",
    "pop_outcome",
    "publish_outcome",
    "resolve_authorization_provider",
    "resolve_model_authorization",
    "resolve_route_permissions",
]

_HOME = {
    "config": ("AuthorizationConfig", "load_config"),
    "enforcer": ("Enforcer",),
    "errors": ("AuthzError", "ConfigError", "PolicyError", "ProviderError", "SandboxAuthorizationError"),
    "gates.guardrail": ("GuardrailAuthorizationAdapter",),
    "gates.models": ("authorize_model_name", "resolve_model_authorization"),
    "gates.routes": ("resolve_route_permissions",),
    "gates.sandbox": ("authorize_sandbox_execution",),
    "gates.tools": ("ToolAuthorization", "apply_tool_authorization", "filter_tools_by_authorization"),
    "outcome": ("AuthorizationOutcome", "pop_outcome", "publish_outcome"),
    "principal": ("build_principal_from_context", "normalize_authz_attributes"),
    "provider": (
        "AuthorizationProvider",
        "GuardrailDecision",
        "GuardrailProvider",
        "GuardrailReason",
        "GuardrailRequest",
    ),
    "registry": ("resolve_authorization_provider",),
    "types": ("AuthzDecision", "AuthzReason", "AuthzRequest", "Explanation", "Obligation", "Principal"),
}
_MODULE_OF = {name: f".{module}" for module, names in _HOME.items() for name in names}

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
