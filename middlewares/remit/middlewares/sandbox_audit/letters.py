"""Quotes and escapes: from letters as written to letters as the shell sees them."""

from __future__ import annotations

import re
from typing import Final

from remit.middlewares.sandbox_audit.tree import Piece

REDIRECTIONS: Final = frozenset({"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&", "<<<", ">&-", "<&-"})

_QUOTED_ESCAPE: Final = re.compile(r"\\([$`\"\\])|\\\n")
_ANSI: Final = re.compile(
    r"\\(?:x\{?([0-9A-Fa-f]{1,8})\}?|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_PRINTF: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(0?[0-7]{1,3})|(c)|(.))", re.DOTALL
)
_PARAMETER: Final = re.compile(r"\$\{([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])?(\[[^\]]*\])?", re.DOTALL)
_DEFAULTS: Final = (":-", ":=", ":+", ":?", "-", "=", "+", "?")


def ansi(text: str) -> str:
    """The inside of ``$'...'``."""
    return _ANSI.sub(_ansi_letter, text) if "\\" in text else text


def _ansi_letter(found: re.Match[str]) -> str:
    hexadecimal, four, eight, octal, control, other = found.groups()
    if hexadecimal or four or eight:
        return _letter(int(hexadecimal or four or eight, 16) & (0xFF if hexadecimal else 0x1FFFFF))
    if octal:
        return _letter(int(octal, 8) & 0xFF)
    if control:
        return _letter(ord(control) & 0x1F)
    return _ANSI_LETTERS.get(other, other if other in "\\'\"?" else "\\" + other)


def printed(text: str) -> str:
    """What ``echo -e`` and the format of ``printf`` make of `text`."""
    return _PRINTF.sub(_printed_letter, text) if "\\" in text else text


def _printed_letter(found: re.Match[str]) -> str:
    hexadecimal, four, eight, octal, stop, other = found.groups()
    if hexadecimal or four or eight:
        return _letter(int(hexadecimal or four or eight, 16) & 0x1FFFFF)
    if octal:
        return _letter(int(octal, 8) & 0xFF)
    return "" if stop else _ANSI_LETTERS.get(other, other if other in "\\'\"" else "\\" + other)


def _letter(code: int) -> str:
    return chr(code) if 0 < code < 0x110000 else ""


def unescaped(text: str) -> str:
    """The inside of double quotes."""
    return _QUOTED_ESCAPE.sub(lambda found: found.group(1) or "", text) if "\\" in text else text


def bare(text: str, start: int, braces: set[int], found: list[Piece]) -> None:
    """Letters outside of quotes.

    Args:
        text: As written.
        start: The offset of `text` where `braces` are counted from.
        braces: Offsets of backslashes that were put in front of a brace that opens a list.
        found: Where the pieces go. What was escaped is quoted.
    """
    if "\\" not in text:
        found.append(Piece("text", text))
        return
    at = 0
    while True:
        place = text.find("\\", at)
        if place < 0:
            break
        if place > at:
            found.append(Piece("text", text[at:place]))
        letter = text[place + 1 : place + 2]
        if letter != "\n":
            found.append(Piece("text", letter, start + len(text[:place].encode("utf-8", "replace")) not in braces))
        at = place + 2
    if at < len(text):
        found.append(Piece("text", text[at:]))


def parameter(text: str) -> tuple[str, str, int]:
    """``$x`` or ``${x...}``: its name with ``!``, ``#`` and subscript, its operator, and where the operand begins."""
    if not text.startswith("${"):
        end = 2 if text[1:2].isdigit() else len(text)  # `$1m` is `$1` and a letter
        return text[1:end], "", end
    found = _PARAMETER.match(text)
    if found is None:
        return "", "", len(text)
    sign, name, subscript = found.groups()
    if name is None:  # `${#}` and `${!}` are parameters of their own
        name, sign = sign, ""
    rest = text[found.end() : -1]
    for op in _DEFAULTS:
        if rest.startswith(op):
            return f"{sign}{name}{subscript or ''}", op, found.end() + len(op)
    return f"{sign}{name}{subscript or ''}", rest, found.end()
