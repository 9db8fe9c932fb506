"""What is kept of a command's output: bounded, whatever it prints, and without the values of secrets."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Final

MAX_BYTES: Final = 2 << 20
"""Bytes of output that are kept, half of them from the beginning and half from the end."""
MASK: Final = b"***"
MIN_SECRET: Final = 8
"""Shorter values are not masked: they occur everywhere by chance."""


class BoundedOutput:
    """Collects output piece by piece.

    Args:
        secrets: Values that are masked. One that the command encodes or takes apart is not recognised.
        limit: Bytes that are kept.
    """

    def __init__(self, secrets: Iterable[str] = (), *, limit: int = MAX_BYTES) -> None:
        values = {text.encode("utf-8", "surrogateescape") for text in secrets if len(text) >= MIN_SECRET}
        lines = {line.strip() for value in values for line in value.splitlines()}
        values |= {line for line in lines if len(line) >= MIN_SECRET}
        ordered = sorted(values, key=len, reverse=True)
        self._secret = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None
        self._window = len(ordered[0]) - 1 if ordered else 0
        self._held = b""
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    @property
    def truncated(self) -> bool:
        """Whether something was dropped."""
        return self._dropped > 0

    def add(self, data: bytes) -> None:
        """Take the next piece. What may be the beginning of a secret waits for the piece after it."""
        if self._secret is None:
            self._keep(data)
            return
        data = self._held + data
        safe = len(data) - self._window
        end = 0
        for match in self._secret.finditer(data):
            if match.start() >= safe:
                break
            self._keep(data[end : match.start()])
            self._keep(MASK)
            end = match.end()
        safe = max(safe, end)
        self._keep(data[end:safe])
        self._held = data[safe:]

    def text(self) -> str:
        """Everything that was kept, undecodable bytes replaced, with a note where something is missing."""
        held, self._held = self._held, b""
        self._keep(self._secret.sub(MASK, held) if self._secret is not None else held)
        tail = b"".join(self._tail)
        dropped = self._dropped + max(len(tail) - self._half, 0)
        if not dropped:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        self._dropped = dropped
        note = f"\n[... {dropped} bytes left out ...]\n"
        return bytes(self._head).decode("utf-8", "replace") + note + tail[-self._half :].decode("utf-8", "replace")

    def _keep(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._dropped += len(self._tail[0])
            self._tail_size -= len(self._tail.popleft())
