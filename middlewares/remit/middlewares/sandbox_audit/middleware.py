"""The audit around every call that runs a command or touches files in a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError, TicketRefused
from remit.authz.gates.arming import arm, foresee
from remit.authz.tickets import FRAME, Call, Foreseen, Frame, opened
from remit.middlewares.events import log
from remit.middlewares.results import EVERY_CALL, MISSING_ID, denial, map_messages, shown_name
from remit.middlewares.sandbox_audit.gate import AuditGate, Judgement, code_of, subject_of
from remit.middlewares.sandbox_audit.ruling import Finding
from remit.middlewares.sealed import WatchedToolCallRequest
from remit.middlewares.shells import run_now, settled
from remit.middlewares.tool_result_meta import failure, stamped
from remit.middlewares.transforms import append_tool_transform
from remit.runtime.capabilities import Capabilities
from remit.runtime.release import canonical_hash

_BLOCKED: Final = "Command blocked: {why} ({code}). It did not run. Do not repeat it; find another way."
_WARNED: Final = "Warning: this command ran, but {why} ({code})."
_UNNAMED: Final = "it is not permitted here"


class SandboxAuditMiddleware(AgentMiddleware[Any, Any, Any]):
    """Looks at every command before it runs, blocks or flags dangerous ones, and writes a record of each call.

    Any tool that declares the capability ``executes_command`` is looked at; calls that read or write files are recorded
    beside them. The audit is one of the gates of the call's frame: a call that is rewritten further in, or whose tool
    is exchanged, is looked at again in the form in which it reaches the tool.

    This is defence in depth and a trail, not the boundary; the sandbox is.

    Args:
        enforcer: Asked about each rule that matches (``command:execute``); None leaves the verdicts as they are.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, enforcer: Enforcer | None = None) -> None:
        super().__init__()
        self._judgement = Judgement(enforcer)

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        from remit.middlewares.sandbox_audit.rules import RULES

        return {
            "policy": self._judgement.enforcer is not None,
            "rules": canonical_hash([[rule.id, rule.severity, rule.message] for rule in RULES]),
            "texts": canonical_hash([_BLOCKED, _WARNED, _UNNAMED]),
        }

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Judge the call; run it through `handler`, or answer it."""
        return run_now(self._tool_call(request, handler, soon=False))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        return await self._tool_call(request, handler, soon=True)

    async def _tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Any], *, soon: bool
    ) -> ToolMessage | Command[Any]:
        name, call_id = _names(request)
        can = self._judgement.declared_by(request.tool, name)
        frame = FRAME.get()
        if frame is None or not frame.open or frame.owner is not request.runtime or frame.call_id != call_id:
            return await self._alone(request, handler, can, frame, soon=soon)
        frame.join(AuditGate(self, self._judgement, request.runtime))
        gate = cast("AuditGate", next(one for one in frame.gates if one.key is self))  # an earlier pass may have joined
        call = frame.issued(request.tool, call_id) or _foreseen(request, name, call_id)[0]
        finding = await gate.arriving(call, can, soon=soon)
        if finding is not None and finding.verdict == "block":
            return _blocked(finding, name, call_id)
        frame.countersign(self, call)
        try:
            result = await settled(handler(request))
        except TicketRefused as refused:
            if gate.blocked is None or code_of(gate.blocked) != refused.code:
                raise
            return _blocked(gate.blocked, name, call_id)
        return _flagged(result, gate, call_id)

    async def _alone(
        self,
        request: ToolCallRequest,
        handler: Callable[..., Any],
        can: Capabilities | None,
        outer: Frame | None,
        *,
        soon: bool,
    ) -> ToolMessage | Command[Any]:
        """Judge a call that no guard opened a frame for. A command gets one of our own: it cannot change on its way."""
        name, call_id = _names(request)
        if can is not None and can.executes_command is None:
            args: Any = request.tool_call.get("args")
            subject = subject_of(request.runtime)
            self._judgement.noted(can, name, call_id, args if isinstance(args, dict) else {}, subject)
            return cast("ToolMessage | Command[Any]", await settled(handler(request)))
        gate = AuditGate(self, self._judgement, request.runtime)
        call, foreseen = _foreseen(request, name, call_id)
        finding = await gate.arriving(call, can, soon=soon)
        if finding is not None and finding.verdict == "block":
            return _blocked(finding, name, call_id)
        if request.tool is None or not _is_armed(request.tool):
            return _flagged(await settled(handler(request)), gate, call_id)
        frame = _frame(gate, request, call_id, outer, self._judgement.version)
        frame.issue(call, version=frame.version(), signed=(self,), foreseen=foreseen)
        sealed = WatchedToolCallRequest(request.tool_call, request.tool, request.state, request.runtime)
        try:
            with opened(frame):
                result = await settled(handler(sealed))
        except TicketRefused as refused:
            if gate.blocked is not None and code_of(gate.blocked) == refused.code:
                return _blocked(gate.blocked, name, call_id)
            text = f"this call of {shown_name(name)} changed on its way and did not run. Do not repeat it."
            answer = denial(name, call_id, refused.code, scope="invocation", text=text)
            return stamped(answer, failure("permission", "tool_return"))
        return _flagged(result, gate, call_id)


def _names(request: ToolCallRequest) -> tuple[str, str | None]:
    name, call_id = request.tool_call.get("name"), request.tool_call.get("id")
    return name if isinstance(name, str) else "", call_id if isinstance(call_id, str) and call_id else None


def _foreseen(request: ToolCallRequest, name: str, call_id: str | None) -> tuple[Call, Foreseen | None]:
    """The call with the arguments that its tool will receive; with those sent when there is no tool."""
    sent: Any = request.tool_call.get("args")
    args = {key: value for key, value in sent.items() if isinstance(key, str)} if isinstance(sent, dict) else {}
    if request.tool is None:
        return Call(None, name, args, call_id), None
    coming, foreseen = foresee(request.tool, args, call_id, request.runtime)
    return Call(request.tool, name, coming, call_id), foreseen


def _is_armed(tool: Any) -> bool:
    """Whether the body of `tool` will ask for a ticket."""
    try:
        arm((tool,), mandatory=False)
    except ConfigError as exc:
        log.error("sandbox_audit: %s", exc)
        return False
    return True


def _frame(
    gate: AuditGate, request: ToolCallRequest, call_id: str | None, outer: Frame | None, version: Callable[[], str]
) -> Frame:
    """A frame with the audit as its gate; inside of a guarded tool the guards of the outer call stay in force."""
    around = outer if outer is not None and outer.open else None
    return Frame(
        (gate,) if around is None else (*around.gates, gate),
        principal=None if around is None else around.principal,
        run_id=subject_of(request.runtime).run_id,
        call_id=call_id,
        owner=request.runtime,
        version=version if around is None else around.version,
        authorizes=around is not None and around.authorizes,
    )


def _blocked(finding: Finding, name: str, call_id: str | None) -> ToolMessage:
    """The answer to a command that does not run."""
    code = code_of(finding)
    why = finding.message if finding.classified == "block" and finding.message else _UNNAMED
    message = ToolMessage(
        _BLOCKED.format(why=why.rstrip("."), code=code),
        name=name or "unnamed",
        tool_call_id=call_id or MISSING_ID,
        status="error",
        artifact={
            "code": code,
            "rule_id": finding.rule_id,
            "span": None if finding.span is None else list(finding.span),
            "verdict": "block",
        },
    )
    return stamped(message, failure("permission", "tool_return"))


def _flagged(result: Any, gate: AuditGate, call_id: str | None) -> ToolMessage | Command[Any]:
    """`result` with a warning for every finding about what ran."""
    if not gate.warned:
        return cast("ToolMessage | Command[Any]", result)
    found = {code_of(finding): finding.message.rstrip(".") or _UNNAMED for finding in gate.warned}
    note = "\n".join(_WARNED.format(why=why, code=code) for code, why in found.items())
    flagged = map_messages(result, lambda message: _noted(message, note), call_id=call_id or EVERY_CALL)
    return cast("ToolMessage | Command[Any]", flagged)


def _noted(message: ToolMessage, note: str) -> ToolMessage:
    content: Any = message.content
    if isinstance(content, str):
        content = f"{content}\n\n{note}" if content else note
    elif isinstance(content, (list, tuple)):
        content = [*content, {"type": "text", "text": note}]
    else:
        content = note
    changed = message.model_copy(update={"content": content})
    return append_tool_transform(changed, "annotated", by="SandboxAuditMiddleware")
