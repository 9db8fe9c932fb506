"""A limit on model calls at the same time, over all threads and event loops of a process: first come, first served."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

log = logging.getLogger("remit.middlewares")


class _Waiter:
    """Somebody in the queue."""

    __slots__ = ("granted", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.granted = False
        """Set under the limiter's lock, before `wake` is called."""
        self.wake = wake


class Limiter:
    """Hands out permits, at most `size` at a time, in the order in which they were asked for.

    A waiter that is cancelled leaves the queue; a permit that was granted to it at the same moment goes to the next. A
    loop that closed while one of its tasks waited is no one's loss either.

    Args:
        size: Permits; 0 is no limit.
    """

    def __init__(self, size: int = 0) -> None:
        self._lock = threading.RLock()
        """Reentrant: a task that is thrown away may be finalised while this very thread holds the lock."""
        self._size = size
        self._active = 0
        self._queue: OrderedDict[_Waiter, None] = OrderedDict()

    @property
    def size(self) -> int:
        """Permits; 0 is no limit."""
        return self._size

    @property
    def active(self) -> int:
        """Permits that are out."""
        return self._active

    @property
    def waiting(self) -> int:
        """Waiters in the queue."""
        return len(self._queue)

    def resize(self, size: int) -> None:
        """Change the limit. Permits that are out stay out; when there are more now, waiters get them at once."""
        if size == self._size:
            return
        with self._lock:
            self._size = size
            woken = self._grant()
        self._wake(woken)

    def acquire(self) -> None:
        """Take a permit, waiting on this thread.

        On a thread that runs an event loop there is no waiting: the permits may be held by tasks of that very loop,
        which could then never give them back. Such a call goes over the limit, with a warning.
        """
        with self._lock:
            if self._is_free() or asyncio._get_running_loop() is not None:
                if not self._is_free():
                    log.warning("a synchronous model call on an event loop goes over the limit of calls")
                self._active += 1
                return
            event = threading.Event()
            waiter = _Waiter(event.set)
            self._queue[waiter] = None
        try:
            event.wait()
        except BaseException:
            self._leave(waiter)
            raise

    async def aacquire(self) -> None:
        """Take a permit, waiting on the event loop."""
        with self._lock:
            if self._is_free():
                self._active += 1
                return
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            waiter = _Waiter(lambda: loop.call_soon_threadsafe(_settle, future))
            self._queue[waiter] = None
        try:
            await future
        except BaseException:  # a task that is thrown away with its loop ends here too
            self._leave(waiter)
            raise

    def release(self) -> None:
        """Give a permit back."""
        with self._lock:
            self._active -= 1
            woken = self._grant()
        self._wake(woken)

    def _is_free(self) -> bool:
        """Whether there is a permit to take. Then nobody waits: whatever becomes free is handed out at once."""
        return self._size == 0 or self._active < self._size

    def _grant(self) -> list[_Waiter]:
        """Hand free permits to the first in the queue; under the lock."""
        woken: list[_Waiter] = []
        while self._queue and self._is_free():
            waiter, _ = self._queue.popitem(last=False)
            waiter.granted = True
            self._active += 1
            woken.append(waiter)
        return woken

    def _wake(self, granted: list[_Waiter]) -> None:
        while granted:
            waiter = granted.pop(0)
            try:
                waiter.wake()
            except RuntimeError:  # its loop is closed: nobody will come for this permit
                with self._lock:
                    if waiter.granted:
                        waiter.granted = False
                        self._active -= 1
                        granted += self._grant()

    def _leave(self, waiter: _Waiter) -> None:
        """Forget a waiter. When it had been granted a permit meanwhile, that goes on to the next."""
        with self._lock:
            if not waiter.granted:
                self._queue.pop(waiter, None)
                return
            waiter.granted = False
        self.release()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


LIMITER: Final = Limiter()
"""The limit of this process."""
