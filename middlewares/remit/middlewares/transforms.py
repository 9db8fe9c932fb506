"""The trail of what was done to a tool's result between the tool and the model.

An ordered list in the message's metadata; its last entry made the bytes that the model sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict, cast, get_args

from langchain_core.messages import ToolMessage

from remit.authz import wire
from remit.middlewares.receipts import restamped

Transform = Literal["sanitized", "externalized", "truncated", "annotated"]
VERSION: Final = "1"
_KINDS: Final = frozenset(get_args(Transform))
_FIELDS: Final = {"kind", "by", "version"}
_MAX_ENTRIES: Final = 64


class TransformEntry(TypedDict):
    """One change."""

    kind: Transform
    by: str
    """Class name of the middleware."""
    version: str


def append_tool_transform(message: ToolMessage, kind: Transform, *, by: str) -> ToolMessage:
    """A copy of `message`, which was changed, that says so; `message` itself stays as it is.

    Its receipt, when it has a genuine one, speaks of the changed content afterwards and keeps the hash of the raw one.

    Args:
        message: With its new content.
        kind: What was done.
        by: Class name of the middleware that did it.
    """
    trail = [*transforms_of(message), TransformEntry(kind=kind, by=by, version=VERSION)]
    kwargs = {**message.additional_kwargs, wire.TOOL_TRANSFORMS: trail}
    return restamped(message.model_copy(update={"additional_kwargs": kwargs}))


def transforms_of(message: Any) -> list[TransformEntry]:
    """The trail of a message, without entries that are not well-formed. Never raises."""
    kwargs = getattr(message, "additional_kwargs", None)
    held = kwargs.get(wire.TOOL_TRANSFORMS) if isinstance(kwargs, Mapping) else None
    if not isinstance(held, list):
        return []
    return [cast("TransformEntry", entry) for entry in held[-_MAX_ENTRIES:] if _is_entry(entry)]


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.keys() == _FIELDS
        and all(isinstance(value, str) and len(value) <= 128 for value in entry.values())
        and entry["kind"] in _KINDS
    )
