"""A bounded pool of daemon threads for providers that block, so that a deadline holds and exit never waits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple["Future[Any]", contextvars.Context, Callable[..., Any], tuple[Any, ...]]

LIMIT = 32


class Workers:
    """At most `limit` calls run at a time; later ones wait their turn and may run out of time while they wait.

    The threads are daemons: a provider that hangs can hold one of them for ever, but neither its caller nor the exit of
    the process. Context variables of the caller are visible in the call.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def call(self, deadline: float, fn: Callable[..., T], *args: Any) -> T:
        """`fn(*args)`, waited for at most `deadline` seconds.

        Raises:
            TimeoutError: No answer in time. The call may still be running.
            BaseException: Whatever `fn` raised.
        """
        future = self._submit(fn, args)
        try:
            return future.result(deadline)
        except TimeoutError:
            future.cancel()
            raise

    async def acall(self, deadline: float, fn: Callable[..., T], *args: Any) -> T:
        """The awaitable twin of `call`."""
        async with asyncio.timeout(deadline):
            return await asyncio.wrap_future(self._submit(fn, args))

    def _submit(self, fn: Callable[..., T], args: tuple[Any, ...]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            self._jobs.put((future, contextvars.copy_context(), fn, args))
            if self._idle == 0 and self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name=f"remit-provider-{self._threads}", daemon=True).start()
            elif self._idle:
                self._idle -= 1
        return future

    def _work(self) -> None:
        while True:
            future, context, fn, args = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = context.run(fn, *args)
                except StopIteration as exc:  # a future of asyncio refuses it and would never be done
                    future.set_exception(RuntimeError(f"{type(exc).__name__} raised"))
                except BaseException as exc:
                    future.set_exception(exc)
                else:
                    future.set_result(result)
            del future, context, fn, args
            with self._lock:
                self._idle += 1


WORKERS = Workers()
