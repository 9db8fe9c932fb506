"""The words that end here-documents, and the lines of their bodies, as bash reads them."""

from __future__ import annotations

from typing import Final

_META: Final = " \t\n;&|()<>"


def delimiter(text: str, at: int) -> tuple[str | None, bool, int]:
    """The word behind ``<<`` without its quotes, whether it had any, and its end; None if that is not certain."""
    while text.startswith((" ", "\t", "\\\n"), at):
        at += 2 if text[at] == "\\" else 1
    letters: list[str] = []
    quoted, start = False, at
    while at < len(text) and text[at] not in _META:
        letter = text[at]
        if letter == "\\":
            if text.startswith("\n", at + 1):
                at += 2
                continue
            quoted = True
            letters.append(text[at + 1 : at + 2])
            at += 2
        elif letter in "'\"":
            close = text.find(letter, at + 1)
            if close < 0:
                return None, False, at
            quoted = True
            inside = text[at + 1 : close]
            if letter == '"' and ("\\" in inside or "`" in inside or "$(" in inside):
                return None, False, at
            letters.append(inside)
            at = close + 1
        elif letter == "`" or text.startswith(("$(", "$'", '$"', "${"), at):
            return None, False, at
        else:
            letters.append(letter)
            at += 1
    return ("".join(letters) if at > start else None), quoted, at


def line_of(text: str, at: int, *, joined: bool) -> tuple[str, int]:
    """The line of a body at `at`, and where the next one begins; lines that a backslash joins are one if `joined`."""
    parts: list[str] = []
    while True:
        end = text.find("\n", at)
        stop = len(text) if end < 0 else end
        part = text[at:stop]
        if not joined or end < 0 or (len(part) - len(part.rstrip("\\"))) % 2 == 0:
            parts.append(part)
            return "".join(parts), stop + (end >= 0)
        parts.append(part[:-1])
        at = stop + 1
