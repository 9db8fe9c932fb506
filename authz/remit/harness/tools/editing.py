"""`write_file` and `str_replace`: changes to files."""

from __future__ import annotations

from typing import Annotated, Final

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from remit.harness.sandbox.confined import MAX_WRITE_BYTES
from remit.harness.tools.making import Maker
from remit.harness.tools.shown import normal, path_line
from remit.runtime.config import SandboxConfig
from remit.runtime.sandboxes import Sandbox

_WRITE: Final = "Write a text file of the sandbox, or append to it. Folders that are missing are made."
_REPLACE: Final = (
    "Replace a piece of text in a file of the sandbox. The old text must occur exactly once, unless all occurrences "
    "are to be replaced."
)


class _Whole(BaseModel):
    path: Annotated[str, Field(description="The file.")]
    content: Annotated[str, Field(description="The text.")]
    append: Annotated[bool, Field(default=False, description="Whether it is added to the end of the file.")]


class _Piece(BaseModel):
    path: Annotated[str, Field(description="The file.")]
    old_str: Annotated[str, Field(description="The text that is there, exactly.")]
    new_str: Annotated[str, Field(description="The text in its place.")]
    replace_all: Annotated[bool, Field(default=False, description="Whether every occurrence is replaced.")]


def write_file(make: Maker, settings: SandboxConfig) -> BaseTool:
    """The tool."""

    def body(sandbox: Sandbox, call_id: str | None, path: str, content: str, append: bool = False) -> str:
        size = len(_encoded(content, "content", settings.write_file_max_bytes))
        sandbox.write_file(path, content, append=append)
        return f"{'appended' if append else 'wrote'} {size} bytes to {path_line(normal(path))}"

    return make("write_file", _WRITE, _Whole, body, writes_file="path")


def str_replace(make: Maker, settings: SandboxConfig) -> BaseTool:
    """The tool."""

    def body(
        sandbox: Sandbox, call_id: str | None, path: str, old_str: str, new_str: str, replace_all: bool = False
    ) -> str:
        limit = settings.write_file_max_bytes
        old, new = _encoded(old_str, "old_str", MAX_WRITE_BYTES), _encoded(new_str, "new_str", limit)
        if not old:
            raise ToolException("Error: old_str is empty; use write_file to make a file or to append")
        if old == new:
            raise ToolException("Error: old_str and new_str are the same")
        # As bytes: what cannot be decoded stays as it is.
        data = sandbox.read_bytes(path)
        count = data.count(old)
        if count == 0:
            raise ToolException(f"Error: old_str does not occur in {path!r}; read the file, and copy the text exactly")
        if count > 1 and not replace_all:
            raise ToolException(
                f"Error: old_str occurs {count} times in {path!r}; add lines around it until it is unique, "
                "or set replace_all"
            )
        if len(data) + count * (len(new) - len(old)) > MAX_WRITE_BYTES:
            raise ToolException(f"Error: {path!r} would become longer than {MAX_WRITE_BYTES} bytes")
        sandbox.write_bytes(path, data.replace(old, new))
        return f"replaced {count} occurrence{'s' if count > 1 else ''} in {path_line(normal(path))}"

    return make("str_replace", _REPLACE, _Piece, body, writes_file="path")


def _encoded(text: str, what: str, limit: int) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise ToolException(f"Error: {what} holds half of a character") from exc
    if len(data) > limit:
        raise ToolException(
            f"Error: {what} has {len(data)} bytes, and {limit} is the limit; write it in several parts with append"
        )
    return data
