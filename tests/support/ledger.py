"""What the tests of the decision log share: reading it, a sink in memory, and waiting for what its thread says."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal

ALLOW = AuthzDecision(True, (AuthzReason("authz.allowed", "by the rule"),), "policy.csv:3", "v1")
DENY = AuthzDecision(False, (AuthzReason("authz.denied", "by the rule"),), "policy.csv:4", "v1")
ASK = AuthzDecision(False, (AuthzReason("authz.ask"),), "policy.csv:5", "v1", obligations=(Obligation("approval"),))
FAILED = AuthzDecision(False, (AuthzReason("authz.timeout", "late"),), metadata={"failure": True})
FAILED_OPEN = AuthzDecision(True, (AuthzReason("authz.evaluator_error", "boom"),), metadata={"failure": True})


def request(args: Any = None, *, target: str = "bash", **context: Any) -> AuthzRequest:
    """One tool call of alice's."""
    ids = {"thread_id": "t1", "run_id": "r1", "tool_call_id": "c1", **context}
    principal = Principal("alice", "user", attributes={"team": "red"})
    return AuthzRequest(principal, "tool", "call", target, ids if args is None else {**ids, "args": args})


def records(path: Path) -> list[dict[str, Any]]:
    """Every line of the log; each must be one JSON object."""
    text = path.read_bytes()
    assert not text or text.endswith(b"\n")
    out = [json.loads(line) for line in text.split(b"\n")[:-1]]
    assert all(isinstance(record, dict) for record in out)
    return out


class MemorySink:
    """Makes each line at once and keeps it. `accepts` is what `write` answers."""

    def __init__(self, *, required: bool = False) -> None:
        self.required = required
        self.failing = False
        self.accepts = True
        self.closed = False
        self.lines: list[bytes] = []

    def write(self, render: Callable[[], bytes]) -> bool:
        if self.accepts:
            self.lines.append(render())
        return self.accepts

    def close(self, timeout: float = 0) -> None:
        self.closed = True

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


class Alarms(logging.Handler):
    """What the log's thread reports, and an event per wording to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, str]] = []
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self.messages.append((record.levelname, record.getMessage()))
            self._changed.notify_all()

    def wait_for(self, text: str) -> str:
        """The first message that contains `text`, waited for at most ten seconds."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.saying(text), 10), f"never said {text!r}: {self.messages}"
            return self.saying(text)[0]

    def saying(self, text: str) -> list[str]:
        return [message for _, message in self.messages if text in message]


@contextmanager
def listening(name: str = "remit.authz.ledger") -> Iterator[Alarms]:
    logger, alarms = logging.getLogger(name), Alarms()
    logger.addHandler(alarms)
    try:
        yield alarms
    finally:
        logger.removeHandler(alarms)
