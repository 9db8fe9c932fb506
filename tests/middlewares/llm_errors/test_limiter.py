"""Permits: never too many, never one lost, first come first served, over threads and loops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ledger import listening

from remit.middlewares.llm_errors.limiter import Limiter


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until `condition` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def holder(limiter: Limiter, log: list[Any], name: Any, leave: asyncio.Event) -> None:
    await limiter.aacquire()
    log.append(name)
    try:
        await leave.wait()
    finally:
        limiter.release()


async def test_no_limit() -> None:
    limiter = Limiter()
    for _ in range(100):
        await limiter.aacquire()
        limiter.acquire()
    assert limiter.active == 200


async def test_first_come_first_served() -> None:
    limiter, log = Limiter(1), []
    await limiter.aacquire()
    leave = asyncio.Event()
    leave.set()
    tasks = []
    for name in range(20):
        tasks.append(asyncio.create_task(holder(limiter, log, name, leave)))
        await until(lambda: limiter.waiting == len(tasks))
    limiter.release()
    await asyncio.gather(*tasks)
    assert log == list(range(20))
    assert (limiter.active, limiter.waiting) == (0, 0)


async def test_newcomers_stand_at_the_end() -> None:
    """A free permit belongs to the queue, not to whoever happens to come by."""
    limiter, log = Limiter(1), []
    await limiter.aacquire()
    leave = asyncio.Event()
    leave.set()
    first = asyncio.create_task(holder(limiter, log, "first", leave))
    await until(lambda: limiter.waiting == 1)
    limiter.release()  # granted to the first, whose task has not run yet
    second = asyncio.create_task(holder(limiter, log, "second", leave))
    await asyncio.gather(first, second)
    assert log == ["first", "second"]


@pytest.mark.parametrize("granted", [False, True], ids=["waiting", "granted-at-the-same-moment"])
async def test_a_permit_of_a_cancelled_waiter_passes_on(granted: bool) -> None:
    limiter, log = Limiter(1), []
    await limiter.aacquire()
    leave = asyncio.Event()
    leave.set()
    doomed = asyncio.create_task(holder(limiter, log, "doomed", leave))
    await until(lambda: limiter.waiting == 1)
    heir = asyncio.create_task(holder(limiter, log, "heir", leave))
    await until(lambda: limiter.waiting == 2)
    if granted:
        limiter.release()
        doomed.cancel()
    else:
        doomed.cancel()
        await until(lambda: limiter.waiting == 1)
        limiter.release()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    await asyncio.wait_for(heir, 5)
    assert log == ["heir"]
    assert (limiter.active, limiter.waiting) == (0, 0)


async def test_more_permits_wake_waiters_and_fewer_take_none_back() -> None:
    limiter, log = Limiter(1), []
    leave = asyncio.Event()
    tasks = [asyncio.create_task(holder(limiter, log, name, leave)) for name in range(5)]
    await until(lambda: limiter.waiting == 4)
    limiter.resize(3)
    await until(lambda: len(log) == 3)
    assert (limiter.active, limiter.waiting) == (3, 2)
    limiter.resize(1)
    assert limiter.active == 3
    limiter.resize(0)
    await until(lambda: len(log) == 5)
    leave.set()
    await asyncio.gather(*tasks)
    assert limiter.active == 0


async def test_calls_without_a_limit_count_when_one_comes() -> None:
    limiter, log = Limiter(0), []
    leave = asyncio.Event()
    tasks = [asyncio.create_task(holder(limiter, log, name, leave)) for name in range(4)]
    await until(lambda: len(log) == 4)
    limiter.resize(2)
    late = asyncio.create_task(holder(limiter, log, "late", leave))
    await until(lambda: limiter.waiting == 1)
    assert "late" not in log
    leave.set()
    await asyncio.gather(*tasks, late)


def test_threads_wait_for_tasks_of_another_loop() -> None:
    limiter, log = Limiter(1), []
    holding, leave = threading.Event(), threading.Event()

    def loop() -> None:
        async def main() -> None:
            await limiter.aacquire()
            holding.set()
            await asyncio.to_thread(leave.wait)
            log.append("loop")
            limiter.release()

        asyncio.run(main())

    def thread() -> None:
        limiter.acquire()
        log.append("thread")
        limiter.release()

    first = threading.Thread(target=loop)
    first.start()
    assert holding.wait(5)
    second = threading.Thread(target=thread)
    second.start()
    while limiter.waiting == 0:
        pass
    leave.set()
    first.join(5)
    second.join(5)
    assert log == ["loop", "thread"]
    assert (limiter.active, limiter.waiting) == (0, 0)


async def test_a_synchronous_call_on_a_loop_does_not_wait_for_itself() -> None:
    limiter = Limiter(1)
    await limiter.aacquire()
    with listening("remit.middlewares") as said:
        limiter.acquire()
    assert said.saying("goes over the limit")
    assert limiter.active == 2


def test_a_loop_that_was_thrown_away_takes_no_permit_along() -> None:
    limiter = Limiter(1)
    limiter.acquire()
    for _ in range(3):
        loop = asyncio.new_event_loop()
        task = loop.create_task(limiter.aacquire())
        task._log_destroy_pending = False  # that it is thrown away is the point
        loop.run_until_complete(asyncio.sleep(0))
        assert limiter.waiting >= 1
        loop.close()
        del task, loop
    limiter.release()
    gc.collect()
    assert (limiter.active, limiter.waiting) == (0, 0)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["come", "leave", "cancel", "resize", "run"]), st.integers(0, 7)), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(ACTIONS, st.booleans())
def test_any_order_of_events(actions: list[tuple[str, int]], one_at_a_time: bool) -> None:
    """No permit is lost, nobody waits for ever, and with a single permit everybody is served in the order they came.

    With several, two who hold permits may go on in either order, and that is what the log shows.
    """

    async def main() -> None:
        limiter = Limiter(1 if one_at_a_time else 2)
        served: list[int] = []
        tasks: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}
        for what, number in actions:
            if what == "come":
                leave = asyncio.Event()
                name = len(tasks)
                tasks[name] = (asyncio.create_task(holder(limiter, served, name, leave)), leave)
            elif what == "resize":
                limiter.resize(1 if one_at_a_time else number % 4 + 1)
            elif what == "run":
                await asyncio.sleep(0)
            elif tasks:
                task, leave = list(tasks.values())[number % len(tasks)]
                leave.set() if what == "leave" else task.cancel()
            assert limiter.active <= (1 if one_at_a_time else 4)
        for _, leave in tasks.values():
            leave.set()
        for task, _ in tasks.values():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 5)
        assert (limiter.active, limiter.waiting) == (0, 0)
        if one_at_a_time:
            assert served == sorted(served)

    asyncio.run(main())


@pytest.mark.slow
def test_threads_and_loops_under_stress() -> None:
    limiter = Limiter(3)
    lock = threading.Lock()
    inside = most = done = 0

    def enter() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)

    def leave() -> None:
        nonlocal inside, done
        with lock:
            inside -= 1
            done += 1

    def thread(seed: int) -> None:
        for _ in range(60):
            limiter.acquire()
            enter()
            leave()
            limiter.release()

    def loop(seed: int) -> None:
        chance = random.Random(seed)

        async def one() -> None:
            await limiter.aacquire()
            enter()
            try:
                await asyncio.sleep(0)
            finally:
                leave()
                limiter.release()

        async def main() -> None:
            for _ in range(10):
                tasks = [asyncio.create_task(one()) for _ in range(12)]
                await asyncio.sleep(0)
                for task in tasks:
                    if chance.random() < 0.4:
                        task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(main())

    workers = [threading.Thread(target=kind, args=(seed,)) for seed in range(4) for kind in (thread, loop)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()
    assert most <= 3
    assert done >= 4 * 60
    assert (limiter.active, limiter.waiting, inside) == (0, 0, 0)
