"""Locks that threads and tasks of several event loops share."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.waiting import eventually

from remit.middlewares.pathlocks import Busy, Grant, PathLocks


@pytest.fixture
def locks() -> Iterator[PathLocks]:
    made = PathLocks()
    yield made
    assert len(made) == 0  # nothing is held or remembered


def waiting(locks: PathLocks, key: str) -> int:
    held = locks._held.get(key)
    return 0 if held is None else len(held.waiting)


def test_threads_and_tasks_of_two_loops_exclude_each_other(locks: PathLocks) -> None:
    """1,000 holders of one lock, mixed: each sees what the one before left, and none is lost."""
    inside, total = 0, 0

    def step() -> int:
        nonlocal inside, total
        inside += 1
        assert inside == 1
        return total

    def leave(seen: int) -> None:
        nonlocal inside, total
        total = seen + 1
        inside -= 1

    def in_thread() -> None:
        grant = locks.acquire("k")
        try:
            leave(step())
        finally:
            grant.release()

    async def in_task() -> None:
        grant = await locks.aacquire("k")
        try:
            seen = step()
            await asyncio.sleep(0)
            leave(seen)
        finally:
            grant.release()

    def loop() -> None:
        async def many() -> None:
            await asyncio.gather(*(in_task() for _ in range(300)))

        asyncio.run(many())

    with ThreadPoolExecutor(34) as pool:
        jobs = [pool.submit(loop), pool.submit(loop), *(pool.submit(in_thread) for _ in range(400))]
        for job in jobs:
            job.result(timeout=60)
    assert total == 1_000


async def test_tasks_wait_without_threads(locks: PathLocks) -> None:
    """1,000 waiting tasks, while the holder needs every thread of the loop's own pool."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    grant = await locks.aacquire("k")
    before = threading.active_count()

    async def one() -> None:
        mine = await locks.aacquire("k")
        await asyncio.to_thread(int)
        mine.release()

    tasks = [copy_context_free(one) for _ in range(1_000)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert waiting(locks, "k") == 1_000
    assert threading.active_count() == before
    await asyncio.to_thread(int)
    grant.release()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)


def copy_context_free(core: Any) -> asyncio.Task[Any]:
    """A task that does not count as part of the running code: it holds none of its locks."""
    from remit.middlewares.pathlocks import _MINE

    context = copy_context()
    context.run(_MINE.set, ())
    return asyncio.get_running_loop().create_task(core(), context=context)


async def test_first_come_first_served(locks: PathLocks) -> None:
    order: list[int] = []
    grant = await locks.aacquire("k")

    def waiter(number: int) -> Any:
        async def one() -> None:
            mine = await locks.aacquire("k")
            order.append(number)
            mine.release()

        return one

    tasks = []
    for number in range(20):
        tasks.append(copy_context_free(waiter(number)))
        await asyncio.sleep(0)
    grant.release()
    await asyncio.gather(*tasks)
    assert order == list(range(20))


@pytest.mark.parametrize("moment", ["while waiting", "when it was handed over", "after it was handed over"])
async def test_cancelled_waiters_leave_nothing_behind(locks: PathLocks, moment: str) -> None:
    grant = await locks.aacquire("k")
    got: list[str] = []

    async def one() -> None:
        mine = await locks.aacquire("k")
        try:
            got.append("one")
            await asyncio.Event().wait()
        finally:
            mine.release()

    async def next_one() -> None:
        mine = await locks.aacquire("k")
        got.append("next")
        mine.release()

    task = copy_context_free(one)
    await asyncio.sleep(0)
    follower = copy_context_free(next_one)
    await asyncio.sleep(0)
    if moment == "while waiting":
        task.cancel()
        await asyncio.sleep(0)
        grant.release()
    elif moment == "when it was handed over":
        grant.release()
        task.cancel()
    else:
        grant.release()
        for _ in range(5):
            await asyncio.sleep(0)
        assert got == ["one"]
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(follower, 5)
    assert got == (["one", "next"] if moment == "after it was handed over" else ["next"])


def test_a_loop_that_died_is_passed_over(locks: PathLocks) -> None:
    """A task that waited in a loop that was thrown away does not keep the lock from others."""
    grant = locks.acquire("k")
    loop = asyncio.new_event_loop()
    task = loop.create_task(locks.aacquire("k"), context=fresh_context())
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert waiting(locks, "k") == 1
    loop.close()
    grant.release()
    locks.acquire("k").release()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task, loop
    gc.collect()


def test_a_loop_that_dies_with_the_lock_in_its_hands(locks: PathLocks) -> None:
    """Handed over, and never resumed: the lock comes back when the task is thrown away."""
    grant = locks.acquire("k")
    loop = asyncio.new_event_loop()
    task = loop.create_task(locks.aacquire("k"), context=fresh_context())
    loop.call_soon(loop.stop)
    loop.run_forever()
    grant.release()
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    assert len(locks) == 1
    del task, loop
    gc.collect()
    locks.acquire("k").release()


def fresh_context() -> Any:
    from remit.middlewares.pathlocks import _MINE

    context = copy_context()
    context.run(_MINE.set, ())
    return context


async def test_waiting_synchronously_for_a_task_of_the_same_loop_is_refused(locks: PathLocks) -> None:
    """It would stop the very loop that has to go on."""
    ready, done = asyncio.Event(), asyncio.Event()

    async def holder() -> None:
        mine = await locks.aacquire("k")
        ready.set()
        await done.wait()
        mine.release()

    task = copy_context_free(holder)
    await ready.wait()
    with pytest.raises(Busy, match="event loop"):
        locks.acquire("k")
    done.set()
    await task
    locks.acquire("k").release()


def test_the_same_lock_inside_of_itself(locks: PathLocks) -> None:
    """Code that runs while the lock is held around it does not wait for itself."""
    outer = locks.acquire("k")
    inner = locks.acquire("k")
    inner.release()
    assert len(locks) == 1
    outer.release()
    outer.release()


async def test_a_task_left_over_from_a_holder_waits_like_everybody(locks: PathLocks) -> None:
    grant = await locks.aacquire("k")
    go, got = asyncio.Event(), asyncio.Event()

    async def left_over() -> None:
        await go.wait()
        mine = await locks.aacquire("k")
        got.set()
        mine.release()

    task = asyncio.create_task(left_over())  # with a copy of this context, in which the lock is held
    grant.release()
    other = await asyncio.to_thread(fresh_context().run, locks.acquire, "k")
    go.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not got.is_set()
    other.release()
    await task
    assert got.is_set()


@pytest.mark.parametrize("soon", [False, True], ids=["thread", "task"])
def test_patience_ends(soon: bool) -> None:
    """One who never lets go does not keep others for ever."""
    locks = PathLocks(patience=0.05)
    grant = locks.acquire("k")

    def wait() -> Grant:
        return asyncio.run(locks.aacquire("k")) if soon else locks.acquire("k")

    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(wait).exception(timeout=10), Busy)
    assert waiting(locks, "k") == 0
    grant.release()
    assert len(locks) == 0


def test_patience_counts_from_the_last_change_of_hands() -> None:
    """A long queue that moves is no reason to give up."""
    locks = PathLocks(patience=0.2)
    first = locks.acquire("k")
    pause = threading.Event()

    def one() -> None:
        mine = locks.acquire("k")
        pause.wait(0.02)
        mine.release()

    with ThreadPoolExecutor(20) as pool:
        jobs = [pool.submit(one) for _ in range(20)]
        eventually(lambda: waiting(locks, "k") == 20)
        first.release()
        for job in jobs:
            job.result(timeout=10)
    assert len(locks) == 0


def test_different_names_do_not_wait(locks: PathLocks) -> None:
    one, other = locks.acquire(("u", "t", "/a")), locks.acquire(("u", "t", "/b"))
    assert len(locks) == 2
    one.release()
    other.release()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), max_size=30))
def test_cancelled_at_any_step_nothing_is_held(plan: list[tuple[str, int]]) -> None:
    """Tasks that are cancelled after any number of steps, in any order."""
    locks = PathLocks()
    inside = {"a": 0, "b": 0}

    async def one(key: str) -> None:
        mine = await locks.aacquire(key)
        try:
            inside[key] += 1
            assert inside[key] == 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        finally:
            inside[key] -= 1
            mine.release()

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(one(key)) for key, _ in plan]
        for step in range(7):
            for task, (_, at) in zip(tasks, plan, strict=True):
                if at == step:
                    task.cancel()
            await asyncio.sleep(0)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)

    asyncio.run(all_of_them())
    assert len(locks) == 0
