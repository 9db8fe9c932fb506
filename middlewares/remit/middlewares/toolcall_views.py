"""The calls of one model message, of which it may hold up to four views.

Providers read different ones: parsed calls, calls that could not be parsed, blocks in the content, the raw payload in
``additional_kwargs``. A call that one view has and another lacks gets a result from one provider and none from the
next. `read` counts every call once, and hands back the message with all its calls in ``tool_calls``, so that every
converter sends the same.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from langchain_core.messages import BaseMessage

from remit.middlewares.toolcall_json import (
    UNKNOWN_TOOL,
    good_name,
    is_good_id,
    is_good_name,
    is_plain,
    made_plain,
    read_arguments,
    written_arguments,
)

Cause = Literal["interrupted", "unnamed", "malformed"]

RAW: Final = "tool_calls"
"""Key of ``additional_kwargs`` with the provider's own payload."""
_PAYLOADS: Final[Mapping[str, str]] = {
    "tool_use": "input",
    "tool_call": "args",
    "function_call": "arguments",
    "invalid_tool_call": "args",
    "tool_call_chunk": "args",
}
"""Type of a content block that is a call -> its key with the arguments."""
_LEFTOVER: Final = "input_json_delta"
"""Type of a block that a broken stream leaves behind: a piece of arguments, without a call."""
_SOUND: Final[Mapping[str, type]] = {"tool_use": dict, "tool_call": dict, "function_call": str}
_LOST: Final = {"type": "text", "text": "[an unfinished tool call was left out]"}


@dataclass(slots=True, eq=False)
class Call:
    """One call, as it goes into the request."""

    id: str
    name: str
    args: dict[str, Any]
    original_id: str | None
    """What its result carries; None for a call that came without an id."""
    original_name: Any
    cause: Cause = "interrupted"
    """Why it may have no result."""
    detail: str = ""
    """For malformed arguments, what is wrong with them."""
    source: Any = None
    """The entry of ``tool_calls`` that it was read from."""
    answer: int | None = None
    """Index of the message that answers it."""


class Reading(NamedTuple):
    """What one model message says."""

    message: BaseMessage
    """With every call in every view; the very same object when there was nothing to do."""
    calls: list[Call]
    hosted: frozenset[str]
    """Ids of calls of the provider's own tools, which may have a result and need none."""


class Sound(NamedTuple):
    """Ids in a message about whose calls there is nothing to do."""

    ids: set[str]
    """The caller's own."""
    hosted: Collection[str]


def sound(message: Any, known: Container[str]) -> Sound | None:
    """The calls of `message` when every converter sends them alike and every provider takes them, else None."""
    calls, content = message.tool_calls, message.content
    if message.invalid_tool_calls:
        return None
    if not calls:
        if RAW in message.additional_kwargs:
            return None
        if type(content) is str:
            return Sound(set(), ())
    ids: set[str] = set()
    for call in calls:
        call_id, args = call.get("id"), call.get("args")
        if (
            not is_good_id(call_id)
            or call_id in ids
            or not is_good_name(call.get("name"), known)
            or type(args) is not dict
            or not is_plain(args)
        ):
            return None
        ids.add(call_id)
    if type(content) is str:
        return Sound(ids, ())
    return _sound_blocks(content, ids)


def _sound_blocks(content: Any, ids: set[str]) -> Sound | None:
    shown: set[str] = set()
    hosted: set[str] = set()
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            continue
        if kind in _PAYLOADS:
            call_id = block.get(_id_key(kind))
            if not is_good_id(call_id) or call_id not in ids or call_id in shown or not _is_sound_block(block, kind):
                return None
            shown.add(call_id)
        elif kind == _LEFTOVER:
            return None
        elif _is_hosted(block, kind):
            hosted.add(block["call_id"])
    return Sound(ids, hosted)


def _is_sound_block(block: Mapping[str, Any], kind: str) -> bool:
    return kind in _SOUND and isinstance(block.get(_PAYLOADS[kind]), _SOUND[kind]) and bool(block.get("name"))


def _id_key(kind: str) -> str:
    return "call_id" if kind == "function_call" else "id"


def _is_hosted(block: Mapping[str, Any], kind: str) -> bool:
    return kind.endswith("_call") and is_good_id(block.get("call_id"))


@dataclass
class _Reader:
    index: int
    known: Container[str]
    taken: set[str]
    calls: list[Call] = field(default_factory=list)
    by_id: dict[str, Call] = field(default_factory=dict)

    def add(self, call_id: Any, name: Any, args: dict[str, Any], flaw: str = "", source: Any = None) -> Call:
        original = call_id if is_good_id(call_id) else None
        used = original if original is not None and original not in self.by_id else self._fresh()
        shown = good_name(name, self.known)
        cause: Cause = "malformed" if flaw else "interrupted"
        if shown == UNKNOWN_TOOL and name != UNKNOWN_TOOL:
            cause = "unnamed"
        call = Call(used, shown, args, original, name, cause, flaw, source)
        self.calls.append(call)
        self.by_id.setdefault(used, call)
        return call

    def find(self, call_id: Any) -> Call | None:
        return self.by_id.get(call_id) if is_good_id(call_id) else None

    def _fresh(self) -> str:
        """An id of our own, short enough for every provider and used nowhere in the conversation."""
        made = f"synthetic_call_{self.index}_{len(self.calls)}"
        while made in self.taken:
            made += "x"
        self.taken.add(made)
        return made

    def structured(self, message: Any) -> None:
        for call in _dicts(message.tool_calls):
            args = call.get("args")
            self.add(call.get("id"), call.get("name"), made_plain(args) if isinstance(args, dict) else {}, source=call)
        for call in _dicts(message.invalid_tool_calls):
            if self.find(call.get("id")) is not None:
                continue  # a second view of a call that could be parsed
            self.add(call.get("id"), call.get("name"), *read_arguments(call.get("args")))

    def block(self, block: Mapping[str, Any], kind: str, unseen: list[Call]) -> Call | None:
        """The call that a block shows; None for a block that shows one once more."""
        call_id = block.get(_id_key(kind))
        found = self.find(call_id)
        if found is None and not is_good_id(call_id):
            alike = (call for call in unseen if call.original_id is None and call.original_name == block.get("name"))
            found = next(alike, None)
        if found is not None:
            if not any(call is found for call in unseen):
                return None
            unseen[:] = [call for call in unseen if call is not found]
            return found
        payload = block.get(_PAYLOADS[kind])
        if not payload and "partial_json" in block:
            payload = block["partial_json"]
        return self.add(call_id, block.get("name"), *read_arguments(payload))

    def raw(self, entries: Any) -> None:
        for entry in _dicts(entries):
            function = entry.get("function")
            if isinstance(function, Mapping) and self.find(entry.get("id")) is None:
                self.add(entry.get("id"), function.get("name"), *read_arguments(function.get("arguments")))


def read(message: Any, index: int, known: Container[str], taken: set[str]) -> Reading:
    """Every call of a model message, once, and the message with all of them in all of its views.

    Args:
        message: An `AIMessage` or a chunk of one.
        index: Its place in the conversation, which becomes part of the ids that it may need.
        known: Names of the tools that are offered.
        taken: Ids that are used in the conversation; new ones are added.
    """
    reader = _Reader(index, known, taken)
    reader.structured(message)
    structured = bool(reader.calls)
    content, hosted = _read_content(message.content, reader)
    raw = message.additional_kwargs.get(RAW)
    if not structured:
        reader.raw(raw)
    update: dict[str, Any] = {}
    calls = [_entry(call) for call in reader.calls]
    if not _same(calls, message.tool_calls or []):
        update["tool_calls"] = calls
    if message.invalid_tool_calls:
        update["invalid_tool_calls"] = []
    if content is not message.content:
        update["content"] = content
    if RAW in message.additional_kwargs and (update or not calls):
        update["additional_kwargs"] = _with_raw(message.additional_kwargs, reader)
    return Reading(message.model_copy(update=update) if update else message, reader.calls, hosted)


def _entry(call: Call) -> Any:
    """The call as an entry of ``tool_calls``; the entry it was read from when that says the same."""
    old = call.source
    if old is not None and old.get("id") == call.id and old.get("name") == call.name and old.get("args") is call.args:
        return old
    return {**(old or {}), "name": call.name, "args": call.args, "id": call.id, "type": "tool_call"}


def _read_content(content: Any, reader: _Reader) -> tuple[Any, frozenset[str]]:
    if not isinstance(content, list):
        return content, frozenset()
    unseen = list(reader.calls)
    hosted: set[str] = set()
    out: list[Any] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str) or (kind not in _PAYLOADS and kind != _LEFTOVER):
            if kind is not None and isinstance(kind, str) and _is_hosted(block, kind):
                hosted.add(block["call_id"])
            out.append(block)
        elif kind != _LEFTOVER and (call := reader.block(block, kind, unseen)) is not None:
            out.append(_block(block, kind, call))
    if not out and content and not reader.calls:
        out.append(dict(_LOST))  # an empty message would be refused
    return content if _same(out, content) else out, frozenset(hosted)


def _block(block: dict[str, Any], kind: str, call: Call) -> dict[str, Any]:
    if _is_sound_block(block, kind) and block.get(_id_key(kind)) == call.id and block["name"] == call.name:
        if kind == "function_call":
            if call.cause == "interrupted":
                return block
        elif is_plain(block[_PAYLOADS[kind]]):
            return block
    if kind == "tool_use":
        kept = {key: value for key, value in block.items() if key != "partial_json"}
        return {**kept, "id": call.id, "name": call.name, "input": call.args}
    if kind == "function_call":
        return {**block, "call_id": call.id, "name": call.name, "arguments": written_arguments(call.args)}
    return {"type": "tool_call", "id": call.id, "name": call.name, "args": call.args}


def _with_raw(kwargs: Mapping[str, Any], reader: _Reader) -> dict[str, Any]:
    """`kwargs` with the provider's payload kept as it is, but for names and arguments that would be refused."""
    out = dict(kwargs)
    entries = [entry for entry in _dicts(kwargs[RAW]) if isinstance(entry.get("function"), Mapping)]
    if not entries:
        del out[RAW]
        return out
    blank = iter([call for call in reader.calls if call.original_id is None])
    out[RAW] = [_raw_entry(entry, reader, blank) for entry in entries]
    return out


def _raw_entry(entry: Mapping[str, Any], reader: _Reader, blank: Iterable[Call]) -> Mapping[str, Any]:
    given = entry.get("id")
    call = reader.find(given) if is_good_id(given) else next(iter(blank), None)
    function = entry["function"]
    arguments = function.get("arguments")
    parsed, flaw = read_arguments(arguments)
    if flaw:
        parsed = call.args if call is not None else {}
    name = good_name(function.get("name"), reader.known)
    text = arguments if isinstance(arguments, str) and not flaw else written_arguments(parsed)
    if name == function.get("name") and text == arguments and (call is None or call.id == given):
        return entry
    shown = {**function, "name": name, "arguments": text}
    return {**entry, "id": call.id if call is not None else given, "function": shown}


def _same(new: list[Any], old: list[Any]) -> bool:
    return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, (list, tuple)) else []
