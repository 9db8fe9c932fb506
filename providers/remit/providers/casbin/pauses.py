"""Keeping Python's garbage collector from stopping every thread while a policy is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No collection inside; what was made inside is not examined as young garbage afterwards.

    A policy makes a hundred thousand long-lived objects at once: without this the collector walks them again and
    again while they are made, with all other threads waiting.
    """
    if not gc.isenabled():  # somebody outside is at it already, or wants it so
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.enable()
