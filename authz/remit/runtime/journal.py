"""The run journal as middlewares see it: a place to note what a slot did, which can never change what it does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from remit.authz import wire
from remit.authz.principal import read

log = logging.getLogger("remit.runtime")

MAX_EVENT_TYPE: Final = 32
"""Characters of an event type, ``middleware:`` included."""
TAGS: Final = frozenset(
    {
        "guardrail",
        "sandbox_audit",
        "tool_progress",
        "read_before_write",
        "sandbox",
        "llm_error",
        "dangling_tool_call",
        "skill_activation",
        "skill_secrets",
        "loop_detection",
        "safety_termination",
    }
)
"""Tags under which middlewares record; the event type is ``middleware:<tag>``."""


class Journal(Protocol):
    """What a middleware may ask of the journal of its run. Implementations must not block and must not raise."""

    def record_middleware(self, tag: str, *, name: str, hook: str, action: str, changes: Mapping[str, Any]) -> None:
        """Note one deed.

        Args:
            tag: One of `TAGS`.
            name: Class name of the middleware.
            hook: Where it happened: ``wrap_tool_call``, …
            action: What was done: ``deny_tool_call``, ``block_command``, …
            changes: Details, JSON values; no arguments, no content, nothing secret.
        """
        ...


def record(context: Any, tag: str, *, name: str, hook: str, action: str, changes: Mapping[str, Any]) -> None:
    """Note a deed in the journal of the run that `context` belongs to, if it has one. Never raises."""
    journal = read(context, wire.RUN_JOURNAL)
    if journal is None:
        return
    try:
        journal.record_middleware(tag=tag, name=name, hook=hook, action=action, changes=dict(changes))
    except Exception:
        log.exception("an event of %s could not be recorded", name)
