"""One line of a policy file that needs more than a split at its commas: quotes or brackets.

RFC 4180 quotes hold a field together. Outside quotes a comma inside ``()`` or ``[]`` separates nothing, as in Casbin's
own reader, so that ``p, keyMatch(r.obj, "/x"), …`` keeps its meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(r'[,"#()\[\]]')
_BLANK = " \t"


@dataclass(frozen=True, slots=True)
class LineFlaw:
    """Why a line cannot be cut into fields."""

    code: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The fields of one line."""

    fields: list[str]
    quoted: frozenset[int]
    """Numbers of the fields that were written in quotes."""
    bare_quotes: frozenset[int]
    """Numbers of the fields that hold a quote without being written in quotes."""


def cut(line: str) -> Cut | LineFlaw:
    """The fields of `line`, trimmed, quotes resolved."""
    fields: list[str] = []
    quoted: set[int] = set()
    bare: set[int] = set()
    at, end = 0, len(line)
    while True:
        while at < end and line[at] in _BLANK:
            at += 1
        if at < end and line[at] == '"':
            found = _quoted(line, at)
            if isinstance(found, LineFlaw):
                return found
            quoted.add(len(fields))
        else:
            found = _plain(line, at)
            if isinstance(found, LineFlaw):
                return found
            if '"' in found[0]:
                bare.add(len(fields))
        fields.append(found[0])
        at = found[1]
        if at >= end:
            return Cut(fields, frozenset(quoted), frozenset(bare))
        at += 1  # the comma


def _quoted(line: str, at: int) -> tuple[str, int] | LineFlaw:
    start, close = at + 1, at + 1
    while (close := line.find('"', close)) != -1 and line[close + 1 : close + 2] == '"':
        close += 2
    if close == -1:
        return LineFlaw(
            "quotes", f"the quote before {line[start : start + 20]!r} is never closed", "close it on the line"
        )
    after = close + 1
    while after < len(line) and line[after] in _BLANK:
        after += 1
    if after < len(line) and line[after] != ",":
        if line[after] == "#":
            return COMMENT
        return LineFlaw(
            "quotes",
            f"{line[after : after + 20]!r} follows a closing quote",
            'put the whole field in quotes, and write a quote inside it twice ("")',
        )
    return line[start:close].replace('""', '"'), after


def _plain(line: str, at: int) -> tuple[str, int] | LineFlaw:
    open_brackets: list[str] = []
    for mark in _MARK.finditer(line, at):
        char = mark.group()
        if char == "#":
            return COMMENT
        if char in "([":
            open_brackets.append(char)
        elif char in ")]":
            if not open_brackets or open_brackets.pop() != ("(" if char == ")" else "["):
                return LineFlaw("brackets", f"the {char!r} closes nothing", "put the field in double quotes")
        elif char == "," and not open_brackets:
            return line[at : mark.start()].rstrip(_BLANK), mark.start()
    if open_brackets:
        return LineFlaw("brackets", f"the {open_brackets[-1]!r} is never closed", "put the field in double quotes")
    return line[at:].rstrip(_BLANK), len(line)


COMMENT = LineFlaw(
    "comment",
    "an in-line comment would become part of the rule",
    "put it on a line of its own, or a name that holds '#' in double quotes",
)
"""What is said about a ``#`` behind the first field."""
