"""Names and arguments of tool calls in a form that every provider takes: plain JSON, names of letters and digits."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from remit.middlewares.results import MISSING_ID

UNKNOWN_TOOL: Final = "unknown_tool"
MAX_NAME: Final = 64
MAX_DEPTH: Final = 100
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_-]+")


def is_good_id(value: Any) -> bool:
    """Whether `value` can pair a call with its result. What stands for a missing id cannot."""
    return isinstance(value, str) and bool(value) and not value.isspace() and value != MISSING_ID


@lru_cache(maxsize=1024)
def _is_usual(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_good_name(name: Any, known: Container[str]) -> bool:
    """Whether strict providers take `name`. Those of tools that are offered are taken as they are."""
    return isinstance(name, str) and (
        (len(name) <= MAX_NAME and _is_usual(name)) or (bool(name.strip()) and name in known)
    )


def good_name(name: Any, known: Container[str]) -> str:
    """`name`, or the nearest thing to it that providers take."""
    if is_good_name(name, known):
        return str(name)
    if not isinstance(name, str):
        return UNKNOWN_TOOL
    return _OTHERS.sub("_", name[: 4 * MAX_NAME].strip())[:MAX_NAME].strip("_") or UNKNOWN_TOOL


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether `value` has a JSON form: no NaN, no lone surrogates, no foreign objects, not nested without end."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_encodable(value)
    if value is None or kind is bool or kind is int:
        return True
    if kind is float:
        return isfinite(value)
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        for key, item in value.items():  # a loop: this runs over every call of the conversation, at every model call
            if type(key) is not str or not (key.isascii() or _is_encodable(key)) or not is_plain(item, depth + 1):
                return False
        return True
    return (kind is list or kind is tuple) and all(is_plain(item, depth + 1) for item in value)


def made_plain(value: Any, depth: int = 0) -> Any:
    """`value` with everything that has no JSON form replaced: NaN by None, an object by the name of its type."""
    if is_plain(value, depth):
        return value
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return {made_plain(_key(key)): made_plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
        return [made_plain(item, depth + 1) for item in value]
    if isinstance(value, (float, Mapping, list, tuple)):
        return None
    return f"<{type(value).__name__}>"


def read_arguments(value: Any) -> tuple[dict[str, Any], str]:
    """Arguments as a provider sent them, and what is wrong with them.

    Args:
        value: The JSON text, or what somebody made of it.

    Returns:
        The arguments and the empty string; or none, and the flaw in words: ``"are empty"``.
    """
    if isinstance(value, Mapping):
        return (dict(value), "") if is_plain(dict(value)) else ({}, "hold a value that JSON has no form for")
    if not isinstance(value, str) or not value.strip():
        return {}, "are empty"
    try:
        found = json.loads(value, parse_constant=_refused)
    except RecursionError:
        return {}, "are nested too deeply"
    except ValueError as exc:
        return {}, f"are no valid JSON: {exc}"
    if not isinstance(found, dict):
        return {}, f"are a JSON {_WORDS.get(type(found), 'value')} instead of an object"
    return (found, "") if is_plain(found) else ({}, "hold text that cannot be sent")


def written_arguments(arguments: Mapping[str, Any]) -> str:
    """Plain arguments as JSON text."""
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False)


_WORDS: Final = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _key(key: Any) -> str:
    return key if isinstance(key, str) else (str(key) if isinstance(key, (int, float)) else f"<{type(key).__name__}>")
