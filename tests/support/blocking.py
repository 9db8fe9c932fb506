"""Finds calls that block the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blockbuster import blockbuster_ctx


@contextmanager
def no_blocking_calls() -> Iterator[None]:
    """A scope in which a blocking call on the event loop raises."""
    with blockbuster_ctx():
        yield
