"""What a snapshot may learn while deciding, within a bound: names met once are answered from a dict."""

from __future__ import annotations

from typing import Final

NAMES: Final = 200_000
"""Decisions remembered per snapshot; one more and all are forgotten, to be learnt again."""
LONGEST: Final = 256
"""Characters of a target that is still remembered."""


class Memory:
    """Counts what is remembered. Approximate between threads, which does no harm: it is a bound on size."""

    __slots__ = ("_room", "left")

    def __init__(self, room: int | None = None) -> None:
        self.left = self._room = NAMES if room is None else room
        """May be lowered in place; below zero `full` must be called."""

    def full(self, amount: int = 1) -> bool:
        """Say that `amount` more things are remembered. True: that is too much now, and everything must be dropped."""
        self.left -= amount
        if self.left >= 0:
            return False
        self.left = self._room
        return True
