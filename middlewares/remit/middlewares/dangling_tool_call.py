"""Conversations that were broken off are made acceptable again, in the request to the model alone."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Final

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, TracePolicy, omit_payload
from langchain_core.messages import BaseMessage, ToolMessage

from remit.authz.errors import ConfigError
from remit.authz.gates.tools import tool_name
from remit.middlewares.provenance import provenance_kwargs
from remit.middlewares.results import escaped, shown_name
from remit.middlewares.shells import run_now, settled
from remit.middlewares.toolcall_repair import Repair, is_intact, repaired
from remit.middlewares.toolcall_views import Call
from remit.runtime.capabilities import capabilities_of
from remit.runtime.identity import runtime_thread_id
from remit.runtime.journal import record
from remit.runtime.release import canonical_hash

log = logging.getLogger("remit.middlewares")

MAX_DETAIL: Final = 500
"""Characters of what a parser said, in the text that the model reads."""
MAX_TOLD: Final = 512
MAX_IDS: Final = 20

_INTERRUPTED: Final = (
    "Error: this call of {name} was interrupted and has no result. It may have run in part or not at all: check what "
    "it did before you repeat it."
)
_UNNAMED: Final = "Error: this call named no tool, so nothing ran. Call one of your tools by its name."
_MALFORMED: Final = (
    "Error: the arguments of this call of {name} {detail}. Nothing ran. Send the call again with one valid JSON object."
)
_UNWRITTEN: Final = (
    "Error: the arguments of this call of {name} {detail}. Nothing was written. Do not send the same large content in "
    "one piece again: write the file in several smaller parts, or give the content in your answer."
)


class DanglingToolCallMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives every tool call in a request exactly one result, right behind the message that made it.

    Calls without a result get one that says so, results that stand elsewhere are moved, results without a call are left
    out, and names, ids and arguments that a strict provider would refuse are put right. The state keeps what was really
    said. A conversation that is in order is passed on as the very same list.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self) -> None:
        super().__init__()
        self._told: OrderedDict[Hashable, None] = OrderedDict()
        """Repairs that were reported already: the same ones are made at every call of a thread."""

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return {"placeholders": canonical_hash([_INTERRUPTED, _UNNAMED, _MALFORMED, _UNWRITTEN])}

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Call the model with a conversation in order."""
        return run_now(self._model_call(request, handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        return await self._model_call(request, handler)

    async def _model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        messages: Sequence[BaseMessage] = request.messages
        offered = _Offered(request.tools)
        if is_intact(messages, offered):
            return await settled(handler(request))
        repair = repaired(messages, offered, lambda call: _placeholder(call, offered))
        if repair is None:
            return await settled(handler(request))
        messages_sent: list[Any] = repair.messages
        result = await settled(handler(request.override(messages=messages_sent)))
        self._tell(repair, request.runtime)
        return result

    def _tell(self, repair: Repair, runtime: Any) -> None:
        """Report a repair once."""
        try:
            thread_id = runtime_thread_id(runtime)
        except ValueError:
            thread_id = None
        key = (thread_id, repair.unanswered, repair.dropped, repair.moved, repair.rewritten)
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > MAX_TOLD:
            self._told.popitem(last=False)
        log.warning(
            "%s: %d calls without a result, %d results without a call, %d results moved, %d messages rewritten",
            self.name,
            len(repair.unanswered),
            len(repair.dropped),
            repair.moved,
            repair.rewritten,
        )
        record(
            getattr(runtime, "context", None),
            "dangling_tool_call",
            name=self.name,
            hook="wrap_model_call",
            action="repair_history",
            changes={
                "unanswered": len(repair.unanswered),
                "dropped": len(repair.dropped),
                "moved": repair.moved,
                "rewritten": repair.rewritten,
                "unanswered_ids": [escaped(call_id[:64]) for call_id in repair.unanswered[:MAX_IDS]],
                "dropped_ids": [escaped(call_id[:64]) for call_id in repair.dropped[:MAX_IDS]],
            },
        )


class _Offered:
    """The tools of a request by name, looked up only when there is a question about one."""

    __slots__ = ("_by_name", "_tools")

    def __init__(self, tools: Sequence[Any]) -> None:
        self._tools = tools
        self._by_name: dict[str, Any] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._named()

    def get(self, name: str) -> Any:
        return self._named().get(name)

    def _named(self) -> dict[str, Any]:
        if self._by_name is None:
            self._by_name = {name: tool for tool in self._tools or () if (name := tool_name(tool))}
        return self._by_name


def _placeholder(call: Call, offered: _Offered) -> ToolMessage:
    """The result of a call that has none."""
    name = shown_name(call.original_name if isinstance(call.original_name, str) else call.name)
    if call.cause == "unnamed":
        text = _UNNAMED
    elif call.cause == "malformed":
        detail = escaped(call.detail)[:MAX_DETAIL]
        text = (_UNWRITTEN if _writes(call.name, offered) else _MALFORMED).format(name=name, detail=detail)
    else:
        text = _INTERRUPTED.format(name=name)
    return ToolMessage(
        content=text,
        name=call.name,
        tool_call_id=call.id,
        status="error",
        additional_kwargs=provenance_kwargs("middleware_injection", "middleware", "dangling_tool_call"),
    )


def _writes(name: str, offered: _Offered) -> bool:
    try:
        return capabilities_of(offered.get(name), name).writes_file is not None
    except ConfigError:  # a wrong declaration is refused elsewhere; here it only concerns the wording
        return False
