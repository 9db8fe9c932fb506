"""The content of refused writes is left out of requests to the model: nobody needs to read it once more, or pay for it.

Messages are copied, never changed, in every form in which a provider may read their calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage

_NOTE: Final = "[{length} characters left out: this write was refused and changed nothing]"
_BLOCKS: Final[Mapping[str, tuple[str, str]]] = {
    "tool_use": ("id", "input"),
    "tool_call": ("id", "args"),
    "tool_call_chunk": ("id", "args"),
    "function_call": ("call_id", "arguments"),
}
"""Type of a content block that is a call -> its keys with the id and the arguments."""
_MAX_DEPTH: Final = 32


def without_payloads(messages: Sequence[Any], ids: frozenset[str], min_chars: int) -> list[Any] | None:
    """`messages` without the long arguments of the calls `ids`; None when there are none.

    Args:
        messages: Of the request.
        ids: Calls that were refused.
        min_chars: Shorter texts stay.
    """
    out = [_message(message, ids, min_chars) if isinstance(message, AIMessage) else message for message in messages]
    return None if all(new is old for new, old in zip(out, messages, strict=True)) else out


def _message(message: AIMessage, ids: frozenset[str], min_chars: int) -> AIMessage:
    if not any(call.get("id") in ids for call in message.tool_calls):
        return message
    update: dict[str, Any] = {}
    parts: dict[str, Any] = {"tool_calls": [_entry(call, ids, "id", "args", min_chars) for call in message.tool_calls]}
    if chunks := getattr(message, "tool_call_chunks", None):
        parts["tool_call_chunks"] = [_entry(chunk, ids, "id", "args", min_chars) for chunk in chunks]
    if isinstance(message.content, list):
        parts["content"] = [_block(block, ids, min_chars) for block in message.content]
    for name, new in parts.items():
        if not _same(new, getattr(message, name)):
            update[name] = new
    raw = message.additional_kwargs.get("tool_calls")
    if isinstance(raw, list):
        entries = [_raw(entry, ids, min_chars) for entry in raw]
        if not _same(entries, raw):
            update["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": entries}
    return message.model_copy(update=update) if update else message


def _raw(entry: Any, ids: frozenset[str], min_chars: int) -> Any:
    function = entry.get("function") if isinstance(entry, Mapping) else None
    if not isinstance(function, Mapping) or entry.get("id") not in ids:
        return entry
    arguments = _arguments(function.get("arguments"), min_chars)
    return (
        entry if arguments is function.get("arguments") else {**entry, "function": {**function, "arguments": arguments}}
    )


def _block(block: Any, ids: frozenset[str], min_chars: int) -> Any:
    keys = _BLOCKS.get(block.get("type", "")) if isinstance(block, Mapping) else None
    return block if keys is None else _entry(block, ids, *keys, min_chars)


def _entry(entry: Any, ids: frozenset[str], id_key: str, key: str, min_chars: int) -> Any:
    if not isinstance(entry, Mapping) or entry.get(id_key) not in ids:
        return entry
    arguments = _arguments(entry.get(key), min_chars)
    out = entry if arguments is entry.get(key) else {**entry, key: arguments}
    partial = out.get("partial_json")
    if isinstance(partial, str) and len(partial) >= min_chars:
        out = {name: value for name, value in out.items() if name != "partial_json"}
    return out


def _arguments(value: Any, min_chars: int) -> Any:
    """The arguments of a call, which may be written out as JSON."""
    if not isinstance(value, str):
        return _shortened(value, min_chars)
    if len(value) < min_chars:
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    short = _shortened(parsed, min_chars)
    return value if short is parsed else json.dumps(short, ensure_ascii=False)


def _shortened(value: Any, min_chars: int, depth: int = 0) -> Any:
    if isinstance(value, str):
        note = _NOTE.format(length=len(value))
        return note if len(value) >= min_chars and len(value) > len(note) else value
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        fields = {key: _shortened(item, min_chars, depth + 1) for key, item in value.items()}
        return value if all(fields[key] is item for key, item in value.items()) else fields
    if isinstance(value, list):
        items = [_shortened(item, min_chars, depth + 1) for item in value]
        return value if _same(items, value) else items
    return value


def _same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))
