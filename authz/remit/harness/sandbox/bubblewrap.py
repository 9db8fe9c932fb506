"""Commands run isolated by bubblewrap: namespaces of their own, a read-only system, no network unless it is granted.

Inside there are ``/usr`` and the few files of ``/etc`` that programs cannot do without, a private ``/tmp`` that lasts
as long as the environment, the thread's workspace and outputs, and, read-only, its uploads and skills. No capability is
held, and none can be had: further user namespaces are forbidden. ``/proc`` is read-only as well, because some of its
files ask for the user alone, and a host that runs this as root has the same user inside and outside.

Arguments go to bubblewrap through a descriptor: its command line, which can be read inside, names no path of the host.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

from remit.harness.sandbox.environments import PATH, ThreadSandbox, ThreadSandboxProvider
from remit.harness.sandbox.process import Limits, limited, pidfd_of, run_command
from remit.runtime.config import SandboxConfig
from remit.runtime.paths import OUTPUTS, UPLOADS, VIRTUAL_ROOT, VIRTUAL_SKILLS, WORKSPACE, ThreadPaths
from remit.runtime.sandboxes import CommandResult, SandboxCommandError, SandboxUnavailableError

USER: Final = 1_000
"""User and group id inside, whatever they are outside."""
_PROBE_SECONDS: Final = 10
_ENDED_SECONDS: Final = 5.0
_COUNTED_EVERY: Final = 0.25
_WORKSPACE: Final = f"{VIRTUAL_ROOT}/{WORKSPACE}"
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/pki",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
)
_ETC_NETWORK: Final = ("/etc/hosts", "/etc/resolv.conf", "/etc/services", "/etc/gai.conf")
_LOCALHOST: Final = ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
_ACCOUNTS: Final = (
    ("/etc/passwd", f"agent:x:{USER}:{USER}:agent:{_WORKSPACE}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
    ("/etc/group", f"agent:x:{USER}:\nnogroup:x:65534:\n"),
)


class BubblewrapSandbox(ThreadSandbox):
    """An isolated environment."""

    def __init__(self, id: str, paths: ThreadPaths, settings: SandboxConfig, program: str) -> None:
        super().__init__(id, paths, settings)
        self._program = program

    def _execute(self, command: str, given: Mapping[str, str], timeout: float) -> CommandResult:
        limits = Limits.of(self.settings)
        inside = limited(command, limits, count_processes=_kernel_counts())
        options = [
            *_isolation(self._program, network=self.settings.network),
            *_system(network=self.settings.network),
            *_memory_folder(self._program, "/dev/shm", limits.file_mb << 20),  # noqa: S108 - of the new system
            *("--remount-ro", "/dev"),
            *("--bind", str(self.scratch()), "/tmp"),  # noqa: S108 - likewise
            *("--bind", str(self.paths.workspace), _WORKSPACE),
            *("--bind", str(self.paths.outputs), f"{VIRTUAL_ROOT}/{OUTPUTS}"),
            *("--ro-bind", str(self.paths.uploads), f"{VIRTUAL_ROOT}/{UPLOADS}"),
            *(("--ro-bind", str(self.paths.skills), VIRTUAL_SKILLS) if self.paths.skills.is_dir() else ()),
            *("--remount-ro", "/", "--chdir", _WORKSPACE),
        ]
        env = {"PATH": PATH, "HOME": _WORKSPACE, "LANG": "C.UTF-8", "TERM": "dumb", **given}
        for name, value in env.items():
            options += ("--setenv", name, value)
        with _prepared(self._program, options, inside, network=self.settings.network) as (argv, descriptors, status):
            watched = _Inside(status, limits.processes)
            try:
                result = run_command(
                    argv,
                    env={},
                    cwd="/",
                    timeout=timeout,
                    warden=watched,
                    secrets=given.values(),
                    pass_fds=descriptors,
                )
            finally:
                watched.close()
        if result.exit_code is not None and not watched.ran:
            raise SandboxCommandError(
                "the isolated environment could not be set up, or was ended from outside",
                details={"bubblewrap": result.output[-1_000:]},
            )
        return result


class BubblewrapSandboxProvider(ThreadSandboxProvider):
    """Isolated environments.

    Args:
        settings: Of the environments.
        base_dir: Instead of the state folder.

    Raises:
        SandboxUnavailableError: bubblewrap cannot run on this machine: why, and what to do.
    """

    def __init__(self, settings: SandboxConfig, *, base_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__(settings, base_dir=base_dir)
        problem = why_unusable(network=settings.network)
        if problem is not None:
            raise SandboxUnavailableError(f"bubblewrap cannot run here: {problem}")
        self._program = _program() or "bwrap"

    def _make(self, id: str, paths: ThreadPaths) -> BubblewrapSandbox:
        return BubblewrapSandbox(id, paths, self.settings, self._program)


def why_unusable(*, network: bool = False) -> str | None:
    """None when bubblewrap can isolate on this machine, which is tried out; else what is missing and what to do."""
    if not sys.platform.startswith("linux"):
        return f"it exists on Linux only, and this is {sys.platform}"
    program = _program()
    if program is None:
        return "the program `bwrap` is not installed; install the package bubblewrap"
    options = [*_isolation(program, network=network), *_system(network=network), "--remount-ro", "/dev"]
    options += (*_memory_folder(program, "/tmp", 4096), "--remount-ro", "/")  # noqa: S108 - of the new system
    try:
        with _prepared(program, options, ["/bin/sh", "-c", "exit 0"], network=network) as (argv, descriptors, _):
            ended = subprocess.run(  # noqa: S603 - a fixed command
                argv,
                pass_fds=descriptors,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return f"a trial of {program} did not end within {_PROBE_SECONDS} seconds"
    except OSError as exc:
        return f"{program} cannot be started: {exc.strerror}"
    if ended.returncode == 0:
        return None
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"a trial of {program} failed: {said[-1] if said else f'exit code {ended.returncode}'}; {_advice(said)}"


def _advice(said: Sequence[str]) -> str:
    text = " ".join(said).casefold()
    if "unknown option" in text:
        return "install bubblewrap 0.5 or newer"
    if "namespace" in text or "uid map" in text or "rtm_newaddr" in text or "operation not permitted" in text:
        return (
            "this system forbids user namespaces to this process: allow them (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a container its "
            "seccomp and AppArmor profile, and /proc without masked paths)"
        )
    return "see the message of bubblewrap"


@cache
def _kernel_counts() -> bool:
    """Whether the kernel counts the processes of one environment: not those of root, and since Linux 5.14 (before, it
    counted all processes of the user)."""
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return os.geteuid() != 0 and release >= (5, 14)


def _program() -> str | None:
    return shutil.which("bwrap", path=PATH) or shutil.which("bwrap")


@cache
def _knows(program: str, option: str) -> bool:
    """Whether this version of the program has `option`."""
    try:
        ended = subprocess.run([program, "--help"], capture_output=True, timeout=_PROBE_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return option.encode() in (ended.stdout + ended.stderr).split()


def _isolation(program: str, *, network: bool) -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
    if not network:
        yield "--unshare-net"
    if _knows(program, "--disable-userns"):  # of bubblewrap 0.8
        yield "--disable-userns"
    yield from ("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox", "--clearenv")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")


def _system(*, network: bool) -> Iterator[str]:
    """The read-only system that programs need, and nothing else of the host."""
    yield from ("--ro-bind", "/usr", "/usr")
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in (*_ETC, *(_ETC_NETWORK if network else ())):
        if os.path.exists(path):
            yield from ("--ro-bind", os.path.realpath(path), path)
    yield from ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")


def _memory_folder(program: str, path: str, size: int) -> tuple[str, ...]:
    """An empty folder in memory, of at most `size` bytes where this version can limit it."""
    limit = ("--size", str(size)) if _knows(program, "--size") else ()
    return (*limit, "--tmpfs", path)


@contextmanager
def _prepared(
    program: str, options: Sequence[str], inside: Sequence[str], *, network: bool
) -> Iterator[tuple[list[str], tuple[int, ...], int]]:
    """Arguments of bubblewrap, the descriptors to pass with them, and the one from which its reports are read."""
    with _descriptors() as held:
        files: list[str] = []
        for path, text in _ACCOUNTS if network else (*_ACCOUNTS, _LOCALHOST):
            held.append(_filled(text.encode()))
            files += ("--perms", "0444", "--file", str(held[-1]), path)
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        held += (read_end, write_end)
        # Files come first: a later option makes the root read-only.
        words = [*files, *options]
        held.append(_filled(b"\0".join(os.fsencode(word) for word in words) + b"\0"))
        passed = tuple(fd for fd in held if fd != read_end)
        argv = [program, "--args", str(held[-1]), "--json-status-fd", str(write_end), "--", *inside]
        yield argv, passed, read_end


@contextmanager
def _descriptors() -> Iterator[list[int]]:
    held: list[int] = []
    try:
        yield held
    finally:
        for descriptor in held:
            with suppress(OSError):
                os.close(descriptor)


def _filled(data: bytes) -> int:
    """A descriptor from which `data` can be read. It is in memory alone: variables may be secrets."""
    descriptor = os.memfd_create("remit", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _Inside:
    """Watches the processes of one command from outside. The kernel ends them all with the first of them."""

    def __init__(self, status: int, most: int) -> None:
        self._status = status
        self._most = most
        self._text = b""
        self._first: int | None = None
        self._pidfd = -1
        self._counted = time.monotonic()

    @property
    def ran(self) -> bool:
        """Whether the command was started: bubblewrap reports an exit code then, and only then."""
        self._look()
        return b'"exit-code"' in self._text

    def started(self, pid: int) -> None:
        self._look()

    def objection(self) -> str | None:
        self._look()
        now = time.monotonic()
        if self._first is None or _kernel_counts() or now - self._counted < _COUNTED_EVERY:
            return None
        self._counted = now
        with suppress(OSError):
            found = sum(1 for name in os.listdir(f"/proc/{self._first}/root/proc") if name.isdigit())
            if found - 2 > self._most:
                return f"it ran more than {self._most} processes at once"
        return None

    def sweep(self) -> None:
        self._look()
        if self._pidfd >= 0:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            poll.poll(_ENDED_SECONDS * 1000)

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _look(self) -> None:
        with suppress(BlockingIOError, OSError):
            while data := os.read(self._status, 4096):
                self._text += data
        if self._first is None and b"\n" in self._text:
            with suppress(ValueError, KeyError, TypeError):
                self._first = int(json.loads(self._text.split(b"\n", 1)[0])["child-pid"])
                self._pidfd = pidfd_of(self._first)
