"""The built-in tools: a shell and files, in the sandbox of the run's thread.

Each of them is a LangChain tool with a synchronous and an asynchronous body. What goes wrong becomes an error result
that the model can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.runtime.paths import TOOL_RESULTS_DIRNAME

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from remit.runtime.config import SandboxConfig
    from remit.runtime.sandboxes import SandboxAccess

__all__ = ["build_tools"]


def build_tools(
    access: SandboxAccess, settings: SandboxConfig, *, tool_results_dir: str = TOOL_RESULTS_DIRNAME
) -> list[BaseTool]:
    """bash, ls, glob, grep, read_file, write_file, str_replace, present_files, list_uploads, in this order.

    Args:
        access: The door to the sandboxes; every call goes through it, and so through its gate.
        settings: Limits of input and output.
        tool_results_dir: Folder below the outputs whose files are never presented.
    """
    from remit.harness.tools import artifacts, commands, editing, finding, reading
    from remit.harness.tools.making import Maker

    make = Maker(access)
    return [
        commands.bash(make, settings),
        *finding.ls_glob_grep(make, settings),
        reading.read_file(make, settings),
        editing.write_file(make, settings),
        editing.str_replace(make, settings),
        artifacts.present_files(make, tool_results_dir),
        finding.list_uploads(make, settings),
    ]
