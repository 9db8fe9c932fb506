"""The guard around every tool call (Layer 2), synchronous and asynchronous over one core."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError, TicketRefused
from remit.authz.gates.acting import guardrail_request
from remit.authz.gates.arming import arm, foresee
from remit.authz.judge import Judge, in_place
from remit.authz.principal import build_principal_from_context
from remit.authz.provider import GuardrailDecision, GuardrailProvider, GuardrailReason, GuardrailRequest
from remit.authz.tickets import FRAME, Call, Frame, Gate, opened
from remit.authz.types import Principal
from remit.middlewares.approvals import Approvals
from remit.middlewares.calls import Facts, Turn, facts_of, irregularity, turn_of
from remit.middlewares.events import Decision, Event, leave, log, publish_allowed
from remit.middlewares.gate import BodyGate, Cleared, Port
from remit.middlewares.release import declaration_of
from remit.middlewares.results import denial, escaped, lists_tools, safe_code, shown_name
from remit.middlewares.sealed import WatchedToolCallRequest
from remit.middlewares.shells import run_now, settled

AUTHORIZATION_GUARD: Final = "guardrail.authz"
_UNSAFE_IN_A_NODE_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_REPLAYED: Final[Command[Any]] = Command(update={})


class GuardrailMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts every tool call to a provider before it runs.

    With an `enforcer` this is the authorization guard ``guardrail.authz``: it filters what the model sees, decides
    every call, arms tool bodies, and asks people where the policy says so; `remit.middlewares.guard` builds it.
    Without one it is an explicit guardrail ``guardrail.<provider>``, asked about every call that the authorization let
    through.

    Args:
        provider: Answers for each call. For the authorization guard a `GuardrailAuthorizationAdapter`.
        enforcer: Makes this the authorization guard.
        fail_closed: Whether a failing explicit provider denies (the default). The authorization guard follows its
            enforcer.
        passport: The operator's id for this agent, handed to the provider as ``agent_id``.
        name: Instead of the usual name. Names of middlewares in one agent must differ.
        deadline: Seconds an explicit provider may take for one answer.
        approvals: How people are asked; with an enforcer only.

    Raises:
        TypeError: `provider` does not implement `GuardrailProvider`, or `approvals` without an enforcer.
        ConfigError: The installed LangChain does not let tool bodies be guarded, or provider and enforcer do not belong
            together.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)
    tools: Sequence[BaseTool] = ()

    def __new__(cls, provider: Any = None, *, enforcer: Any = None, **_: Any) -> GuardrailMiddleware:
        if cls is GuardrailMiddleware and enforcer is not None:
            from remit.middlewares.authorization import AuthorizationMiddleware

            cls = AuthorizationMiddleware  # a class of its own: an explicit guardrail needs none of its graph nodes
        return super().__new__(cls)

    def __init__(
        self,
        provider: GuardrailProvider,
        *,
        enforcer: Enforcer | None = None,
        fail_closed: bool = True,
        passport: str | None = None,
        name: str | None = None,
        deadline: float = 2.0,
        approvals: Approvals | None = None,
    ) -> None:
        super().__init__()
        if enforcer is not None:
            raise TypeError("a class of its own for the authorization guard derives from AuthorizationMiddleware")
        if approvals is not None:
            raise TypeError("only the authorization guard asks people: `approvals` needs an `enforcer`")
        if not isinstance(provider, GuardrailProvider):
            raise TypeError(
                f"a guardrail provider has `name`, `evaluate` and `aevaluate`; {type(provider).__qualname__} has not"
            )
        self.provider = provider
        self.fail_closed = fail_closed
        self.passport = passport
        self.inner: tuple[GuardrailMiddleware, ...] = ()
        """Guards further in that a body must ask as well when it decides again, even before they saw the call."""
        self._name = _node_name(name or self._usual_name())
        self._judge = Judge(fail_closed=fail_closed, deadline=deadline)
        self._now = Port(self._evaluate_now, lambda principal, names: names)
        self._soon = Port(self._evaluate_soon, lambda principal, names: names)

    @property
    def name(self) -> str:
        """Unique within an agent; also the name of the guard in outcomes and events."""
        return self._name

    @property
    def waits(self) -> bool:
        """Whether the provider may wait for I/O."""
        return not in_place(self.provider)

    def release_policy_parameters(self) -> dict[str, object]:
        """Everything in its settings that changes what it decides, and the policy that it decides by."""
        provider = self.provider
        named = getattr(provider, "policy_id", None) or getattr(provider, "name", None) or type(provider).__name__
        declares = callable(getattr(provider, "release_policy_parameters", None))
        return {
            "fail_closed": self.fail_closed,
            "passport": self.passport,
            "policy": {"id": str(named), "version": self._version()},
            "provider_parameters": declaration_of(provider) if declares else {},
        }

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Decide the call; run it through `handler` or answer it with a denial."""
        result: ToolMessage | Command[Any] = run_now(self._tool_call(request, handler, self._now))
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        result: ToolMessage | Command[Any] = await self._tool_call(request, handler, self._soon)
        return result

    def _usual_name(self) -> str:
        usual = f"guardrail.{self.provider.name}"
        return usual if usual != AUTHORIZATION_GUARD else "guardrail.explicit.authz"

    def _evaluate_now(self, facts: Facts, principal: Principal, call: Call) -> Decision:
        return self._judge.evaluate(self.provider, self._question(facts, principal, call))

    async def _evaluate_soon(self, facts: Facts, principal: Principal, call: Call) -> Decision:
        return await self._judge.aevaluate(self.provider, self._question(facts, principal, call))

    def _question(self, facts: Facts, principal: Principal, call: Call) -> GuardrailRequest:
        return guardrail_request(
            principal,
            facts.context,
            tool=call.tool,
            name=call.name,
            args=call.args,
            call_id=call.call_id,
            thread_id=facts.thread_id,
            run_id=facts.run_id,
            passport=self.passport,
        )

    def _principal(self, context: Any) -> Principal:
        return build_principal_from_context(context, default_role=None)

    def _arm(self, tools: Iterable[Any]) -> None:
        arm(tools, mandatory=False)

    def _irregularity(self, facts: Facts, turn: Turn) -> tuple[str, str] | None:
        return irregularity(facts, turn)

    def _stranger(self, facts: Facts, principal: Principal) -> tuple[str, str] | None:
        """Why `principal` may not go on with this run, or None."""
        return None

    def _version(self) -> str:
        version = getattr(self.provider, "policy_version", None)
        if not isinstance(version, str):
            version = getattr(self.provider, "version", None)
        return version if isinstance(version, str) else "unknown"

    async def _tool_call(self, request: ToolCallRequest, handler: Callable[..., Any], port: Port) -> Any:
        facts = facts_of(request)
        outer = FRAME.get()
        if outer is not None and outer.open and outer.owner is facts.runtime and outer.call_id == facts.call_id:
            return await self._joined(facts, outer, handler, port)
        turn = turn_of(request.state)
        if facts.call_id is not None and facts.call_id in turn.answered and turn.ids.count(facts.call_id) == 1:
            log.warning("%s: a call that was answered already did not run again", self.name)
            return _REPLAYED
        self._armed(facts)
        if (found := self._irregularity(facts, turn)) is not None:
            return self._refused(facts, None, *found)
        try:
            principal = self._principal(facts.context)
        except (TypeError, ValueError) as exc:
            log.warning("%s: malformed identity: %s", self.name, escaped(str(exc)))
            return self._refused(facts, None, "authz.malformed_identity", "the identity of the caller is not valid.")
        if (found := self._stranger(facts, principal)) is not None:
            return self._refused(facts, principal, *found)
        version = self._version()
        cleared = await self._decided(facts, principal, port)
        if cleared.decision.allow is not True or self._must_settle(facts):
            settlement = await self._settle(cleared, turn, port)
            if isinstance(settlement, ToolMessage):
                return settlement
            cleared, facts = settlement, settlement.facts
        self._leave(facts, principal, facts.name, cleared.decision, allowed=True)
        frame = self._frame(facts, principal, outer)
        if facts.tool is not None:
            frame.issue(cleared.call, version=version, signed=(self,), foreseen=cleared.foreseen)
        try:
            with opened(frame):
                result = await settled(handler(self._sealed(facts)))
        except TicketRefused as refused:
            return self._not_run(facts, principal, refused)
        return self._finished(cleared, result)

    def _must_settle(self, facts: Facts) -> bool:
        """Whether there is more to see to about a call that is allowed."""
        return False

    async def _joined(self, facts: Facts, frame: Frame, handler: Callable[..., Any], port: Port) -> Any:
        """Evaluate a call inside of the frame that an outer guard opened for it."""
        principal = frame.principal
        assert principal is not None  # noqa: S101 - every guard that opens a frame knows for whom
        frame.join(BodyGate(self, principal, facts))
        decided = await self._decided(facts, principal, port)
        if decided.decision.allow is not True:
            return await self._denied(facts, principal, decided.decision, port)
        self._leave(facts, principal, facts.name, decided.decision, allowed=True)
        frame.countersign(self, decided.call)
        return await settled(handler(facts.request))

    async def _decided(self, facts: Facts, principal: Principal, port: Port) -> Cleared:
        """Decide on the arguments as the body will receive them; on those sent when the tool will refuse them."""
        coming, foreseen = facts.args or {}, None
        if facts.tool is not None:
            coming, foreseen = foresee(facts.tool, coming, facts.call_id, facts.runtime)
        call = Call(facts.tool, facts.name, coming, facts.call_id)
        decision: Decision = await settled(port.evaluate(facts, principal, call))
        return Cleared(facts, principal, call, decision, foreseen)

    async def _settle(self, cleared: Cleared, turn: Turn, port: Port) -> Cleared | ToolMessage:
        """The call as it may run, or the denial. Reached by calls that are not plainly allowed."""
        return await self._denied(cleared.facts, cleared.principal, cleared.decision, port)

    async def _denied(self, facts: Facts, principal: Principal, decision: Decision, port: Port) -> ToolMessage:
        if decision.asks:  # reached by explicit guardrails only: they cannot tell which answer belongs to whom
            reasons = (GuardrailReason("authz.ask_unanswerable", "an explicit guardrail cannot ask a person"),)
            decision = GuardrailDecision(False, reasons, decision.policy_id, decision.policy_version)
        self._leave(facts, principal, facts.name, decision, allowed=False)
        named = decision.metadata.get("alternatives")
        others = [
            other
            for other in (named if isinstance(named, tuple) else ())
            if other in facts.registered and other != facts.name
        ]
        failed = decision.metadata.get("failure") is True
        shown = set() if failed else set(await settled(port.shown(principal, [facts.name, *others])))
        return denial(
            facts.name,
            facts.call_id,
            decision.reasons[0].code if decision.reasons else "authz.denied",
            scope="invocation" if failed or facts.name in shown else "tool",
            alternatives=tuple(other for other in others if other in shown),
        )

    def _refused(self, facts: Facts, principal: Principal | None, code: str, text: str) -> ToolMessage:
        """Refuse a call that no provider needs to be asked about."""
        decision = GuardrailDecision(False, (GuardrailReason(code, text),))
        self._leave(facts, principal, facts.name, decision, allowed=False)
        self._audit(facts, principal, decision)
        return denial(facts.name, facts.call_id, code, scope="invocation", text=text)

    def _audit(self, facts: Facts, principal: Principal | None, decision: Decision) -> None:
        """Record a decision that no provider was asked for."""

    def _not_run(self, facts: Facts, principal: Principal, refused: TicketRefused) -> ToolMessage:
        """The answer for a call whose body refused. Names no tool but the one that the model called."""
        code = safe_code(refused.code)
        decision = GuardrailDecision(False, (GuardrailReason(code, str(refused)),))
        self._leave(facts, principal, facts.name, decision, allowed=False)
        shown = shown_name(facts.name)
        what = f"this call of {shown}" if refused.tool == facts.name else f"a step inside of {shown}"
        return denial(
            facts.name,
            facts.call_id,
            code,
            scope="invocation",
            text=f"{what} is not permitted and did not run. Do not repeat it; choose another approach.",
        )

    def _leave(
        self,
        facts: Facts,
        principal: Principal | None,
        name: str,
        decision: Decision,
        *,
        allowed: bool,
        call_id: str | None = None,
    ) -> None:
        if allowed and "failure" not in decision.metadata:
            publish_allowed(self.name, decision, self._version(), facts.context, call_id or facts.call_id)
            return
        leave(
            Event(
                guard=self.name,
                tool_name=name,
                call_id=call_id or facts.call_id,
                context=facts.context,
                principal=principal,
                decision=decision,
                agent_id=self.passport,
                fail_closed=self.fail_closed,
                policy_version=self._version(),
            ),
            allowed=allowed,
        )

    def _armed(self, facts: Facts) -> None:
        try:
            self._arm(facts.registered.values())
            if facts.tool is not None and facts.registered.get(facts.name) is not facts.tool:
                self._arm((facts.tool,))
        except ConfigError as exc:
            log.error("%s: %s", self.name, exc)

    def _frame(self, facts: Facts, principal: Principal, outer: Frame | None) -> Frame:
        gates: tuple[Gate, ...] = (BodyGate(self, principal, facts),)
        if self.inner:
            gates += tuple(BodyGate(guard, principal, facts) for guard in self.inner)
        if outer is None or not outer.open or self._authorizes:
            return Frame(
                gates,
                registered=facts.registered,
                principal=principal,
                run_id=facts.run_id,
                call_id=facts.call_id,
                owner=facts.runtime,
                version=self._version,
                authorizes=self._authorizes,
            )
        # An explicit guardrail of an agent inside of a guarded tool: the guards of the outer call stay in force.
        return Frame(
            (*outer.gates, *gates),
            registered=facts.registered,
            principal=outer.principal,
            run_id=facts.run_id,
            call_id=facts.call_id,
            owner=facts.runtime,
            version=outer.version,
            authorizes=outer.authorizes,
        )

    _authorizes = False

    def _sealed(self, facts: Facts) -> ToolCallRequest:
        request = facts.request
        return WatchedToolCallRequest(request.tool_call, request.tool, request.state, request.runtime)

    def _finished(self, cleared: Cleared, result: Any) -> Any:
        """`result`, unless it is the tool node's list of every registered name."""
        facts = cleared.facts
        if not lists_tools(result):
            return result
        text = f"there is no tool named {shown_name(facts.name)}. Use one of the tools that you were given."
        decision = GuardrailDecision(False, (GuardrailReason("authz.unknown_tool", text),))
        self._leave(facts, cleared.principal, facts.name, decision, allowed=False)
        return denial(facts.name, facts.call_id, "authz.unknown_tool", scope="tool", text=text)


def _node_name(name: str) -> str:
    """`name` as LangGraph takes it for a graph node."""
    return _UNSAFE_IN_A_NODE_NAME.sub("_", name)
