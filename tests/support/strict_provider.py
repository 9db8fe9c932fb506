"""What strict providers check before they read a conversation, over the request that the OpenAI converter makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_openai.chat_models.base import _convert_message_to_dict

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def complaints(messages: Sequence[BaseMessage]) -> list[str]:
    """Why a strict provider would refuse these messages; empty when it takes them."""
    found = _structure([_convert_message_to_dict(message) for message in messages])
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            found += _blocks(index, message)
    return found


def _structure(sent: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    waiting: set[str] = set()
    for index, message in enumerate(sent):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                found.append(f"{index}: a result without a call right before it")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            found.append(f"{index}: calls without a result: {sorted(waiting)}")
        waiting = set()
        if "tool_calls" in message and not message["tool_calls"]:
            found.append(f"{index}: an empty list of calls")
        for call in message.get("tool_calls") or ():
            if not isinstance(call["id"], str) or not call["id"].strip() or len(call["id"]) > 40:
                found.append(f"{index}: id {call['id']!r}")
            elif call["id"] in waiting:
                found.append(f"{index}: id {call['id']!r} twice")
            else:
                waiting.add(call["id"])
            found += _function(index, call["function"])
    if waiting:
        found.append(f"end: calls without a result: {sorted(waiting)}")
    json.dumps(sent, ensure_ascii=False).encode("utf-8")
    return found


def _function(index: int, function: Any) -> list[str]:
    found = []
    if not isinstance(function["name"], str) or not NAME.fullmatch(function["name"]):
        found.append(f"{index}: name {function['name']!r}")
    try:
        arguments = json.loads(function["arguments"], parse_constant=lambda text: text)
        if not isinstance(arguments, dict) or '"NaN"' in json.dumps(arguments):
            found.append(f"{index}: arguments {function['arguments']!r}")
    except (TypeError, ValueError):
        found.append(f"{index}: arguments {function['arguments']!r}")
    return found


def _blocks(index: int, message: AIMessage) -> list[str]:
    """Providers that read calls off the content must find the calls that the others find, and no leftovers."""
    found: list[str] = []
    ids = [call["id"] for call in message.tool_calls]
    seen: set[Any] = set()
    for block in message.content if isinstance(message.content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in ("input_json_delta", "invalid_tool_call", "tool_call_chunk"):
            found.append(f"{index}: leftover block {kind}")
        elif kind in ("tool_use", "tool_call", "function_call"):
            call_id = block.get("call_id" if kind == "function_call" else "id")
            payload = block.get({"tool_use": "input", "tool_call": "args", "function_call": "arguments"}[kind])
            if call_id not in ids or call_id in seen:
                found.append(f"{index}: block of call {call_id!r}")
            if not isinstance(payload, str if kind == "function_call" else dict):
                found.append(f"{index}: payload of block {call_id!r}")
            seen.add(call_id)
    return found
