"""What a synopsis is made of, and how its tokens are kept short and on one line."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

MAX_TOKEN: Final = 80
"""Characters of a key, a value or a cell."""
MAX_LINE: Final = 240
SNIFF_SECONDS: Final = 0.25
"""Time for finding out what a text is. After that it is plain text; a single step may take a little longer."""
MAX_PARSED_BYTES: Final = 5_000_000
"""Larger texts are not parsed."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Synopsis:
    """What a text is and what is in it."""

    kind: str
    """``json``, ``csv``, …"""
    title: str
    summary: tuple[str, ...] = ()
    structure: tuple[str, ...] = ()
    notable: tuple[str, ...] = ()
    sampled: bool = True
    """Whether the beginning and the end of the text itself help a reader."""


class Effort:
    """The time that is left for one text."""

    def __init__(self, seconds: float = SNIFF_SECONDS) -> None:
        self._until = time.monotonic() + seconds

    @property
    def spent(self) -> bool:
        return time.monotonic() >= self._until


def token(value: Any, limit: int = MAX_TOKEN) -> str:
    """`value` on one line, at most `limit` characters, without anything that cannot be seen."""
    if not isinstance(value, str):
        value = _literal(value)
    head = value[: limit * 2]
    if not (head.isascii() and head.isprintable()):
        head = "".join(" " if unicodedata.category(char) in _UNSEEN else char for char in head)
    head = " ".join(head.split())
    return head if len(head) <= limit and len(value) <= limit * 2 else head[: limit - 1] + "…"


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, (int, float)) else type(value).__name__


def listed(names: Iterable[Any], total: int, limit: int) -> str:
    """Up to `limit` names, and how many more there are."""
    shown = [token(name, 40) for name, _ in zip(names, range(limit), strict=False)]
    more = total - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more > 0 else "")


def plural(count: int, noun: str) -> str:
    """``1 key``, ``2,000 keys``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
