"""A conversation in which every tool call has exactly one result, directly behind the message that made it.

Strict providers refuse anything else, and with it every later turn of the thread. Two passes, both linear: `is_intact`
for conversations that are in order, which is nearly all of them, and `repaired` for the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage, ToolMessage

from remit.middlewares.toolcall_json import is_good_id
from remit.middlewares.toolcall_views import Call, read, sound

_MODEL: Final = frozenset({"ai", "AIMessageChunk"})
_RESULT: Final = frozenset({"tool", "ToolMessageChunk"})


class Repair(NamedTuple):
    """A repaired conversation, and what was done to it."""

    messages: list[BaseMessage]
    unanswered: tuple[str, ...]
    """Ids of calls that were given a placeholder."""
    dropped: tuple[str, ...]
    """Ids that results without a call carried."""
    moved: int
    """Results that stood elsewhere."""
    rewritten: int
    """Model messages whose calls were not fit to be sent."""


def is_intact(messages: Sequence[BaseMessage], known: Container[str]) -> bool:
    """Whether there is nothing to repair.

    Args:
        messages: The conversation.
        known: Names of the tools that are offered.
    """
    waiting: set[str] = set()
    hosted: Collection[str] = ()
    for message in messages:
        kind = message.type
        if kind in _RESULT:
            call_id = message.tool_call_id  # type: ignore[attr-defined]  # the type says that it is a `ToolMessage`
            if call_id in waiting:
                waiting.discard(call_id)
            elif call_id not in hosted:
                return False
        elif waiting:
            return False
        elif kind in _MODEL:
            found = sound(message, known)
            if found is None:
                return False
            waiting, hosted = found.ids, found.hosted
        else:
            hosted = ()
    return not waiting


def repaired(
    messages: Sequence[BaseMessage], known: Container[str], placeholder: Callable[[Call], ToolMessage]
) -> Repair | None:
    """The conversation as it may be sent, or None when it may be sent as it is. Changes nothing in place.

    A result answers the call right before it; else the first unanswered call with its id that came earlier. One
    without an id is given to a call without an id of the last model message, when there is no doubt which one.

    Args:
        messages: The conversation.
        known: Names of the tools that are offered.
        placeholder: Makes the result of a call that has none.
    """
    turns = _turns(messages, known)
    claimed = _adjacent(messages, turns)
    _later(messages, turns, claimed)
    for turn in turns:
        _pair_without_ids(messages, turn, claimed)
    return _written(messages, {turn.index: turn for turn in turns}, claimed, placeholder)


@dataclass(slots=True)
class _Turn:
    index: int
    message: BaseMessage
    calls: list[Call]
    hosted: frozenset[str]
    extra: list[int] = field(default_factory=list)
    """Indexes of results of the provider's own tools."""
    nameless: list[int] = field(default_factory=list)
    """Indexes of results without an id between this message and the next one of the model."""


def _turns(messages: Sequence[BaseMessage], known: Container[str]) -> list[_Turn]:
    taken = {call["id"] for message in messages for call in _parsed(message) if is_good_id(call.get("id"))}
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        if message.type in _MODEL:
            turns.append(_Turn(index, *read(message, index, known, taken)))
        elif turns and message.type in _RESULT and _id_of(message) is None:
            turns[-1].nameless.append(index)
    return turns


def _parsed(message: Any) -> Sequence[Any]:
    if message.type not in _MODEL:
        return ()
    return [
        call for call in (*(message.tool_calls or ()), *(message.invalid_tool_calls or ())) if isinstance(call, dict)
    ]


def _id_of(message: Any) -> str | None:
    """The id that a result carries; None when it has none."""
    call_id = message.tool_call_id
    return call_id if is_good_id(call_id) else None


def _adjacent(messages: Sequence[BaseMessage], turns: Sequence[_Turn]) -> set[int]:
    """Pair results that stand directly behind the message with their call. Returns their indexes."""
    claimed: set[int] = set()
    for turn in turns:
        waiting: dict[str, deque[Call]] = {}
        for call in turn.calls:
            if call.original_id is not None:
                waiting.setdefault(call.original_id, deque()).append(call)
        index = turn.index + 1
        while index < len(messages) and messages[index].type in _RESULT:
            call_id = _id_of(messages[index])
            if call_id is not None and (calls := waiting.get(call_id)):
                calls.popleft().answer = index
                claimed.add(index)
            elif call_id is not None and call_id in turn.hosted and call_id not in waiting:
                turn.extra.append(index)
                claimed.add(index)
            index += 1
    return claimed


def _later(messages: Sequence[BaseMessage], turns: Sequence[_Turn], claimed: set[int]) -> None:
    """Pair results that stand further back with the first call before them that still waits."""
    waiting: dict[str, deque[tuple[int, Call]]] = {}
    for turn in turns:
        for call in turn.calls:
            if call.answer is None and call.original_id is not None:
                waiting.setdefault(call.original_id, deque()).append((turn.index, call))
    for index, message in enumerate(messages):
        if message.type in _RESULT and index not in claimed:
            queue = waiting.get(_id_of(message) or "")
            if queue and queue[0][0] < index:
                queue.popleft()[1].answer = index
                claimed.add(index)


def _pair_without_ids(messages: Sequence[BaseMessage], turn: _Turn, claimed: set[int]) -> None:
    open_calls = [call for call in turn.calls if call.original_id is None]
    by_position = len(open_calls) == len(turn.nameless)
    for position, index in enumerate(turn.nameless):
        name = getattr(messages[index], "name", None)
        fitting = [call for call in open_calls if call.answer is None and _may_be(name, call)]
        chosen = fitting[0] if len(fitting) == 1 else None
        if chosen is None and by_position and any(call is open_calls[position] for call in fitting):
            chosen = open_calls[position]
        if chosen is not None:
            chosen.answer = index
            claimed.add(index)


def _may_be(name: Any, call: Call) -> bool:
    """Whether a result of that name does not contradict the call."""
    return not isinstance(name, str) or not name.strip() or name in (call.original_name, call.name)


def _written(
    messages: Sequence[BaseMessage],
    turns: dict[int, _Turn],
    claimed: set[int],
    placeholder: Callable[[Call], ToolMessage],
) -> Repair | None:
    out: list[BaseMessage] = []
    unanswered: list[str] = []
    dropped: list[str] = []
    moved = rewritten = 0
    for index, message in enumerate(messages):
        turn = turns.get(index)
        if turn is None:
            if message.type not in _RESULT:
                out.append(message)
            elif index not in claimed:
                dropped.append(str(getattr(message, "tool_call_id", "")))
            continue
        rewritten += turn.message is not message
        out.append(turn.message)
        for call in _in_order(turn):
            if call.answer is None:
                unanswered.append(call.id)
                out.append(placeholder(call))
            else:
                moved += not index < call.answer <= index + len(turn.calls) + len(turn.extra)
                out.append(_result(messages[call.answer], call))
        out += [messages[extra] for extra in turn.extra]
    if len(out) == len(messages) and all(new is old for new, old in zip(out, messages, strict=True)):
        return None
    return Repair(out, tuple(unanswered), tuple(dropped), moved, rewritten)


def _in_order(turn: _Turn) -> list[Call]:
    """The calls in the order in which their results are sent.

    Results that stand where they belong keep their order, so that the beginning of the request stays the same from
    turn to turn and the provider's cache of it useful.
    """
    answers = [call.answer for call in turn.calls]
    if None in answers or turn.extra:
        return turn.calls
    in_place = range(turn.index + 1, turn.index + 1 + len(answers))
    return sorted(turn.calls, key=lambda call: call.answer or 0) if set(answers) == set(in_place) else turn.calls


def _result(message: BaseMessage, call: Call) -> BaseMessage:
    """A result under the id and the name that its call has in the request."""
    update: dict[str, str] = {}
    if getattr(message, "tool_call_id", None) != call.id:
        update["tool_call_id"] = call.id
    if message.name and message.name == call.original_name and call.name != call.original_name:
        update["name"] = call.name
    return message.model_copy(update=update) if update else message
