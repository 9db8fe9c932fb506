"""An event loop in a thread of its own, so that one pool of connections serves synchronous and asynchronous callers."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")


class BackgroundError(Exception):
    """The resource is closed or could not be opened."""


class Background(Generic[R]):
    """One resource, for example a connection pool, on one event loop in one daemon thread.

    Callers come from any thread and any event loop, also from several loops one after another, as happens when an
    application calls `asyncio.run` repeatedly. A pool that is bound to its caller's loop would fail there.

    The thread starts at the first call, and again in a forked child.

    Args:
        open_: Makes the resource. Called in the thread, before its loop runs.
        close: Releases it.
        name: Name of the thread.
    """

    def __init__(self, open_: Callable[[], R], close: Callable[[R], Awaitable[None]], *, name: str) -> None:
        self._open, self._close, self._name = open_, close, name
        self._lock = threading.Lock()
        self._running: _Running[R] | None = None
        self._closed = False

    def run(self, work: Callable[[R], Coroutine[Any, Any, T]]) -> T:
        """`work(resource)`, waited for in the calling thread. `work` brings its own deadline.

        Raises:
            BackgroundError: It is closed, or `open_` failed.
            Exception: Whatever `work` raised.
        """
        return self._submit(work).result()

    async def arun(self, work: Callable[[R], Coroutine[Any, Any, T]]) -> T:
        """The awaitable twin of `run`; cancelling it cancels `work`."""
        return await asyncio.wrap_future(self._submit(work))

    async def aclose(self) -> None:
        """Wait for the calls under way, release the resource, end the thread. Safe to call twice."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None and (ending := running.end()) is not None:
            await asyncio.wrap_future(ending)

    def _submit(self, work: Callable[[R], Coroutine[Any, Any, T]]) -> Future[T]:
        with self._lock:
            if self._closed:
                raise BackgroundError("it is closed")
            if self._running is None or self._running.pid != os.getpid():
                self._running = _Running(self._open, self._close, self._name)
                weakref.finalize(self, self._running.end).atexit = False
            return self._running.submit(work)


class _Running(Generic[R]):
    """A started thread. Knows nothing of its `Background`, which may therefore be collected while it runs."""

    def __init__(self, open_: Callable[[], R], close: Callable[[R], Awaitable[None]], name: str) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._resource: Future[R] = Future()
        self._close = close
        self._ending = False
        threading.Thread(target=self._main, args=(open_,), name=name, daemon=True).start()

    def submit(self, work: Callable[[R], Coroutine[Any, Any, T]]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(self._work(work), self._loop)

    def end(self) -> Future[None] | None:
        """Ends once; None when it ended before, or in a forked child, where the thread never ran."""
        if self._ending or self.pid != os.getpid():
            return None
        self._ending = True
        return asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    def _main(self, open_: Callable[[], R]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._resource.set_result(open_())
        except Exception as exc:
            self._resource.set_exception(exc)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _work(self, work: Callable[[R], Coroutine[Any, Any, T]]) -> T:
        if (error := self._resource.exception()) is not None:
            raise BackgroundError(f"it could not be opened: {error}") from error
        return await work(self._resource.result())

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        if self._resource.exception() is None:
            await self._close(self._resource.result())
        # after this future has told its waiter, in the next turn of the loop
        self._loop.call_soon(self._loop.stop)
