"""`bash`: a shell command in the sandbox."""

from __future__ import annotations

from typing import Annotated, Final

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from remit.harness.tools.making import Maker
from remit.harness.tools.shown import without_middle
from remit.runtime.config import SandboxConfig
from remit.runtime.sandboxes import Sandbox

_DESCRIPTION: Final = (
    "Run a shell command in the sandbox, in /mnt/user-data/workspace. Each call is a new shell: variables and the "
    "current folder do not last, files do. Output and errors come back together, then the exit code when it is not 0. "
    "What runs in the background is ended with the command."
)


class _Command(BaseModel):
    command: Annotated[str, Field(min_length=1, description="For the shell.")]
    timeout_sec: Annotated[
        float | None,
        Field(default=None, gt=0, description="Seconds after which it is stopped."),
    ]


def bash(make: Maker, settings: SandboxConfig) -> BaseTool:
    """The tool."""
    limit = settings.bash_output_max_chars

    def body(sandbox: Sandbox, call_id: str | None, command: str, timeout_sec: float | None = None) -> str:
        result = sandbox.execute_command(command, timeout=timeout_sec)
        output = result.output.replace("\x00", "\ufffd")
        if result.timed_out:
            seconds = min(timeout_sec or settings.command_timeout_sec, settings.command_timeout_sec)
            first = f"Error: the command timed out after {seconds:g} s and was stopped. Its output so far:\n"
            raise ToolException(without_middle(first + output, limit))
        if result.exit_code is None:
            raise ToolException(without_middle(f"Error: the command was stopped. Its output:\n{output}", limit))
        if result.exit_code == 0:
            return without_middle(output, limit) if output.strip() else "(no output)"
        last = f"[exit code {result.exit_code}]"
        kept = without_middle(output.rstrip("\n"), max(limit - len(last) - 1, 0))
        return (f"{kept}\n{last}" if kept.strip() else last)[:limit]

    return make("bash", _DESCRIPTION, _Command, body, executes_command="command")
