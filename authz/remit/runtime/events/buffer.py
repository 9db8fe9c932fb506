"""Events on their way to a store: kept in order, written in batches, given up by nobody."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from functools import partial
from typing import Final

from remit.runtime.events.store import Event, Events, EventStore

log = logging.getLogger("remit.runtime")

FLUSH_AT: Final = 20
"""A batch is written when so many events wait."""
MOST_WAITING: Final = 10_000
"""Beyond this, with a store that takes nothing, further events are dropped and counted."""


class EventBuffer:
    """Hands events to a store, one batch at a time. Adding never waits; safe to use from threads and tasks at once.

    Args:
        store: Where they go.
        flush_at: Size at which a batch is begun.
    """

    def __init__(self, store: EventStore, *, flush_at: int = FLUSH_AT) -> None:
        self._store, self._flush_at = store, flush_at
        self._lock = threading.Lock()
        self._waiting: Events = []
        self._under_way: Future[BaseException | None] | None = None
        self.dropped = 0
        """Events that were lost because the store took none for too long."""

    @property
    def waiting(self) -> int:
        """Events that are in no batch yet."""
        return len(self._waiting)

    def add(self, event: Event) -> None:
        """Take one event, and begin a batch when there are enough."""
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self.dropped += 1
                if self.dropped % MOST_WAITING == 1:
                    log.error("the store of events takes nothing: %d events are lost so far", self.dropped)
                return
            self._waiting.append(event)
            enough = len(self._waiting) >= self._flush_at and self._under_way is None
        if enough:
            self._begin()

    def flush(self) -> None:
        """Wait until everything that was added is durable.

        Raises:
            Exception: What the store raised when it refused the same events twice; they are kept for another attempt.
        """
        failures = 0
        while (batch := self._begin()) is not None:
            failures = _counted(batch.result(), failures)

    async def aflush(self) -> None:
        """`flush` for the event loop.

        Raises:
            Exception: As `flush`.
        """
        failures = 0
        while (batch := self._begin()) is not None:
            failures = _counted(await asyncio.wrap_future(batch), failures)

    def _begin(self) -> Future[BaseException | None] | None:
        """The batch that is under way, a new one when events wait, or None when there is nothing to do."""
        with self._lock:
            if self._under_way is not None or not self._waiting:
                return self._under_way
            batch, self._waiting = self._waiting, []
            under_way = self._under_way = Future[BaseException | None]()
            under_way.set_running_or_notify_cancel()  # whoever stops waiting for it does not cancel it
        try:
            stored = self._store.submit(batch)
        except Exception as exc:
            self._ended(batch, under_way, exc)
        else:
            stored.add_done_callback(partial(self._stored, batch, under_way))
        return under_way

    def _stored(self, batch: Events, under_way: Future[BaseException | None], stored: Future[Events]) -> None:
        failure = RuntimeError("the batch was cancelled") if stored.cancelled() else stored.exception()
        self._ended(batch, under_way, failure)

    def _ended(self, batch: Events, under_way: Future[BaseException | None], failure: BaseException | None) -> None:
        with self._lock:
            if failure is not None:
                self._waiting[:0] = batch  # at the front: order is kept
            self._under_way = None
            more = failure is None and len(self._waiting) >= self._flush_at
        if failure is not None:
            log.warning("%d events could not be stored and are tried again: %s", len(batch), failure)
        under_way.set_result(failure)
        if more:
            self._begin()


def _counted(failure: BaseException | None, failures: int) -> int:
    if failure is None:
        return 0
    if failures:
        raise failure
    return failures + 1
