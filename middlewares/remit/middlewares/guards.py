"""`guard`: the one call that puts an enforcer into an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import BaseTool

from remit.authz.enforcer import Enforcer
from remit.authz.gates.acting import adapter_for
from remit.authz.gates.arming import arm, refuse_duplicates
from remit.middlewares.approvals import Approvals
from remit.middlewares.authorization import AuthorizationMiddleware
from remit.middlewares.events import log
from remit.middlewares.guardrail import GuardrailMiddleware


def guard(
    enforcer: Enforcer,
    *others: AgentMiddleware[Any, Any, Any],
    approvals: Approvals | None = None,
    passport: str | None = None,
    infrastructure_tools: tuple[object, ...] = (),
) -> list[AgentMiddleware[Any, Any, Any]]:
    """The middleware list of an agent: the authorization guard, then `others`, in their order.

    The guard must see what the others bring, so pass them here instead of listing them beside. A middleware that works
    in one of the two worlds only, synchronous or asynchronous, is reported in the log. With authorization disabled the
    list is just the others.

    Args:
        enforcer: Decides and records.
        others: The agent's other middlewares, outermost first. Explicit guardrails come first among them.
        approvals: How people are asked where the policy says ``ask``.
        passport: The operator's id for this agent.
        infrastructure_tools: Tool objects that this build generated from a filtered catalogue; they need no decision.

    Raises:
        ConfigError: Two of the tools that `others` bring share a name, or tool bodies cannot be guarded with the
            installed LangChain.
    """
    if not enforcer.enabled:
        return list(others)
    first = authorization_guard(
        enforcer, others, approvals=approvals, passport=passport, infrastructure_tools=infrastructure_tools
    )
    return [first, *others]


def authorization_guard(
    enforcer: Enforcer,
    others: Sequence[AgentMiddleware[Any, Any, Any]],
    *,
    approvals: Approvals | None = None,
    passport: str | None = None,
    model_name: str | None = None,
    infrastructure_tools: tuple[object, ...] = (),
) -> AuthorizationMiddleware:
    """The guard alone, for whoever puts it into a list himself; the parameters are those of `guard`.

    Args:
        enforcer: As there.
        others: As there.
        approvals: As there.
        passport: As there.
        model_name: Under which the policy knows the agent's model. Whoever runs the agent must be permitted to use it,
            at every model call.
        infrastructure_tools: As there.

    Raises:
        ConfigError: As `guard`.
    """
    for other in others:
        _report_missing_half(other)
    brought = tuple(tool for other in others for tool in getattr(other, "tools", None) or ())
    refuse_duplicates(brought)
    arm(brought)
    return AuthorizationMiddleware(
        adapter_for(enforcer, infrastructure_tools=infrastructure_tools),
        enforcer=enforcer,
        approvals=approvals,
        passport=passport,
        model_name=model_name,
        brought=tuple(tool for tool in brought if isinstance(tool, BaseTool)),
        inner=tuple(other for other in others if isinstance(other, GuardrailMiddleware)),
    )


def _report_missing_half(other: AgentMiddleware[Any, Any, Any]) -> None:
    """Say now what LangChain would say at the first run of the other kind."""
    for hook in ("wrap_tool_call", "wrap_model_call"):
        has = {name: getattr(type(other), name) is not getattr(AgentMiddleware, name) for name in (hook, f"a{hook}")}
        if any(has.values()) and not all(has.values()):
            missing = next(name for name, there in has.items() if not there)
            log.warning(
                "middleware %r has no `%s`: runs that need it will fail; implement both forms", other.name, missing
            )
