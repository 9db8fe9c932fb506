"""What a tool call comes back with: mapping over the shapes of a result, and the denials that we answer with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Literal, TypedDict

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from remit.authz.vocabulary import flaw

ToolResult = ToolMessage | Command[Any]
Scope = Literal["tool", "invocation"]

MISSING_ID: Final = "missing_id"
"""Stands for the id of a call that has none; a `ToolMessage` cannot be made without one."""


class EveryCall:
    """In place of a call id: the messages of every call."""


EVERY_CALL: Final = EveryCall()
CallId = str | EveryCall | None


def map_messages(result: Any, change: Callable[[ToolMessage], ToolMessage], *, call_id: CallId) -> Any:
    """`result` with `change` applied to every `ToolMessage` that answers the call `call_id`, or to all of them.

    Understands a message, a `Command` whose update is a dict (with one message or a list or tuple of them under
    ``messages``), a list or tuple of messages or of pairs, or None, and lists of all of these. Everything else is
    handed back as it is; nothing is changed in place.
    """
    if isinstance(result, ToolMessage):
        return change(result) if call_id is EVERY_CALL or result.tool_call_id == call_id else result
    if isinstance(result, Command):
        update = _mapped_update(result.update, change, call_id)
        return result if update is result.update else replace(result, update=update)
    if isinstance(result, (list, tuple)):
        return _mapped_items(result, change, call_id)
    return result


def _mapped_update(update: Any, change: Callable[[ToolMessage], ToolMessage], call_id: CallId) -> Any:
    if isinstance(update, Mapping):
        if "messages" not in update:
            return update
        messages = map_messages(update["messages"], change, call_id=call_id)
        return update if messages is update["messages"] else {**update, "messages": messages}
    if isinstance(update, (list, tuple)) and update and all(_is_pair(item) for item in update):
        pairs = [
            (key, map_messages(value, change, call_id=call_id) if key == "messages" else value) for key, value in update
        ]
        same = all(new[1] is old[1] for new, old in zip(pairs, update, strict=True))
        return update if same else type(update)(pairs)
    return map_messages(update, change, call_id=call_id)


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _mapped_items(items: Any, change: Callable[[ToolMessage], ToolMessage], call_id: CallId) -> Any:
    mapped = [map_messages(item, change, call_id=call_id) for item in items]
    if all(new is old for new, old in zip(mapped, items, strict=True)):
        return items
    return mapped if isinstance(items, list) else tuple(mapped)


class Denial(TypedDict):
    """The artifact of a denial message: for programs and front ends, and as safe as the text."""

    code: str
    """Reason code: ``authz.denied``, ``authz.timeout``, …"""
    message: str
    """The text that the model reads."""
    scope: Scope
    """``"tool"``: no call of this tool can succeed here. ``"invocation"``: this call was refused, others may not be."""
    alternatives: list[str]
    """Tools that the policy names instead and that this caller may use."""


def denial(
    name: str, call_id: str | None, code: str, *, scope: Scope, text: str = "", alternatives: tuple[str, ...] = ()
) -> ToolMessage:
    """The error message that answers a refused call. Tells the model what to do next and nothing about rules.

    Args:
        name: The tool's name, as the model wrote it.
        call_id: The call's id.
        code: Reason code; one that does not look like a code is replaced.
        scope: Whether the tool or only this call is refused.
        text: What happened, instead of the usual sentence. Must be safe to show.
        alternatives: Tools that may be used instead.
    """
    code = safe_code(code)
    shown = shown_name(name)
    content = f"Guardrail denied: {text or _sentence(shown, code, scope)} ({code})"
    if alternatives:
        content += f" Allowed instead: {', '.join(shown_name(other) for other in alternatives)}."
    artifact = Denial(code=code, message=content, scope=scope, alternatives=list(alternatives))
    return ToolMessage(
        content=content,
        name=name or "unnamed",
        tool_call_id=call_id if isinstance(call_id, str) and call_id else MISSING_ID,
        status="error",
        artifact=artifact,
    )


_FAILURES: Final = frozenset({"authz.evaluator_error", "authz.timeout", "authz.malformed_decision", "authz.unrecorded"})


def _sentence(shown: str, code: str, scope: Scope) -> str:
    if code in _FAILURES:
        return f"whether {shown} may be called could not be decided, so it was not. Go on without it."
    if scope == "tool":
        return f"{shown} may not be used here. Do not call it again; choose another approach."
    return f"this call of {shown} is not permitted. Do not repeat it unchanged; choose another approach."


_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@lru_cache(maxsize=1024)
def safe_code(code: Any) -> str:
    """`code`, unless a provider put something else in its place: then ``authz.denied``."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "authz.denied"


def shown_name(name: str) -> str:
    """A tool name as it may stand in a sentence: quoted, escaped, cut to a readable length."""
    return repr(escaped(name if len(name) <= 64 else name[:61] + "..."))


def escaped(text: str) -> str:
    """`text` with everything a reader or a line-based log cannot see written out: ``\\u000a``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char == " " or flaw(char) is None else _spelled_out(char) for char in text)


def _spelled_out(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


_LANGGRAPH_LIST: Final = "is not a valid tool, try one of ["


def lists_tools(result: Any) -> bool:
    """Whether `result` is the tool node's own answer to an unknown name, which lists every registered tool."""
    return (
        isinstance(result, ToolMessage)
        and result.status == "error"
        and isinstance(result.content, str)
        and _LANGGRAPH_LIST in result.content
    )
