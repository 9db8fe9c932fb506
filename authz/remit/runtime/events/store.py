"""Events and what a store of them does. Every method has a form that waits and one for the event loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from remit.authz.errors import AuthzError
from remit.runtime.journal import MAX_EVENT_TYPE

T = TypeVar("T")

DEFAULT_LIMIT: Final = 1_000


class EventStoreError(AuthzError):
    """Events cannot be kept, or read, now."""


def now() -> str:
    """This moment: ISO 8601, UTC, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened in a thread.

    Raises:
        ValueError: `thread_id` is empty, or `type` has not 1 to 32 characters.
    """

    thread_id: str
    type: str
    """``run.start``, ``llm.ai.response``, ``middleware:guardrail``, …"""
    category: str
    """``message``, ``trace``, ``outputs``, ``error``, ``middleware``, …: what it is for."""
    content: Any = None
    """JSON values."""
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    created_at: str = field(default_factory=now)
    """ISO 8601, UTC."""
    seq: int = 0
    """Its number in the thread, from 1, given by the store; 0 before that."""

    def __post_init__(self) -> None:
        if not isinstance(self.thread_id, str) or not self.thread_id:
            raise ValueError(f"an event belongs to a thread; thread_id is {self.thread_id!r}")
        if not isinstance(self.type, str) or not 1 <= len(self.type) <= MAX_EVENT_TYPE:
            raise ValueError(f"the type of an event has 1 to {MAX_EVENT_TYPE} characters, got {self.type!r}")


Events = list[Event]
Stored = Sequence[Event]


@runtime_checkable
class EventStore(Protocol):
    """Keeps events in the order in which they come. Numbers grow within a thread and are never given twice."""

    def submit(self, events: Stored) -> Future[Events]:
        """Begin to append all of `events` or none, without waiting. The future tells when they are durable."""
        ...

    def put(self, event: Event) -> Event:
        """Append one event and wait until it is durable. The answer has its number.

        Raises:
            EventStoreError: It was not kept.
        """
        ...

    def put_batch(self, events: Stored) -> Events:
        """Append all of `events` or none.

        Raises:
            EventStoreError: None was kept.
        """
        ...

    def put_if_absent(self, event: Event, identity: str) -> Event | None:
        """Append `event` unless its run has one with this identity already; None then.

        Raises:
            EventStoreError: It was not kept.
        """
        ...

    def list(
        self, thread_id: str, *, run_id: str | None = None, after_seq: int | None = None, limit: int = DEFAULT_LIMIT
    ) -> Events:
        """Events of a thread, oldest first.

        Args:
            thread_id: The thread.
            run_id: Of this run only.
            after_seq: Those with a greater number only.
            limit: At most so many.

        Raises:
            EventStoreError: They cannot be read.
        """
        ...

    async def aput(self, event: Event) -> Event: ...
    async def aput_batch(self, events: Stored) -> Events: ...
    async def aput_if_absent(self, event: Event, identity: str) -> Event | None: ...
    async def alist(
        self, thread_id: str, *, run_id: str | None = None, after_seq: int | None = None, limit: int = DEFAULT_LIMIT
    ) -> Events: ...

    def close(self) -> None:
        """Wait for what was submitted and let go of everything. Repeated calls do nothing."""
        ...

    async def aclose(self) -> None: ...


class StoreBase(ABC):
    """Both forms of every method, from three primitives and a place where they run."""

    @abstractmethod
    def _run(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Do `work` where this store does its work, after everything that was begun before.

        Raises:
            EventStoreError: The store is closed.
        """

    @abstractmethod
    def _append(self, events: Stored, identity: str | None) -> Events:
        """Append all or none; with an identity nothing when it is there already."""

    @abstractmethod
    def _read(self, thread_id: str, run_id: str | None, after_seq: int, limit: int) -> Events:
        """Events of a thread, oldest first."""

    @abstractmethod
    def close(self) -> None: ...

    def submit(self, events: Stored) -> Future[Events]:
        return self._run(self._append, tuple(events), None)

    def put(self, event: Event) -> Event:
        return self.submit((event,)).result()[0]

    def put_batch(self, events: Stored) -> Events:
        return self.submit(events).result()

    def put_if_absent(self, event: Event, identity: str) -> Event | None:
        kept = self._run(self._append, (event,), identity).result()
        return kept[0] if kept else None

    async def aput(self, event: Event) -> Event:
        return (await _waited(self.submit((event,))))[0]

    async def aput_batch(self, events: Stored) -> Events:
        return await _waited(self.submit(events))

    async def aput_if_absent(self, event: Event, identity: str) -> Event | None:
        kept = await _waited(self._run(self._append, (event,), identity))
        return kept[0] if kept else None

    async def alist(
        self, thread_id: str, *, run_id: str | None = None, after_seq: int | None = None, limit: int = DEFAULT_LIMIT
    ) -> Events:
        return await _waited(self._run(self._read, thread_id, run_id, after_seq or 0, limit))

    def list(
        self, thread_id: str, *, run_id: str | None = None, after_seq: int | None = None, limit: int = DEFAULT_LIMIT
    ) -> Events:
        return self._run(self._read, thread_id, run_id, after_seq or 0, limit).result()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


async def _waited(future: Future[T]) -> T:
    """The result. A caller that gives up waiting does not take the work back."""
    return future.result() if future.done() else await asyncio.shield(asyncio.wrap_future(future))
