"""Events in the memory of one process: for tests and for agents that keep nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from remit.runtime.events.store import Event, Events, EventStoreError, StoreBase, Stored

T = TypeVar("T")

MAX_THREADS: Final = 1_000
MAX_EVENTS: Final = 10_000


@dataclass(slots=True)
class _Thread:
    events: deque[Event]
    last: int = 0
    identities: set[tuple[str | None, str]] = field(default_factory=set)


class MemoryEventStore(StoreBase):
    """Bounded: the oldest events of a thread go first, and the thread that was written to longest ago.

    Args:
        max_events: Events that are kept of one thread.
        max_threads: Threads that are kept. The numbers of one that was let go begin again.
    """

    def __init__(self, *, max_events: int = MAX_EVENTS, max_threads: int = MAX_THREADS) -> None:
        self._max_events, self._max_threads = max_events, max_threads
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def _run(self, work: Callable[..., T], *args: Any) -> Future[T]:
        if self._closed:
            raise EventStoreError("the store of events is closed")
        done: Future[T] = Future()
        with self._lock:
            done.set_result(work(*args))
        return done

    def _append(self, events: Stored, identity: str | None) -> Events:
        if identity is not None and (events[0].run_id, identity) in self._thread(events[0].thread_id).identities:
            return []
        kept = []
        for event in events:
            thread = self._thread(event.thread_id)
            thread.last += 1
            if identity is not None:
                thread.identities.add((event.run_id, identity))
            kept.append(replace(event, seq=thread.last))
            thread.events.append(kept[-1])
        return kept

    def _thread(self, thread_id: str) -> _Thread:
        thread = self._threads.get(thread_id)
        if thread is None:
            thread = self._threads[thread_id] = _Thread(deque(maxlen=self._max_events))
            while len(self._threads) > self._max_threads:
                self._threads.popitem(last=False)
        self._threads.move_to_end(thread_id)
        return thread

    def _read(self, thread_id: str, run_id: str | None, after_seq: int, limit: int) -> Events:
        thread = self._threads.get(thread_id)
        found = [] if thread is None else thread.events
        return [event for event in found if event.seq > after_seq and run_id in (None, event.run_id)][: max(0, limit)]
