"""Tool results kept in files of their thread, where the agent can read them again.

The folder lies among the thread's outputs, which commands of the agent can write. It is opened through descriptors
that follow no symbolic link, and files are made, never opened: a link planted in its place gets nothing written.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from remit.runtime.paths import OUTPUTS, VIRTUAL_ROOT
from remit.runtime.sandboxes import Sandbox

log = logging.getLogger("remit.middlewares")

MAX_THREAD_BYTES: Final = 268_435_456
"""Of all results of one thread together (256 MiB). The oldest make room; a longer one is not stored."""
MAX_THREAD_FILES: Final = 500
MAX_AGE_SECONDS: Final = 7 * 86_400
"""Older results are deleted when a new one is stored."""
MAX_LISTED: Final = 5_000
"""Entries of the folder that are looked at. In a folder with more nothing is stored: somebody filled it on purpose."""
MAX_TOOL_NAME: Final = 48
"""Characters of a tool's name in the name of a file."""

_RANDOM_BYTES: Final = 6
_ATTEMPTS: Final = 3
_OURS: Final = re.compile(r"[A-Za-z0-9_-]{1,48}-[0-9a-f]{12}\.[a-z]{1,8}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Stored(NamedTuple):
    """A result that lies in a file."""

    path: str
    """Virtual path."""
    sha256: str
    """Of the bytes of the file."""


class Payload(NamedTuple):
    """What is to be stored."""

    name: str
    """File name, without the random part: that comes in between."""
    extension: str
    data: bytes

    @classmethod
    def of(cls, tool_name: str, extension: str, text: str) -> Payload:
        """The bytes of `text`; what cannot be encoded becomes a question mark."""
        return cls(file_stem(tool_name), extension, text.encode("utf-8", "replace"))

    def file_name(self) -> str:
        """A name that was never given before."""
        return f"{self.name}-{secrets.token_hex(_RANDOM_BYTES)}.{self.extension}"

    def stored(self, subdir: str, file_name: str) -> Stored:
        path = f"{VIRTUAL_ROOT}/{OUTPUTS}/{subdir}/{file_name}"
        return Stored(path, hashlib.sha256(self.data).hexdigest())


def file_stem(tool_name: str) -> str:
    """`tool_name` as the beginning of a file name: its last path segment, of letters, digits, ``_`` and ``-``."""
    last = re.split(r"[/\\]", tool_name.strip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_-")[:MAX_TOOL_NAME] or "tool"


def store_on_host(outputs: Any, subdir: str, payload: Payload) -> Stored | None:
    """Write into the thread's outputs on the host; None when that is not possible, which is logged.

    Args:
        outputs: The folder of outputs, as the state names it. It is made when it does not exist.
        subdir: One folder name below it.
        payload: What to write.
    """
    if not isinstance(outputs, str) or not os.path.isabs(outputs):
        return None
    try:
        with _opened(outputs, subdir) as folder:
            if not _made_room(folder, len(payload.data)):
                return None
            return payload.stored(subdir, _written(folder, payload))
    except (OSError, ValueError) as exc:
        log.warning("a result could not be stored among the outputs of its thread: %s", exc)
        return None


def store_in_sandbox(sandbox: Sandbox, subdir: str, payload: Payload) -> Stored | None:
    """Write into the environment and read it back; None when what comes back is something else, which is logged.

    How long files live there is the environment's own affair.
    """
    stored = payload.stored(subdir, payload.file_name())
    if len(payload.data) > MAX_THREAD_BYTES:
        return None
    try:
        sandbox.write_file(stored.path, payload.data.decode())
        if sandbox.read_bytes(stored.path) == payload.data:
            return stored
    except Exception as exc:  # a provider of somebody else's: whatever it raises, the result must reach the model
        log.warning("a result could not be stored in the sandbox: %s", exc)
        return None
    log.warning("a result was stored in the sandbox and is not there as it was written")
    return None


@contextlib.contextmanager
def _opened(outputs: str, subdir: str) -> Iterator[int]:
    """The descriptor of the folder. Neither it nor the two above it may be a link.

    Raises:
        OSError: It cannot be opened or made; for a link in its place as well.
    """
    parent, name = os.path.split(os.path.normpath(outputs))
    with contextlib.ExitStack() as stack:

        def enter(path: str, above: int | None) -> int:
            descriptor = os.open(path, _FOLDER, dir_fd=above)
            stack.callback(os.close, descriptor)
            return descriptor

        os.makedirs(parent, mode=0o700, exist_ok=True)
        folder = enter(parent, None)
        for one in (name, subdir):
            with contextlib.suppress(FileExistsError):
                os.mkdir(one, 0o700, dir_fd=folder)
            folder = enter(one, folder)
        yield folder


def _written(folder: int, payload: Payload) -> str:
    """The name of a new file that holds the payload.

    Raises:
        OSError: It cannot be made or written; then it is gone again.
    """
    for attempt in range(_ATTEMPTS):
        name = payload.file_name()
        try:
            descriptor = os.open(name, _FRESH, 0o600, dir_fd=folder)
            break
        except FileExistsError:
            if attempt == _ATTEMPTS - 1:
                raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(payload.data)
            file.flush()
            if os.fstat(descriptor).st_size != len(payload.data):
                raise OSError(f"{name!r} is shorter than what was written")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return name


class _File(NamedTuple):
    changed: float
    name: str
    size: int


def _made_room(folder: int, size: int) -> bool:
    """Delete what is too old, and the oldest until `size` bytes fit. False when they cannot."""
    files = _listed(folder)
    if files is None or size > MAX_THREAD_BYTES:
        return False
    kept = sum(file.size for file in files)
    oldest_allowed = time.time() - MAX_AGE_SECONDS
    for index, file in enumerate(files):
        full = kept + size > MAX_THREAD_BYTES or len(files) - index >= MAX_THREAD_FILES
        if not full and file.changed >= oldest_allowed:
            break
        with contextlib.suppress(OSError):
            os.unlink(file.name, dir_fd=folder)
        kept -= file.size
    return True


def _listed(folder: int) -> list[_File] | None:
    """The results in the folder, the oldest first; None when it holds too much."""
    files: list[_File] = []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_LISTED:
                log.warning("the folder of stored results holds more than %d entries; nothing is added", MAX_LISTED)
                return None
            if _OURS.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        files.append(_File(status.st_mtime, entry.name, status.st_size))
    return sorted(files)
