"""One tool result cannot flood the conversation: a long one goes into a file, and a short preview takes its place.

What cannot be stored is cut. Outside of the sanitisation of results: what is stored and shown is already harmless.
"""

from __future__ import annotations

import json
import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz import wire
from remit.authz.errors import ConfigError, SandboxAuthorizationError
from remit.middlewares.authorship import prepare_key
from remit.middlewares.neutralize import neutralize_all
from remit.middlewares.output_preview import PREVIEW_OVERHEAD, Samples, preview, truncated
from remit.middlewares.output_storage import (
    MAX_AGE_SECONDS,
    MAX_THREAD_BYTES,
    MAX_THREAD_FILES,
    Payload,
    Stored,
    store_in_sandbox,
    store_on_host,
)
from remit.middlewares.results import EVERY_CALL, map_messages
from remit.middlewares.shells import run_now, settled
from remit.middlewares.transforms import append_tool_transform, transforms_of
from remit.runtime.capabilities import Capabilities, capabilities_of
from remit.runtime.config import ToolOutputConfig
from remit.runtime.sandboxes import Sandbox, SandboxAccess, SandboxError, sandbox_id_in

log = logging.getLogger("remit.middlewares")

_NAME: Final = "ToolOutputBudgetMiddleware"
_LOGS: Final = frozenset({"bash", "bash_tool", "web_fetch"})
"""Tools whose results are kept as ``.log``, beside those that run commands."""
_MEDIA: Final = frozenset({"image", "image_url", "audio", "input_audio", "video", "media", "file", "document"})
"""Types of content blocks that are no text. They stay in the message."""
_NOWHERE: Final = object()
"""In place of an environment: the results of this call cannot be stored where the agent could read them."""


class _Port(NamedTuple):
    """How work that blocks is done: at once, or beside an event loop."""

    run: Callable[..., Any]
    ensure: Callable[[SandboxAccess, Any], Sandbox | Awaitable[Sandbox]]


_NOW: Final = _Port(lambda function, *args: function(*args), SandboxAccess.ensure)
_SOON: Final = _Port(to_thread, SandboxAccess.aensure)


class View(NamedTuple):
    """The content of a result as a reader takes it."""

    text: str
    media: tuple[Any, ...]
    """Blocks that are no text, in their order."""


class ToolOutputBudgetMiddleware(AgentMiddleware[Any, Any, Any]):
    """Stores long results and shows a preview; cuts what cannot be stored, and what older runs left in the history.

    Files are kept for `MAX_AGE_SECONDS`, at most `MAX_THREAD_FILES` and `MAX_THREAD_BYTES` of one thread; the oldest
    make room. With a provider whose environments see the thread's folders, without a provider, and as long as the
    thread has no environment, files are written on the host, else through the environment.

    Args:
        config: The limits.
        access: The door to the environments.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, config: ToolOutputConfig, *, access: SandboxAccess | None = None) -> None:
        super().__init__()
        self.config = config
        self.access = access
        self._exempt = frozenset(config.exempt_tools)

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return {
            **self.config.model_dump(mode="json"),
            "preview_overhead_chars": PREVIEW_OVERHEAD,
            "max_thread_bytes": MAX_THREAD_BYTES,
            "max_thread_files": MAX_THREAD_FILES,
            "max_age_seconds": MAX_AGE_SECONDS,
        }

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call and bring its result within the budget."""
        result: ToolMessage | Command[Any] = run_now(self._tool_call(request, handler, _NOW))
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        result: ToolMessage | Command[Any] = await self._tool_call(request, handler, _SOON)
        return result

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Cut results in the history that no budget ever applied to."""
        return handler(self._within(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        await prepare_key(request.messages)
        return await handler(self._within(request))

    async def _tool_call(self, request: ToolCallRequest, handler: Callable[..., Any], port: _Port) -> Any:
        result = await settled(handler(request))
        name = request.tool_call.get("name")
        call = self._call(request.tool, name if isinstance(name, str) else "")
        if call is None or not _any_over(result, call.trigger):
            return result
        where = await self._environment(request, result, port)
        state = request.state
        data = state.get(wire.THREAD_DATA) if isinstance(state, Mapping) else None
        outputs = data.get("outputs_path") if isinstance(data, Mapping) else None
        return await settled(port.run(self._budgeted, result, call, where, outputs))

    def _call(self, tool: Any, name: str) -> _Call | None:
        """The limits for results of `tool`; None when there are none."""
        config = self.config
        if not config.enabled or name in self._exempt:
            return None
        try:
            able = capabilities_of(tool, name)
        except ConfigError:
            able = Capabilities()
        own = config.tool_overrides.get(name)
        if able.reads_file is not None and own is None and self._exempt:
            return None  # a reader of stored results: to store what it reads would never end
        threshold = config.externalize_min_chars if own is None else own
        limits = [limit for limit in (threshold, config.fallback_max_chars) if limit > 0]
        if not limits:
            return None
        extension = "log" if able.executes_command is not None or name in _LOGS else "txt"
        return _Call(name, extension, threshold, min(limits))

    async def _environment(self, request: ToolCallRequest, result: Any, port: _Port) -> Any:
        """The environment to write into; None for the host, `_NOWHERE` when it may not or cannot be used."""
        access = self.access
        if access is None or getattr(access.provider, "uses_thread_data_mounts", False) is True:
            return None
        if sandbox_id_in(request.state) is None and not _opens_sandbox(result):
            return None
        try:
            return await settled(port.ensure(access, request.runtime))
        except (SandboxAuthorizationError, SandboxError) as exc:
            log.info("a long result is cut, since the sandbox to store it in may not or cannot be used: %s", exc)
        except GraphBubbleUp:
            raise
        except Exception:  # a provider or gate of somebody else's: its fault must not cost the result
            log.exception("a long result is cut, since the sandbox to store it in failed")
        return _NOWHERE

    def _budgeted(self, result: Any, call: _Call, where: Any, outputs: Any) -> Any:
        def change(message: ToolMessage) -> ToolMessage:
            try:
                return self._message(message, call, where, outputs)
            except Exception:
                log.exception("a long result could not be summarised and is cut")
                view = view_of(message.content)
                return _with_text(message, self._shortened(view.text), view)

        return map_messages(result, change, call_id=EVERY_CALL)

    def _message(self, message: ToolMessage, call: _Call, where: Any, outputs: Any) -> ToolMessage:
        if size_of(message.content) <= call.trigger:
            return message
        view = view_of(message.content)
        stored = self._stored(view.text, call, where, outputs) if 0 < call.threshold < len(view.text) else None
        if stored is None:
            return self._cut(message, view)
        config = self.config
        samples = Samples(config.preview_head_chars, config.preview_tail_chars)
        text = preview(view.text, stored, tool_name=call.name, samples=samples)
        return append_tool_transform(_with_text(message, text, view), "externalized", by=_NAME)

    def _stored(self, text: str, call: _Call, where: Any, outputs: Any) -> Stored | None:
        if where is _NOWHERE:
            return None
        payload = Payload.of(call.name, call.extension, text)
        if where is None:
            return store_on_host(outputs, self.config.storage_subdir, payload)
        return store_in_sandbox(where, self.config.storage_subdir, payload)

    def _cut(self, message: ToolMessage, view: View) -> ToolMessage:
        text = self._shortened(view.text)
        if text is view.text:
            return message
        return append_tool_transform(_with_text(message, text, view), "truncated", by=_NAME)

    def _shortened(self, text: str) -> str:
        config = self.config
        samples = Samples(config.fallback_head_chars, config.fallback_tail_chars)
        return truncated(text, limit=config.fallback_max_chars, samples=samples) if config.fallback_max_chars else text

    def _within(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        limit = self.config.fallback_max_chars
        if not self.config.enabled or not limit:
            return request
        over = {
            index
            for index, message in enumerate(request.messages)
            if isinstance(message, ToolMessage) and size_of(message.content) > limit
        }
        if not over:
            return request
        messages: list[Any] = [
            self._old(message) if index in over and isinstance(message, ToolMessage) else message
            for index, message in enumerate(request.messages)
        ]
        if all(new is old for new, old in zip(messages, request.messages, strict=True)):
            return request
        return request.override(messages=messages)

    def _old(self, message: ToolMessage) -> ToolMessage:
        """A long result of the history."""
        config = self.config
        if message.name in self._exempt:
            return message
        view = view_of(message.content)
        # A preview may be longer than the limit for what is not stored; never longer than this.
        longest = config.preview_head_chars + config.preview_tail_chars + PREVIEW_OVERHEAD
        if len(view.text) <= longest and any(entry["kind"] == "externalized" for entry in transforms_of(message)):
            return message
        return self._cut(message, view)


class _Call(NamedTuple):
    """The limits for one call."""

    name: str
    extension: str
    threshold: int
    """Longer results are stored; 0 stores nothing."""
    trigger: int
    """Characters up to which nothing is done."""


def size_of(content: Any) -> int:
    """Characters of the text of a result, without building it where that costs."""
    if isinstance(content, str):
        return len(content)
    if isinstance(content, (bytes, bytearray)):
        return len(content)
    if not isinstance(content, list):
        return 0 if content is None else len(view_of(content).text)
    return sum(len(text) + 1 for item in content if (text := _text_of(item)) is not None)


def view_of(content: Any) -> View:
    """The text of a result, and what is none. Structured blocks are text, as JSON. Never raises."""
    if isinstance(content, str):
        return View(content, ())
    if isinstance(content, (bytes, bytearray)):
        return View(bytes(content).decode("utf-8", "replace"), ())
    items = content if isinstance(content, list) else [] if content is None else [content]
    texts = [(item, _text_of(item)) for item in items]
    return View(
        "\n".join(text for _, text in texts if text is not None), tuple(item for item, text in texts if text is None)
    )


def _text_of(item: Any) -> str | None:
    """The text of one item; None for media."""
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        if isinstance(item.get("text"), str) and item.get("type") in ("text", "text-plain"):
            return str(item["text"])
        if _is_media(item):
            return None
    try:
        return json.dumps(neutralize_all(item, str), ensure_ascii=False, default=str)
    except Exception:
        return f"[{type(item).__name__} without a readable form]"


def _is_media(block: Mapping[Any, Any]) -> bool:
    source = block.get("source")
    inline = source.get("type") == "text" if isinstance(source, Mapping) else block.get("source_type") == "text"
    kind = block.get("type")
    return isinstance(kind, str) and kind in _MEDIA and not inline and not isinstance(block.get("text"), str)


def _with_text(message: ToolMessage, text: str, view: View) -> ToolMessage:
    content: Any = [{"type": "text", "text": text}, *view.media] if view.media else text
    return message.model_copy(update={"content": content})


def _any_over(result: Any, limit: int) -> bool:
    found = False

    def look(message: ToolMessage) -> ToolMessage:
        nonlocal found
        found = found or size_of(message.content) > limit
        return message

    map_messages(result, look, call_id=EVERY_CALL)
    return found


def _opens_sandbox(result: Any) -> bool:
    """Whether `result` writes the id of an environment into the state: the call opened the thread's first one."""
    if isinstance(result, (list, tuple)):
        return any(_opens_sandbox(item) for item in result)
    update = result.update if isinstance(result, Command) else None
    if isinstance(update, Mapping):
        return sandbox_id_in(update) is not None
    if isinstance(update, (list, tuple)) and all(isinstance(item, tuple) and len(item) == 2 for item in update):
        return any(item[0] == wire.SANDBOX and sandbox_id_in({wire.SANDBOX: item[1]}) is not None for item in update)
    return False
