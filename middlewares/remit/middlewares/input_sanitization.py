"""What users write, made unable to imitate the server, in every request to the model.

Outermost around the model call, so that retries and everything that is put in further inside see clean messages and
what those put in is not scanned again. The state keeps what the user wrote.

Every message in the role of a user is a stranger's unless the server's seal on it is valid (`remit.middlewares
.authorship`); flags such as ``hide_from_ui`` and names grant nothing. All of them are treated, and framed, alike and at
every call, the older ones too: the beginning of a conversation then never changes, and providers can cache it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple
from weakref import ref

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, TracePolicy, omit_payload
from langchain_core.messages import BaseMessage, ChatMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from remit.authz import wire
from remit.middlewares.authorship import is_server_message, prepare_key
from remit.middlewares.neutralize import BEGIN, BLOCKED_NAMES, END, escape_all, frame, frame_parts, neutralize
from remit.middlewares.neutralize import neutralize_all as neutralize_data
from remit.middlewares.uploads import uploads_block
from remit.runtime.identity import runtime_thread_id
from remit.runtime.release import canonical_hash

log = logging.getLogger("remit.middlewares")

UNSHOWABLE: Final = "[This message could not be shown safely.]"
MAX_CACHED_CHARS: Final = 4_000_000
"""Of all texts together whose sanitised form is kept. A long history is then scanned once and not at every call."""
_WORTH_KEEPING: Final = 256
"""Characters from which on a look into the cache is cheaper than the scan."""


class InputSanitizationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Escapes forged tags and boundary lines in what users wrote, and puts it between the boundary lines.

    A message that cannot be treated, whatever went wrong, is sent with every angle bracket and dash escaped; never as
    it was.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self) -> None:
        super().__init__()
        self._known = _Known()

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return {"blocked_names": canonical_hash(sorted(BLOCKED_NAMES)), "boundary": [BEGIN, END]}

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Send the request with sanitised messages."""
        return handler(self._sanitized(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        await prepare_key(request.messages)
        return await handler(self._sanitized(request))

    def _sanitized(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        thread = _Thread(request.runtime)
        messages: list[Any] = [
            self._message(message, thread) if is_user_message(message) else message for message in request.messages
        ]
        if all(new is old for new, old in zip(messages, request.messages, strict=True)):
            return request
        return request.override(messages=messages)

    def _message(self, message: BaseMessage, thread: _Thread) -> BaseMessage:
        sealed = wire.UPLOADS_SEAL in message.additional_kwargs
        thread_id = thread.id if sealed else None
        if (known := self._known.get(message, thread_id)) is not None:
            return known
        try:
            found = message if is_server_message(message) else sanitized(message, thread_id)
        except GraphBubbleUp:
            raise
        except Exception:
            log.exception("a message of a user could not be sanitised and is sent with its punctuation escaped")
            return _blunted(message)
        self._known.put(message, thread_id, found)
        return found


def is_user_message(message: Any) -> bool:
    """Whether a model reads `message` as a user's."""
    if isinstance(message, ChatMessage):
        return message.role.strip().lower() in ("user", "human")
    return isinstance(message, HumanMessage)


def sanitized(message: BaseMessage, thread_id: str | None = None) -> BaseMessage:
    """`message` of a user as the model may read it; the same object when there is nothing to change.

    A block about uploads whose seal holds stays as it is. What a connector put in front of the user's own words
    (`original_user_content` tells which those are) is escaped; the words, and all that follows, are framed as well.

    Args:
        message: In the role of a user, and not the server's.
        thread_id: The thread, for the seal on a block about uploads.
    """
    kwargs: Mapping[str, Any] = message.additional_kwargs
    original = kwargs.get(wire.ORIGINAL_USER_CONTENT)
    block = uploads_block(message, thread_id) if isinstance(message, HumanMessage) else ""
    content: Any = message.content
    changes: dict[str, Any] = {}
    if isinstance(content, str):
        typed = content[len(block) :]
        clean: Any = block + _text(typed, original)
    else:
        rest = content[1:] if block else content
        typed = "\n".join(text for text in map(_text_of, rest) if text)
        clean = [*content[:1], *_items(rest, original)] if block else _items(rest, original)
    if clean != content:
        changes["content"] = clean
    if not isinstance(original, str) and (changes or original is not None):
        if original is not None:
            log.warning("the metadata %r of a message is no text and was replaced", wire.ORIGINAL_USER_CONTENT)
        changes["additional_kwargs"] = {**kwargs, wire.ORIGINAL_USER_CONTENT: typed}
    if message.name is not None and (name := neutralize(message.name)) is not message.name:
        changes["name"] = name
    return message.model_copy(update=changes) if changes else message


def _text(text: str, original: Any) -> str:
    """Text behind the server's block: in front of the user's words escaped, from there on framed."""
    if not text.strip():
        return text
    if isinstance(original, str):
        if not original.strip():
            return _cached(neutralize, text)
        at = _start(text, original)
        return neutralize(text[:at]) + _cached(frame, text[at:])
    lead = len(text) - len(text.lstrip("\n"))
    return text[:lead] + _cached(frame, text[lead:])


def _start(text: str, original: str) -> int:
    """Where the user's own words begin in `text`; where the text itself begins when they are not found."""
    at = text.rfind(f"{BEGIN}\n{neutralize(original)}") if text.endswith(f"\n{END}") else -1
    if at < 0:  # the usual case: not sanitised yet
        at = text.rfind(original)
    return at if at >= 0 else len(text) - len(text.lstrip("\n"))


def _items(items: list[Any], original: Any) -> list[Any]:
    """Items of a content list: texts as `_text`, of everything else the texts inside escaped; order and form kept."""
    out = [item if _text_of(item) is not None else neutralize_data(item) for item in items]
    places = [index for index, item in enumerate(items) if (_text_of(item) or "").strip()]
    texts = [str(_text_of(items[index])) for index in places]
    if not texts:
        return out
    lead = ""
    before: list[str] = []
    if isinstance(original, str) and original.strip():
        at = _start("\n".join(texts), original)
        while at > len(texts[0]):
            at -= len(texts[0]) + 1
            before.append(neutralize(texts.pop(0)))
        lead, texts[0] = neutralize(texts[0][:at]), texts[0][at:]
    framed = [neutralize(text) for text in texts] if isinstance(original, str) and not original.strip() else None
    clean = [*before, *(framed if framed is not None else frame_parts(texts))]
    clean[len(before)] = lead + clean[len(before)]
    for index, text in zip(places, clean, strict=True):
        item = items[index]
        out[index] = text if isinstance(item, str) else {**neutralize_data(item), "text": text}
    return out


def _text_of(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping) and item.get("type") == "text" and isinstance(item.get("text"), str):
        return str(item["text"])
    return None


def _blunted(message: BaseMessage) -> BaseMessage:
    """`message` made harmless without understanding it."""
    try:
        content: Any = message.content
        clean: Any = (
            escape_all(content) if isinstance(content, str) else [neutralize_data(item, escape_all) for item in content]
        )
    except Exception:
        clean = UNSHOWABLE
    return message.model_copy(update={"content": clean, "name": None})


class _Remembered:
    """Results for texts that came up lately, bounded by their size and not by their number."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Callable[[str], str], str], str] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __call__(self, change: Callable[[str], str], text: str) -> str:
        """`change(text)`. A conversation that came from a store is made of new objects, of the same content."""
        if len(text) < _WORTH_KEEPING:
            return change(text)
        key = change, text
        with self._lock:
            if (held := self._held.get(key)) is not None:
                self._held.move_to_end(key)
                return held
        found = change(text)
        with self._lock:
            if key not in self._held:
                self._held[key] = found
                self._size += len(text) + len(found)
            while self._size > MAX_CACHED_CHARS:
                (_, old), result = self._held.popitem(last=False)
                self._size -= len(old) + len(result)
        return found


_cached: Final = _Remembered()


class _Thread:
    """The thread of a run, looked up when it is needed."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    @property
    def id(self) -> str | None:
        try:
            return runtime_thread_id(self._runtime)
        except ValueError:  # no name of a folder: then no upload can belong to it
            return None


class _Entry(NamedTuple):
    source: ref[BaseMessage]
    facts: tuple[Any, ...]
    result: BaseMessage


class _Known:
    """The sanitised form of messages that are still in use, by identity: within a run the state holds the same ones."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def get(self, message: BaseMessage, thread_id: str | None) -> BaseMessage | None:
        entry = self._entries.get(id(message))
        if entry is None or entry.source() is not message or entry.facts != _facts(message, thread_id):
            return None
        return entry.result

    def put(self, message: BaseMessage, thread_id: str | None, result: BaseMessage) -> None:
        if not isinstance(message.content, str) or result is message:
            return  # a list could be changed in place, and what needs no change is quick to see
        key = id(message)
        entries = self._entries
        source = ref(message, lambda _: entries.pop(key, None))
        entries[key] = _Entry(source, (*_facts(message, thread_id)[:-1], dict(message.additional_kwargs)), result)


def _facts(message: BaseMessage, thread_id: str | None) -> tuple[Any, ...]:
    """What the sanitised form depends on."""
    return message.content, message.id, message.name, thread_id, message.additional_kwargs
