"""From a body that works on a sandbox to a tool: the sandbox comes through the gate, errors become readable results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Final

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel

from remit.authz.errors import SandboxAuthorizationError
from remit.harness.sandbox.process import stoppable
from remit.middlewares.results import denial, safe_code
from remit.runtime.capabilities import declare
from remit.runtime.sandboxes import SandboxAccess, SandboxError

MAX_THREADS: Final = 64
"""Tool bodies that run at the same time in an event loop's process. They have threads of their own: a command may take
minutes, and must not hold up everything else that leaves the loop for a moment."""

Body = Callable[..., Any]
"""``body(sandbox, call_id, **arguments)`` returns a text, a message or a command of the graph."""


class Maker:
    """Makes tools that work on the sandbox of the run's thread.

    Args:
        access: The door to the sandboxes.
    """

    def __init__(self, access: SandboxAccess) -> None:
        self._access = access

    def __call__(
        self, name: str, description: str, schema: type[BaseModel], body: Body, **capabilities: str | bool
    ) -> BaseTool:
        """A tool.

        Args:
            name: Its name.
            description: For the model.
            schema: Of its arguments.
            body: Does the work. It blocks.
            capabilities: What it can do, beside using a sandbox.
        """
        access = self._access

        def run(runtime: ToolRuntime, **arguments: Any) -> Any:
            try:
                with _readable():
                    return body(access.ensure(runtime), runtime.tool_call_id, **arguments)
            except SandboxAuthorizationError as exc:
                return _refused(name, runtime.tool_call_id, exc)

        async def arun(runtime: ToolRuntime, **arguments: Any) -> Any:
            try:
                with _readable():
                    sandbox = await access.aensure(runtime)
                    return await _elsewhere(partial(body, sandbox, runtime.tool_call_id, **arguments))
            except SandboxAuthorizationError as exc:
                return _refused(name, runtime.tool_call_id, exc)

        tool = StructuredTool.from_function(
            func=run,
            coroutine=arun,
            name=name,
            description=description,
            args_schema=schema,
            handle_tool_error=True,
        )
        made: BaseTool = declare(tool, uses_sandbox=True, **capabilities)
        return made


async def _elsewhere(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread. When the run is cancelled, the command in that thread is stopped."""
    with stoppable() as stop:
        context = copy_context()
        future = asyncio.get_running_loop().run_in_executor(_threads(), context.run, work)
        try:
            return await future
        except asyncio.CancelledError:
            stop.set()
            raise


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="remit-sandbox")


@contextmanager
def _readable() -> Any:
    try:
        yield
    except SandboxError as exc:
        raise ToolException(f"Error: {exc}") from exc
    except OSError as exc:
        # The system's own words may name a path of the host; a text without a number was written for the model.
        raise ToolException(f"Error: {exc if exc.errno is None else exc.strerror}") from exc


def _refused(name: str, call_id: str | None, error: SandboxAuthorizationError) -> ToolMessage:
    codes = error.details.get("reason_codes")
    code = codes[0] if isinstance(codes, (list, tuple)) and codes else "authz.denied"
    # Not the error's own text, which names the role: what the model reads never explains the policy.
    text = "access denied: the sandbox is not permitted in this run. Choose an approach without it."
    return denial(name, call_id, safe_code(code), scope="invocation", text=text)
