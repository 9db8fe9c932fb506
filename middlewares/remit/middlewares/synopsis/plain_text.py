"""A synopsis of everything else: headings, size, the beginning and the end."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from remit.middlewares.synopsis.parts import Synopsis, plural, token

MAX_HEADINGS: Final = 16
MAX_EXCERPT: Final = 420
MAX_LINES: Final = 20_000
_HEADING: Final = re.compile(r"#{1,6}\s+\S.*|[A-Z][A-Z0-9 _/&-]{3,78}")


def read_text(text: str, *, sampled: bool) -> Synopsis:
    """What is in a text.

    Args:
        text: Any text.
        sampled: Whether its beginning and end are shown anyway; else they are part of the synopsis.
    """
    headings = [
        f"line {number}: {token(line, 100)}"
        for number, line in enumerate(islice(text.splitlines(), MAX_LINES), 1)
        if _HEADING.fullmatch(line[:200].strip())
    ]
    excerpts: tuple[str, ...] = ()
    if not sampled:
        excerpts = (
            f"begins: {token(text[: MAX_EXCERPT * 2], MAX_EXCERPT)}",
            f"ends: {token(text[-MAX_EXCERPT:], MAX_EXCERPT)}",
        )
    return Synopsis(
        kind="text",
        title=f"text of {plural(text.count(chr(10)) + (not text.endswith(chr(10))), 'line')}",
        summary=excerpts,
        structure=tuple(headings[:MAX_HEADINGS]),
        notable=(f"{plural(len(headings) - MAX_HEADINGS, 'more heading')}",) if len(headings) > MAX_HEADINGS else (),
    )


def read_empty(text: str) -> Synopsis:
    """White space alone."""
    return Synopsis(kind="empty", title=f"nothing but {plural(len(text), 'blank character')}", sampled=False)


def read_oversized(text: str, size: int) -> Synopsis:
    """A text that is too large to be looked into."""
    lines = plural(text.count("\n") + 1, "line")
    return Synopsis(kind="oversized", title=f"{size:,} bytes in {lines}, too large to be summarised")
