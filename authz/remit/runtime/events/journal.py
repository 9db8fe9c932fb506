"""The journal of one run: a callback handler that turns what happens into events, and never disturbs it.

Give it to the run as a callback, and to middlewares in the run context:

```python
journal = RunJournal(store, thread_id="t1", run_id="r1")
graph.invoke(payload, {"callbacks": [journal]}, context={wire.RUN_JOURNAL: journal, ...})
journal.flush()
```

Nothing here waits: events go to the store in batches, and `flush` or `aflush` at the end of the run waits for them. It
may be called from many threads at once. Who made a model call, the lead agent, a subagent or a middleware, is told by
tags, except by those that came with the run itself, which a client can choose, and by what runs inside of what.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from remit.authz import wire
from remit.runtime.events.buffer import FLUSH_AT, EventBuffer
from remit.runtime.events.messages import (
    artifacts_in,
    call_ids,
    calls_given,
    dumped,
    first_human,
    is_hidden,
    messages_in,
    plain,
    text_of,
)
from remit.runtime.events.runs import LEAD, Runs
from remit.runtime.events.store import Event, EventStore
from remit.runtime.events.usage import Accounts, tokens_of
from remit.runtime.journal import TAGS

log = logging.getLogger("remit.runtime")

MAX_TEXT: Final = 2_000
"""Characters of the first question and of the last answer that are kept at hand."""
MAX_ERROR: Final = 2_000


def _harmless(method: Callable[..., None]) -> Callable[..., None]:
    """A journal that fails says so in the log; the run goes on."""

    @wraps(method)
    def guarded(self: RunJournal, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception:
            log.exception("the journal of run %s could not note an event", self.run_id)

    return guarded


class RunJournal(BaseCallbackHandler):
    """Journal of one run of one lead agent.

    Args:
        store: Where events go.
        thread_id: The thread.
        run_id: The run, as the platform names it.
        agent_name: Noted at the start of the run.
        flush_at: Events in a batch.
    """

    run_inline = True
    ignore_retriever = True
    ignore_retry = True
    ignore_custom_event = True

    def __init__(
        self,
        store: EventStore,
        *,
        thread_id: str,
        run_id: str,
        agent_name: str | None = None,
        flush_at: int = FLUSH_AT,
    ) -> None:
        self.thread_id, self.run_id, self.agent_name = thread_id, run_id, agent_name
        self._buffer = EventBuffer(store, flush_at=flush_at)
        self._lock = threading.RLock()
        self._runs = Runs()
        self._accounts = Accounts()
        self._own_calls: set[str] = set()
        self._persisted: set[str] = set()
        self._unseen: dict[str, ToolMessage] = {}
        self._llm_calls = 0
        self._interrupted = False
        self.artifacts: dict[str, str] = {}
        """Path -> name of the tool that presented it; empty where several did."""
        self.message_count = 0
        """Messages of the conversation that were noted."""
        self.first_human_message: str | None = None
        self.last_ai_message: str | None = None
        """Of the lead agent. Both are cut to `MAX_TEXT` characters."""
        self.error_fallback: str | None = None
        """Why a model call ended in a fallback message of the error handling; None when none did."""

    # What middlewares note

    @_harmless
    def record_middleware(self, tag: str, *, name: str, hook: str, action: str, changes: Mapping[str, Any]) -> None:
        """Note what a middleware did. An unknown tag is refused, in the log."""
        if tag not in TAGS:
            log.error("an event of %s was dropped: %r is no tag, add it to remit.runtime.journal.TAGS", name, tag)
            return
        content = {"name": name, "hook": hook, "action": action, "changes": plain(dict(changes))}
        self._note(f"middleware:{tag}", "middleware", content)

    # What LangChain reports

    @_harmless
    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        with self._lock:
            run = self._runs.began(run_id, parent_run_id, tags)
            if run.of_lead_node:  # a call that was made before an interrupt belongs to the run that carries it out
                self._own_calls.update(calls_given(inputs))
        if not run.root:
            return
        self._note("run.start", "trace", {"name": name, "agent_name": self.agent_name})
        message = first_human(inputs)
        if message is not None and self.first_human_message is None:
            self.first_human_message = text_of(message)[:MAX_TEXT]
            self._message("llm.human.input", dumped(message))

    @_harmless
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        run = self._runs.ended(run_id)
        if run is None:
            return
        if run.of_lead_node or run.root:
            self._take(outputs, whole=run.root)
        if run.root:
            self._reconcile()
            self._note("run.end", "outputs", self._outcome(), {"status": self._status()})

    @_harmless
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        run = self._runs.ended(run_id)
        if isinstance(error, GraphInterrupt):
            self._interrupted = True
        if run is None or not run.root:
            return
        self._reconcile()
        if isinstance(error, GraphBubbleUp):
            self._note("run.end", "outputs", self._outcome(), {"status": self._status()})
        else:
            self._note("run.error", "error", _described(error), {"status": "error"})

    @_harmless
    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        run = self._runs.began(run_id, parent_run_id, tags)
        run.started = time.monotonic()
        run.model = (metadata or {}).get("ls_model_name")

    def on_llm_start(self, serialized: Any, prompts: Any, **facts: Any) -> None:
        """As `on_chat_model_start`, for models that complete text."""
        self.on_chat_model_start(serialized, prompts, **facts)

    @_harmless
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        run = self._runs.ended(run_id)
        if run is None:
            return
        latency = round((time.monotonic() - run.started) * 1000)
        for generations in response.generations:
            for generation in generations[:1]:
                message = getattr(generation, "message", None)
                message = message if isinstance(message, AIMessage) else AIMessage(getattr(generation, "text", ""))
                self._answered(message, run_id, run.caller, run.model, latency)

    @_harmless
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        run = self._runs.ended(run_id)
        self._note("llm.error", "trace", _described(error), {"caller": run.caller if run else LEAD})

    @_harmless
    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        name: str | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        named = name or (serialized or {}).get("name") or "tool"
        with self._lock:
            run = self._runs.began(run_id, parent_run_id, tags, tool=named)
            if run.caller == LEAD and tool_call_id:
                self._own_calls.add(tool_call_id)

    @_harmless
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        run = self._runs.ended(run_id)
        if run is None or run.caller != LEAD:
            return
        with self._lock:
            for path in artifacts_in(output):
                named = run.tool or ""
                self.artifacts[path] = named if self.artifacts.get(path, named) == named else ""
            for message in messages_in(output):
                if isinstance(message, ToolMessage):  # noted in its final form, when its node ends
                    self._unseen[message.tool_call_id] = message

    @_harmless
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._runs.ended(run_id)

    # What the platform adds and asks

    @_harmless
    def record_external_llm_usage_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Count model calls that no callback of this run saw, of subagents on other event loops for example.

        Args:
            records: ``source_run_id`` (each is counted once), ``caller``, ``model_name``, ``input_tokens``,
                ``output_tokens``, ``total_tokens``. What is malformed counts nothing.
        """
        for record in records:
            source, tokens = record.get("source_run_id"), tokens_of(record)
            if not source or tokens is None:
                continue
            caller, model = record.get("caller"), record.get("model_name")
            with self._lock:
                self._accounts.count(
                    str(source),
                    caller if isinstance(caller, str) else "subagent",
                    model if isinstance(model, str) else None,
                    tokens,
                )

    def usage(self) -> dict[str, Any]:
        """Tokens so far: in all, by who called, by model; and the number of model calls that were seen."""
        with self._lock:
            return {
                **self._accounts.all.as_dict(),
                "by_caller": dict(self._accounts.by_caller),
                "by_model": {model: tokens.as_dict() for model, tokens in self._accounts.by_model.items()},
                "llm_calls": self._llm_calls,
            }

    def flush(self) -> None:
        """Wait until every event so far is durable.

        Raises:
            Exception: The store refused them twice; they are kept for another attempt.
        """
        self._buffer.flush()

    async def aflush(self) -> None:
        """`flush` for the event loop.

        Raises:
            Exception: As `flush`.
        """
        await self._buffer.aflush()

    def _answered(self, message: AIMessage, run_id: UUID, caller: str, model: str | None, latency: int) -> None:
        found = message.response_metadata.get("model_name") or model
        tokens = tokens_of(message.usage_metadata)
        with self._lock:
            self._llm_calls += 1
            number = self._llm_calls
            if tokens is not None:
                self._accounts.count(str(run_id), caller, found if isinstance(found, str) else None, tokens)
            if caller == LEAD:
                self._own_calls.update(call_ids(message))
                self._persisted.add(message.id or str(run_id))
        metadata = {
            "caller": caller,
            "usage": tokens.as_dict() if tokens else None,
            "latency_ms": latency,
            "llm_call_index": number,
        }
        if caller == LEAD:
            self._said(message)
            self._message("llm.ai.response", dumped(message), metadata)
        else:
            self._note("llm.ai.response", "trace", dumped(message), metadata)

    def _said(self, message: BaseMessage) -> None:
        if text := text_of(message).strip():
            self.last_ai_message = text[:MAX_TEXT]

    def _take(self, outputs: Any, *, whole: bool) -> None:
        """Note the messages that a node of the lead agent, or the whole run, came out with."""
        for message in messages_in(outputs):
            if isinstance(message, ToolMessage):
                self._result(message)
            elif isinstance(message, AIMessage) and not whole:
                self._fallback(message)

    def _result(self, message: ToolMessage) -> None:
        """Note a tool's result under three conditions: the user sees it, its call is ours, it is not noted yet."""
        identity = message.tool_call_id or message.id or ""
        with self._lock:
            if is_hidden(message) or message.tool_call_id not in self._own_calls or identity in self._persisted:
                return
            self._persisted.add(identity)
            self._unseen.pop(message.tool_call_id, None)
        self._message("llm.tool.result", dumped(message))

    def _fallback(self, message: AIMessage) -> None:
        """A message that the error handling put in the place of a model's answer: no model reported it."""
        if not message.additional_kwargs.get(wire.ERROR_FALLBACK):
            return
        identity = message.id or f"fallback:{id(message)}"
        with self._lock:
            if identity in self._persisted:
                return
            self._persisted.add(identity)
        reason = message.additional_kwargs.get(wire.ERROR_REASON)
        self.error_fallback = reason if isinstance(reason, str) and reason else "unknown"
        self._said(message)
        self._message("llm.ai.response", dumped(message), {"caller": LEAD, "error_fallback": True})

    def _reconcile(self) -> None:
        """Note results whose node never came to its end."""
        for message in list(self._unseen.values()):
            self._result(message)

    def _status(self) -> str:
        return "interrupted" if self._interrupted else "success"

    def _outcome(self) -> dict[str, Any]:
        return {
            "message_count": self.message_count,
            "last_ai_message": self.last_ai_message,
            "error_fallback": self.error_fallback,
            "artifacts": list(self.artifacts),
            "usage": self.usage(),
        }

    def _message(self, kind: str, content: Any, metadata: Mapping[str, Any] | None = None) -> None:
        with self._lock:
            self.message_count += 1
        self._note(kind, "message", content, metadata)

    def _note(self, kind: str, category: str, content: Any, metadata: Mapping[str, Any] | None = None) -> None:
        event = Event(
            thread_id=self.thread_id,
            run_id=self.run_id,
            type=kind,
            category=category,
            content=content,
            metadata=plain(dict(metadata or {})),
        )
        self._buffer.add(event)


def _described(error: BaseException) -> dict[str, str]:
    return {"error": str(error)[:MAX_ERROR], "type": type(error).__name__}
