"""Every decision point behind one signature: may the caller in `context`, by this configuration?

Each point goes through its public door, with an enforcer, a gate or a compiled agent built from the configuration. The
target is ``probe`` everywhere that a name is asked about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from langchain_core.tools import StructuredTool
from tests.support.agents import agent, run
from tests.support.scripted import call, calls

from remit.authz import (
    AuthzRequest,
    Enforcer,
    SandboxAuthorizationError,
    apply_tool_authorization,
    authorize_model_name,
    authorize_sandbox_execution,
    filter_tools_by_authorization,
    resolve_model_authorization,
    resolve_route_permissions,
)
from remit.authz.config import AuthorizationConfig
from remit.authz.errors import ModelAuthorizationError
from remit.authz.gates.models import aauthorize_model_name
from remit.authz.gates.sandbox import aauthorize_sandbox_execution
from remit.authz.judge import Judge

Point = Callable[[AuthorizationConfig, Any], Awaitable[bool]]

ARGS: Final[dict[str, Any]] = {}
"""Arguments that the model passes to the tool, for tests that set them."""


def probe_tool(ran: list[Any]) -> Any:
    """A tool that takes anything and writes down that it ran."""

    def body(**kwargs: Any) -> str:
        ran.append(kwargs)
        return "ran"

    return StructuredTool(
        name="probe", description="Probe.", func=body, args_schema={"type": "object", "properties": {}}
    )


def user_of(context: Any) -> dict[str, Any]:
    """The record that a gateway's session holds for the caller in `context`."""
    keys = {"id": "user_id", "role": "user_role", "oauth_id": "oauth_id", "authz_attributes": "authz_attributes"}
    return {mine: context.get(theirs) for mine, theirs in keys.items()}


def _request(enforcer: Enforcer, context: Any) -> AuthzRequest | None:
    try:
        return AuthzRequest(enforcer.principal(context), "tool", "call", "probe", {"args": dict(ARGS)})
    except (TypeError, ValueError):
        return None


async def decide(config: AuthorizationConfig, context: Any) -> bool:
    enforcer = Enforcer.from_config(config)
    request = _request(enforcer, context)
    return request is not None and enforcer.decide(request).allow is True


async def adecide(config: AuthorizationConfig, context: Any) -> bool:
    enforcer = Enforcer.from_config(config)
    request = _request(enforcer, context)
    return request is not None and (await enforcer.adecide(request)).allow is True


async def show(config: AuthorizationConfig, context: Any) -> bool:
    enforcer = Enforcer.from_config(config)
    request = _request(enforcer, context)
    return request is not None and enforcer.filter(request.principal, "tool", ["probe"]) == ["probe"]


async def ashow(config: AuthorizationConfig, context: Any) -> bool:
    enforcer = Enforcer.from_config(config)
    request = _request(enforcer, context)
    return request is not None and await enforcer.afilter(request.principal, "tool", ["probe"]) == ["probe"]


async def visible(config: AuthorizationConfig, context: Any) -> bool:
    return bool(Enforcer.from_config(config).visible_tools([probe_tool([])], context or {}))


async def layer_one(config: AuthorizationConfig, context: Any) -> bool:
    return bool(apply_tool_authorization([probe_tool([])], context=context, config=config).tools)


async def layer_one_filter(config: AuthorizationConfig, context: Any) -> bool:
    enforcer = Enforcer.from_config(config)
    request, provider = _request(enforcer, context), enforcer.provider
    assert provider is not None
    return request is not None and bool(
        filter_tools_by_authorization(
            [probe_tool([])], provider=provider, principal=request.principal, fail_closed=config.fail_closed
        )
    )


async def sandbox(config: AuthorizationConfig, context: Any) -> bool:
    try:
        authorize_sandbox_execution(context, config=config)
    except SandboxAuthorizationError:
        return False
    return True


async def asandbox(config: AuthorizationConfig, context: Any) -> bool:
    try:
        await aauthorize_sandbox_execution(context, config=config)
    except SandboxAuthorizationError:
        return False
    return True


async def model(config: AuthorizationConfig, context: Any) -> bool:
    try:
        return authorize_model_name("probe", context=context, config=config, models=["probe"]) == "probe"
    except ModelAuthorizationError:
        return False


async def amodel(config: AuthorizationConfig, context: Any) -> bool:
    try:
        return await aauthorize_model_name("probe", context=context, config=config, models=["probe"]) == "probe"
    except ModelAuthorizationError:
        return False


async def model_list(config: AuthorizationConfig, context: Any) -> bool:
    provider, principal = resolve_model_authorization(user_of(context), is_internal=False, config=config)
    assert provider is not None
    assert principal is not None
    judge = Judge(fail_closed=config.fail_closed, deadline=config.deadline_ms / 1000)
    return judge.filter(provider, principal, "model", ["probe"]) == ["probe"]


async def route(config: AuthorizationConfig, context: Any) -> bool:
    found = await resolve_route_permissions(user_of(context), is_internal=False, config=config)
    assert len(found) in (0, 6)
    return bool(found)


def _call_in(style: str) -> Point:
    async def tool_call(config: AuthorizationConfig, context: Any) -> bool:
        ran: list[Any] = []
        graph, _ = agent(Enforcer.from_config(config), [probe_tool(ran)], calls(call("probe", dict(ARGS))))
        state = await run(graph, style, context=context)
        assert state["messages"][-1].content == "done", "the run goes on after a denial"
        return bool(ran)

    return tool_call


DECISIONS: Final[Mapping[str, Point]] = {
    "Enforcer.decide": decide,
    "Enforcer.adecide": adecide,
    "sandbox": sandbox,
    "sandbox, async": asandbox,
    "model used": model,
    "model used, async": amodel,
    "routes": route,
    "tool call": _call_in("invoke"),
    "tool call, async": _call_in("ainvoke"),
}
"""Points that act on one decision."""
LISTS: Final[Mapping[str, Point]] = {
    "Enforcer.filter": show,
    "Enforcer.afilter": ashow,
    "visible_tools": visible,
    "apply_tool_authorization": layer_one,
    "filter_tools_by_authorization": layer_one_filter,
    "models listed": model_list,
}
"""Points that act on a filtered list."""
POINTS: Final[Mapping[str, Point]] = {**DECISIONS, **LISTS}
