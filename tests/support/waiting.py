"""Waiting for something that another thread brings about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def eventually(check: Callable[[], bool], seconds: float = 5.0) -> float:
    """Wait until `check` holds.

    Returns:
        How long it took.

    Raises:
        AssertionError: It does not hold after `seconds`.
    """
    start = time.monotonic()
    while not check():
        assert time.monotonic() - start < seconds, f"did not happen within {seconds} s"
        time.sleep(0.005)
    return time.monotonic() - start


def always(check: Callable[[], bool], seconds: float) -> None:
    """Insist that `check` holds for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check()
        time.sleep(0.005)


def watching_threads() -> list[threading.Thread]:
    """The threads that watch policy files."""
    return [thread for thread in threading.enumerate() if thread.name == "remit-policy-watch"]
