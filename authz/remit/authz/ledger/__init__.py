"""The decision log: who asked for what, what was answered, and by which rule, as JSON lines."""

from __future__ import annotations

from remit.authz.ledger.log import DecisionLog, shared_log
from remit.authz.ledger.sink import FileSink, Sink

__all__ = ["DecisionLog", "FileSink", "Sink", "shared_log"]
