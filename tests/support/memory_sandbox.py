"""A sandbox that is a dictionary, and the door to it: for tests of what stands around file tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from remit.runtime.paths import normal_virtual_path
from remit.runtime.sandboxes import (
    CommandResult,
    GrepMatch,
    Sandbox,
    SandboxAccess,
    SandboxFileError,
    SandboxUnavailableError,
)


class MemorySandbox:
    """Files in memory. Links are followed; a folder is a path that ends in a slash."""

    def __init__(self, sandbox_id: str) -> None:
        self.id = sandbox_id
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.faults: dict[str, Exception] = {}
        """Path -> what reading it raises."""
        self.reads = 0

    def real_path(self, path: str) -> str:
        path = normal_virtual_path(path)
        return self.links.get(path, path)

    def read_bytes(self, path: str) -> bytes:
        self.reads += 1
        path = self.real_path(path)
        if path in self.faults:
            raise self.faults[path]
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def read_file(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "replace")

    def write_bytes(self, path: str, content: bytes) -> None:
        self.files[self.real_path(path)] = content

    def write_file(self, path: str, content: str, *, append: bool = False) -> None:
        path = self.real_path(path)
        self.files[path] = (self.files.get(path, b"") if append else b"") + content.encode()

    def execute_command(
        self, command: str, *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> CommandResult:
        raise NotImplementedError

    def list_dir(self, path: str, *, depth: int = 2) -> list[str]:
        return sorted(self.files)

    def glob(self, pattern: str, *, path: str = "/", limit: int = 200) -> list[str]:
        raise NotImplementedError

    def grep(self, pattern: str, *, path: str = "/", include: str | None = None, limit: int = 100) -> list[GrepMatch]:
        raise NotImplementedError


class MemoryProvider:
    """One `MemorySandbox` per thread of a user."""

    uses_thread_data_mounts = False

    def __init__(self, make: Callable[[str], Any] = MemorySandbox) -> None:
        self.made: dict[tuple[str, str], Any] = {}
        self._make = make
        self._lock = threading.Lock()
        self.down = False

    def acquire(self, thread_id: str, user_id: str) -> Sandbox:
        if self.down:
            raise SandboxUnavailableError("the sandbox service does not answer")
        with self._lock:
            key = (thread_id, user_id)
            if key not in self.made:
                self.made[key] = self._make(f"{user_id}/{thread_id}")
            found: Sandbox = self.made[key]
            return found

    def get(self, sandbox_id: str, *, thread_id: str, user_id: str) -> Sandbox | None:
        return self.made.get((thread_id, user_id))

    def release(self, sandbox_id: str, *, thread_id: str, user_id: str) -> bool:
        return False

    def close(self) -> None:
        self.made.clear()


class World:
    """A provider, the door to it, and file tools over the door. `gate` raises where the policy says no.

    Args:
        gate: Asked before every use that was not decided in the same scope.
        make: Makes one environment.
    """

    def __init__(self, gate: Callable[[Any], None] | None = None, make: Callable[[str], Any] = MemorySandbox) -> None:
        self.asked = 0
        self._gate = gate
        self.provider = MemoryProvider(make)
        self.access = SandboxAccess(self.provider, self._ask, self._aask)

    def _ask(self, context: Any) -> None:
        self.asked += 1
        if self._gate is not None:
            self._gate(context)

    async def _aask(self, context: Any) -> None:
        self._ask(context)

    def sandbox(self, thread: str = "t1", user: str = "u1") -> Any:
        """The environment of a thread."""
        return self.provider.acquire(thread, user)

    def tools(self) -> list[Any]:
        """``read_file``, ``write_file`` and ``str_replace``, as an agent would have them."""
        access = self.access

        @tool
        def read_file(path: str, runtime: ToolRuntime[Any, Any], start: int = 1, end: int = 0) -> str:
            """Read a file."""
            text = access.ensure(runtime).read_file(path)
            return "\n".join(text.splitlines()[start - 1 : end]) if end else text

        @tool
        def write_file(path: str, content: str, runtime: ToolRuntime[Any, Any], append: bool = False) -> str:
            """Write a file."""
            access.ensure(runtime).write_file(path, content, append=append)
            return "written"

        @tool
        def str_replace(path: str, old: str, new: str, runtime: ToolRuntime[Any, Any]) -> str:
            """Replace text in a file."""
            sandbox = access.ensure(runtime)
            text = sandbox.read_file(path)
            if old not in text:
                raise SandboxFileError("the text was not found")
            sandbox.write_file(path, text.replace(old, new))
            return "replaced"

        return [read_file, write_file, str_replace]
