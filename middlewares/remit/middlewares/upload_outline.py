"""What a long text is about, in a few lines: its headings with line numbers, or its first lines."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_HEADINGS: Final = 50
MAX_LINE: Final = 160
"""Characters of a heading or of a line."""
PREVIEW_LINES: Final = 5

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_BOLD: Final = re.compile(r"(?:\*\*[^*\n]{1,400}\*\*[ \t]*){1,8}")
_LEVEL: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,5}[.)]?")
_STRUCTURE: Final = re.compile(
    r"(?:part|chapter|section|article|item|appendix|annex|schedule|exhibit|division|title|§)\b.*"
    r"|\d{1,3}(?:\.\d{1,3}){0,5}[.)]?[ \t]+\S.*"
    r"|[IVXLC]{1,7}[.)][ \t]+\S.*",
    re.IGNORECASE,
)


class Line(NamedTuple):
    """A line of the text."""

    number: int
    """1-based."""
    text: str


class Outline(NamedTuple):
    """What was found."""

    lines: tuple[Line, ...]
    is_preview: bool
    """Whether these are the first lines, since there are no headings."""
    truncated: bool
    """Whether there are more headings."""


EMPTY: Final = Outline((), False, False)


def outline_of(text: str) -> Outline:
    """Headings of a Markdown text, at most `MAX_HEADINGS`; without any, its first lines that are not blank.

    A heading is a line that begins with ``#``, or one that is bold as a whole and reads like a heading of a converted
    document: ``**Chapter 2**``, ``**1.2 Scope**``, ``**1** **Scope**``. What stands in a code block is none.
    """
    headings: list[Line] = []
    preview: list[Line] = []
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (mark := _FENCE.match(line)) is not None:
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
        elif not fence and (title := _title(line)):
            if len(headings) == MAX_HEADINGS:
                return Outline(tuple(headings), False, True)
            headings.append(Line(number, title))
        if len(preview) < PREVIEW_LINES and line.strip():
            preview.append(Line(number, line.strip()[:MAX_LINE]))
    if headings:
        return Outline(tuple(headings), False, False)
    return Outline(tuple(preview), True, False) if preview else EMPTY


def _title(line: str) -> str:
    line = line.rstrip()
    if (found := _HEADING.fullmatch(line)) is not None:
        return found[1].strip().rstrip("#").strip()[:MAX_LINE]
    bare = line.strip()
    if not bare.startswith("**") or _BOLD.fullmatch(bare) is None:
        return ""
    parts = [part.strip() for part in bare.split("**") if part.strip()]
    title = " ".join(parts)
    if len(parts) > 1:
        return title[:MAX_LINE] if _LEVEL.fullmatch(parts[0]) else ""
    return title[:MAX_LINE] if _STRUCTURE.fullmatch(title) else ""
