"""Read marks: which version of which file the model has seen, signed, in the metadata of the result that showed it.

A mark counts in the thread, for the user and on the message it was made for. Whatever anybody else puts in its place
counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from langchain_core.messages import ToolMessage

from remit.authz import wire
from remit.runtime.sandboxes import Sandbox
from remit.runtime.signing import signer

_PURPOSE: Final = "read-mark"
_BLOCK: Final = "write-block"


class FailsAsText(Exception):
    """A sandbox that says so reported a failure as text: what lies at the path cannot be told."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose file it is."""

    thread_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Version:
    """A file as it is now."""

    digest: str
    """SHA-256 of all of it, as 64 hexadecimal digits."""
    size: int
    """Bytes."""
    holds: bool
    """Whether the line that was asked about stands in it."""


def version_of(sandbox: Sandbox, path: str, line: str = "") -> Version | None:
    """The file at `path` as it is now; None when there is none.

    Args:
        sandbox: Read with `read_bytes`, which raises. One that has the attribute ``errors_as_text`` set to True is read
            with `read_file` instead, and an answer that begins with ``Error:`` is a failure.
        path: Virtual path.
        line: Text to look for in it.

    Raises:
        FailsAsText: Such a sandbox reported a failure.
        Exception: Whatever else reading raises.
    """
    try:
        if getattr(sandbox, "errors_as_text", False) is True:
            text = sandbox.read_file(path)
            if text.startswith("Error:"):
                raise FailsAsText(text[:200])
            content = text.encode("utf-8", "surrogatepass")
        else:
            content = sandbox.read_bytes(path)
    except FileNotFoundError:
        return None
    return Version(sha256(content).hexdigest(), len(content), line.encode("utf-8", "surrogatepass") in content)


def with_mark(message: ToolMessage, path: str, digest: str, owner: Owner) -> ToolMessage:
    """A copy of `message` that says: this showed the file `path` in the version `digest`."""
    signature = signer().sign(_PURPOSE, owner.thread_id, owner.user_id, path, digest, message.tool_call_id)
    return _with(message, wire.READ_MARK, {"path": path, "hash": digest, "signature": signature})


def newest_mark(messages: Sequence[Any], path: str, owner: Owner) -> str | None:
    """The version of `path` that was seen last, by the newest mark that is valid; None when there is none."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            continue
        mark = message.additional_kwargs.get(wire.READ_MARK)
        if not isinstance(mark, Mapping) or mark.get("path") != path:
            continue
        digest = mark.get("hash")
        if isinstance(digest, str) and signer().verify(
            mark.get("signature"), _PURPOSE, owner.thread_id, owner.user_id, path, digest, message.tool_call_id
        ):
            return digest
    return None


def with_block(message: ToolMessage, reason: str, owner: Owner) -> ToolMessage:
    """A copy of `message` that says: this write was refused, nothing of it was carried out."""
    signature = signer().sign(_BLOCK, owner.thread_id, owner.user_id, message.tool_call_id)
    return _with(message, wire.WRITE_BLOCK, {"reason": reason, "signature": signature})


def blocked_calls(messages: Iterable[Any], owner: Owner) -> frozenset[str]:
    """Ids of the calls whose writes were refused."""
    return frozenset(
        message.tool_call_id
        for message in messages
        if isinstance(message, ToolMessage)
        and isinstance(held := message.additional_kwargs.get(wire.WRITE_BLOCK), Mapping)
        and signer().verify(held.get("signature"), _BLOCK, owner.thread_id, owner.user_id, message.tool_call_id)
    )


def has_blocks(messages: Iterable[Any]) -> bool:
    """Whether any message claims that a write was refused."""
    return any(
        isinstance(message, ToolMessage) and wire.WRITE_BLOCK in message.additional_kwargs for message in messages
    )


def _with(message: ToolMessage, key: str, value: dict[str, str]) -> ToolMessage:
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, key: value}})
