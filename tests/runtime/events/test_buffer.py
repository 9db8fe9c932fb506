"""Events on their way: batches, failures, order."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from remit.runtime.events import Event, EventStoreError
from remit.runtime.events import buffer as module
from remit.runtime.events.buffer import EventBuffer


class Slow:
    """A store whose batches end when the test says so."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[int], Future[Any]]] = []

    def submit(self, events: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.batches.append(([event.content for event in events], future))
        return future

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch, _ in self.batches]

    def end(self, failure: Exception | None = None) -> None:
        future = self.batches[-1][1]
        if failure is None:
            future.set_result([])
        else:
            future.set_exception(failure)


class Failing:
    """A store that refuses so many batches, and takes the others at once."""

    def __init__(self, failures: int) -> None:
        self.failures, self.kept = failures, list[int]()

    def submit(self, events: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.failures > 0:
            self.failures -= 1
            future.set_exception(EventStoreError("disk full"))
        else:
            self.kept += [event.content for event in events]
            future.set_result(events)
        return future


def fill(buffer: EventBuffer, start: int, count: int) -> None:
    for number in range(start, start + count):
        buffer.add(Event(thread_id="t", type="x", category="trace", content=number))


def test_a_batch_is_begun_at_twenty_and_one_at_a_time() -> None:
    store = Slow()
    buffer = EventBuffer(store)  # type: ignore[arg-type]
    fill(buffer, 0, 19)
    assert store.sizes == []
    fill(buffer, 19, 31)
    assert (store.sizes, buffer.waiting) == ([20], 30)
    store.end()
    assert (store.sizes, buffer.waiting) == ([20, 30], 0)
    store.end()
    assert [number for batch, _ in store.batches for number in batch] == list(range(50))


def test_a_failed_batch_goes_back_to_the_front() -> None:
    store = Slow()
    buffer = EventBuffer(store)  # type: ignore[arg-type]
    fill(buffer, 0, 25)
    store.end(OSError("disk full"))
    assert (store.sizes, buffer.waiting) == ([20], 25)
    fill(buffer, 25, 1)
    assert store.batches[-1][0] == list(range(26))
    store.end()
    assert buffer.waiting == 0


@pytest.mark.parametrize("form", ["flush", "aflush"])
async def test_flush_waits_and_tries_once_more(form: str) -> None:
    async def flush(buffer: EventBuffer) -> None:
        await (buffer.aflush() if form == "aflush" else asyncio.to_thread(buffer.flush))

    store = Failing(1)
    buffer = EventBuffer(store)  # type: ignore[arg-type]
    fill(buffer, 0, 5)
    await flush(buffer)
    assert (store.kept, buffer.waiting) == ([0, 1, 2, 3, 4], 0)
    await flush(buffer)
    store.failures = 2
    fill(buffer, 5, 3)
    with pytest.raises(EventStoreError, match="disk full"):
        await flush(buffer)
    assert buffer.waiting == 3
    fill(buffer, 8, 1)
    await flush(buffer)
    assert store.kept == list(range(9))


async def test_who_stops_waiting_takes_nothing_back(caplog: pytest.LogCaptureFixture) -> None:
    store = Slow()
    buffer = EventBuffer(store)  # type: ignore[arg-type]
    fill(buffer, 0, 3)
    task = asyncio.create_task(buffer.aflush())
    await asyncio.sleep(0)  # up to where it waits
    assert store.sizes == [3]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not store.batches[0][1].cancelled()
    store.end()
    await buffer.aflush()
    assert (store.sizes, buffer.waiting) == ([3], 0)
    assert caplog.records == []


def test_a_cancelled_batch_is_tried_again() -> None:
    store = Slow()
    buffer = EventBuffer(store)  # type: ignore[arg-type]
    fill(buffer, 0, 20)
    store.batches[0][1].cancel()
    assert buffer.waiting == 20


def test_a_store_that_takes_nothing_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 30)
    buffer = EventBuffer(Failing(10**9))  # type: ignore[arg-type]
    fill(buffer, 0, 50)
    assert (buffer.waiting, buffer.dropped) == (30, 20)
    assert "the store of events takes nothing: 1 events are lost so far" in caplog.text
