"""`present_files`: results that the user is shown."""

from __future__ import annotations

from typing import Annotated, Any, Final

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import Command
from pydantic import BaseModel, Field

from remit.authz import wire
from remit.harness.tools.making import Maker
from remit.harness.tools.shown import parent, path_line
from remit.runtime.paths import OUTPUTS, VIRTUAL_ROOT, normal_virtual_path
from remit.runtime.sandboxes import Sandbox

MAX_PRESENTED: Final = 50
_NAME: Final = "present_files"
_OUTPUTS: Final = f"{VIRTUAL_ROOT}/{OUTPUTS}"


class _Files(BaseModel):
    paths: Annotated[
        list[str],
        Field(min_length=1, max_length=MAX_PRESENTED, description=f"Files below {_OUTPUTS}, by their whole paths."),
    ]


def present_files(make: Maker, tool_results_dir: str) -> BaseTool:
    """The tool."""

    def body(sandbox: Sandbox, call_id: str | None, paths: list[str]) -> Command[Any]:
        files = list(dict.fromkeys(_presentable(path, tool_results_dir) for path in paths))
        listings = {folder: frozenset(sandbox.list_dir(folder, depth=1)) for folder in {parent(file) for file in files}}
        for file in files:
            listed = listings[parent(file)]
            if f"{file}/" in listed:
                raise ToolException(f"Error: {file!r} is a folder; name the files in it")
            if file not in listed:
                raise ToolException(f"Error: {file!r} does not exist")
        shown = "\n".join(map(path_line, files))
        message = ToolMessage(f"presented:\n{shown}", name=_NAME, tool_call_id=call_id or "")
        return Command(update={wire.ARTIFACTS: files, "messages": [message]})

    return make(_NAME, f"Show files below {_OUTPUTS} to the user, once they are finished.", _Files, body)


def _presentable(path: str, tool_results_dir: str) -> str:
    try:
        file = normal_virtual_path(path)
    except ValueError as exc:
        raise ToolException(f"Error: {exc}") from exc
    first = file.removeprefix(f"{_OUTPUTS}/").partition("/")[0]
    if not file.startswith(f"{_OUTPUTS}/") or not first:
        raise ToolException(f"Error: {path!r} does not lie below {_OUTPUTS}; copy it there first")
    if first == tool_results_dir:
        raise ToolException(f"Error: {path!r} is a stored tool result, not a result of your work")
    return file
