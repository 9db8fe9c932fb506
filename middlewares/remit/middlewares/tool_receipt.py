"""Gives every tool result a receipt, and shows the model the ledger of them where it needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, get_args

from langchain.agents.middleware.types import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    TracePolicy,
    omit_payload,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz import wire
from remit.authz.errors import ConfigError
from remit.middlewares.authorship import sealed_message
from remit.middlewares.events import log
from remit.middlewares.provenance import provenance_kwargs, provenance_of
from remit.middlewares.receipt_ledger import HEAD, MAX_LEDGER, Shown, next_seq, numbered, rendered, snapshot
from remit.middlewares.receipts import Scope, make_receipt, receipts_in, with_receipt
from remit.middlewares.result_shapes import CallNames
from remit.middlewares.results import EVERY_CALL, map_messages
from remit.middlewares.shells import run_now, settled
from remit.middlewares.tool_result_meta import meta_of
from remit.runtime.capabilities import capabilities_of
from remit.runtime.config import VerificationConfig
from remit.runtime.release import canonical_hash
from remit.runtime.signing import signer

RenderMode = Literal["always", "delegation_only"]
DELEGATION_STATUSES: Final = frozenset({"completed", "failed", "cancelled", "timed_out", "polling_timed_out"})
"""What a subagent's result may say of itself."""


class ToolReceiptMiddleware(AgentMiddleware[Any, Any, Any]):
    """Outside of everything that may answer a call itself, so that refused and blocked calls have receipts too.

    A fault in here costs a receipt or a ledger, never the call: it is logged.

    Args:
        config: Whether and when the ledger is shown.
        render_mode: Instead of the configuration's. ``"always"``: at every model call; ``"delegation_only"``: only
            while a subagent's result of the current user turn is in play.

    Raises:
        ConfigError: The signing key cannot be used.
        ValueError: There is no such mode.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, config: VerificationConfig, *, render_mode: str | None = None) -> None:
        super().__init__()
        mode = render_mode or config.receipts_render_mode
        if mode not in get_args(RenderMode):
            raise ValueError(f"there is no render mode {mode!r}; known: {', '.join(get_args(RenderMode))}")
        self._mode = mode
        signer()  # here and not at the first call: the key may have to be read from disk

    def release_policy_parameters(self) -> dict[str, object]:
        """Everything in its settings that changes what it does."""
        return {"render_mode": self._mode, "ledger_max_chars": MAX_LEDGER, "ledger_head": canonical_hash(HEAD)}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call and stamp its result."""
        result: ToolMessage | Command[Any] = self._stamped(request, handler(request))
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        result: ToolMessage | Command[Any] = self._stamped(request, await handler(request))
        return result

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Show the ledger for this one call, and note on the answer what was shown."""
        return run_now(self._model_call(request, handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        return await self._model_call(request, handler)

    def _stamped(self, request: ToolCallRequest, result: Any) -> Any:
        try:
            return _with_receipts(request, result)
        except Exception:
            log.warning("a result of the tool %r has no receipt", request.tool_call.get("name"), exc_info=True)
            return result

    async def _model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        shown: list[Shown] = []
        scope = Scope(None, None)
        try:
            messages = messages_in(request.state) or request.messages
            if self._mode == "always" or _has_delegation(messages, request.tools):
                scope = Scope.of(request.runtime)
                if receipts := receipts_in(messages, scope):
                    text, shown = rendered(numbered(receipts))
                    request = _with_ledger(request, text)
        except Exception:
            log.warning("the ledger of receipts could not be shown", exc_info=True)
            shown = []
        response = await settled(handler(request))
        try:
            return _marked(response, snapshot(shown, scope) if shown else None)
        except Exception:
            log.warning("an answer does not say which receipts were shown", exc_info=True)
            return response


def messages_in(state: Any) -> Sequence[Any]:
    """The conversation in `state`: a mapping, an object with ``messages``, or the list itself."""
    if isinstance(state, Mapping):
        found = state.get("messages")
    else:
        found = state if isinstance(state, list) else getattr(state, "messages", None)
    return found if isinstance(found, (list, tuple)) else ()


def _with_receipts(request: ToolCallRequest, result: Any) -> Any:
    call = CallNames.of(request.tool_call)
    scope = Scope.of(request.runtime)
    seq = next_seq(messages_in(request.state), scope, request.tool_call.get("id"))

    def stamp(message: ToolMessage) -> ToolMessage:
        nonlocal seq
        receipt = make_receipt(
            message,
            tool_name=call.tool,
            args=request.tool_call.get("args"),
            status=_status(message),
            seq=seq,
            scope=scope,
        )
        seq += 1
        return with_receipt(message, receipt)

    # A message handed back on its own is the answer, whatever id a gate could give it.
    return map_messages(result, stamp, call_id=EVERY_CALL if isinstance(result, ToolMessage) else call.call_id)


def _status(message: ToolMessage) -> str:
    """What became of the call, by the final message: an error is never called a success."""
    meta = meta_of(message)
    return message.status if message.status == "error" or meta is None else meta["status"]


def _has_delegation(messages: Sequence[Any], tools: Sequence[Any]) -> bool:
    """Whether a subagent has answered since the user last spoke."""
    by_name: dict[str, Any] | None = None
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            status = message.additional_kwargs.get(wire.SUBAGENT_STATUS)
            if isinstance(status, str) and status in DELEGATION_STATUSES:
                if by_name is None:
                    by_name = {tool.name: tool for tool in tools if hasattr(tool, "name")}
                if _delegates(by_name.get(message.name or ""), message.name or ""):
                    return True
        elif isinstance(message, HumanMessage) and _is_real(message):
            return False
    return False


def _delegates(tool: Any, name: str) -> bool:
    try:
        return capabilities_of(tool, name).delegates
    except ConfigError:
        return False


def _is_real(message: HumanMessage) -> bool:
    """Whether a person wrote `message`: hidden and injected ones are not, answers to a question of ours are."""
    kwargs = message.additional_kwargs
    if kwargs.get(wire.HUMAN_INPUT_RESPONSE) is not None:
        return True
    return kwargs.get(wire.HIDE_FROM_UI) is not True and provenance_of(message) is None


def _with_ledger(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    kwargs = {
        wire.HIDE_FROM_UI: True,
        wire.TOOL_RECEIPT_CONTEXT: True,
        **provenance_kwargs("middleware_injection", "tool_receipt"),
    }
    ledger = sealed_message(HumanMessage(text, additional_kwargs=kwargs))
    messages = list(request.messages)
    at = next((index for index, one in enumerate(messages) if not isinstance(one, SystemMessage)), len(messages))
    messages.insert(at, ledger)
    return request.override(messages=messages)


def _marked(response: Any, shown: dict[str, Any] | None) -> Any:
    """`response`, whose answers say which receipts were shown, and nothing else about it."""
    if isinstance(response, ExtendedModelResponse):
        inner = _marked(response.model_response, shown)
        return response if inner is response.model_response else replace(response, model_response=inner)
    if isinstance(response, ModelResponse):
        result = [_marked(message, shown) for message in response.result]
        same = all(new is old for new, old in zip(result, response.result, strict=True))
        return response if same else replace(response, result=result)
    if not isinstance(response, AIMessage):
        return response
    kwargs = response.additional_kwargs
    if shown is None:
        if wire.TOOL_RECEIPT_SNAPSHOT not in kwargs:
            return response
        kwargs = {key: value for key, value in kwargs.items() if key != wire.TOOL_RECEIPT_SNAPSHOT}
    else:
        kwargs = {**kwargs, wire.TOOL_RECEIPT_SNAPSHOT: shown}
    return response.model_copy(update={"additional_kwargs": kwargs})
