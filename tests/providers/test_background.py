from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from remit.providers.background import Background, BackgroundError


class Resource:
    """Knows the thread and the loop it lives in."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.closed = 0

    async def where(self) -> tuple[int, int]:
        return threading.get_ident(), id(asyncio.get_running_loop())

    async def close(self) -> None:
        self.closed += 1


def test_every_caller_meets_the_one_resource_on_its_own_loop() -> None:
    made: list[Resource] = []
    background = Background(lambda: made.append(Resource()) or made[-1], Resource.close, name="one")
    assert made == []  # nothing happens before the first call
    found = {background.run(Resource.where)}
    threads = [threading.Thread(target=lambda: found.add(background.run(Resource.where))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(3):
        found.add(asyncio.run(background.arun(Resource.where)))
    assert len(made) == 1
    assert len(found) == 1
    assert made[0].thread == next(iter(found))[0] != threading.get_ident()
    asyncio.run(background.aclose())
    asyncio.run(background.aclose())
    assert made[0].closed == 1


def test_a_resource_that_cannot_be_opened_fails_every_call() -> None:
    def broken() -> Resource:
        raise OSError("no certificates")

    background = Background(broken, Resource.close, name="broken")
    for _ in range(2):
        with pytest.raises(BackgroundError, match="could not be opened: no certificates"):
            background.run(Resource.where)
    asyncio.run(background.aclose())


def test_errors_of_the_work_reach_the_caller() -> None:
    async def fails(resource: Resource) -> None:
        raise KeyError("x")

    background = Background(Resource, Resource.close, name="fails")
    with pytest.raises(KeyError, match="x"):
        background.run(fails)
    with pytest.raises(KeyError, match="x"):
        asyncio.run(background.arun(fails))
    asyncio.run(background.aclose())


async def test_cancelling_the_caller_cancels_the_work() -> None:
    loop, began, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    async def waits(resource: Resource) -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon_threadsafe(ended.set)

    background = Background(Resource, Resource.close, name="waits")
    task = asyncio.ensure_future(background.arun(waits))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended.wait()
    await background.aclose()


async def test_closed_before_it_was_ever_used() -> None:
    background = Background(Resource, Resource.close, name="unused")
    await background.aclose()
    with pytest.raises(BackgroundError, match="closed"):
        await background.arun(Resource.where)


FORK = """
import asyncio, os, threading
from remit.providers.background import Background

class Resource:
    async def pid(self): return os.getpid()
    async def close(self): pass

background = Background(Resource, Resource.close, name="fork")
assert background.run(Resource.pid) == os.getpid()
child = os.fork()
if child == 0:
    right = background.run(Resource.pid) == os.getpid()
    asyncio.run(background.aclose())
    os._exit(0 if right else 7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert background.run(Resource.pid) == os.getpid()
asyncio.run(background.aclose())
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this platform")
def test_a_forked_child_gets_a_thread_of_its_own() -> None:
    run = subprocess.run([sys.executable, "-c", FORK], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
