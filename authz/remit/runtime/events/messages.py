"""What the journal reads off messages and off what graph nodes return. Total: nothing here raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.types import Command
from pydantic_core import to_jsonable_python

from remit.authz import wire

ANSWER_SOURCES: Final = frozenset({"ask_clarification"})
"""Where a hidden human message may come from to be kept: cards that a person filled in."""
_ANSWER_KINDS: Final = ("text", "option")
MAX_DEPTH: Final = 6


def plain(value: Any) -> Any:
    """`value` as JSON values; what has no such form becomes its representation."""
    try:
        return to_jsonable_python(value, fallback=repr, bytes_mode="base64", serialize_unknown=True)
    except Exception:  # circles, surrogates, objects that fail when they are looked at
        return repr(type(value))


def dumped(message: BaseMessage) -> Any:
    """A message as an event holds it; what was streamed is one whole message."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    try:
        return plain(message.model_dump())
    except Exception:
        return {"type": message.type, "id": message.id, "content": plain(message.content)}


def messages_in(value: Any, depth: int = 0) -> Iterator[BaseMessage]:
    """The messages in what a node or a tool returned: a message, a `Command`, an update, or a list of them."""
    if isinstance(value, BaseMessage):
        yield value
    elif depth >= MAX_DEPTH:
        return
    elif isinstance(value, Command):
        yield from _in_update(value.update, depth + 1)
    elif isinstance(value, Mapping):
        yield from messages_in(value.get("messages"), depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from messages_in(item, depth + 1)
    elif value is not None and not isinstance(value, (str, bytes, int, float)):
        yield from messages_in(getattr(value, "messages", None), depth + 1)


def _in_update(update: Any, depth: int) -> Iterator[BaseMessage]:
    pairs = _pairs(update)
    if pairs is None:
        yield from messages_in(update, depth)
    else:
        for key, value in pairs:
            if key == "messages":
                yield from messages_in(value, depth)


def _pairs(update: Any) -> list[tuple[str, Any]] | None:
    if not isinstance(update, (list, tuple)) or not update:
        return None
    paired = all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in update)
    return list(update) if paired else None


def artifacts_in(output: Any) -> list[str]:
    """Paths that a tool presents: strings under ``artifacts`` in the update of its `Command`."""
    update = output.update if isinstance(output, Command) else None
    pairs = _pairs(update)
    held = dict(pairs).get(wire.ARTIFACTS) if pairs is not None else None
    if isinstance(update, Mapping):
        held = update.get(wire.ARTIFACTS)
    if isinstance(held, str):
        return [held]
    return [path for path in held if isinstance(path, str)] if isinstance(held, (list, tuple)) else []


def is_hidden(message: BaseMessage) -> bool:
    """Whether the user does not see it."""
    return message.additional_kwargs.get(wire.HIDE_FROM_UI) is True


def first_human(inputs: Any) -> HumanMessage | None:
    """The first human message in the input of a run that is worth keeping, in its original words."""
    given = inputs.get("messages") if isinstance(inputs, Mapping) else None
    if given is None:
        return None
    try:
        messages = convert_to_messages(given if isinstance(given, list) else [given])
    except Exception:  # the graph will say so
        return None
    for message in messages:
        if isinstance(message, HumanMessage) and (not is_hidden(message) or is_answer(message)):
            return _original(message)
    return None


def is_answer(message: HumanMessage) -> bool:
    """Whether a hidden message is a well-formed answer to a question that the agent may ask."""
    held = message.additional_kwargs.get(wire.HUMAN_INPUT_RESPONSE)
    if not isinstance(held, Mapping) or held.get("source") not in ANSWER_SOURCES:
        return False
    if held.get("version", 1) != 1 or held.get("kind", "human_input_response") != "human_input_response":
        return False
    kind = held.get("response_kind", "text")
    wanted = ["value", *(["option_id"] if kind == "option" else [])]
    wanted += [key for key in ("request_id",) if key in held]
    return kind in _ANSWER_KINDS and all(isinstance(held.get(key), str) and held[key].strip() for key in wanted)


def _original(message: HumanMessage) -> HumanMessage:
    original = message.additional_kwargs.get(wire.ORIGINAL_USER_CONTENT)
    if not isinstance(original, (str, list)):
        return message
    kept = {key: value for key, value in message.additional_kwargs.items() if key != wire.ORIGINAL_USER_CONTENT}
    return message.model_copy(update={"content": original, "additional_kwargs": kept})


def text_of(message: BaseMessage) -> str:
    """The text of a message, without its other blocks."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = [block if isinstance(block, str) else block.get("text", "") for block in content or ()]
    return "".join(part for part in parts if isinstance(part, str))


def calls_given(inputs: Any) -> list[str]:
    """Ids of the tool calls that a tool node was given: a list of calls, or one call with its state."""
    if isinstance(inputs, Mapping):
        inputs = [inputs.get("tool_call")]
    if not isinstance(inputs, list):
        return []
    found = [item.get("id") for item in inputs if isinstance(item, Mapping) and "args" in item]
    return [call_id for call_id in found if isinstance(call_id, str) and call_id]


def call_ids(message: BaseMessage) -> list[str]:
    """Ids of the calls that a model made, malformed ones included: those are answered too."""
    if not isinstance(message, AIMessage):
        return []
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [call_id for call in calls if isinstance(call_id := call.get("id"), str) and call_id]
