"""What the built-in providers share: environments of threads, who may have which, and the files in them."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from remit.harness.sandbox.confined import ConfinedFiles
from remit.harness.sandbox.process import check_command
from remit.runtime.config import SandboxConfig
from remit.runtime.paths import VIRTUAL_ROOT, WORKSPACE, ThreadPaths, thread_paths
from remit.runtime.sandboxes import (
    CommandResult,
    GrepMatch,
    SandboxCommandError,
    SandboxFileError,
    SandboxUnavailableError,
)

MAX_ENVIRONMENTS: Final = 1_024
"""Environments that a provider keeps; beyond that the one that was idle longest is let go. Its files stay."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORKSPACE: Final = f"{VIRTUAL_ROOT}/{WORKSPACE}"


class ThreadSandbox(ABC):
    """The environment of one thread: its folders on the host, and commands that run in them.

    Args:
        id: Unguessable.
        paths: The folders.
        settings: Limits and variables.
    """

    def __init__(self, id: str, paths: ThreadPaths, settings: SandboxConfig) -> None:
        self.id = id
        self.paths = paths
        self.settings = settings
        self.files = ConfinedFiles(paths)
        self._lock = threading.Lock()
        self._running = 0
        self._scratch: Path | None = None
        self._remove: weakref.finalize[[str], ThreadSandbox] | None = None

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return self._running > 0

    def execute_command(
        self, command: str, *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> CommandResult:
        """Run a shell command in the workspace, and everything it started is gone when this returns.

        Args:
            command: For the shell.
            env: Variables beside those of the settings. Values of 8 characters and more are masked in the output.
            timeout: Seconds; at most, and by default, what the settings say.

        Raises:
            SandboxCommandError: It could not be started, or a name in `env` is no POSIX name.
        """
        limit = float(self.settings.command_timeout_sec)
        if timeout is not None:
            if not timeout > 0:
                raise SandboxCommandError(f"a timeout is more than 0 seconds, not {timeout!r}")
            limit = min(limit, timeout)
        given = checked_environment({**self.settings.environment, **(env or {})})
        check_command(command)
        with self._in_use():
            return self._execute(command, given, limit)

    @abstractmethod
    def _execute(self, command: str, given: Mapping[str, str], timeout: float) -> CommandResult:
        """Run a command that was checked, with the variables `given` beside the usual ones."""

    def read_file(self, path: str) -> str:
        """The file as text, undecodable bytes replaced."""
        return self.files.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        """The file as it is."""
        return self.files.read_bytes(path)

    def write_file(self, path: str, content: str, *, append: bool = False) -> None:
        """Write or append; folders are made. A reader never sees half of an overwritten file."""
        try:
            data = content.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise SandboxFileError(f"the content for {path!r} holds half of a character") from exc
        self.files.write_bytes(path, data, append=append)

    def write_bytes(self, path: str, content: bytes) -> None:
        """`write_file` for bytes."""
        self.files.write_bytes(path, content)

    def list_dir(self, path: str, *, depth: int = 2) -> list[str]:
        """Virtual paths below `path`, folders with a trailing slash, sorted."""
        return self.files.list_dir(path, depth=depth)

    def glob(self, pattern: str, *, path: str = _WORKSPACE, limit: int = 200) -> list[str]:
        """Virtual paths of the files that match, sorted, at most `limit`."""
        return self.files.glob(pattern, path=path, limit=limit)

    def grep(
        self, pattern: str, *, path: str = _WORKSPACE, include: str | None = None, limit: int = 100
    ) -> list[GrepMatch]:
        """Lines that match a regular expression, at most `limit`. Bounded in time whatever the expression."""
        return self.files.grep(pattern, path=path, include=include, limit=limit)

    def scratch(self) -> Path:
        """The folder for temporary files: private, made at first use, and gone with the environment."""
        with self._lock:
            if self._scratch is None:
                try:
                    self._scratch = Path(tempfile.mkdtemp(prefix="remit-sandbox-"))
                except OSError as exc:
                    raise SandboxCommandError(f"no folder for temporary files can be made: {exc.strerror}") from exc
                self._remove = weakref.finalize(self, _remove, str(self._scratch))
            return self._scratch

    def dispose(self) -> None:
        """Remove what belongs to the environment and not to the thread."""
        with self._lock:
            if self._remove is not None:
                self._remove()
            self._scratch = self._remove = None

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1


class ThreadSandboxProvider(ABC):
    """Keeps one environment for each thread of each user.

    Args:
        settings: Of the environments.
        base_dir: Instead of the state folder.
    """

    uses_thread_data_mounts = True
    keeps_environments = True

    def __init__(self, settings: SandboxConfig, *, base_dir: str | os.PathLike[str] | None = None) -> None:
        self.settings = settings
        self._base = base_dir
        self._lock = threading.Lock()
        self._by_id: OrderedDict[str, tuple[tuple[str, str], ThreadSandbox]] = OrderedDict()
        self._ids: dict[tuple[str, str], str] = {}

    @abstractmethod
    def _make(self, id: str, paths: ThreadPaths) -> ThreadSandbox:
        """An environment for the folders `paths`, which exist."""

    def acquire(self, thread_id: str, user_id: str) -> ThreadSandbox:
        """The environment of this thread of this user; made when there is none. Two calls at once get the same one.

        Raises:
            SandboxUnavailableError: An id cannot name a folder, or the folders cannot be made.
        """
        try:
            paths = thread_paths(user_id, thread_id, base=self._base)
            paths.create()
        except ValueError as exc:
            raise SandboxUnavailableError(str(exc)) from exc
        except OSError as exc:
            raise SandboxUnavailableError(
                f"the folders of the thread cannot be made: {exc.strerror}", details={"path": exc.filename}
            ) from exc
        owner = (thread_id, user_id)
        with self._lock:
            if (known := self._ids.get(owner)) is not None:
                self._by_id.move_to_end(known)
                return self._by_id[known][1]
            made = self._make(secrets.token_urlsafe(24), paths)
            self._by_id[made.id] = (owner, made)
            self._ids[owner] = made.id
            idle = self._idle()
        for sandbox in idle:
            sandbox.dispose()
        return made

    def get(self, sandbox_id: str, *, thread_id: str, user_id: str) -> ThreadSandbox | None:
        """The environment of that id, or None when there is none or it belongs to somebody else."""
        with self._lock:
            if not self._owns(sandbox_id, thread_id, user_id):
                return None
            self._by_id.move_to_end(sandbox_id)
            return self._by_id[sandbox_id][1]

    def release(self, sandbox_id: str, *, thread_id: str, user_id: str) -> bool:
        """Let go of it; the thread's files stay. False, and nothing happens, when it is somebody else's."""
        with self._lock:
            if not self._owns(sandbox_id, thread_id, user_id):
                return False
            sandbox = self._forget(sandbox_id)
        sandbox.dispose()
        return True

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            held = [self._forget(sandbox_id) for sandbox_id in list(self._by_id)]
        for sandbox in held:
            sandbox.dispose()

    def _owns(self, sandbox_id: str, thread_id: str, user_id: str) -> bool:
        held = self._by_id.get(sandbox_id)
        return held is not None and held[0] == (thread_id, user_id)

    def _forget(self, sandbox_id: str) -> ThreadSandbox:
        owner, sandbox = self._by_id.pop(sandbox_id)
        del self._ids[owner]
        return sandbox

    def _idle(self) -> list[ThreadSandbox]:
        excess = len(self._by_id) - MAX_ENVIRONMENTS
        if excess <= 0:
            return []
        idle = [key for key, (_, sandbox) in list(self._by_id.items())[:-1] if not sandbox.busy]
        return [self._forget(key) for key in idle[:excess]]


def checked_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env`, whose names are POSIX names and whose values can be passed to a process.

    Raises:
        SandboxCommandError: They are not.
    """
    for name, value in env.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SandboxCommandError(f"{name!r} is no name of an environment variable")
        if not isinstance(value, str) or "\x00" in value:  # the value may be a secret: it is not shown
            raise SandboxCommandError(f"the value of the environment variable {name!r} is no text without NUL")
    return dict(env)


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
