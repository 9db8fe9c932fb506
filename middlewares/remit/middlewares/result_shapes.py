"""What comes out of a tool, brought into a shape that every later step can work with.

LangGraph takes more from a tool than it can carry: an answer to another call, a `Command` without any answer, messages
as mappings, text with half characters, an artifact that no checkpoint can hold. `well_shaped` hands on what is in order
as it is, repairs what can be repaired, and raises `UnusableResult` for the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from remit.middlewares.results import EVERY_CALL, map_messages
from remit.runtime.reserved import REGISTRY, Kind

log = logging.getLogger("remit.middlewares")

UNNAMED: Final = "unknown_tool"
NO_CALL_ID: Final = "missing_tool_call_id"
MAX_DEPTH: Final = 64
"""Levels of nesting in the content of a message. Serialisers give up at a few hundred."""
_MAX_NODES: Final = 2_000
_SECRET_CHANNELS: Final = frozenset(item.key for item in REGISTRY.values() if item.kind is Kind.CHANNEL and item.secret)
"""Whose run this is, for one: it is told by the server and not by what runs in it."""
_CHECKPOINTER: Final = "__pregel_checkpointer"
_SMALL: Final = (-(2**63), 2**63)
_PLAIN: Final = (str, bool, float, bytes, type(None))


class UnusableResult(Exception):
    """The tool ran, and what it handed back cannot be used. The text is safe to show to the model."""


class CallNames(NamedTuple):
    """What a call goes by; fallbacks stand for what the model left out."""

    tool: str
    call_id: str

    @classmethod
    def of(cls, tool_call: Mapping[str, Any]) -> CallNames:
        name, call_id = tool_call.get("name"), tool_call.get("id")
        return cls(
            name if isinstance(name, str) and name else UNNAMED,
            call_id if isinstance(call_id, str) and call_id else NO_CALL_ID,
        )


def well_shaped(result: Any, call: CallNames, config: Any = None) -> Any:
    """`result` as a `ToolMessage`, a `Command`, or a list of them, that answers `call`.

    Args:
        result: Whatever the tool, or a wrapper around it, handed back.
        call: The call.
        config: Of the run; tells whether there is a checkpointer that must be able to store the result.

    Raises:
        UnusableResult: It cannot be brought into such a shape.
    """
    shaped = _shaped(result, call)
    if not answers(shaped, call.call_id):
        raise UnusableResult("it returned no answer to the call")
    return _storable(shaped, config)


def answers(result: Any, call_id: str) -> bool:
    """Whether `result` holds a message for the call, or is an instruction to a graph outside that needs none."""
    if isinstance(result, ToolMessage):
        return result.tool_call_id == call_id
    if isinstance(result, Command):
        if result.graph is not None:
            return True
        return any(_answers(message, call_id) for message in _messages(result.update))
    return isinstance(result, (list, tuple)) and any(answers(item, call_id) for item in result)


def clean_text(text: str) -> str:
    """`text` with every half of a character replaced: no encoder takes them, and stores would change them silently."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _shaped(result: Any, call: CallNames) -> Any:
    if isinstance(result, ToolMessage):
        return _message(result, call, own=True)
    if isinstance(result, Command):
        return _command(result, call)
    if isinstance(result, (list, tuple)) and result and all(isinstance(one, (ToolMessage, Command)) for one in result):
        return _list(result, call)
    if isinstance(result, str):  # from a wrapper; tools themselves are answered for by LangChain
        return ToolMessage(clean_text(result), name=call.tool, tool_call_id=call.call_id)
    raise UnusableResult(f"it returned {type(result).__name__}, which is no tool result")


def _list(results: Any, call: CallNames) -> list[Any]:
    several = [_command(one, call) if isinstance(one, Command) else one for one in results]
    if not answers(several, call.call_id) and len(several) == 1:
        return [_shaped(several[0], call)]
    return [_message(one, call, own=False) if isinstance(one, ToolMessage) else one for one in several]


def _message(message: ToolMessage, call: CallNames, *, own: bool) -> ToolMessage:
    """`message` with usable content; when it is the answer to `call`, with its id and name as well."""
    changes: dict[str, Any] = {}
    if own and message.tool_call_id != call.call_id:
        changes["tool_call_id"] = call.call_id  # a tool answers for itself and for nobody else
    if message.tool_call_id == call.call_id or own:
        if message.name != call.tool:
            changes["name"] = call.tool
    elif isinstance(message.name, str) and (name := clean_text(message.name)) != message.name:
        changes["name"] = name
    if (content := _content(message.content)) is not message.content:
        changes["content"] = content
    if message.status not in ("success", "error"):
        changes["status"] = "error"
    return message.model_copy(update=changes) if changes else message


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return clean_text(content)
    if content is None:
        return ""
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    if not isinstance(content, list):
        raise UnusableResult(f"its content is {type(content).__name__}, which no message can hold")
    blocks = [_clean(block, MAX_DEPTH) for block in content]
    return content if all(new is old for new, old in zip(blocks, content, strict=True)) else blocks


def _clean(value: Any, depth: int) -> Any:
    """`value` as JSON can hold it, the same object where nothing had to be changed."""
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if _SMALL[0] <= value < _SMALL[1] else hex(value)
    if depth == 0:
        raise UnusableResult(f"its content is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        pairs = [(_clean(_key(key), depth - 1), _clean(item, depth - 1)) for key, item in value.items()]
        same = all(new[0] is old[0] and new[1] is old[1] for new, old in zip(pairs, value.items(), strict=True))
        return value if same else dict(pairs)
    if isinstance(value, (list, tuple)):
        items = [_clean(item, depth - 1) for item in value]
        same = isinstance(value, list) and all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return _written(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else _written(key)


def _written(value: Any) -> str:
    try:
        return clean_text(str(value))
    except Exception:  # an object of the tool that cannot even be written
        return f"<{type(value).__name__}>"


def _command(command: Command[Any], call: CallNames) -> Command[Any]:
    update = _permitted(_objects(command.update), call)
    if update is not command.update:
        command = replace(command, update=update)
    return cast(
        "Command[Any]",
        map_messages(command, lambda message: _message(message, call, own=False), call_id=EVERY_CALL),
    )


def _permitted(update: Any, call: CallNames) -> Any:
    """`update` without the channels that no tool may write."""
    pairs = list(update.items() if isinstance(update, Mapping) else update or ())
    if not any(key in _SECRET_CHANNELS for key, _ in pairs):
        return update
    log.warning("the tool %r wrote a channel of the server's; that part of its update is dropped", call.tool)
    kept = [(key, value) for key, value in pairs if key not in _SECRET_CHANNELS]
    return dict(kept) if isinstance(update, Mapping) else kept


def _objects(update: Any) -> Any:
    """An update whose messages are message objects: what is still a mapping would pass every later step unseen."""
    if update is None:
        return update
    if isinstance(update, BaseMessage):
        return {"messages": [update]}
    if isinstance(update, Mapping):
        if "messages" not in update:
            return update
        found = _converted(update["messages"])
        return update if found is update["messages"] else {**update, "messages": found}
    if isinstance(update, (list, tuple)) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in update
    ):
        pairs = [(key, _converted(value) if key == "messages" else value) for key, value in update]
        return update if all(new[1] is old[1] for new, old in zip(pairs, update, strict=True)) else pairs
    if isinstance(update, (list, tuple)) and all(isinstance(message, BaseMessage) for message in update):
        return {"messages": list(update)}
    pairs = list(Command(update=update)._update_as_tuples())
    if any(key == "__root__" for key, _ in pairs):
        raise UnusableResult(f"its update is {type(update).__name__}, which is no update of the state")
    return {key: _converted(value) if key == "messages" else value for key, value in pairs}


def _converted(messages: Any) -> Any:
    if messages is None:
        return []
    if isinstance(messages, BaseMessage):
        return messages
    if isinstance(messages, tuple) and all(isinstance(message, BaseMessage) for message in messages):
        return list(messages)  # any other tuple is one message to the graph: role and content
    several = messages if isinstance(messages, list) else [messages]
    if all(isinstance(message, BaseMessage) for message in several):
        return messages
    try:
        return convert_to_messages(several)
    except Exception as exc:
        raise UnusableResult("its update holds something that is no message") from exc


def _messages(update: Any) -> list[Any]:
    if isinstance(update, Mapping):
        found = update.get("messages")
    elif isinstance(update, (list, tuple)):
        found = [value for key, value in update if key == "messages"]
        found = [one for value in found for one in (value if isinstance(value, (list, tuple)) else [value])]
    else:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _answers(message: Any, call_id: str) -> bool:
    if isinstance(message, RemoveMessage):
        return message.id == REMOVE_ALL_MESSAGES
    return isinstance(message, ToolMessage) and message.tool_call_id == call_id


def _storable(result: Any, config: Any) -> Any:
    """`result`, without what the run's checkpointer cannot store."""
    saver = (config.get("configurable") or {}).get(_CHECKPOINTER) if isinstance(config, Mapping) else None
    serde = getattr(saver, "serde", None)
    if serde is None:
        return result
    result = map_messages(result, lambda message: _stored(message, serde), call_id=EVERY_CALL)
    for command in [result] if isinstance(result, Command) else result if isinstance(result, list) else ():
        if isinstance(command, Command) and not (_is_plain(command.update) or _can_store(command.update, serde)):
            raise UnusableResult("its update of the state cannot be stored")
    return result


def _stored(message: ToolMessage, serde: Any) -> ToolMessage:
    extras = (message.artifact, message.additional_kwargs, message.response_metadata)
    if all(map(_is_plain, extras)) or _can_store(message, serde):
        return message
    log.warning("a result of the tool %r holds objects that no checkpoint can store; they are left out", message.name)
    bare = message.model_copy(update={"artifact": None})
    if _can_store(bare, serde):
        return bare
    return bare.model_copy(update={"additional_kwargs": {}, "response_metadata": {}})


def _can_store(value: Any, serde: Any) -> bool:
    try:
        serde.dumps_typed(value)
    except Exception:
        return False
    return True


def _is_plain(value: Any) -> bool:
    """Whether `value` is small and of JSON's types: then nobody needs to try whether it can be stored."""
    waiting, seen = [(value, 0)], 0
    while waiting:
        item, depth = waiting.pop()
        seen += 1
        if seen > _MAX_NODES or depth > MAX_DEPTH:
            return False
        if isinstance(item, _PLAIN):
            continue
        if isinstance(item, int):
            if not _SMALL[0] <= item < _SMALL[1]:
                return False
        elif type(item) is dict:
            if not all(isinstance(key, str) for key in item):
                return False
            waiting += [(one, depth + 1) for one in item.values()]
        elif type(item) in (list, tuple):
            waiting += [(one, depth + 1) for one in item]
        else:
            return False
    return True
