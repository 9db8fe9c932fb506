"""When is a changed file ready? At once if it was replaced whole, after a quiet while if it was written in place.

An editor or a half-finished copy leaves a file that may parse cleanly and say something else. A file that was put in
place by rename, or through a symbolic link that was swapped, was finished before.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["added", "modified", "deleted"]
Event = tuple[Kind, str]
"""What a file system notification says: a kind and a path."""

QUIET_SECONDS: Final = 0.6
"""A file written in place is read after this time without a change."""
GATHER_SECONDS: Final = 0.05
"""Files replaced at nearly the same time are taken together."""
RETRY_SECONDS: Final = (2.0, 60.0)
"""First and longest wait before a refused set of files is tried again, since the reason may lie outside of them."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the file system says about one file, its content apart. All zero when it cannot be looked at."""

    real: str = ""
    """Its path with every symbolic link resolved."""
    device: int = 0
    inode: int = 0
    mode: int = 0
    size: int = 0
    written_ns: int = 0
    changed_ns: int = 0

    @classmethod
    def of(cls, path: str, before: Stamp | None = None) -> Stamp:
        """The stamp of `path` now. `before` spares resolving links again when it is still the same file."""
        try:
            found = os.stat(path)
            same = before is not None and (before.device, before.inode) == (found.st_dev, found.st_ino)
            real = before.real if before is not None and same else os.path.realpath(path)
        except OSError:
            return cls()
        return cls(real, found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def is_new(self, before: Stamp) -> bool:
        """Is it another file than before?"""
        return (self.device, self.inode) != (before.device, before.inode)

    def replaced(self, before: Stamp, kinds: frozenset[Kind]) -> bool:
        """Was the file put here whole, and not written here? `kinds` are the notifications about it."""
        if not self.size or not self.is_new(before):
            return False
        if before.inode and self.real != before.real:
            return True
        # A rename touches the inode after the last write; writing sets both times together.
        return kinds == {"added"} or self.changed_ns > self.written_ns


def digest_of(path: str) -> bytes | None:
    """A digest of the content; None when it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except (OSError, ValueError):
        return None


Digests = tuple[bytes | None, ...]


class Settling:
    """Follows some files and says when they should be loaded. Safe to use from several threads.

    Made *before* the files are loaded for the first time: a change between then and the first look is seen.

    Args:
        paths: Absolute paths, links not resolved.
        clock: Seconds, monotonic.
    """

    def __init__(self, paths: Iterable[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.paths: Sequence[str] = tuple(dict.fromkeys(paths))
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = {path: Stamp.of(path) for path in self.paths}
        self._taken = self.digests()
        self._first: Digests = self._taken
        self._pending = False
        self._in_place: set[str] = set()
        """Files that may be half written."""
        self._untold: set[str] = set()
        """Those of them that are new, where a notification may still say that they were put there whole."""
        self._changed_at = self._clock()
        self._confirm_at: float | None = self._changed_at + QUIET_SECONDS
        self._retry_at: float | None = None
        self._retry_wait = RETRY_SECONDS[0]

    def digests(self) -> Digests:
        """The content of every file as it is now. To be read before a load, and given to `took` after it."""
        return tuple(digest_of(path) for path in self.paths)

    def took(self, digests: Digests, *, accepted: bool) -> None:
        """The files were loaded: with success, or they were refused."""
        with self._lock:
            now = self._clock()
            self._taken = digests
            self._confirm_at = now + QUIET_SECONDS
            if accepted:
                self._retry_at, self._retry_wait = None, RETRY_SECONDS[0]
            else:
                self._retry_at = now + self._retry_wait
                self._retry_wait = min(self._retry_wait * 2, RETRY_SECONDS[1])

    def reborn(self) -> None:
        """Make it usable in a forked child, where another thread may have held the lock."""
        self._lock = threading.Lock()

    def look(self, events: Iterable[Event] = ()) -> bool:
        """Look at the files.

        Args:
            events: Notifications since the last look. None are needed: every look asks the file system itself.

        Returns:
            True when the files should be loaded now; `took` must be called afterwards.
        """
        with self._lock:
            now = self._clock()
            self._notice(events, now)
            if not self._pending:
                self._confirm(now)
            if not self._pending:
                return self._retry_at is not None and now >= self._retry_at
            if now - self._changed_at < (QUIET_SECONDS if self._in_place else GATHER_SECONDS):
                return False
            digests = self.digests()
            if self._in_place and digests != self._first:  # two equal reads, whatever the time stamps say
                self._first, self._changed_at = digests, now
                return False
            self._pending = False
            self._in_place.clear()
            self._untold.clear()
            return digests != self._taken

    def _notice(self, events: Iterable[Event], now: float) -> None:
        kinds = self._kinds(events)
        for path, before in self._seen.items():
            stamp = Stamp.of(path, before)
            told = kinds.get(path, frozenset()) | kinds.get(stamp.real, frozenset())
            if stamp != before:
                self._classify(path, stamp.replaced(before, told), untold=not told and stamp.is_new(before))
            elif "modified" in told:  # time stamps may be coarse
                self._classify(path, False)
            elif told == {"added"} and path in self._untold:
                self._classify(path, True)
            else:
                continue
            self._seen[path] = stamp
            self._pending, self._changed_at = True, now
        if self._pending and self._changed_at == now:
            self._first = self.digests()

    def _classify(self, path: str, whole: bool, *, untold: bool = False) -> None:
        (self._in_place.discard if whole else self._in_place.add)(path)
        (self._untold.add if untold and not whole else self._untold.discard)(path)

    @staticmethod
    def _kinds(events: Iterable[Event]) -> Mapping[str, frozenset[Kind]]:
        out: dict[str, frozenset[Kind]] = {}
        for kind, path in events:
            out[path] = out.get(path, frozenset()) | {kind}
        return out

    def _confirm(self, now: float) -> None:
        """Compare contents once more after a load: a write in the same tick of the clock leaves no other trace."""
        if self._confirm_at is None or now < self._confirm_at:
            return
        self._confirm_at = None
        if (digests := self.digests()) != self._taken:
            self._pending = True
            self._in_place.update(self.paths)
            self._first, self._changed_at = digests, now


_MOST_LINKS = 40


def turning_points(path: str) -> set[str]:
    """Every path whose change makes `path` another file: itself, and each symbolic link on the way to it."""
    out: set[str] = set()
    here, todo = "/", [part for part in path.split("/") if part]
    links = 0
    while todo and links < _MOST_LINKS:
        part = todo.pop(0)
        if part == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        try:
            target = os.readlink(there)
        except OSError:  # no link, or nothing
            here = there
            continue
        links += 1
        out.add(there)
        here = "/" if target.startswith("/") else here
        todo = [piece for piece in target.split("/") if piece not in ("", ".")] + todo
    out.add(here)
    return out
