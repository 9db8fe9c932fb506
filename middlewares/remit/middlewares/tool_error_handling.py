"""Innermost around a tool: whatever it does, the model reads a result, and the run goes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, cast

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from langgraph.types import Command

from remit.authz import wire
from remit.authz.errors import ConfigError, SandboxAuthorizationError, TicketRefused
from remit.middlewares.error_details import MAX_DETAIL, error_detail
from remit.middlewares.events import log
from remit.middlewares.result_shapes import CallNames, UnusableResult, well_shaped
from remit.middlewares.results import EVERY_CALL, denial, map_messages, safe_code, shown_name
from remit.middlewares.shells import run_now, settled
from remit.middlewares.skill_reads import skill_entry
from remit.middlewares.tool_result_meta import (
    RULES,
    ToolOutcome,
    failure,
    kind_of,
    normalize_tool_result,
    stamped,
    well_formed,
)
from remit.middlewares.transforms import transforms_of
from remit.runtime.capabilities import Capabilities, capabilities_of
from remit.runtime.config import AppConfig
from remit.runtime.release import canonical_hash
from remit.runtime.reserved import REGISTRY, Input, Kind

_SERVER_OWNED: Final = frozenset(
    item.key for item in REGISTRY.values() if item.kind is Kind.METADATA and item.input is not Input.CLIENT
)
_NORMALIZER: Final = getattr(getattr(ToolNode, "_normalize_tool_response", None), "__code__", None)
_KINDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (PermissionError, "permission"),
    (FileNotFoundError, "not_found"),
    (TimeoutError, "transient"),
    (asyncio.TimeoutError, "transient"),
    (ConnectionError, "transient"),
)
_MIN_ECHO: Final = 3
"""Shorter arguments are not looked for in the text of an error."""
_HINT: Final = "Go on with what you have, or choose another tool."
_RAN: Final = "It may have taken effect all the same: do not simply repeat the call."


class ToolErrorHandlingMiddleware(AgentMiddleware[Any, Any, Any]):
    """Turns a failing tool into an error message, brings every result into order, and says what became of the call.

    Interrupts, cancellation and refusals of the guards pass. Metadata that only the server writes is taken off what a
    tool hands back, so that every later slot may believe what it finds there.

    Args:
        config: The deployment: which tools read skills, and which values must not be shown.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, config: AppConfig) -> None:
        super().__init__()
        self._skill_readers = frozenset(config.skills.read_tools)
        self._masked = dict(config.sandbox.environment)

    def release_policy_parameters(self) -> dict[str, object]:
        """Everything in its settings that changes what it does."""
        return {
            "skill_read_tools": sorted(self._skill_readers),
            "masked_variables": sorted(self._masked),
            "detail_max_chars": MAX_DETAIL,
            "rules": canonical_hash([(kind, pattern.pattern, *rest) for kind, pattern, *rest in RULES]),
            "texts": canonical_hash([_HINT, _RAN]),
        }

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call and answer it in any case."""
        return run_now(self._tool_call(request, handler))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        return await self._tool_call(request, handler)

    async def _tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> ToolMessage | Command[Any]:
        call = CallNames.of(request.tool_call)
        try:
            result = await settled(handler(request))
        except Exception as exc:
            if (signal := _signal(exc)) is not None:
                if signal is exc:
                    raise
                raise signal from exc
            return self._failed(request, call, exc)
        try:
            return cast("ToolMessage | Command[Any]", self._finished(request, call, result))
        except UnusableResult as exc:
            return self._unusable(request, call, str(exc))
        except Exception as exc:
            log.exception("the result of the tool %r could not be read", call.tool)
            return self._unusable(request, call, f"reading what it returned failed with {type(exc).__name__}")

    def _finished(self, request: ToolCallRequest, call: CallNames, result: Any) -> Any:
        shaped = well_shaped(result, call, getattr(request.runtime, "config", None))
        can = _capabilities(request, call)

        def finish(message: ToolMessage) -> ToolMessage:
            message = _own(message, delegates=can.delegates)
            if message.tool_call_id != call.call_id:
                return message
            message = normalize_tool_result(message, tool_name=call.tool, capabilities=can)
            return self._with_skill(request, call, message, can)

        return map_messages(shaped, finish, call_id=EVERY_CALL)

    def _with_skill(
        self, request: ToolCallRequest, call: CallNames, message: ToolMessage, can: Capabilities
    ) -> ToolMessage:
        if call.tool not in self._skill_readers:
            return message
        entry = skill_entry(message, request.tool_call.get("args"), can.reads_file or "path")
        if entry is None:
            return message
        kwargs = {**message.additional_kwargs, wire.SKILL_CONTEXT_ENTRY: entry}
        return message.model_copy(update={"additional_kwargs": kwargs})

    def _failed(self, request: ToolCallRequest, call: CallNames, error: Exception) -> ToolMessage:
        can = _capabilities(request, call)
        if isinstance(error, SandboxAuthorizationError):
            return _delegated(_no_sandbox(call, error), can)
        if _after_the_body(error):
            log.warning("the tool %r returned what the graph does not take: %s", call.tool, type(error).__name__)
            return self._unusable(request, call, "what it returned does not fit the graph")
        log.warning("the tool %r failed", call.tool, exc_info=error)
        detail = error_detail(error, secrets=self._masked.values())
        said = f": {detail}" if detail else ""
        text = f"Error: the tool {shown_name(call.tool)} failed with {type(error).__name__[:80]}{said}\n{_HINT}"
        kind = next((kind for of, kind in _KINDS if isinstance(error, of)), None)
        if kind is None:
            kind = kind_of(_without_echo(detail, request.tool_call.get("args")))
        meta = failure(kind, "exception", sure=not can.remote_content)
        return _delegated(stamped(_error(call, text), meta), can)

    def _unusable(self, request: ToolCallRequest, call: CallNames, why: str) -> ToolMessage:
        text = f"Error: the tool {shown_name(call.tool)} ran, but its result cannot be used: {why}. {_RAN}\n{_HINT}"
        return _delegated(stamped(_error(call, text), failure("unknown", "exception")), _capabilities(request, call))


def _signal(error: Exception) -> BaseException | None:
    """The exception in `error` that is for somebody further out; None for a plain failure."""
    found = [one for one in _leaves(error) if isinstance(one, (GraphBubbleUp, TicketRefused)) or is_invalid_resume(one)]
    return next((one for one in found if isinstance(one, TicketRefused)), found[0] if found else None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        else:
            yield one


def _after_the_body(error: BaseException) -> bool:
    """Whether the tool node raised `error` over what the tool had handed back."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is _NORMALIZER:
            return True
        trace = trace.tb_next
    return False


def _capabilities(request: ToolCallRequest, call: CallNames) -> Capabilities:
    try:
        return capabilities_of(request.tool, call.tool)
    except ConfigError:  # the slots that depend on them refuse the call; here the tool has run already
        return Capabilities()


def _own(message: ToolMessage, *, delegates: bool) -> ToolMessage:
    """`message` as a plain one, with a stamp only where code of this process made it, and nothing else of the server's.

    The status of a delegation is written by the tool that delegates, and the trail of changes by wrappers around it.
    """
    meta = None
    if isinstance(message, ToolOutcome):
        meta = well_formed(message.meta)
        message = ToolMessage.model_construct(**{name: getattr(message, name) for name in ToolMessage.model_fields})
    kwargs = message.additional_kwargs
    if not _SERVER_OWNED.isdisjoint(kwargs):
        trail = transforms_of(message)
        kept = {wire.SUBAGENT_STATUS} if delegates else set()
        kwargs = {key: value for key, value in kwargs.items() if key not in _SERVER_OWNED or key in kept}
        if trail:
            kwargs[wire.TOOL_TRANSFORMS] = trail
        message = message.model_copy(update={"additional_kwargs": kwargs})
    if meta is None:
        return message
    if message.status == "error" and meta["status"] != "error":
        meta = failure("unknown", "tool_return")
    return stamped(message, meta)


def _error(call: CallNames, text: str) -> ToolMessage:
    return ToolMessage(text, name=call.tool, tool_call_id=call.call_id, status="error")


def _no_sandbox(call: CallNames, error: SandboxAuthorizationError) -> ToolMessage:
    codes = error.details.get("reason_codes")
    code = codes[0] if isinstance(codes, (list, tuple)) and codes else "authz.denied"
    text = f"{shown_name(call.tool)} needs a sandbox, and this run may not use one. Choose an approach without it."
    message = denial(call.tool, call.call_id, safe_code(code), scope="invocation", text=text)
    return stamped(message, failure("permission", "exception"))


def _delegated(message: ToolMessage, can: Capabilities) -> ToolMessage:
    """`message`, which for a tool that delegates says that the delegation failed."""
    if not can.delegates:
        return message
    kwargs = {**message.additional_kwargs, wire.SUBAGENT_STATUS: "failed"}
    return message.model_copy(update={"additional_kwargs": kwargs})


def _without_echo(text: str, args: Any) -> str:
    """`text` without the arguments of the call, which say nothing about what went wrong."""
    if isinstance(args, Mapping):
        for value in args.values():
            if isinstance(value, str) and len(value) >= _MIN_ECHO:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", " ", text) if len(value) < 1_000 else text
    return text
