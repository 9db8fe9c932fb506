"""What happened in a run, kept per thread in its order: events, the stores that hold them, and the journal of a run.

Names are resolved at first use: LangChain is imported with the journal and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

if TYPE_CHECKING:
    from remit.runtime.events.journal import RunJournal
    from remit.runtime.events.memory import MemoryEventStore
    from remit.runtime.events.sqlite import SqliteEventStore
    from remit.runtime.events.store import Event, EventStore, EventStoreError

__all__ = ["Event", "EventStore", "EventStoreError", "MemoryEventStore", "RunJournal", "SqliteEventStore"]

_HOME = {
    "Event": ".store",
    "EventStore": ".store",
    "EventStoreError": ".store",
    "MemoryEventStore": ".memory",
    "RunJournal": ".journal",
    "SqliteEventStore": ".sqlite",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
