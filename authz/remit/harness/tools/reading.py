"""`read_file`: a file, or a part of it by lines or by bytes."""

from __future__ import annotations

from typing import Annotated, Final

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from remit.harness.tools.making import Maker
from remit.runtime.config import SandboxConfig
from remit.runtime.sandboxes import Sandbox

_DESCRIPTION: Final = (
    "Read a text file of the sandbox. Give a range of lines for a part of a long file, or a range of bytes for a file "
    "whose lines are very long."
)
_BINARY_HEAD: Final = 8_192
_NOTE_ROOM: Final = 160
"""Characters that are kept free for the note about what is left out."""


class _Part(BaseModel):
    path: Annotated[str, Field(description="The file.")]
    start_line: Annotated[int | None, Field(default=None, ge=1, description="First line; 1 is the first of the file.")]
    end_line: Annotated[int | None, Field(default=None, ge=1, description="Last line, which is read too.")]
    start_byte: Annotated[int | None, Field(default=None, ge=0, description="First byte; 0 is the first of the file.")]
    end_byte: Annotated[int | None, Field(default=None, ge=0, description="The byte before which to stop.")]


def read_file(make: Maker, settings: SandboxConfig) -> BaseTool:
    """The tool."""
    limit = settings.read_file_output_max_chars

    def body(
        sandbox: Sandbox,
        call_id: str | None,
        path: str,
        start_line: int | None = None,
        end_line: int | None = None,
        start_byte: int | None = None,
        end_byte: int | None = None,
    ) -> str:
        by_line = start_line is not None or end_line is not None
        by_byte = start_byte is not None or end_byte is not None
        if by_line and by_byte:
            raise ToolException("Error: give a range of lines or a range of bytes, not both")
        data = sandbox.read_bytes(path)
        if not data:
            return "(the file is empty)"
        if by_byte:
            return _bytes(data, start_byte or 0, len(data) if end_byte is None else end_byte, limit)
        if b"\x00" in data[:_BINARY_HEAD]:
            raise ToolException(f"Error: {path!r} is a binary file of {len(data)} bytes; look at it with a command")
        return _lines(data, start_line or 1, end_line, limit)

    return make("read_file", _DESCRIPTION, _Part, body, reads_file="path")


def _lines(data: bytes, start: int, end: int | None, limit: int) -> str:
    lines = _split(data)
    last = len(lines) if end is None else min(end, len(lines))
    if start > len(lines):
        raise ToolException(f"Error: start_line {start} is behind the last line, which is {len(lines)}")
    if last < start:
        raise ToolException(f"Error: end_line {end} lies before start_line {start}")
    whole = b"".join(lines[start - 1 : last])
    shown = _first(whole, limit)
    if len(shown) == len(whole):
        return _text(shown)
    shown = _first(whole, max(limit - _NOTE_ROOM, 0))
    cut = shown.rfind(b"\n") + 1
    if cut > 0:
        shown = shown[:cut]
        reached = start + shown.count(b"\n") - 1
        note = f"[cut: lines {start} to {reached} of {len(lines)} are shown; go on with start_line={reached + 1}]"
        return f"{_text(shown)}{note}"[:limit]
    place = sum(map(len, lines[: start - 1])) + len(shown)
    note = f"[cut: line {start} is very long; go on with start_byte={place}, the file has {len(data)} bytes]"
    return f"{_text(shown)}\n{note}"[:limit]


def _split(data: bytes) -> list[bytes]:
    """Lines that end with a newline character: a lone carriage return is no end of a line."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _bytes(data: bytes, start: int, end: int, limit: int) -> str:
    if start >= len(data):
        raise ToolException(f"Error: start_byte {start} is behind the end of the file, which has {len(data)} bytes")
    if end <= start:
        raise ToolException(f"Error: end_byte {end} is not greater than start_byte {start}")
    whole = data[start:end]
    shown = _first(whole, limit)
    if len(shown) == len(whole):
        return _text(shown)
    shown = _first(whole, max(limit - _NOTE_ROOM, 0))
    note = f"[cut: go on with start_byte={start + len(shown)}, the file has {len(data)} bytes]"
    return f"{_text(shown)}\n{note}"[:limit]


def _first(data: bytes, characters: int) -> bytes:
    """The bytes of the first `characters` characters, each undecodable byte being one."""
    head = data[: characters * 4]
    return head.decode("utf-8", "surrogateescape")[:characters].encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")
