"""The port to environments in which an agent's commands run and its files lie, and the one door to them.

```text
SandboxError                     everything an environment reports on purpose
    SandboxNotFoundError         no environment of that id belongs to this thread and user
    SandboxUnavailableError      the environment cannot be made or reached
    SandboxCommandError          a command could not be run
    SandboxFileError             a file operation was refused or failed
```

A denial by policy is `remit.authz.SandboxAuthorizationError`, no `SandboxError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from remit.authz import wire
from remit.authz.errors import AuthzError
from remit.runtime.identity import resolve_runtime_user_id, runtime_thread_id


class SandboxError(AuthzError):
    """An environment could not do what was asked of it.

    Args:
        message: Safe to show to the model.
        details: For the operator.
    """

    def __init__(self, message: str, *, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.details = dict(details or {})


class SandboxNotFoundError(SandboxError):
    """No environment of that id belongs to this thread and user."""


class SandboxUnavailableError(SandboxError):
    """The environment cannot be made or reached."""


class SandboxCommandError(SandboxError):
    """A command could not be run."""


class SandboxFileError(SandboxError):
    """A file operation was refused or failed."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command ended with."""

    output: str
    """Standard output and error in the order in which they were written, undecodable bytes replaced."""
    exit_code: int | None
    """None when the command was stopped before it ended."""
    timed_out: bool = False
    truncated: bool = False
    """Whether output beyond the provider's limit was dropped."""


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """One matching line."""

    path: str
    """Virtual path."""
    line: int
    """1-based."""
    text: str


@runtime_checkable
class Sandbox(Protocol):
    """One environment. All paths are virtual (``/mnt/user-data/…``, ``/mnt/skills/…``).

    The methods block; whoever is on an event loop calls them in a thread.

    File methods raise `SandboxFileError` for a path outside of the environment, through a symbolic link as well, and
    FileNotFoundError for a file that does not exist.
    """

    id: str

    def execute_command(
        self, command: str, *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> CommandResult:
        """Run a shell command in the workspace, and everything it started is gone when this returns.

        Raises:
            SandboxCommandError: It could not be started, or a name in `env` is no POSIX name.
        """
        ...

    def read_file(self, path: str) -> str:
        """The file as text, undecodable bytes replaced."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The file as it is."""
        ...

    def write_file(self, path: str, content: str, *, append: bool = False) -> None:
        """Write or append; folders are made. A reader never sees half of an overwritten file."""
        ...

    def write_bytes(self, path: str, content: bytes) -> None:
        """`write_file` for bytes."""
        ...

    def list_dir(self, path: str, *, depth: int = 2) -> list[str]:
        """Virtual paths below `path`, folders with a trailing slash, sorted."""
        ...

    def glob(self, pattern: str, *, path: str = "/mnt/user-data/workspace", limit: int = 200) -> list[str]:
        """Virtual paths of the files that match, sorted, at most `limit`."""
        ...

    def grep(
        self, pattern: str, *, path: str = "/mnt/user-data/workspace", include: str | None = None, limit: int = 100
    ) -> list[GrepMatch]:
        """Lines that match a regular expression, at most `limit`. Bounded in time whatever the expression."""
        ...


@runtime_checkable
class SandboxProvider(Protocol):
    """Makes environments and keeps them. Ids are random; get and release check who asks."""

    uses_thread_data_mounts: bool
    """Whether the thread's folders on the host are the files that the environment sees."""
    # Optional: `keeps_environments: bool`. True when an environment that nobody uses costs nothing and is let go by the
    # provider itself; then the end of a run releases nothing, and costs no step of the graph.

    def acquire(self, thread_id: str, user_id: str) -> Sandbox:
        """The environment of this thread of this user; made when there is none. Two calls at once get the same one.

        Raises:
            SandboxUnavailableError: It cannot be made.
        """
        ...

    def get(self, sandbox_id: str, *, thread_id: str, user_id: str) -> Sandbox | None:
        """The environment of that id, or None when there is none or it belongs to somebody else."""
        ...

    def release(self, sandbox_id: str, *, thread_id: str, user_id: str) -> bool:
        """Let go of it. False, and nothing happens, when it is not this thread's and user's."""
        ...

    def close(self) -> None:
        """Let go of all of them."""
        ...


Gate = Callable[[Any], None]
"""``gate(context)`` returns, or raises `SandboxAuthorizationError`."""
AsyncGate = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Opened:
    """An environment that was handed out, to whom, and through which door."""

    access: SandboxAccess
    sandbox_id: str
    thread_id: str
    user_id: str


_Decided = dict[tuple[int, str, str], Sandbox | None]
"""What was decided in a scope, and the environment that was handed out then."""
_DECIDED: Final[ContextVar[_Decided | None]] = ContextVar("remit_sandbox_decided", default=None)
_NOTICED: Final[ContextVar[tuple[list[Opened], ...]]] = ContextVar("remit_sandboxes_noticed", default=())


def _open(context: Any) -> None:
    """The gate where authorization is disabled."""


async def _aopen(context: Any) -> None:
    """As `_open`, for the event loop."""


@dataclass(slots=True)
class SandboxAccess:
    """The one door to a provider's environments: identity, gate, then the environment, in this order, every time.

    Args:
        provider: Makes and keeps them.
        gate: Decides ``sandbox:execute`` before an environment is acquired and before one is reused.
        agate: The same, for the event loop.
    """

    provider: SandboxProvider
    gate: Gate = field(default=_open)
    agate: AsyncGate = field(default=_aopen)

    def ensure(self, runtime: Any) -> Sandbox:
        """The environment of the run's thread, made when there is none.

        Args:
            runtime: Of a hook or a tool: `context` and `state` are read, never written.

        Raises:
            SandboxAuthorizationError: The policy does not permit it.
            SandboxUnavailableError: The run has no thread, or the environment cannot be made.
        """
        thread_id, user_id = _owner(runtime)
        key = (id(self), thread_id, user_id)
        decided = _DECIDED.get()
        if decided is None:
            self.gate(getattr(runtime, "context", None))
            return self.opened(runtime, thread_id, user_id)
        if key not in decided:
            self.gate(getattr(runtime, "context", None))
            decided[key] = None
        known = decided[key]
        if known is None:
            known = self.opened(runtime, thread_id, user_id)
            decided[key] = known
        return known

    async def aensure(self, runtime: Any) -> Sandbox:
        """`ensure` for the event loop: what may block happens in a thread.

        Raises:
            SandboxAuthorizationError: As there.
            SandboxUnavailableError: As there.
        """
        from asyncio import to_thread

        thread_id, user_id = _owner(runtime)
        key = (id(self), thread_id, user_id)
        decided = _DECIDED.get()
        if decided is None:
            await self.agate(getattr(runtime, "context", None))
            return await to_thread(self.opened, runtime, thread_id, user_id)
        if key not in decided:
            await self.agate(getattr(runtime, "context", None))
            decided[key] = None
        known = decided[key]
        if known is None:
            known = await to_thread(self.opened, runtime, thread_id, user_id)
            decided[key] = known
        return known

    def opened(self, runtime: Any, thread_id: str, user_id: str) -> Sandbox:
        """The environment named in the state when it is this caller's, else the thread's own. Asks no policy."""
        known = sandbox_id_in(getattr(runtime, "state", None))
        found = self.provider.get(known, thread_id=thread_id, user_id=user_id) if known else None
        sandbox = found if found is not None else self.provider.acquire(thread_id, user_id)
        for noticed_by in _NOTICED.get():
            noticed_by.append(Opened(self, sandbox.id, thread_id, user_id))
        return sandbox

    def release(self, runtime: Any, sandbox_id: str) -> bool:
        """Let go of an environment of the run's own thread; one of another is left alone."""
        thread_id, user_id = _owner(runtime)
        return self.provider.release(sandbox_id, thread_id=thread_id, user_id=user_id)


@contextmanager
def decided_once() -> Iterator[None]:
    """A scope in which the gate is asked, and the environment looked up, once for a thread.

    One composed tool call is one decision; and on an event loop its later steps need no thread to find the environment.
    """
    token = _DECIDED.set({})
    try:
        yield
    finally:
        _DECIDED.reset(token)


@contextmanager
def noticed() -> Iterator[list[Opened]]:
    """A scope that hands out a list of the environments that are opened inside of it, the latest last.

    Tasks and threads that are started inside count, and so does what a nested scope notices: an agent that is called
    as a tool opens environments for the call.
    """
    found: list[Opened] = []
    token = _NOTICED.set((*_NOTICED.get(), found))
    try:
        yield found
    finally:
        _NOTICED.reset(token)


def sandbox_id_in(state: Any) -> str | None:
    """The id in the state channel ``sandbox``, or None."""
    if isinstance(state, Mapping):
        held = state.get(wire.SANDBOX)
        found = held.get("sandbox_id") if isinstance(held, Mapping) else None
        return found if isinstance(found, str) and found else None
    return None


def _owner(runtime: Any) -> tuple[str, str]:
    try:
        thread_id, user_id = runtime_thread_id(runtime), resolve_runtime_user_id(runtime)
    except ValueError as exc:
        raise SandboxUnavailableError(str(exc)) from exc
    if thread_id is None:
        raise SandboxUnavailableError("a sandbox belongs to a thread, and this run has none; set `thread_id`")
    return thread_id, user_id
