"""Both stores, through both forms of every method; and what only the file has to stand."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.blocking import no_blocking_calls

from remit.runtime.events import Event, EventStore, EventStoreError, MemoryEventStore, SqliteEventStore


def event(text: str = "x", thread: str = "t1", run: str | None = "r1", **fields: Any) -> Event:
    return Event(thread_id=thread, run_id=run, type="llm.ai.response", category="message", content=text, **fields)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = MemoryEventStore() if request.param == "memory" else SqliteEventStore(tmp_path / "deep" / "events.db")
    yield made
    made.close()


class Waiting:
    """The methods that wait, as coroutines."""

    def __init__(self, store: Any) -> None:
        self.store = store

    async def put(self, *args: Any) -> Any:
        return await asyncio.to_thread(self.store.put, *args)

    async def put_batch(self, *args: Any) -> Any:
        return await asyncio.to_thread(self.store.put_batch, *args)

    async def put_if_absent(self, *args: Any) -> Any:
        return await asyncio.to_thread(self.store.put_if_absent, *args)

    async def list(self, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(lambda: self.store.list(*args, **options))


class Awaited:
    """The methods for the event loop, which must not block it."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            with no_blocking_calls():
                return await getattr(self.store, f"a{name}")(*args, **options)

        return call


FORMS = [pytest.param(Waiting, id="waiting"), pytest.param(Awaited, id="awaited")]


@pytest.mark.parametrize("form", FORMS)
async def test_numbers_grow_within_a_thread(store: Any, form: Any) -> None:
    door = form(store)
    assert isinstance(store, EventStore)
    first = await door.put(event("a", metadata={"caller": "lead_agent"}))
    kept = await door.put_batch([event("b"), event("c", thread="t2"), event("d", run="r2")])
    assert (first.seq, [one.seq for one in kept]) == (1, [2, 1, 3])
    found = await door.list("t1")
    assert [(one.seq, one.content, one.run_id) for one in found] == [(1, "a", "r1"), (2, "b", "r1"), (3, "d", "r2")]
    assert found[0] == first
    assert dict(found[0].metadata) == {"caller": "lead_agent"}
    assert [one.content for one in await door.list("t1", run_id="r1")] == ["a", "b"]
    assert [one.content for one in await door.list("t1", after_seq=1)] == ["b", "d"]
    assert [one.content for one in await door.list("t1", after_seq=1, limit=1)] == ["b"]
    assert await door.list("t1", limit=0) == []
    assert await door.list("nowhere") == []


@pytest.mark.parametrize("form", FORMS)
async def test_one_identity_is_kept_once_per_run(store: Any, form: Any) -> None:
    door = form(store)
    assert (await door.put_if_absent(event("a"), "run.delivery")).seq == 1
    assert await door.put_if_absent(event("b"), "run.delivery") is None
    assert (await door.put_if_absent(event("c"), "other")).seq == 2
    assert (await door.put_if_absent(event("d", run="r2"), "run.delivery")).seq == 3
    assert (await door.put_if_absent(event("e", run=None), "run.delivery")).seq == 4
    assert await door.put_if_absent(event("f", run=None), "run.delivery") is None
    assert (await door.put_if_absent(event("g", thread="t2"), "run.delivery")).seq == 1
    assert [one.content for one in await door.list("t1")] == ["a", "c", "d", "e"]


def test_one_identity_wins_among_many_threads(store: Any) -> None:
    with ThreadPoolExecutor(16) as pool:
        kept = list(pool.map(lambda _: store.put_if_absent(event(), "once"), range(64)))
    assert sum(one is not None for one in kept) == 1


def test_many_threads_never_share_a_number(store: Any) -> None:
    with ThreadPoolExecutor(16) as pool:
        kept = list(pool.map(lambda number: store.put_batch([event(str(number))] * 5), range(40)))
    numbers = [one.seq for batch in kept for one in batch]
    assert sorted(numbers) == list(range(1, 201))
    assert all([one.seq for one in batch] == list(range(batch[0].seq, batch[0].seq + 5)) for batch in kept)


async def test_giving_up_waiting_does_not_take_the_event_back(store: Any) -> None:
    started = threading.Event()
    release = threading.Event()

    def hold() -> None:
        started.set()
        release.wait(5)

    if isinstance(store, SqliteEventStore):
        store._run(hold)
        await asyncio.to_thread(started.wait, 5)
    task = asyncio.create_task(store.aput(event("kept")))
    await asyncio.sleep(0)
    task.cancel()
    release.set()
    await asyncio.gather(task, return_exceptions=True)
    assert [one.content for one in await store.alist("t1")] == ["kept"]


async def test_a_closed_store_says_so(store: Any) -> None:
    store.put(event())
    await store.aclose()
    store.close()
    with pytest.raises(EventStoreError, match="is closed"):
        store.put(event())
    with pytest.raises(EventStoreError, match="is closed"):
        await store.alist("t1")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"thread_id": "", "type": "x"}, "belongs to a thread"),
        ({"thread_id": None, "type": "x"}, "belongs to a thread"),
        ({"thread_id": "t", "type": ""}, "1 to 32 characters"),
        ({"thread_id": "t", "type": "x" * 33}, "1 to 32 characters"),
    ],
)
def test_what_is_no_event(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Event(category="trace", **fields)


ODD: list[Any] = [
    None,
    {"a": [1, 2.5, True, None, "ü\x00\ud800"]},
    float("nan"),
    {1: "number as a key", (1, 2): "tuple"},
    object,
    b"\xff",
    [[[]]],
]


def test_nothing_that_an_event_holds_is_refused(tmp_path: Path) -> None:
    store = SqliteEventStore(tmp_path / "e.db")
    circle: list[Any] = []
    circle.append(circle)
    for value in (*ODD, circle):
        store.put(event(value, thread="t\ud800", run="r\ud800"))
    found = store.list("t\ud800", run_id="r\ud800")
    assert [one.seq for one in found] == list(range(1, len(ODD) + 2))
    assert found[1].content == ODD[1]
    assert found[2].content is None
    assert store.put_if_absent(event(), "id\ud800") is not None
    assert store.put_if_absent(event(), "id\ud800") is None
    store.close()


def test_memory_is_bounded() -> None:
    store = MemoryEventStore(max_events=3, max_threads=2)
    for number in range(5):
        store.put(event(str(number)))
    assert [(one.seq, one.content) for one in store.list("t1")] == [(3, "2"), (4, "3"), (5, "4")]
    store.put(event(thread="t2"))
    store.put(event("again"))
    store.put(event(thread="t3"))
    assert (len(store.list("t1")), store.list("t2"), len(store.list("t3"))) == (3, [], 1)


# The file


def test_the_file_is_its_owners_alone_and_made_at_first_use(tmp_path: Path) -> None:
    path = tmp_path / "state" / "events.db"
    store = SqliteEventStore(path)
    assert not path.exists()
    store.put(event())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    wal = path.with_name("events.db-wal")
    assert not wal.exists() or stat.S_IMODE(wal.stat().st_mode) == 0o600
    store.close()


def test_a_file_that_cannot_be_used_is_an_error_and_can_be_used_once_it_can(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.mkdir()
    store = SqliteEventStore(path)
    with pytest.raises(EventStoreError, match=r"events\.db: the events cannot be kept or read: .*; check the disk"):
        store.put(event())
    path.rmdir()
    assert store.put(event()).seq == 1
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(b"no database at all" * 100)
    store = SqliteEventStore(path, busy_timeout=0.05)
    with pytest.raises(EventStoreError, match="file is not a database"):
        store.list("t1")
    store.close()


def test_a_file_of_a_newer_release(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = SqliteEventStore(path)
    with pytest.raises(EventStoreError, match=r"newer release \(format 99\)"):
        store.put(event())
    store.close()


def test_a_batch_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    store = SqliteEventStore(path, busy_timeout=0.05)
    store.put(event("first"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(EventStoreError, match="database is locked"):
        store.put_batch([event("a"), event("b")])
    assert [one.content for one in store.list("t1")] == ["first"]  # reading is not held up by a writer
    other.execute("ROLLBACK")
    other.close()
    assert [one.seq for one in store.put_batch([event("a"), event("b")])] == [2, 3]
    store.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_works_with_a_connection_of_its_own(tmp_path: Path) -> None:
    store = SqliteEventStore(tmp_path / "events.db")
    store.put(event("parent"))
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        code = 1
        try:
            code = 0 if store.put(event("child")).seq == 2 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [one.content for one in store.list("t1")] == ["parent", "child"]
    store.close()


WRITER = """
import sys
from remit.runtime.events import Event, SqliteEventStore

path, name, count, hold = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "hold"
store = SqliteEventStore(path)
number = 0
while hold or number < count:
    batch = [Event(thread_id="t1", run_id=name, type="x", category="trace", content=number + step) for step in range(3)]
    store.put_batch(batch)
    number += 3
    print(number, flush=True)
store.close()
"""


def writer(path: Path, name: str, count: int = 0, *, hold: bool = False) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count), "hold" if hold else "end"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_kill_loses_nothing_that_was_reported_durable(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    child = writer(path, "r1", hold=True)
    assert child.stdout is not None
    reported = 0
    while reported < 60:
        reported = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    reported = max([reported, *(int(line) for line in child.stdout.read().split())])
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    store = SqliteEventStore(path)
    found = store.list("t1", limit=1_000_000)
    assert len(found) in (reported, reported + 3)  # the batch after the last report may be there, whole
    assert [one.content for one in found] == list(range(len(found)))
    assert [one.seq for one in found] == list(range(1, len(found) + 1))
    assert store.put(event()).seq == len(found) + 1
    store.close()


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    children = [writer(path, name, 150) for name in ("r1", "r2")]
    for child in children:
        child.communicate(timeout=30)
        assert child.returncode == 0
    store = SqliteEventStore(path)
    found = store.list("t1", limit=1_000)
    assert [one.seq for one in found] == list(range(1, 301))
    for name in ("r1", "r2"):
        assert [one.content for one in found if one.run_id == name] == list(range(150))
    store.close()
