"""One lock per name, for threads and for tasks of any event loop at the same time.

Tasks wait on futures, so that a thousand of them need no thread; a lock is handed from its holder straight to whoever
waited longest. Nobody who is cancelled, interrupted or forgotten while he waits keeps a lock, and a name that nobody
holds or waits for takes no memory.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Final

PATIENCE: Final = 10.0
"""Seconds that one holder may keep others waiting. It is the way out where a holder needs the very thread, or place in
a thread pool, that a synchronous waiter blocks."""


class Busy(Exception):
    """The lock was not granted: its holder takes too long, or waiting would never end."""


class _Waiter:
    """Somebody who waits: a thread, or a task of `loop`."""

    __slots__ = ("event", "future", "granted", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self.granted = False
        self.event = threading.Event() if loop is None else None
        self.future: asyncio.Future[None] | None = None if loop is None else loop.create_future()

    def wake(self) -> bool:
        """Hand over the lock. False when nobody is there any more to take it."""
        self.granted = True
        if self.event is not None:
            self.event.set()
            return True
        assert self.loop is not None  # noqa: S101 - one of the two kinds
        assert self.future is not None  # noqa: S101
        try:
            self.loop.call_soon_threadsafe(_resolve, self.future)
        except RuntimeError:  # the loop was closed
            self.granted = False
            return False
        return True


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Held:
    """A lock that somebody holds, and those who wait for it."""

    __slots__ = ("loop", "since", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        """The event loop of the holder; None for a thread."""
        self.since = time.monotonic()
        self.waiting: OrderedDict[_Waiter, None] = OrderedDict()

    def needs(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Whether the holder, or somebody who comes first, can only go on when `loop` runs."""
        return loop is not None and (self.loop is loop or any(waiter.loop is loop for waiter in self.waiting))


class Grant:
    """A lock that is held. `release` may be called from anywhere, and more than once."""

    __slots__ = ("_locks", "key", "open")

    def __init__(self, locks: PathLocks | None, key: Hashable) -> None:
        self._locks = locks
        self.key = key
        self.open = True
        _MINE.set((*(one for one in _MINE.get() if one.open), self))

    def release(self) -> None:
        """Let go."""
        if not self.open:
            return
        self.open = False
        _MINE.set(tuple(one for one in _MINE.get() if one.open))
        if self._locks is not None:
            self._locks._pass_on(self.key)


_MINE: Final[ContextVar[tuple[Grant, ...]]] = ContextVar("remit_path_locks", default=())
"""Locks that are held around the running code: taking one of them again inside must not wait for itself."""


class PathLocks:
    """A family of locks.

    Args:
        patience: Seconds after which a waiter gives up on a holder that does not let go.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._held: dict[Hashable, _Held] = {}
        self._mutex = threading.Lock()  # held for a few instructions at a time

    def __len__(self) -> int:
        """How many locks are held now."""
        return len(self._held)

    def acquire(self, key: Hashable) -> Grant:
        """Wait in this thread until the lock is ours.

        Raises:
            Busy: Its holder takes too long, or waits for the event loop that runs in this very thread.
        """
        if _is_mine(key):
            return Grant(None, key)
        waiter = self._enter(key, None, blocked=_running_loop())
        if waiter is not None:
            assert waiter.event is not None  # noqa: S101 - a thread's waiter
            try:
                while not waiter.event.wait(self._patience_left(key, waiter)):
                    pass
            except BaseException:
                self._leave(key, waiter)
                raise
        return Grant(self, key)

    async def aacquire(self, key: Hashable) -> Grant:
        """`acquire` for a task: waits without a thread.

        Raises:
            Busy: Its holder takes too long.
        """
        if _is_mine(key):
            return Grant(None, key)
        waiter = self._enter(key, asyncio.get_running_loop(), blocked=None)
        if waiter is not None:
            assert waiter.future is not None  # noqa: S101 - a task's waiter
            try:
                while not waiter.future.done():
                    await asyncio.wait((waiter.future,), timeout=self._patience_left(key, waiter))
            except BaseException:  # cancelled, or thrown away together with its loop
                self._leave(key, waiter)
                raise
        return Grant(self, key)

    def _enter(
        self,
        key: Hashable,
        loop: asyncio.AbstractEventLoop | None,
        *,
        blocked: asyncio.AbstractEventLoop | None,
    ) -> _Waiter | None:
        """Take the lock, or a place in the queue."""
        with self._mutex:
            held = self._held.get(key)
            if held is None:
                self._held[key] = _Held(loop)
                return None
            if held.needs(blocked):
                raise Busy("waiting here would stop the event loop that the holder needs")
            waiter = _Waiter(loop)
            held.waiting[waiter] = None
            return waiter

    def _patience_left(self, key: Hashable, waiter: _Waiter) -> float:
        """Seconds to wait before the next look.

        Raises:
            Busy: There are none left.
        """
        with self._mutex:
            if waiter.granted:
                return self._patience
            left = self._patience - (time.monotonic() - self._held[key].since)
            if left > 0:
                return left
        raise Busy(f"its holder has kept it for more than {self._patience:g} seconds")

    def _leave(self, key: Hashable, waiter: _Waiter) -> None:
        """Give up waiting; a lock that was handed over in this very moment goes on to the next."""
        with self._mutex:
            if not waiter.granted:
                held = self._held.get(key)
                if held is not None:
                    held.waiting.pop(waiter, None)
                return
        self._pass_on(key)

    def _pass_on(self, key: Hashable) -> None:
        with self._mutex:
            held = self._held[key]
            while held.waiting:
                waiter, _ = held.waiting.popitem(last=False)
                held.loop, held.since = waiter.loop, time.monotonic()
                if waiter.wake():
                    return
            del self._held[key]


def _is_mine(key: Hashable) -> bool:
    return any(one.open and one.key == key for one in _MINE.get())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
