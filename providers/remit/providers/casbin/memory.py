"""What a snapshot may learn while deciding, within a bound: names met once are answered from a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NAMES: Final = 200_000
"""Decisions remembered per snapshot; one more and all are forgotten, to be learnt again."""
LONGEST: Final = 256
"""Characters of a target that is still remembered."""


class Memory:
    """Counts what is remembered. Approximate between threads, which does no harm: it is a bound on size.

    Args:
        forget: Drops everything that was remembered.
        room: How much may be remembered.
    """

    __slots__ = ("_forget", "_left", "_room")

    def __init__(self, forget: Callable[[], None], room: int = NAMES) -> None:
        self._forget, self._room, self._left = forget, room, room

    def spend(self, amount: int = 1) -> None:
        """Say that `amount` more things are remembered."""
        self._left -= amount
        if self._left < 0:
            self._left = self._room
            self._forget()
