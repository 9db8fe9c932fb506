"""A synopsis of bytes that were decoded as if they were text."""

from __future__ import annotations

import unicodedata
from typing import Final

from remit.middlewares.synopsis.parts import Synopsis

LOOKED_AT: Final = 1_000
MAX_SHARE: Final = 0.05
"""Share of control characters from which on a text counts as binary."""
_USUAL: Final = frozenset("\t\n\r\f\x1b")
_KINDS: Final = {
    "\x89PNG": "a PNG image",
    "\ufffdPNG": "a PNG image",
    "%PDF": "a PDF document",
    "PK\x03\x04": "a ZIP archive or an office document",
    "GIF8": "a GIF image",
    "\x7fELF": "a program",
    "\x1f\x8b": "gzip data",
    "\x1f\ufffd": "gzip data",
    "SQLite format 3": "an SQLite database",
}


def read_binary(text: str) -> Synopsis | None:
    """What the bytes are; None when `text` is text."""
    head = text[:LOOKED_AT]
    odd = sum(char not in _USUAL and (char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cs")) for char in head)
    if "\x00" not in head and odd <= len(head) * MAX_SHARE:
        return None
    what = next((name for start, name in _KINDS.items() if text.startswith(start)), "data of an unknown kind")
    codes = " ".join(f"{ord(char):02x}" for char in text[:32])
    return Synopsis(
        kind="binary",
        title=f"no text: {what}",
        summary=(f"begins with the characters {codes}",),
        sampled=False,
    )
