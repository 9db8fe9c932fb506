"""The trail of what was done to a tool's result between the tool and the model.

An ordered list in the message's metadata; its last entry made the bytes that the model sees.
"""

from __future__ import annotations

from typing import Final, Literal, TypedDict

from langchain_core.messages import ToolMessage

from remit.authz import wire

Transform = Literal["sanitized", "externalized", "truncated", "annotated"]
VERSION: Final = "1"


class TransformEntry(TypedDict):
    """One change."""

    kind: Transform
    by: str
    """Class name of the middleware."""
    version: str


def append_tool_transform(message: ToolMessage, kind: Transform, *, by: str) -> ToolMessage:
    """A copy of `message` that says it was changed; `message` itself stays as it is."""
    kwargs = message.additional_kwargs
    held = kwargs.get(wire.TOOL_TRANSFORMS)
    trail = [*(held if isinstance(held, list) else ()), TransformEntry(kind=kind, by=by, version=VERSION)]
    return message.model_copy(update={"additional_kwargs": {**kwargs, wire.TOOL_TRANSFORMS: trail}})
