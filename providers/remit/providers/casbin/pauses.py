"""Keeping Python's garbage collector from stopping every thread while a policy is loaded."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 50_000
"""Young objects that are not worth a walk. Fewer are left to the collector, which then also finds others' garbage."""
_lock = threading.Lock()
_inside = 0


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No cyclic collection inside, and what was made inside is not walked as young garbage afterwards.

    A policy makes a hundred thousand long-lived objects at once. The collector would walk them again and again while
    they are made, with all other threads waiting. Nests, also across threads: the last one out switches it on again.
    """
    global _inside
    with _lock:
        if _inside == 0 and not gc.isenabled():
            ours = False
        else:
            ours = True
            _inside += 1
            gc.disable()
    try:
        yield
    finally:
        if ours:
            with _lock:
                _inside -= 1
                if _inside == 0:
                    if gc.get_count()[0] > _MANY:
                        # Into the oldest generation without a walk; not left frozen, or what dies there would stay.
                        gc.freeze()
                        gc.unfreeze()
                    gc.enable()
