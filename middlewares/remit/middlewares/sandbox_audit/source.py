"""A text made ready for the grammar, with the way back to what was written."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from remit.middlewares.sandbox_audit.verdicts import Span


class Heredoc(NamedTuple):
    """The body of a here-document."""

    text: str
    expands: bool
    """Whether parameters and substitutions in it are replaced: its delimiter is not quoted."""
    span: Span


class Source:
    """A text for the grammar, and the way back to what was written."""

    __slots__ = ("_starts", "_whence", "braces", "doubtful", "heredocs", "mark", "text")

    def __init__(self, text: str, mark: str = "") -> None:
        self.text = text
        self.mark = mark
        self.heredocs: list[Heredoc] = []
        self.braces: set[int] = set()
        """Offsets in `text` of the backslash in front of a brace that opens a list."""
        self.doubtful = False
        self._starts: list[int] = [0]
        self._whence: list[tuple[int, int]] = [(0, -1)]  # where a stretch comes from; its end if it has no inner places

    def span(self, start: int, end: int) -> Span:
        """Where ``text[start:end]`` comes from."""
        first, last = self._at(start, up=False), self._at(end - 1, up=True)
        return first, max(first, last) + 1

    def _at(self, place: int, *, up: bool) -> int:
        n = max(0, bisect_right(self._starts, place) - 1)
        begin, end = self._whence[n]
        if end >= 0:
            return end - 1 if up else begin
        return begin + place - self._starts[n]

    def stretch(self, start: int, begin: int, end: int = -1) -> None:
        """From `start` on, `text` comes from `begin`; as a whole from ``begin:end`` if `end` is given."""
        self._starts.append(start)
        self._whence.append((begin, end))
