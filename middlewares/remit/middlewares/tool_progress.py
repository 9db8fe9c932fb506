"""A tool that brings nothing new is pointed out to the model, and one that cannot work is stopped for the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, TracePolicy, omit_payload
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz import wire
from remit.authz.principal import read
from remit.middlewares.events import log
from remit.middlewares.progress_tracking import Category, Change, ProgressTracker
from remit.middlewares.provenance import provenance_kwargs
from remit.middlewares.results import MISSING_ID, escaped, map_messages, shown_name
from remit.middlewares.shells import run_now, settled
from remit.middlewares.tool_result_meta import ToolMeta, meta_of, stamped, text_of
from remit.runtime.config import ToolProgressConfig
from remit.runtime.identity import resolve_runtime_user_id, runtime_run_id, runtime_thread_id
from remit.runtime.journal import record
from remit.runtime.release import canonical_hash

_NAME: Final = "ToolProgressMiddleware"
_HINTS: Final[dict[Category, str]] = {
    "recoverable": "{tool} has failed {count} times in a row ({kind}). Write the call differently, use another tool, "
    "or go on with what you have.",
    "repeated": "{tool} has brought nothing new in {count} results in a row. Use what you have, ask for something "
    "else, or come to an end.",
    "persistent": "{tool} has failed {count} times in a row ({kind}), for a reason that another call will not change. "
    "Use another tool or go on without it; it will be stopped otherwise.",
    "fatal": "{tool} cannot work in this run ({kind}) and was stopped. Go on without it, and say what is missing.",
}
_STOPPED: Final = (
    "[TOOL_BLOCKED] {tool} was stopped for this run, because it keeps failing ({kind}). This call did not run. Sum up "
    "what you have, or use another tool."
)
_META: Final = ToolMeta(
    status="error",
    error_type="blocked_by_progress_guard",
    recoverable_by_model=True,
    recommended_next_action="summarize",
    source="progress_middleware",
)


class ToolProgressMiddleware(AgentMiddleware[Any, Any, Any]):
    """Watches the results of each tool of a thread: hints when nothing new comes, and stops what cannot work.

    It reads the stamp that the tool error handling puts on results, so that stands further in. Hints reach the model
    with its next call and are repeated until one of its calls succeeds.

    Args:
        config: Thresholds, exempt tools, bounds.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, config: ToolProgressConfig) -> None:
        super().__init__()
        self._config = config
        self._exempt = frozenset(config.exempt_tools)
        self._tracker = ProgressTracker(config)
        self._told_unstamped = False

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return {**self._config.model_dump(mode="json"), "texts": canonical_hash([_HINTS, _STOPPED])}

    def before_agent(self, state: Any, runtime: Any) -> None:
        """A new run begins with a clean slate."""
        self._tracker.begin(_scope(runtime), _run(runtime))

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        """The asynchronous form of `before_agent`."""
        self.before_agent(state, runtime)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call and take note of its result, unless the tool was stopped."""
        return run_now(self._tool_call(request, handler))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        return await self._tool_call(request, handler)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Call the model, with a hint where there is one."""
        return run_now(self._model_call(request, handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        return await self._model_call(request, handler)

    async def _model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        scope, run = _scope(request.runtime), _run(request.runtime)
        hints = self._tracker.hints(scope, run)
        if not hints:
            return await settled(handler(request))
        result = await settled(handler(request.override(messages=[*request.messages, _hint_message(hints)])))
        self._tracker.told(scope, run, hints)  # not before: a call that failed is made again, with the same hints
        return result

    async def _tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> ToolMessage | Command[Any]:
        name, call_id = request.tool_call.get("name"), request.tool_call.get("id")
        if request.tool is None or not isinstance(name, str) or name in self._exempt:
            return cast("ToolMessage | Command[Any]", await settled(handler(request)))
        scope = _scope(request.runtime)
        kind = self._tracker.blocked(scope, name)
        if kind is not None:
            return _stopped(name, call_id, kind)
        result = await settled(handler(request))
        answer = _answer(result, call_id)
        if answer is not None:
            self._observe(request, scope, name, answer)
        return cast("ToolMessage | Command[Any]", result)

    def _observe(self, request: ToolCallRequest, scope: Hashable, name: str, answer: ToolMessage) -> None:
        meta = meta_of(answer)
        if meta is None:
            if not self._told_unstamped:
                self._told_unstamped = True
                log.warning("tool_progress: results carry no stamp; the tool error handling must stand further in")
            return
        change = self._tracker.observe(scope, name, meta, text_of(answer))
        if change is None:
            return
        if self._config.inject_assessment:
            self._tracker.hint(scope, _run(request.runtime), name, _hint(name, change))
        if change.blocked_now:
            _report(request, name, change)


def _scope(runtime: Any) -> Hashable:
    """Whose tools these are: those of a thread, or of one run of a subagent, which shares nothing with its parent."""
    try:
        thread, user = runtime_thread_id(runtime) or "", resolve_runtime_user_id(runtime)
    except ValueError:
        thread, user = "", ""
    context = getattr(runtime, "context", None)
    if read(context, wire.IS_SUBAGENT) is not True:
        return (user, thread) if thread else (user, "", _run(runtime))
    agent = read(context, wire.AGENT_NAME)
    info = getattr(runtime, "execution_info", None)
    return user, thread, _run(runtime), getattr(info, "run_id", None), agent if isinstance(agent, str) else ""


def _run(runtime: Any) -> str:
    return runtime_run_id(runtime) or ""


def _answer(result: Any, call_id: Any) -> ToolMessage | None:
    """The message in `result` that answers the call."""
    found: list[ToolMessage] = []

    def keep(message: ToolMessage) -> ToolMessage:
        found.append(message)
        return message

    map_messages(result, keep, call_id=call_id)
    return found[0] if found else None


def _hint(name: str, change: Change) -> str:
    kind = escaped(change.error_type or "unknown")
    text = _HINTS["fatal" if change.blocked_now else change.category]
    return text.format(tool=shown_name(name), count=change.problems, kind=kind)


def _hint_message(hints: tuple[str, ...]) -> HumanMessage:
    return HumanMessage(
        content="[PROGRESS HINT] " + "\n[PROGRESS HINT] ".join(hints),
        name="progress_hint",
        additional_kwargs={**provenance_kwargs("middleware_injection", entity_id=_NAME), wire.HIDE_FROM_UI: True},
    )


def _stopped(name: str, call_id: Any, kind: str) -> ToolMessage:
    message = ToolMessage(
        _STOPPED.format(tool=shown_name(name), kind=escaped(kind)),
        name=name,
        tool_call_id=call_id if isinstance(call_id, str) and call_id else MISSING_ID,
        status="error",
    )
    return stamped(message, _META)


def _report(request: ToolCallRequest, name: str, change: Change) -> None:
    context = getattr(request.runtime, "context", None)
    tool, kind = escaped(name[:200]), escaped(change.error_type or "unknown")
    log.warning("tool_progress: the tool %r was stopped: %s", tool, kind)
    call_id = request.tool_call.get("id")
    record(
        context,
        "tool_progress",
        name=_NAME,
        hook="wrap_tool_call",
        action="block_tool",
        changes={
            "tool_name": tool,
            "tool_call_id": escaped(call_id[:200]) if isinstance(call_id, str) else None,
            "is_subagent": read(context, wire.IS_SUBAGENT) is True,
            "category": change.category,
            "error_type": kind,
            "problems": change.problems,
        },
    )
