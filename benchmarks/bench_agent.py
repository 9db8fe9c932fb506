"""What guard and ticket add to one tool call, against the plain `tool.invoke` of an unguarded twin."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Row


def rows(seconds: float) -> Iterator[Row]:
    yield from ()
