"""Glob patterns over whole values, in time that an attacker's value cannot blow up.

``*`` is any run of characters within a segment, ``?`` one character of it, ``**`` (between slashes, first or last) any
number of whole segments, none included: ``/srv/**`` matches ``/srv`` as well. Names that begin with a dot are matched
like any other.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from remit.providers.casbin.conditions.views import MAX_TEXT, plain, shape_of

# A backtracking matcher needs up to length ** stars steps; longer values go through the state machine.
_BACKTRACKING: Final = (MAX_TEXT, MAX_TEXT, 1024, 128, 40)
_PARTS = re.compile(
    r"(?P<last>/\*\*\Z)|(?P<deep>(?:\A|(?<=/))\*\*(?:/|\Z))|(?P<star>\*)|(?P<one>\?)|(?P<text>[^*?/]+|/)"
)


class Glob:
    """A compiled pattern.

    Raises:
        ValueError: `pattern` holds brackets or braces, or a ``**`` that is not a whole segment.
    """

    __slots__ = ("_limit", "_machine", "_parts", "_plain", "_regex", "_shaped", "relative")

    relative: bool
    """Does the pattern begin elsewhere than at the root, and not just anywhere?"""

    def __init__(self, pattern: str) -> None:
        if not pattern:
            raise ValueError("the pattern is empty")
        if odd := set("[]{}\\") & set(pattern):
            raise ValueError(f"patterns know *, ** and ?, not {min(odd)!r}")
        parts = [(match.lastgroup or "", match.group()) for match in _PARTS.finditer(pattern)]
        if any(first[0] == second[0] == "star" for first, second in pairwise(parts)):
            raise ValueError("** must stand alone between slashes")
        self.relative = not pattern.startswith(("/", "**"))
        self._plain = plain(pattern)
        self._build(parts)

    def _build(self, parts: list[tuple[str, str]]) -> None:
        self._parts = parts
        self._regex = re.compile("".join(_regex(kind, text) for kind, text in parts), re.DOTALL).fullmatch
        stars = sum(kind in ("star", "deep", "last") for kind, _ in parts)
        self._limit = _BACKTRACKING[min(stars, len(_BACKTRACKING) - 1)]
        self._machine = _Machine(parts) if stars > 1 else None
        self._shaped: Glob | None = None

    def match(self, text: str) -> bool:
        """Does the whole of `text` fit?"""
        if len(text) <= self._limit or self._machine is None:
            return self._regex(text) is not None
        return self._machine.match(text)

    def test(self, text: str | None) -> bool | None:
        """As `match`; unknown when `text` is too long, or does not fit but looks as if it did."""
        if text is None or len(text) > MAX_TEXT:
            return None
        if self.match(text):
            return True
        if self._plain and plain(text):
            return False
        if self._shaped is None:  # two threads may both build it; they build the same
            shaped = Glob.__new__(Glob)
            shaped._build([(kind, shape_of(part) if kind == "text" else part) for kind, part in self._parts])
            self._shaped = shaped
        return None if self._shaped.match(shape_of(text)) else False


def _regex(kind: str, text: str) -> str:
    if kind == "deep":
        return "(?:.*/)?" if text.endswith("/") else ".*"
    return {"last": "(?:/.*)?", "star": "[^/]*", "one": "[^/]"}.get(kind) or re.escape(text)


class _Machine:
    """All states at once, as the bits of one integer: one step per character, whatever the pattern."""

    __slots__ = ("_accept", "_any", "_one", "_segment", "_skip", "_skip_two", "_steps")

    def __init__(self, parts: list[tuple[str, str]]) -> None:
        state = 0
        self._any = self._segment = self._one = self._skip = self._skip_two = 0
        self._steps: dict[str, int] = {}
        accept = 0
        for kind, text in parts:
            bit = 1 << state
            if kind == "last":  # the folder itself, or a slash and anything
                accept |= bit
                self._steps["/"] = self._steps.get("/", 0) | bit
                self._any |= bit << 1
                state += 1
            elif kind == "deep" and text.endswith("/"):
                self._any |= bit << 1
                self._skip |= bit
                self._skip_two |= bit
                self._steps["/"] = self._steps.get("/", 0) | bit << 1
                state += 2
            elif kind in ("deep", "star"):
                if kind == "deep":
                    self._any |= bit
                else:
                    self._segment |= bit
                self._skip |= bit
                state += 1
            elif kind == "one":
                self._one |= bit
                state += 1
            else:
                for char in text:
                    self._steps[char] = self._steps.get(char, 0) | 1 << state
                    state += 1
        self._accept = accept | 1 << state

    def match(self, text: str) -> bool:
        states = self._closure(1)
        for char in text:
            moved = (states & (self._steps.get(char, 0) | (0 if char == "/" else self._one))) << 1
            stayed = states & (self._any if char == "/" else self._any | self._segment)
            states = self._closure(moved | stayed)
            if not states:
                return False
        return bool(states & self._accept)

    def _closure(self, states: int) -> int:
        while True:
            more = states | (states & self._skip) << 1 | (states & self._skip_two) << 2
            if more == states:
                return states
            states = more
