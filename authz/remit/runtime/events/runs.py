"""Who does what in a run: the tree of the callbacks' runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

LEAD: Final = "lead_agent"
_CALLERS: Final = ("subagent:", "middleware:")


@dataclass(slots=True)
class Run:
    """One run as callbacks tell it: of a graph, a node, a model or a tool."""

    caller: str
    """``lead_agent``, ``subagent:<name>`` or ``middleware:<name>``."""
    given: frozenset[str]
    """Tags that came with the outermost run: a client chooses them, so they say nothing."""
    root: bool = False
    of_lead_node: bool = False
    """Whether it is a node of the lead agent's own graph."""
    tool: str | None = None
    started: float = field(default_factory=time.monotonic)
    model: str | None = None


class Runs:
    """The runs that are under way."""

    def __init__(self) -> None:
        self._open: dict[UUID, Run] = {}
        self._lock = threading.Lock()

    def began(
        self, run_id: UUID, parent_id: UUID | None, tags: Iterable[str] | None, *, tool: str | None = None
    ) -> Run:
        """Take in a run. One whose parent is not known here is a root."""
        found = frozenset(tags or ())
        with self._lock:
            parent = None if parent_id is None else self._open.get(parent_id)
            if parent is None:
                run = Run(LEAD, found, root=tool is None)
            else:
                caller = _named(found - parent.given) or (f"subagent:{parent.tool}" if parent.tool else parent.caller)
                run = Run(caller, parent.given, of_lead_node=parent.root and tool is None and caller == LEAD)
            run.tool = tool
            self._open[run_id] = run
        return run

    def ended(self, run_id: UUID) -> Run | None:
        """Take a run out; None when its beginning was not seen."""
        with self._lock:
            return self._open.pop(run_id, None)


def _named(tags: Iterable[str]) -> str | None:
    return next((tag for tag in sorted(tags) if tag.startswith(_CALLERS)), None)
