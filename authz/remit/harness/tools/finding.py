"""`ls`, `glob`, `grep` and `list_uploads`: what files there are, and what is in them."""

from __future__ import annotations

from typing import Annotated, Final

from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from remit.harness.tools.making import Maker
from remit.harness.tools.shown import lines_within, path_line
from remit.runtime.config import SandboxConfig
from remit.runtime.paths import UPLOADS, VIRTUAL_ROOT, WORKSPACE
from remit.runtime.sandboxes import Sandbox

MAX_FOUND: Final = 200
MAX_MATCHES: Final = 100
MAX_LEVELS: Final = 8
_WORKSPACE: Final = f"{VIRTUAL_ROOT}/{WORKSPACE}"
_UPLOADS: Final = f"{VIRTUAL_ROOT}/{UPLOADS}"


class _Folder(BaseModel):
    path: Annotated[str, Field(default=_WORKSPACE, description="The folder.")]
    depth: Annotated[int, Field(default=2, ge=1, le=MAX_LEVELS, description="Levels of folders.")]


class _Names(BaseModel):
    pattern: Annotated[
        str, Field(description="With * ? [...] {a,b} and ** for any number of folders, for example **/*.py.")
    ]
    path: Annotated[str, Field(default=_WORKSPACE, description="The folder to start in.")]


class _Content(BaseModel):
    pattern: Annotated[str, Field(description="Regular expression, matched line by line.")]
    path: Annotated[str, Field(default=_WORKSPACE, description="The folder or file to search.")]
    include: Annotated[str | None, Field(default=None, description="Only files of this pattern, for example *.py.")]


class _Uploads(BaseModel):
    # At least one argument: LangChain calls the body of a tool that has none without its runtime.
    pattern: Annotated[str, Field(default="**", description="Only files of this pattern, for example *.csv.")]


def ls_glob_grep(make: Maker, settings: SandboxConfig) -> list[BaseTool]:
    """The three tools."""
    limit = settings.ls_output_max_chars

    def ls(sandbox: Sandbox, call_id: str | None, path: str = _WORKSPACE, depth: int = 2) -> str:
        found = sandbox.list_dir(path, depth=depth)
        if not found:
            return f"{path_line(path)} is empty"
        return lines_within(map(path_line, found), limit, "list a folder further down, or fewer levels")

    def glob(sandbox: Sandbox, call_id: str | None, pattern: str, path: str = _WORKSPACE) -> str:
        found = sandbox.glob(pattern, path=path, limit=MAX_FOUND + 1)
        if not found:
            return "no file matches"
        return _names(found, limit)

    def grep(
        sandbox: Sandbox, call_id: str | None, pattern: str, path: str = _WORKSPACE, include: str | None = None
    ) -> str:
        found = sandbox.grep(pattern, path=path, include=include, limit=MAX_MATCHES + 1)
        if not found:
            return "no line matches"
        lines = [f"{path_line(one.path)}:{one.line}: {one.text.rstrip()}" for one in found[:MAX_MATCHES]]
        if len(found) > MAX_MATCHES:
            lines.append(f"[cut: only the first {MAX_MATCHES} lines are shown; narrow the pattern or the path]")
        return lines_within(lines, limit, "narrow the pattern or the path").replace("\x00", "\ufffd")

    return [
        make("ls", "List what is in a folder of the sandbox. Folders end with a slash.", _Folder, ls),
        make(
            "glob",
            f"Find files of the sandbox by name, at most {MAX_FOUND}. Hidden files are found only when the pattern "
            "has the dot.",
            _Names,
            glob,
        ),
        make(
            "grep",
            f"Find lines in files of the sandbox, at most {MAX_MATCHES}. Hidden and binary files are left out.",
            _Content,
            grep,
        ),
    ]


def list_uploads(make: Maker, settings: SandboxConfig) -> BaseTool:
    """The tool."""
    limit = settings.ls_output_max_chars

    def body(sandbox: Sandbox, call_id: str | None, pattern: str = "**") -> str:
        found = sandbox.glob(pattern, path=_UPLOADS, limit=MAX_FOUND + 1)
        if not found:
            return "no uploaded file matches" if pattern != "**" else "no files were uploaded"
        return _names(found, limit)

    return make("list_uploads", "List the files that the user has uploaded in this thread.", _Uploads, body)


def _names(found: list[str], limit: int) -> str:
    lines = [path_line(one) for one in found[:MAX_FOUND]]
    if len(found) > MAX_FOUND:
        lines.append(f"[cut: only the first {MAX_FOUND} files are shown; use a narrower pattern]")
    return lines_within(lines, limit, "use a narrower pattern")
