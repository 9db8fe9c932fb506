"""Events in a SQLite file, which several processes may share.

One thread does all of the work, so that neither the event loop nor a callback of an agent waits for the disk. What was
reported durable survives the end of the process at any moment; a power failure may take the last transactions, but
leaves the file consistent.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic_core import to_json

from remit.runtime.events.store import Event, Events, EventStoreError, StoreBase, Stored

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
BUSY_SECONDS: Final = 30.0
"""How long one transaction waits for those of other processes."""
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS events (
        thread_id TEXT NOT NULL, seq INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL, category TEXT NOT NULL,
        content TEXT NOT NULL, metadata TEXT NOT NULL, created_at TEXT NOT NULL, identity TEXT,
        PRIMARY KEY (thread_id, seq))""",
    "CREATE INDEX IF NOT EXISTS events_of_run ON events (thread_id, run_id, seq)",
    """CREATE UNIQUE INDEX IF NOT EXISTS events_once ON events (thread_id, ifnull(run_id, ''), identity)
        WHERE identity IS NOT NULL""",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_INSERT: Final = """INSERT INTO events (thread_id, seq, run_id, type, category, content, metadata, created_at, identity)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_SELECT: Final = """SELECT thread_id, seq, run_id, type, category, content, metadata, created_at FROM events
    WHERE thread_id = ? AND seq > ? AND (?3 IS NULL OR run_id = ?3) ORDER BY seq LIMIT ?4"""


class SqliteEventStore(StoreBase):
    """Keeps events in a file. It is opened at first use, made when it is not there, and readable by its owner alone.

    Args:
        path: The file.
        busy_timeout: Seconds that a transaction waits for those of other processes.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = BUSY_SECONDS) -> None:
        self.path = Path(path)
        self._busy = busy_timeout
        self._lock = threading.Lock()
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="remit-events")
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            worker = self._worker
        worker.submit(self._let_go)
        worker.shutdown(wait=True)

    def _run(self, work: Callable[..., T], *args: Any) -> Future[T]:
        with self._lock:
            if self._closed:
                raise EventStoreError(f"{self.path}: the store of events is closed")
            if self._process != os.getpid():  # a fork has neither the thread nor a usable connection
                self._begin()
            return self._worker.submit(self._guarded, work, *args)

    def _guarded(self, work: Callable[..., T], *args: Any) -> T:
        try:
            return work(*args)
        except (sqlite3.Error, OSError) as exc:
            self._let_go()  # whatever is wrong with it, the next attempt begins anew
            raise EventStoreError(
                f"{self.path}: the events cannot be kept or read: {exc}; check the disk and who may write there"
            ) from exc

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            # every use is in the one thread; closing may be in another
            connection = sqlite3.connect(self.path, timeout=self._busy, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        until = time.monotonic() + self._busy
        while True:  # two processes that turn on the log at once are not made to wait for each other by SQLite
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        connection.execute("PRAGMA synchronous = NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise EventStoreError(f"{self.path}: was written by a newer release (format {version}); update remit")
        if version < SCHEMA_VERSION:
            with _transaction(connection):
                for statement in _SCHEMA:
                    connection.execute(statement)

    def _append(self, events: Stored, identity: str | None) -> Events:
        connection = self._opened()
        last: dict[str, int] = {}
        kept = []
        with _transaction(connection):
            if identity is not None and self._has(connection, events[0], identity):
                return []
            for event in events:
                thread = _text(event.thread_id)
                if thread not in last:
                    found = connection.execute("SELECT max(seq) FROM events WHERE thread_id = ?", (thread,)).fetchone()
                    last[thread] = found[0] or 0
                last[thread] += 1
                connection.execute(_INSERT, _row(event, last[thread], identity))
                kept.append(replace(event, seq=last[thread]))
        return kept

    def _has(self, connection: sqlite3.Connection, event: Event, identity: str) -> bool:
        found = connection.execute(
            "SELECT 1 FROM events WHERE thread_id = ? AND ifnull(run_id, '') = ? AND identity = ?",
            (_text(event.thread_id), _text(event.run_id or ""), _text(identity)),
        ).fetchone()
        return found is not None

    def _read(self, thread_id: str, run_id: str | None, after_seq: int, limit: int) -> Events:
        run = None if run_id is None else _text(run_id)
        rows = self._opened().execute(_SELECT, (_text(thread_id), after_seq, run, max(0, limit))).fetchall()
        return [
            Event(
                thread_id=row[0],
                seq=row[1],
                run_id=row[2],
                type=row[3],
                category=row[4],
                content=json.loads(row[5]),
                metadata=json.loads(row[6]),
                created_at=row[7],
            )
            for row in rows
        ]


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Any:
    """Take the right to write first: the numbers that are read must not be given by another process meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _row(event: Event, seq: int, identity: str | None) -> tuple[Any, ...]:
    return (
        _text(event.thread_id),
        seq,
        None if event.run_id is None else _text(event.run_id),
        _text(event.type),
        _text(event.category),
        _json(event.content),
        _json(dict(event.metadata)),
        _text(event.created_at),
        None if identity is None else _text(identity),
    )


def _text(value: str) -> str:
    """`value` as SQLite takes it: half a surrogate pair has no UTF-8 form."""
    return value.encode("utf-8", "backslashreplace").decode()


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=repr, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # keys that are no strings, infinity, circles, depth
        try:
            return to_json(value, inf_nan_mode="null", serialize_unknown=True).decode()
        except Exception:  # it cannot be written at all; the event itself must not be lost
            return json.dumps(repr(type(value)))
