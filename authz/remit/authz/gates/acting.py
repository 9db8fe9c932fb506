"""The authorization policy as a gate of a frame, and the host's own way in to armed tools."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from remit.authz import wire
from remit.authz.gates.guardrail import GuardrailAuthorizationAdapter
from remit.authz.judge import in_place
from remit.authz.principal import read
from remit.authz.provider import GuardrailDecision, GuardrailRequest
from remit.authz.tickets import Call, Frame, Ruling, opened
from remit.authz.types import AuthzDecision, AuthzRequest, FrozenDict, Principal


class Deciding(Protocol):
    """What this layer needs of an `Enforcer`."""

    provider: Any
    default_role: str | None

    @property
    def policy_version(self) -> str: ...
    def principal(self, context: Any) -> Principal: ...
    def decide(self, request: AuthzRequest) -> AuthzDecision: ...
    def adecide(self, request: AuthzRequest) -> Awaitable[AuthzDecision]: ...
    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]: ...
    def afilter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> Awaitable[list[str]]: ...


class EnforcedProvider:
    """An enforcer in the shape of a provider: what the adapter asks is judged, under its deadline, and recorded."""

    def __init__(self, enforcer: Deciding) -> None:
        self.enforcer = enforcer
        self.provider = enforcer.provider
        self.name: str = getattr(enforcer.provider, "name", "disabled")

    @property
    def blocking(self) -> bool:
        """As the provider says of itself; without one there is nothing to wait for."""
        return self.provider is not None and not in_place(self.provider)

    @property
    def policy_version(self) -> str:
        """The version in force now; ``"unknown"`` when the provider does not say."""
        return self.enforcer.policy_version

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return self.enforcer.decide(request)

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        return await self.enforcer.adecide(request)

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        return self.enforcer.filter(principal, resource_type, candidates)


def adapter_for(enforcer: Deciding, *, infrastructure_tools: Sequence[object] = ()) -> GuardrailAuthorizationAdapter:
    """The adapter through which tool calls are put to `enforcer`."""
    return GuardrailAuthorizationAdapter(
        EnforcedProvider(enforcer), default_role=enforcer.default_role, infrastructure_tools=infrastructure_tools
    )


def guardrail_request(
    principal: Principal,
    context: Any,
    *,
    tool: object,
    name: str,
    args: dict[str, Any],
    call_id: str | None,
    thread_id: str | None = None,
    run_id: str | None = None,
    passport: str | None = None,
) -> GuardrailRequest:
    """The question about one call. Who asks comes from `principal`, already built from server-owned context."""
    return GuardrailRequest(
        tool_name=name,
        tool_input=args,
        tool_call_id=call_id,
        agent_id=passport,
        thread_id=_text(read(context, wire.THREAD_ID)) or thread_id,
        run_id=_text(read(context, wire.RUN_ID)) or run_id,
        is_subagent=read(context, wire.IS_SUBAGENT) is True,
        timestamp=datetime.now(UTC).isoformat(),
        user_id=principal.user_id,
        user_role=principal.role,
        oauth_provider=principal.oauth_provider,
        oauth_id=principal.oauth_id,
        channel_user_id=principal.channel_user_id,
        is_internal=principal.is_internal,
        authz_attributes=principal.attributes,
        tool=tool,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def authz_request(
    adapter: GuardrailAuthorizationAdapter,
    principal: Principal,
    context: Any,
    *,
    name: str,
    args: dict[str, Any],
    call_id: str | None,
    thread_id: str | None = None,
    run_id: str | None = None,
    passport: str | None = None,
) -> AuthzRequest:
    """The question that `adapter` would ask, without the way through the guardrail's form. For every tool call.

    Raises:
        ValueError: The name is empty.
    """
    return AuthzRequest(
        principal,
        adapter.resource_type,
        adapter.action,
        name,
        FrozenDict(
            {
                wire.CTX_ARGS: args,
                wire.CTX_TOOL_CALL_ID: call_id,
                wire.THREAD_ID: _text(read(context, wire.THREAD_ID)) or thread_id,
                wire.RUN_ID: _text(read(context, wire.RUN_ID)) or run_id,
                wire.IS_SUBAGENT: read(context, wire.IS_SUBAGENT) is True,
                wire.CTX_AGENT_ID: passport,
                wire.CTX_TIMESTAMP: datetime.now(UTC).isoformat(),
            }
        ),
    )


def ruling(decision: AuthzDecision | GuardrailDecision) -> Ruling:
    """`decision` for a tool body, where nobody can be asked: only a plain allow lets it run."""
    code = decision.reasons[0].code if decision.reasons else ("authz.allowed" if decision.allow else "authz.denied")
    return Ruling(decision.allow is True, code)


class _ActingGate:
    """Puts each call in a host's scope to the policy."""

    def __init__(self, enforcer: Deciding, principal: Principal, context: Any) -> None:
        self._enforcer = enforcer
        self._adapter = adapter_for(enforcer)
        self._principal = principal
        self._context = context

    @property
    def key(self) -> object:
        return self

    @property
    def waits(self) -> bool:
        return self._adapter.blocking

    def _request(self, call: Call) -> AuthzRequest:
        return authz_request(
            self._adapter, self._principal, self._context, name=call.name, args=call.args, call_id=call.call_id
        )

    def decide(self, call: Call) -> Ruling:
        return ruling(self._enforcer.decide(self._request(call)))

    async def adecide(self, call: Call) -> Ruling:
        return ruling(await self._enforcer.adecide(self._request(call)))


def acting_frame(enforcer: Deciding, context: Any) -> AbstractContextManager[None]:
    """A context manager in which the host's own code may call armed tools directly, sync or async.

    There is no ticket in it: every single call is decided for the caller in `context`, and recorded. Work that is still
    going on when the scope is left is refused.

    Raises:
        TypeError: The identity in `context` is malformed.
        ValueError: As before.
    """
    principal = enforcer.principal(context)
    gate = _ActingGate(enforcer, principal, context)
    return _acting(
        Frame(
            (gate,),
            principal=principal,
            run_id=_text(read(context, wire.RUN_ID)),
            version=lambda: enforcer.policy_version,
            authorizes=True,
        )
    )


@contextmanager
def _acting(frame: Frame) -> Iterator[None]:
    with opened(frame):
        yield
