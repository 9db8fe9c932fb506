"""What happened in a run, kept per thread in its order: events, the stores that hold them, and the journal of a run.

Names are resolved at first use: LangChain is imported with the journal and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.runtime.events.journal import RunJournal
    from remit.runtime.events.memory import MemoryEventStore
    from remit.runtime.events.sqlite import SqliteEventStore
    from remit.runtime.events.store import Event, EventStore, EventStoreError

__all__ = ["Event", "EventStore", "EventStoreError", "MemoryEventStore", "RunJournal", "SqliteEventStore"]

_HOME = {
    "Event": "store",
    "EventStore": "store",
    "EventStoreError": "store",
    "MemoryEventStore": "memory",
    "RunJournal": "journal",
    "SqliteEventStore": "sqlite",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
