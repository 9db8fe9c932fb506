"""Commands run as the operator's own user, on the operator's own system: for development. It does not isolate.

What it does: limits on time, memory, processes and output, an environment without the operator's variables, and the end
of everything a command started. What a command does to the file system or the network is up to its author.

The virtual paths do not exist on the host. Where they stand in a command they are replaced by the real ones, and the
real ones in its output by the virtual ones. Paths that a command puts together are not found by that.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from remit.harness.sandbox.environments import PATH, ThreadSandbox, ThreadSandboxProvider
from remit.harness.sandbox.process import Limits, limited, run_command
from remit.runtime.paths import AREAS, VIRTUAL_ROOT, VIRTUAL_SKILLS, ThreadPaths
from remit.runtime.sandboxes import CommandResult

MARK: Final = "REMIT_SANDBOX_COMMAND"
"""Variable by which the processes of a command are found again when they left its process group."""
_COUNTED_EVERY: Final = 0.25
_SWEEPS: Final = 20
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_ROOTS: Final = re.compile(
    rf"(?<![\w./-])(?:{re.escape(VIRTUAL_ROOT)}(?=/(?:{'|'.join(AREAS)})(?![\w.-])|/?(?![\w./-]))"
    rf"|{re.escape(VIRTUAL_SKILLS)}(?![\w.-]))"
)
_NO_LONGER_PART: Final = r"(?![\w.-])"


class LocalSandbox(ThreadSandbox):
    """An environment without isolation."""

    def _execute(self, command: str, given: Mapping[str, str], timeout: float) -> CommandResult:
        mark = secrets.token_hex(16)
        workspace = str(self.paths.workspace)
        env = {
            "PATH": os.environ.get("PATH", PATH),
            "HOME": workspace,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": str(self.scratch()),
            **given,
            MARK: mark,
        }
        limits = Limits.of(self.settings)
        result = run_command(
            limited(self._on_host(command), limits, count_processes=False),
            env=env,
            cwd=workspace,
            timeout=timeout,
            warden=_Marked(mark, limits.processes),
            secrets=given.values(),
        )
        return CommandResult(self._virtual(result.output), result.exit_code, result.timed_out, result.truncated)

    def _on_host(self, command: str) -> str:
        if VIRTUAL_ROOT not in command and VIRTUAL_SKILLS not in command:
            return command
        roots = {VIRTUAL_ROOT: self._plain(self.paths.user_data), VIRTUAL_SKILLS: self._plain(self.paths.skills)}
        return _ROOTS.sub(lambda found: roots[found[0]], command)

    def _plain(self, folder: Path) -> str:
        """A path of `folder` that means the same inside and outside of quotes: the audit has judged the command."""
        if _PLAIN.fullmatch(str(folder)):
            return str(folder)
        alias = self.scratch() / f".{folder.name}"
        with suppress(FileExistsError):
            alias.symlink_to(folder)
        return str(alias)

    def _virtual(self, output: str) -> str:
        scratch = self.scratch()
        for folder, virtual in ((self.paths.user_data, VIRTUAL_ROOT), (self.paths.skills, VIRTUAL_SKILLS)):
            for spelling in {str(folder), os.path.realpath(folder), str(scratch / f".{folder.name}")}:
                if spelling in output:
                    output = re.sub(re.escape(spelling) + _NO_LONGER_PART, virtual, output)
        return output


class LocalSandboxProvider(ThreadSandboxProvider):
    """Environments without isolation."""

    def _make(self, id: str, paths: ThreadPaths) -> LocalSandbox:
        return LocalSandbox(id, paths, self.settings)


class _Marked:
    """Finds the processes of one command by its group, its session, or the mark in their environment.

    Where the system has no ``/proc``, the process group is all that is ended and nothing is counted.
    """

    def __init__(self, mark: str, most: int) -> None:
        self._mark = f"{MARK}={mark}".encode()
        self._most = most
        self._counted = time.monotonic()
        self._leader = 0

    def started(self, pid: int) -> None:
        self._leader = pid

    def objection(self) -> str | None:
        now = time.monotonic()
        if now - self._counted < _COUNTED_EVERY:
            return None
        self._counted = now
        if sum(1 for _ in self._members()) > self._most:
            return f"it ran more than {self._most} processes at once"
        return None

    def sweep(self) -> None:
        for _ in range(_SWEEPS):  # a process may start another while it is looked for
            found = [pid for pid in self._members() if pid != self._leader]
            if not found:
                return
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def _members(self) -> Iterator[int]:
        if not sys.platform.startswith("linux"):
            return
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, IndexError, ValueError):
                    if self._is_member(name):
                        yield int(name)

    def _is_member(self, pid: str) -> bool:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return False
        if self._leader in (int(fields[2]), int(fields[3])):  # process group, session
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return self._mark in file.read().split(b"\x00")
