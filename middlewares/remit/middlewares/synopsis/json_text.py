"""A synopsis of JSON, of several JSON texts in a row included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from remit.middlewares.synopsis.parts import Effort, Synopsis, listed, plural, token

MAX_KEYS: Final = 12
MAX_EXAMPLES: Final = 6
MAX_PATHS: Final = 24
MAX_DEPTH: Final = 4
_DECODER: Final = json.JSONDecoder()


def read_json(text: str, effort: Effort) -> Synopsis | None:
    """What is in a JSON text; None when it is none."""
    body = text.lstrip("\ufeff \t\r\n")
    if not body.startswith(("{", "[")):
        return None
    try:
        value, end = _DECODER.raw_decode(body)
    except (ValueError, RecursionError):
        return None
    rest = body[end:].strip()
    if body.startswith("[") and rest and not rest.startswith(("{", "[")):
        return None  # a log line that begins with a bracket
    notable = [f"{len(rest):,} characters follow the first value"] if rest else []
    if rest.startswith(("{", "[")):
        notable = [f"more values follow the first: {plural(rest.count(chr(10)) + 1, 'line')}"]
    if isinstance(value, dict):
        return _of_object(value, notable)
    return _of_array(value, notable)


def _of_object(value: dict[str, Any], notable: list[str]) -> Synopsis:
    examples = [
        f"{token(key, 40)} = {token(held)}" for key, held in value.items() if not isinstance(held, (dict, list))
    ]
    return Synopsis(
        kind="json",
        title=f"JSON object with {plural(len(value), 'key')}",
        summary=(f"keys: {listed(value, len(value), MAX_KEYS)}", *examples[:MAX_EXAMPLES]),
        structure=tuple(_paths(value)),
        notable=tuple(notable),
    )


def _of_array(value: list[Any], notable: list[str]) -> Synopsis:
    summary = []
    if value:
        summary.append(f"first item: {_shape(value[0], 2)}")
        if isinstance(value[0], dict):
            scalars = ((key, held) for key, held in value[0].items() if not isinstance(held, (dict, list)))
            summary += [
                f"first item's {token(key, 40)} = {token(held)}"
                for (key, held), _ in zip(scalars, range(MAX_EXAMPLES), strict=False)
            ]
        elif not isinstance(value[0], list):
            summary.append(f"examples: {listed(value[:MAX_EXAMPLES], len(value), MAX_EXAMPLES)}")
    return Synopsis(
        kind="json",
        title=f"JSON array with {plural(len(value), 'item')}",
        summary=tuple(summary),
        structure=tuple(_paths(value)),
        notable=tuple(notable),
    )


def _shape(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        if not depth:
            return f"object with {plural(len(value), 'key')}"
        return f"object with keys {listed(value, len(value), MAX_KEYS)}" if value else "empty object"
    if isinstance(value, list):
        if not value or not depth:
            return f"array with {plural(len(value), 'item')}"
        return f"array with {plural(len(value), 'item')}, the first: {_shape(value[0], depth - 1)}"
    return "text" if isinstance(value, str) else token(value, 40)


def _paths(value: Any) -> Iterator[str]:
    """Where containers lie: breadth first, so that a deep first branch does not hide its neighbours."""
    level: list[tuple[str, Any, int]] = [("$", value, 0)]
    found = 0
    while level:
        path, held, depth = level.pop(0)
        children = (
            [(f"{path}.{token(key, 24)}", child) for key, child in _first(held.items())]
            if isinstance(held, dict)
            else [(f"{path}[0]", child) for child in held[:1]]
        )
        for name, child in children:
            if not isinstance(child, (dict, list)):
                continue
            if (found := found + 1) > MAX_PATHS:
                return
            yield f"{name}: {_shape(child, 0)}"
            if depth + 1 < MAX_DEPTH:
                level.append((name, child, depth + 1))


def _first(items: Any) -> Iterator[tuple[str, Any]]:
    return (item for item, _ in zip(items, range(MAX_KEYS * 4), strict=False))
