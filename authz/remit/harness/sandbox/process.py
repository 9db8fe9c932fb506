"""Running one command to its end: bounded in time, output and number of processes, and nothing of it is left behind.

The command leads a process group of its own. Limits of the kernel are set by a line of shell before it starts
(`limited`): code between fork and exec is not safe in a process with threads.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from remit.harness.sandbox.output import BoundedOutput
from remit.runtime.config import SandboxConfig
from remit.runtime.sandboxes import CommandResult, SandboxCommandError

TICK: Final = 0.05
"""Seconds between two looks at a running command."""
GRACE: Final = 0.5
"""Seconds that a command has to end after it was asked to."""
_CHUNK: Final = 1 << 16
_MAX_COMMAND: Final = 128 << 10
"""Bytes: the kernel takes no longer argument."""

_STOP: ContextVar[threading.Event | None] = ContextVar("remit_stop_command", default=None)


class Warden(Protocol):
    """What a kind of environment does about the processes of a command."""

    def started(self, pid: int) -> None:
        """The command runs, led by the process `pid`."""
        ...

    def objection(self) -> str | None:
        """Why it must be stopped now, or None. Asked every `TICK`."""
        ...

    def sweep(self) -> None:
        """End what the process group does not hold. The leader has ended, and was not waited for yet."""
        ...


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """A scope whose commands are stopped when the event is set, for whoever waits for them in another thread."""
    event = threading.Event()
    token = _STOP.set(event)
    try:
        yield event
    finally:
        _STOP.reset(token)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of every process of a command."""

    memory_mb: int
    cpu_sec: int
    file_mb: int
    processes: int

    @classmethod
    def of(cls, settings: SandboxConfig) -> Limits:
        return cls(settings.max_memory_mb, settings.max_cpu_sec, settings.max_file_mb, settings.max_processes)


def shell() -> str:
    """The shell that runs commands."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def limited(command: str, limits: Limits, *, count_processes: bool) -> list[str]:
    """Arguments of a shell that sets `limits` and becomes a shell that runs `command`.

    Args:
        command: Passed on as an argument, never as part of the line that sets the limits.
        limits: A limit that is tighter already stays as it is.
        count_processes: Whether the number of processes is limited by the kernel. It counts them per user: that is
            of use only where the user has no others.
    """
    program = shell()
    block = 1024 if program.endswith("bash") else 512
    asked = [
        ("c", 0),
        ("v", limits.memory_mb << 10),
        ("t", limits.cpu_sec),
        ("f", (limits.file_mb << 20) // block),
    ]
    if count_processes:
        asked.append(("u" if program.endswith("bash") else "p", limits.processes))
    lines = [f"ulimit -{letter} {value} 2>/dev/null" for letter, value in asked]
    lines.append(f'exec {shlex.quote(program)} -c "$1"')
    return [program, "-c", "; ".join(lines), "remit", command]


def check_command(command: str) -> None:
    """Refuse what cannot be passed to a process.

    Raises:
        SandboxCommandError: It is empty or too long, or holds what no argument can hold.
    """
    if not isinstance(command, str) or not command.strip():
        raise SandboxCommandError("the command is empty")
    if "\x00" in command:
        raise SandboxCommandError("the command holds a NUL character")
    try:
        size = len(os.fsencode(command))
    except UnicodeEncodeError as exc:
        raise SandboxCommandError("the command holds half of a character") from exc
    if size >= _MAX_COMMAND:
        raise SandboxCommandError(f"the command has {size} bytes; write a script of that length to a file, and run it")


def pidfd_of(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def run_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    timeout: float,
    warden: Warden,
    secrets: Iterable[str] = (),
    pass_fds: Sequence[int] = (),
) -> CommandResult:
    """Run `argv` and wait for its end; then everything it started is ended too.

    Raises:
        SandboxCommandError: It could not be started.
    """
    try:
        child = subprocess.Popen(  # noqa: S603 - to run commands is what this is for
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise SandboxCommandError(f"the command could not be started: {getattr(exc, 'strerror', None) or exc}") from exc
    output = BoundedOutput(secrets)
    reason: str | None = None
    try:
        run = _Running(child, output)
        try:
            warden.started(child.pid)
            reason = run.until_end(time.monotonic() + timeout, warden)
        finally:
            run.end(warden)
    finally:
        assert child.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        child.stdout.close()
    text = output.text()
    if reason is None:
        code = child.returncode
        return CommandResult(text, 128 - code if code < 0 else code, truncated=output.truncated)
    note = f"[stopped: {reason}]" if reason else ""
    text = f"{text.rstrip()}\n{note}".lstrip() if note else text
    return CommandResult(text, None, timed_out=reason == "", truncated=output.truncated)


class _Running:
    """A command that was started, until nothing of it is left."""

    def __init__(self, child: subprocess.Popen[bytes], output: BoundedOutput) -> None:
        assert child.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        self._child = child
        self._output = output
        self._pipe = child.stdout.fileno()
        self._open = True
        self._poll = select.poll()
        os.set_blocking(self._pipe, False)
        self._poll.register(self._pipe, select.POLLIN)
        self._pidfd = pidfd_of(child.pid)
        if self._pidfd >= 0:
            self._poll.register(self._pidfd, select.POLLIN)

    def until_end(self, deadline: float, warden: Warden) -> str | None:
        """Read until the command ends or has to be stopped.

        Returns:
            None when it ended by itself, an empty text when time ran out, else why it must be stopped.
        """
        stop = _STOP.get()
        looked = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= deadline:
                return ""
            if stop is not None and stop.is_set():
                return "the run was cancelled"
            if now - looked >= TICK:
                looked = now
                if self._pidfd < 0 and self._ended():
                    return None
                if (objection := warden.objection()) is not None:
                    return objection
            ready = {fd for fd, _ in self._poll.poll(max(min(TICK, deadline - now), 0.001) * 1000)}
            if self._pipe in ready:
                self._read()
            elif self._pidfd in ready or (self._pidfd < 0 and self._ended()):
                return None
            if self._pidfd in ready and self._ended():
                return None

    def end(self, warden: Warden) -> None:
        """End the process group and what left it, take in the rest of the output, and wait for the leader."""
        try:
            if not self._ended():
                self._signal(signal.SIGTERM)
                until = time.monotonic() + GRACE
                while not self._ended() and time.monotonic() < until:
                    self._drain(0.01)
            # The leader is not waited for before this: as long as it is not, nobody else can have its number.
            self._signal(signal.SIGKILL)
            warden.sweep()
        finally:
            self._child.wait()
            until = time.monotonic() + GRACE
            while self._open and time.monotonic() < until:
                self._drain(0.01)
            if self._pidfd >= 0:
                os.close(self._pidfd)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    def _ended(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._child.poll() is not None
        try:
            return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _drain(self, seconds: float) -> None:
        if not self._open:
            time.sleep(seconds)
            return
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        if poll.poll(seconds * 1000):
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._output.add(data)
        else:
            self._open = False
            self._poll.unregister(self._pipe)
