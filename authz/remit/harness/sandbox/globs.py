"""File patterns: ``*``, ``?``, ``[...]``, ``**`` for any number of folders, ``{a,b}``. Matched in linear time.

As in a shell, a name that begins with a dot is matched only by a pattern part that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

MAX_PATTERN: Final = 1_000
MAX_ALTERNATIVES: Final = 64
_DEEP: Final = "**"


class _Set(NamedTuple):
    """``[...]``."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def holds(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) is not self.negated


_Token = str | _Set | None
"""A character, a set, or None for ``?``; ``*`` is the empty string."""


class Glob:
    """A pattern over the parts of a relative path.

    Args:
        pattern: With ``/`` between its parts.

    Raises:
        ValueError: It is empty or too long, has a part ``..``, or too many alternatives.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > MAX_PATTERN:
            raise ValueError(f"a file pattern has 1 to {MAX_PATTERN} characters, this one has {len(pattern)}")
        self._alternatives: list[list[list[_Token] | None]] = []
        for alternative in _expanded(pattern):
            parts = [part for part in alternative.split("/") if part not in ("", ".")]
            if ".." in parts:
                raise ValueError(f"the file pattern {pattern!r} has a part '..'; start it in the folder it is about")
            # two `**` in a row mean what one means
            kept = [part for index, part in enumerate(parts) if part != _DEEP or parts[index - 1 : index] != [_DEEP]]
            self._alternatives.append([None if part == _DEEP else _tokens(part) for part in kept])

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the path is one of those meant."""
        return any(len(one) in _after(one, parts) for one in self._alternatives)

    def may_lie_below(self, parts: Sequence[str]) -> bool:
        """Whether something below the folder `parts` can match."""
        return any(any(at < len(one) for at in _after(one, parts)) for one in self._alternatives)


def escaped(text: str) -> str:
    """A pattern that matches `text` alone."""
    return "".join(f"[{char}]" if char in "*?[{" else char for char in text)


def _after(pattern: list[list[_Token] | None], parts: Sequence[str]) -> set[int]:
    """Positions in `pattern` that may be next after `parts`."""
    current = _closed(pattern, {0})
    for name in parts:
        following = set()
        for at in current:
            if at == len(pattern):
                continue
            tokens = pattern[at]
            if tokens is None:
                if not name.startswith("."):
                    following.add(at)
            elif _fits(tokens, name):
                following.add(at + 1)
        if not following:
            return following
        current = _closed(pattern, following)
    return current


def _closed(pattern: list[list[_Token] | None], positions: set[int]) -> set[int]:
    """`positions`, and those behind a ``**`` that stands for no folder."""
    return positions | {at + 1 for at in positions if at < len(pattern) and pattern[at] is None}


def _fits(tokens: list[_Token], name: str) -> bool:
    """One part against one name, going back to the last ``*`` only: at most their lengths multiplied."""
    if name.startswith(".") and tokens[0] != ".":
        return False
    at = 0
    index = 0
    star: tuple[int, int] | None = None
    while index < len(name):
        token = tokens[at] if at < len(tokens) else "/"
        if token == "":
            star = (at, index)
            at += 1
        elif token is None or token == name[index] or (isinstance(token, _Set) and token.holds(name[index])):
            at += 1
            index += 1
        elif star is not None:
            at, index = star[0] + 1, star[1] + 1
            star = (star[0], index)
        else:
            return False
    return all(token == "" for token in tokens[at:])


def _tokens(part: str) -> list[_Token]:
    out: list[_Token] = []
    index = 0
    while index < len(part):
        char = part[index]
        index += 1
        if char == "*":
            if not out or out[-1] != "":
                out.append("")
        elif char == "?":
            out.append(None)
        elif (
            char == "["
            and (end := part.find("]", index + 2 if part[index : index + 1] in ("!", "^") else index + 1)) > 0
        ):
            out.append(_set(part[index:end]))
            index = end + 1
        else:
            out.append(char)
    return out


def _end_of_set(text: str, start: int) -> int:
    """Where the ``]`` stands that closes a set whose inside begins at `start`; the first character is never it."""
    return text.find("]", start + 2 if text[start : start + 1] in ("!", "^") else start + 1)


def _set(text: str) -> _Set:
    negated = text[0] in "!^" and len(text) > 1
    text = text[1:] if negated else text
    ranges = []
    index = 0
    while index < len(text):
        low = high = text[index]
        if text[index + 1 : index + 2] == "-" and index + 2 < len(text):
            high = text[index + 2]
            index += 2
        ranges.append((low, high))
        index += 1
    return _Set(tuple(ranges), negated)


def _expanded(pattern: str) -> list[str]:
    """`pattern` with its braces written out."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        found = _braces(text)
        if found is None:
            done.append(text)
        else:
            start, end, choices = found
            waiting += [text[:start] + choice + text[end:] for choice in choices]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ValueError(f"the file pattern {pattern!r} has more than {MAX_ALTERNATIVES} alternatives")
    return done


def _braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first ``{…,…}`` in `text`: where it starts and ends, and its choices. Braces without a comma are plain."""
    for start, char in _outside_of_sets(text):
        if char != "{":
            continue
        depth = 0
        commas = [start]
        for index, inner in _outside_of_sets(text[start:]):
            depth += {"{": 1, "}": -1}.get(inner, 0)
            if inner == "," and depth == 1:
                commas.append(start + index)
            elif depth == 0:
                if len(commas) == 1:
                    break
                stops = [*commas, start + index]
                choices = [text[low + 1 : high] for low, high in pairwise(stops)]
                return start, start + index + 1, choices
    return None


def _outside_of_sets(text: str) -> Iterator[tuple[int, str]]:
    """The characters of `text` that no ``[...]`` holds, with their places."""
    index = 0
    while index < len(text):
        if text[index] == "[" and (end := _end_of_set(text, index + 1)) > 0:
            index = end + 1
            continue
        yield index, text[index]
        index += 1
