"""The authorization guard: Layer 1 at every model call, Layer 2 around every tool call, tickets, and ask."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import replace
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware.types import AgentState, ModelRequest, PrivateStateAttr
from langchain_core.messages import ToolMessage, add_notification_metadata
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest

from remit.authz import wire
from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError, ModelAuthorizationError
from remit.authz.gates.access import run_ids
from remit.authz.gates.acting import EnforcedProvider, authz_request
from remit.authz.gates.arming import arm, is_armed, self_check
from remit.authz.gates.guardrail import INFRASTRUCTURE, GuardrailAuthorizationAdapter
from remit.authz.gates.models import BINDING
from remit.authz.gates.sentinel import watch
from remit.authz.gates.tools import tool_name
from remit.authz.provider import GuardrailDecision, GuardrailProvider, GuardrailReason
from remit.authz.tickets import Call
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Principal
from remit.middlewares.approvals import Approvals, Inquiry, Ports, Unapproved, has_answers
from remit.middlewares.calls import (
    Facts,
    Turn,
    irregularity,
    is_resumed,
    read_state,
    same_identity,
    sealed_identity,
)
from remit.middlewares.events import Decision, log
from remit.middlewares.gate import Cleared, Port
from remit.middlewares.guardrail import AUTHORIZATION_GUARD, GuardrailMiddleware
from remit.middlewares.results import denial, map_messages, shown_name
from remit.middlewares.sealed import SealedToolCallRequest, View, nothing, sealed_model_request, shapes_answer
from remit.middlewares.shells import run_now, settled


class AuthorizationState(AgentState[Any]):
    """Adds the private channel that tells whose run this is."""

    remit_principal_digest: NotRequired[Annotated[str, PrivateStateAttr]]


class AuthorizationMiddleware(GuardrailMiddleware):
    """`GuardrailMiddleware` with an enforcer. Built by it and by `remit.middlewares.guard`, not by name.

    Args:
        provider: The adapter over the enforcer's provider.
        enforcer: Decides and records.
        fail_closed: None, or what the enforcer says.
        passport: The operator's id for this agent.
        name: Instead of ``guardrail.authz``.
        approvals: How people are asked.
        model_name: Under which the policy knows the agent's model; None asks nothing about it.
        brought: Tools that other middlewares of the agent bring. LangChain lets the last tool of a name win in silence;
            such a name is refused.
        inner: Explicit guardrails further in.
    """

    state_schema = AuthorizationState
    _authorizes = True

    def __init__(
        self,
        provider: GuardrailProvider,
        *,
        enforcer: Enforcer,
        fail_closed: bool | None = None,
        passport: str | None = None,
        name: str | None = None,
        approvals: Approvals | None = None,
        model_name: str | None = None,
        brought: tuple[Any, ...] = (),
        inner: tuple[GuardrailMiddleware, ...] = (),
    ) -> None:
        if fail_closed is not None and fail_closed is not enforcer.fail_closed:
            raise ConfigError(
                f"fail_closed={fail_closed} contradicts the enforcer's {enforcer.fail_closed}; set it there only"
            )
        self_check()
        self.enforcer = enforcer
        self.approvals = approvals or Approvals()
        super().__init__(
            _over(enforcer, provider),
            fail_closed=enforcer.fail_closed,
            passport=passport,
            name=name,
            deadline=enforcer.deadline,
        )
        self.inner = inner
        self.model_name = model_name
        # The usual adapter is asked without the detour through its own form; any other provider as it is.
        self._adapted = type(self.provider) is GuardrailAuthorizationAdapter
        self._brought = {tool.name: tool for tool in brought if hasattr(tool, "name")}
        self._now = Port(self._evaluate_now, self._shown_now, Ports(_read_now, enforcer.decide))
        self._soon = Port(self._evaluate_soon, self._shown_soon, Ports(_read_soon, enforcer.adecide))

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Seal whose run this is. Runs for new input only, not on resume."""
        try:
            return {wire.PRINCIPAL_DIGEST: sealed_identity(self.enforcer.principal(runtime.context))}
        except (TypeError, ValueError):
            return {wire.PRINCIPAL_DIGEST: "malformed"}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """The asynchronous form of `before_agent`."""
        return self.before_agent(state, runtime)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Show the model what the caller may use, whatever is added to the request later."""
        return run_now(self._model_call(request, handler, self._now))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        return await self._model_call(request, handler, self._soon)

    async def _model_call(self, request: ModelRequest[Any], handler: Callable[..., Any], port: Port) -> Any:
        if self.model_name is not None:
            await self._admit_model(self.model_name, getattr(request.runtime, "context", None), port)
        view = await self._view(request, port)
        return await settled(handler(sealed_model_request(request, view)))

    async def _admit_model(self, name: str, context: Any, port: Port) -> None:
        """The agent was built once, and runs for many: each of them must be permitted to use its model.

        Raises:
            ModelAuthorizationError: Not this caller; nothing is sent to the model.
        """
        try:
            principal = self._principal(context)
        except (TypeError, ValueError) as exc:
            raise ModelAuthorizationError(name, None, (name,), "authz.malformed_identity") from exc
        decision = await settled(port.people.decide(AuthzRequest(principal, "model", "use", name, run_ids(context))))
        if decision.allow is not True:
            if self.fail_closed or decision.code in BINDING:
                raise ModelAuthorizationError(name, principal.role, (name,), decision.code)
            log.warning("model %r is denied to role %r: KEPT (fail_closed: false)", name, principal.role)

    async def _view(self, request: ModelRequest[Any], port: Port) -> View:
        try:
            principal = self._principal(getattr(request.runtime, "context", None))
        except (TypeError, ValueError) as exc:
            log.warning("%s: malformed identity, no tool is shown: %s", self.name, exc)
            return nothing()
        sealed = read_state(request.state, wire.PRINCIPAL_DIGEST)
        if not same_identity(sealed, principal, resumed=is_resumed(_config())):
            log.warning("%s: the run belongs to another identity, no tool is shown", self.name)
            return nothing()
        named = [(tool_name(tool), tool) for tool in request.tools if not shapes_answer(tool)]
        names = [name for name, _ in named if name]
        never = frozenset(name for name, tool in named if self._brought.get(name, tool) is not tool)
        seen = self._version()
        shown = await settled(port.shown(principal, names))
        ask = None if self.waits else lambda more: self._shown_now(principal, more)
        always = self.provider.infrastructure_tools if isinstance(self.provider, GuardrailAuthorizationAdapter) else ()
        return View(names, shown, ask=ask, version=self._version, seen=seen, never=never, always=always)

    def _usual_name(self) -> str:
        return AUTHORIZATION_GUARD

    def _principal(self, context: Any) -> Principal:
        return self.enforcer.principal(context)

    def _arm(self, tools: Any) -> None:
        arm(tools)

    def _version(self) -> str:
        return self.enforcer.policy_version

    def _irregularity(self, facts: Facts, turn: Turn) -> tuple[str, str] | None:
        found = irregularity(facts, turn)
        if found is None and facts.tool is not None:
            if self._brought.get(facts.name, facts.tool) is not facts.tool:
                return "authz.tool_identity", "two tools are registered under this name."
            if not is_armed(facts.tool):
                return "authz.not_armed", "this tool cannot be guarded."
        return found

    def _stranger(self, facts: Facts, principal: Principal) -> tuple[str, str] | None:
        sealed = read_state(facts.request.state, wire.PRINCIPAL_DIGEST)
        if same_identity(sealed, principal, resumed=is_resumed(facts.runtime.config)):
            return None
        return "authz.identity_changed", "this run belongs to somebody else."

    def _evaluate_now(self, facts: Facts, principal: Principal, call: Call) -> Decision:
        if not self._adapted:
            return super()._evaluate_now(facts, principal, call)
        request = self._request(facts, principal, call)
        return request if isinstance(request, GuardrailDecision) else self.enforcer.decide(request)

    async def _evaluate_soon(self, facts: Facts, principal: Principal, call: Call) -> Decision:
        if not self._adapted:
            return await super()._evaluate_soon(facts, principal, call)
        request = self._request(facts, principal, call)
        return request if isinstance(request, GuardrailDecision) else await self.enforcer.adecide(request)

    def _request(self, facts: Facts, principal: Principal, call: Call) -> AuthzRequest | GuardrailDecision:
        """What to ask the enforcer; the answer for a tool that this build made from a filtered catalogue."""
        adapter = cast("GuardrailAuthorizationAdapter", self.provider)
        if adapter.infrastructure_tools and any(call.tool is tool for tool in adapter.infrastructure_tools):
            return INFRASTRUCTURE
        return authz_request(
            adapter,
            principal,
            facts.context,
            name=call.name,
            args=call.args,
            call_id=call.call_id,
            thread_id=facts.thread_id,
            run_id=facts.run_id,
            passport=self.passport,
        )

    def _shown_now(self, principal: Principal, names: list[str]) -> list[str]:
        return self.enforcer.filter(principal, "tool", names)

    async def _shown_soon(self, principal: Principal, names: list[str]) -> list[str]:
        return await self.enforcer.afilter(principal, "tool", names)

    def _sealed(self, facts: Facts) -> ToolCallRequest:
        config = facts.runtime.config
        in_task = "__pregel_scratchpad" in (config.get("configurable") or {})
        watch(config, shared=not in_task)
        request = facts.request
        return SealedToolCallRequest(request.tool_call, request.tool, request.state, request.runtime)

    def _audit(self, facts: Facts, principal: Principal | None, decision: Decision) -> None:
        if self.enforcer.ledger is None:
            return
        reasons = tuple(AuthzReason(reason.code, reason.message) for reason in decision.reasons)
        self.enforcer.ledger.record(
            AuthzRequest(
                principal or Principal(),
                "tool",
                "call",
                facts.name or "unnamed",
                {wire.CTX_ARGS: facts.args or {}, wire.CTX_TOOL_CALL_ID: facts.call_id},
            ),
            AuthzDecision(decision.allow, reasons, decision.policy_id, decision.policy_version),
            latency_ns=0,
            guard=self.name,
        )

    def _must_settle(self, facts: Facts) -> bool:
        return has_answers(facts.runtime.config)

    async def _settle(self, cleared: Cleared, turn: Turn, port: Port) -> Cleared | ToolMessage:
        """Put the call to a person when the policy asks, and take an answer that was given already."""
        facts, principal, call, decision = cleared.facts, cleared.principal, cleared.call, cleared.decision
        sealed = read_state(facts.request.state, wire.PRINCIPAL_DIGEST) is not None
        inquiry = Inquiry(facts, turn, self.name, principal, self.approvals, sealed=sealed)
        approved = edited = False
        while decision.allow is True or decision.asks:
            answered = await inquiry.outstanding(port.people)
            if not answered:
                if decision.allow is True and not approved:
                    break
                if approved:
                    decision = _approved(decision, inquiry.approver)
                    self._audit(facts, principal, decision)
                    break
            if (obstacle := inquiry.obstacle()) is not None:
                return self._unapproved(facts, principal, decision, Unapproved("authz.ask_unanswerable"), obstacle)
            try:
                answer = await inquiry.put(call, facts.args or {}, port.people, answered=answered)
            except Unapproved as exc:
                return self._unapproved(facts, principal, decision, exc, exc.text)
            if answer["type"] == "reject":
                return self._rejected(facts, principal, decision, answer.get("message"))
            if answer["type"] == "approve":
                approved = True
                continue
            facts = _edited(facts, answer["edited_action"]["args"])
            before, edited = decision, True
            cleared = await self._decided(facts, principal, port)
            call, decision = cleared.call, cleared.decision
            approved = _same_rule(before, decision)
        else:
            return await self._denied(facts, principal, decision, port)
        return cleared._replace(decision=decision, note=_edit_note(call) if edited else "")

    def _unapproved(
        self, facts: Facts, principal: Principal, decision: Decision, why: Unapproved, note: str
    ) -> ToolMessage:
        refused = GuardrailDecision(
            False, (GuardrailReason(why.code, note),), decision.policy_id, decision.policy_version
        )
        self._leave(facts, principal, facts.name, refused, allowed=False)
        self._audit(facts, principal, refused)
        text = why.text or f"{shown_name(facts.name)} needs the approval of a person, and there is none for this call."
        return denial(facts.name, facts.call_id, why.code, scope="invocation", text=text)

    def _rejected(self, facts: Facts, principal: Principal, decision: Decision, reason: str | None) -> ToolMessage:
        refused = GuardrailDecision(
            False, (GuardrailReason("authz.rejected", reason or ""),), decision.policy_id, decision.policy_version
        )
        self._leave(facts, principal, facts.name, refused, allowed=False)
        self._audit(facts, principal, refused)
        why = f" with the reason: {reason}" if reason else ""
        text = f"a reviewer rejected this call of {shown_name(facts.name)}{why}. Do not repeat it unless asked to."
        message: Any = denial(facts.name, facts.call_id, "authz.rejected", scope="invocation", text=text)
        marked: Any = add_notification_metadata(message, source="hitl_interrupt_decision", data={"decision": "reject"})
        return cast("ToolMessage", marked)

    def _finished(self, cleared: Cleared, result: Any) -> Any:
        result = super()._finished(cleared, result)
        if not cleared.note:
            return result
        return map_messages(result, lambda message: _noted(message, cleared.note), call_id=cleared.facts.call_id)


def _over(enforcer: Enforcer, provider: GuardrailProvider) -> GuardrailProvider:
    """`provider` so that its questions go through `enforcer`: judged and recorded there.

    Raises:
        ConfigError: It asks another brain, or fills in another role.
    """
    if not isinstance(provider, GuardrailAuthorizationAdapter):
        return provider
    inside = provider.provider
    brain = inside.provider if isinstance(inside, EnforcedProvider) else inside
    if brain is not enforcer.provider:
        raise ConfigError("the adapter asks another provider than the enforcer; build both over one provider")
    if provider.default_role != enforcer.default_role:
        raise ConfigError(
            f"the adapter's default_role {provider.default_role!r} is not the enforcer's {enforcer.default_role!r}"
        )
    own = copy(provider)
    own.provider = EnforcedProvider(enforcer)
    return own


def _config() -> Any:
    try:
        return get_config()
    except RuntimeError:  # outside of a graph
        return {}


def _read_now(saver: Any, config: Any) -> Any:
    return saver.get_tuple(config)


def _read_soon(saver: Any, config: Any) -> Any:
    return saver.aget_tuple(config)


def _same_rule(before: Decision, after: Decision) -> bool:
    """Whether an edited call is asked about by the very rule whose question the edit answered."""
    return before.asks and after.asks and after.policy_id is not None and after.policy_id == before.policy_id


def _approved(decision: Decision, approver: Principal | None) -> GuardrailDecision:
    by = f"approved by {approver.user_id!r}" if approver is not None else ""
    return GuardrailDecision(
        True, (GuardrailReason("authz.approved", by),), decision.policy_id, decision.policy_version
    )


def _edited(facts: Facts, args: dict[str, Any]) -> Facts:
    request = facts.request.override(tool_call={**facts.request.tool_call, "args": args})
    return replace(facts, request=request, args=args)


def _edit_note(call: Call) -> str:
    return (
        f"A reviewer changed this call of {shown_name(call.name)} before it ran, on purpose and with authority. "
        f"Executed with: {json.dumps(call.args, ensure_ascii=False)}. Do not repeat the original call."
    )


def _noted(message: ToolMessage, note: str) -> ToolMessage:
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{note}\n{content}" if content else note})
    return message.model_copy(update={"content": [{"type": "text", "text": note}, *content]})
