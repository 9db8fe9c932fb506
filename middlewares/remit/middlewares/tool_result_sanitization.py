"""What came from outside through a tool, made unable to imitate the server.

A fetched page, a search result or the answer of an MCP server is as untrusted as what a user types. Results of local
tools stay as they are, to the byte: code and logs must not be mangled.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable
from typing import Any, Final

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz.errors import ConfigError
from remit.middlewares.neutralize import BLOCKED_NAMES, escape_all, neutralize_all, neutralize_parts
from remit.middlewares.results import EVERY_CALL, map_messages
from remit.middlewares.transforms import append_tool_transform
from remit.runtime.capabilities import capabilities_of
from remit.runtime.release import canonical_hash

log = logging.getLogger("remit.middlewares")

UNSHOWABLE: Final = "[This result could not be shown safely.]"
_NAME: Final = "ToolResultSanitizationMiddleware"
_LONG: Final = 200_000
"""Characters from which on the work leaves the event loop."""


class ToolResultSanitizationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Escapes forged tags and boundary lines in the results of tools that bring remote content.

    Those are the tools that declare it and every tool of an MCP server; a tool whose declaration cannot be understood
    counts as one of them. Texts in content blocks of any kind and in a plain artifact are treated too.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return {"blocked_names": canonical_hash(sorted(BLOCKED_NAMES))}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call and sanitise what it brings in."""
        result: ToolMessage | Command[Any] = handler(request)
        return self._sanitized(result) if _is_remote(request) else result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        result: ToolMessage | Command[Any] = await handler(request)
        if not _is_remote(request):
            return result
        if _is_long(result):
            return await to_thread(self._sanitized, result)
        return self._sanitized(result)

    def _sanitized(self, result: ToolMessage | Command[Any]) -> ToolMessage | Command[Any]:
        changed: ToolMessage | Command[Any] = map_messages(result, sanitized, call_id=EVERY_CALL)
        return changed


def sanitized(message: ToolMessage) -> ToolMessage:
    """`message` of a remote tool as it may go on; the same object when there is nothing to change. Never raises."""
    try:
        content, artifact = _content(message.content), neutralize_all(message.artifact)
    except Exception:
        log.exception("a result of a remote tool could not be sanitised and is shown with its punctuation escaped")
        content, artifact = _blunted(message.content), None
    changes: dict[str, Any] = {}
    if content is not message.content:
        changes["content"] = content
    if artifact is not message.artifact:
        changes["artifact"] = artifact
    if not changes:
        return message
    changed = message.model_copy(update=changes)
    return append_tool_transform(changed, "sanitized", by=_NAME) if "content" in changes else changed


def _content(content: Any) -> Any:
    """`content` with its texts escaped, those included that only form a tag together with the next one."""
    clean = neutralize_all(content)
    if not isinstance(clean, list):
        return clean
    places = [index for index, item in enumerate(clean) if _text_of(item) is not None]
    texts = [str(_text_of(clean[index])) for index in places]
    joined = neutralize_parts(texts) if len(texts) > 1 else texts
    if joined == texts:
        return clean
    items = list(clean)
    for index, text in zip(places, joined, strict=True):
        items[index] = text if isinstance(items[index], str) else {**items[index], "text": text}
    return items


def _text_of(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    held = item.get("text") if isinstance(item, dict) else None
    return held if isinstance(held, str) else None


def _blunted(content: Any) -> Any:
    try:
        return neutralize_all(content, escape_all) if isinstance(content, str) else UNSHOWABLE
    except Exception:
        return UNSHOWABLE


def _is_remote(request: ToolCallRequest) -> bool:
    name = request.tool_call.get("name")
    try:
        return capabilities_of(request.tool, name if isinstance(name, str) else "").remote_content
    except ConfigError as exc:
        log.warning("its results count as remote content: %s", exc)
        return True


def _is_long(result: Any) -> bool:
    """Whether reading all of `result` takes a while."""
    size = 0

    def measure(message: ToolMessage) -> ToolMessage:
        nonlocal size
        content: Any = message.content
        parts = content if isinstance(content, list) else [content]
        size += sum(len(part if isinstance(part, str) else str(part)) for part in parts)
        size += _LONG if message.artifact is not None else 0
        return message

    map_messages(result, measure, call_id=EVERY_CALL)
    return size >= _LONG
