"""What may enter a run from outside: input, state updates and replays, cleaned by the registry of reserved things.

Pure functions. Whoever takes something from a client passes it through here before a graph sees it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

from remit.runtime.reserved import Kind, clean_metadata, is_server_id, may_send

CLIENT_BLOCKS: Final = frozenset(
    {"text", "image", "image_url", "audio", "input_audio", "video", "file", "document", "media"}
)
"""Types of content blocks in a client's message. Others speak for tools or for the model."""
_MESSAGES: Final = "messages"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SERVER_NAMES: Final = frozenset({"summary"})
_MAX_ID: Final = 256


def clean_messages(messages: Any, *, internal: bool = False, taken: Collection[str] = ()) -> list[BaseMessage]:
    """Messages of a caller, without what only the server writes.

    From a client only human messages are accepted, and of them content, id, name and the metadata that clients may
    write. From one of the host's own services, messages of the model, of tools and of the system as well.

    Args:
        messages: A list, or a single message: message objects, mappings, pairs or text, as LangChain takes them.
        internal: Whether the host authenticated the caller as one of its own services.
        taken: Ids of messages of the thread. A client's message with one of them would replace what stands there, so it
            gets a new id, like one with an id of a form that only the server gives.

    Raises:
        ValueError: A message is malformed or of a kind that this caller may not send; naming its index.
    """
    items = list(messages) if _is_list(messages) else [messages]
    return [_message(item, index, internal, taken) for index, item in enumerate(items)]


def clean_run_input(value: Any, *, internal: bool = False, taken: Collection[str] = ()) -> dict[str, Any] | None:
    """The input of a run or of a replay; None, which continues a run, stays None.

    Args:
        value: A mapping of state channels.
        internal: As `clean_messages`.
        taken: As `clean_messages`.

    Raises:
        ValueError: It is no mapping, a channel may not be written, or a message is refused. Every channel is named.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"a run's input must be a mapping of channels, got {type(value).__name__}; send 'messages'")
    if refused := [key for key in value if not _may_write(key, value[key], internal)]:
        names = ", ".join(sorted(repr(key) for key in refused))
        raise ValueError(f"the input has channels that only the server writes: {names}; send 'messages' alone")
    out = dict(value)
    if _MESSAGES in out:
        out[_MESSAGES] = clean_messages(out[_MESSAGES], internal=internal, taken=taken)
    return out


def clean_state_update(values: Any, *, internal: bool = False, taken: Collection[str] = ()) -> Any:
    """The values of a state update: a mapping of channels, a list of them, or None.

    Args:
        values: As received.
        internal: As `clean_messages`.
        taken: As `clean_messages`.

    Raises:
        ValueError: As `clean_run_input`.
    """
    if _is_list(values):
        return [clean_run_input(one, internal=internal, taken=taken) for one in values]
    return clean_run_input(values, internal=internal, taken=taken)


def clean_command(command: Any, *, internal: bool = False, taken: Collection[str] = ()) -> dict[str, Any]:
    """A resume with an answer, as the fields of a `langgraph.types.Command`: ``resume`` and a cleaned ``update``.

    Args:
        command: A mapping, as received.
        internal: As `clean_messages`.
        taken: As `clean_messages`.

    Raises:
        ValueError: It has other fields (``goto`` would jump over the guards), or its update is refused.
    """
    if not isinstance(command, Mapping):
        raise ValueError(f"a command must be a mapping, got {type(command).__name__}")
    given = {key: value for key, value in command.items() if value is not None}
    if other := given.keys() - {"resume", "update"}:
        names = ", ".join(sorted(repr(key) for key in other))
        raise ValueError(f"a command may hold 'resume' and 'update' only, not {names}")
    if "update" in given:
        given["update"] = clean_run_input(given["update"], internal=internal, taken=taken)
    return given


def _is_list(value: Any) -> bool:
    """Whether `value` is a list of messages; a pair of strings is one message."""
    if isinstance(value, tuple):
        return not (len(value) == 2 and all(isinstance(part, str) for part in value))
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _may_write(key: Any, value: Any, internal: bool) -> bool:
    return isinstance(key, str) and may_send(Kind.CHANNEL, key, value, internal=internal)


def _message(item: Any, index: int, internal: bool, taken: Collection[str]) -> BaseMessage:
    try:
        (message,) = convert_to_messages([item])
    except Exception as exc:
        raise ValueError(f"message {index} is no message: {type(exc).__name__}") from exc
    message_id = message.id
    if not isinstance(message_id, str) or is_server_id(message_id) or len(message_id) > _MAX_ID:
        message_id = None  # the state gives it a new one
    metadata = clean_metadata(message.additional_kwargs, internal=internal)
    if internal:
        if not isinstance(message, (HumanMessage, AIMessage, SystemMessage, ToolMessage)):
            raise ValueError(f"message {index} is of type {message.type!r}; send human, ai, system or tool messages")
        return message.model_copy(update={"additional_kwargs": metadata, "id": message_id})
    if not isinstance(message, HumanMessage):
        raise ValueError(f"message {index} is of type {message.type!r}; clients may send human messages only")
    return HumanMessage(
        content=_content(message.content, index),
        additional_kwargs=metadata,
        id=None if message_id in taken else message_id,
        name=_name(message.name),
    )


def _content(content: Any, index: int) -> Any:
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, Mapping):
            continue
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in CLIENT_BLOCKS:
            raise ValueError(f"message {index} has content of type {kind!r}, which clients may not send")
        if kind == "text" and not isinstance(block.get("text"), str):
            raise ValueError(f"message {index} has a text block without text")
    return content


def _name(name: Any) -> str | None:
    """A name goes to the model provider as it is, past everything that reads content."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) and name not in _SERVER_NAMES else None
