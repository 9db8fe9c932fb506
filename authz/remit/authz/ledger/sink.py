"""Where lines go: a file, written by one daemon thread, never by the caller.

What happens when the disk does not keep up, or refuses: lines wait in a bounded queue. When it is full, further ones
are dropped and counted, the caller is never held up, and the number is written as a ``dropped`` line as soon as
writing works again. The writer keeps what it could not write and tries again; only lines that still wait when the sink
is closed are lost, and that is logged.
"""

from __future__ import annotations

import atexit
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Protocol
from weakref import WeakSet

from remit.authz.ledger.record import count_line

if sys.platform != "win32":
    import fcntl

log = logging.getLogger("remit.authz.ledger")

CAPACITY: Final = 8192
BATCH: Final = 256
LINGER_SECONDS: Final = 0.005
"""Pause of the writer when it has caught up. A thread that sleeps need not be woken: in a busy process that saves every
caller the switch, and many lines go out at once."""
RETRY_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
CLOSE_SECONDS: Final = 5.0

Render = Callable[[], bytes]
"""Makes one finished line. Called once, on the writer's thread."""


class Sink(Protocol):
    """Takes lines off the caller's hands."""

    required: bool
    """Whether a decision that cannot be recorded must not be acted on."""

    @property
    def failing(self) -> bool:
        """Whether lines cannot be stored now."""
        ...

    def write(self, render: Render) -> bool:
        """Accept one line, without I/O and without waiting. False: it was not accepted."""
        ...

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Store what was accepted and release everything, waiting at most `timeout` seconds for it.

        Later writes are refused. May be called twice.
        """
        ...


class FileSink:
    """Appends lines to a file, which is created with permissions 0600.

    A file that was moved away (rotation) or deleted is opened anew. Several processes may append to one file: each
    batch goes out under a lock, and a batch that does not fit is taken back whole. After a fork the child starts with
    an empty queue and a thread of its own; what the parent had queued is written by the parent. At exit every sink is
    closed.

    Args:
        path: The file; its folder must exist.
        capacity: How many lines may wait.
        required: While writing fails, `write` accepts nothing. Lines accepted just before wait for the disk.

    Raises:
        OSError: The file cannot be opened for appending.
    """

    def __init__(self, path: str | os.PathLike[str], *, capacity: int = CAPACITY, required: bool = False) -> None:
        self.path = Path(path).absolute()
        self.required = required
        self._capacity = capacity
        self._fd = self._open()
        self._reset()
        self._start()
        _LIVE.add(self)

    def _reset(self) -> None:
        self._queue: SimpleQueue[Render | threading.Event | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._closed = False
        self._failing = False
        self._written = 0
        self._dropped = 0
        self._reported = 0

    @property
    def failing(self) -> bool:
        """Whether the last attempt to write failed."""
        return self._failing

    @property
    def written(self) -> int:
        """Lines that are in the file."""
        return self._written

    @property
    def dropped(self) -> int:
        """Lines that were not accepted, or could not be made, since the start."""
        return self._dropped

    def write(self, render: Render) -> bool:
        """Accept one line. False: the queue is full, the sink is closed, or it is `required` and writing fails."""
        if self._closed or (self._failing and self.required) or self._queue.qsize() >= self._capacity:
            self._drop()
            return False
        self._queue.put(render)
        if self._thread is None:  # after a fork
            self._start()
        return True

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until everything accepted so far is in the file; False when that takes longer than `timeout` seconds."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Write what was accepted, waiting at most `timeout` seconds, and close the file."""
        with self._lock:
            first, self._closed = not self._closed, True
            thread = self._thread
        if first:
            self._queue.put(None)
            self._wake.set()
        if thread is None:
            self._release()
        elif thread is not threading.current_thread():  # a collector run on the writer's thread may end up here
            thread.join(timeout)
            if timeout and thread.is_alive():
                log.error("decision log %s: gave up waiting for the disk; the last records may be missing", self.path)

    def _drop(self, count: int = 1) -> None:
        with self._lock:
            self._dropped += count

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="remit-ledger", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        last = False
        while not last:
            lines, waiting, last = self._collect()
            if not lines or self._store(b"".join(lines)):
                self._written += len(lines)
                self._account()
                for event in waiting:
                    event.set()
                if not last and self._queue.empty():
                    self._wake.wait(LINGER_SECONDS)
            else:
                self._drop(len(lines))
        if count := self._dropped - self._reported:
            log.error("decision log %s: %d records are lost", self.path, count)
        self._release()

    def _collect(self) -> tuple[list[bytes], list[threading.Event], bool]:
        """The next lines, who waits for them, and whether they are the last."""
        lines: list[bytes] = []
        waiting: list[threading.Event] = []
        job = self._queue.get()
        while job is not None:
            if isinstance(job, threading.Event):
                waiting.append(job)
            else:
                try:
                    lines.append(job())
                except Exception:
                    self._drop()
                    log.exception("decision log %s: a record could not be made and is counted as dropped", self.path)
            if len(lines) >= BATCH:
                return lines, waiting, False
            try:
                job = self._queue.get_nowait()
            except Empty:
                return lines, waiting, False
        return lines, waiting, True

    def _account(self) -> None:
        """Write how many lines were dropped since it was last said."""
        count = self._dropped - self._reported
        if count and self._store(count_line("dropped", count)):
            self._reported += count

    def _store(self, data: bytes) -> bool:
        """Append `data`, however long it takes; False when the sink was closed and it still does not work."""
        attempt = 0
        while True:
            last = self._closed
            try:
                self._append(data)
            except OSError as exc:
                self._alarm(exc)
                if last:
                    return False
                self._wake.wait(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
                attempt += 1
            else:
                self._recovered()
                return True

    def _alarm(self, exc: OSError) -> None:
        if not self._failing:
            self._failing = True
            outcome = "every decision is denied meanwhile" if self.required else "decisions go on"
            log.error("decision log %s cannot be written (%s); %s, records wait in memory", self.path, exc, outcome)

    def _recovered(self) -> None:
        if self._failing:
            self._failing = False
            log.warning("decision log %s is written again; %d dropped", self.path, self._dropped - self._reported)

    def _append(self, data: bytes) -> None:
        """Append `data` whole or not at all.

        Raises:
            OSError: It was not written.
        """
        fd = self._current()
        with locked(fd):
            size = os.lseek(fd, 0, os.SEEK_END) if self._regular else 0
            if size:
                os.lseek(fd, size - 1, os.SEEK_SET)
                if os.read(fd, 1) != b"\n":  # a process was killed while it wrote: its half line must stay alone
                    data = b"\n" + data
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(fd, rest) :]
            except OSError:
                if self._regular:
                    os.ftruncate(fd, size)
                raise

    def _current(self) -> int:
        """The descriptor of the file that now has our path."""
        if self._fd >= 0:
            try:
                there, mine = os.stat(self.path), os.fstat(self._fd)
            except FileNotFoundError:
                self._release()
            else:
                if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
                    self._release()
        if self._fd < 0:
            self._fd = self._open()
        return self._fd

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        fd = os.open(self.path, flags, 0o600)
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        return fd

    def _release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _after_fork(self) -> None:
        self._release()  # the lock on the file belongs to the descriptor, which parent and child would share
        closed = self._closed
        self._reset()
        self._closed = closed


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Keep other processes that use this function away from the file."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if sys.platform != "win32":
            fcntl.flock(fd, fcntl.LOCK_UN)


_LIVE: WeakSet[FileSink] = WeakSet()


@atexit.register
def _close_all() -> None:
    for sink in list(_LIVE):
        sink.close()


def _after_fork_in_child() -> None:
    for sink in list(_LIVE):
        sink._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
