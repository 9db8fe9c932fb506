"""What the scanner stands in: programs, quotes, parameters, arithmetic; and which brackets belong together."""

from __future__ import annotations

import re
from typing import Final

_BRACKET: Final = re.compile(r"[()]")


class Frame:
    """One thing that was opened and not yet closed: ``cmd``, ``dq`` (double quotes), ``param`` or ``arith``."""

    __slots__ = ("array", "cases", "kind", "nested", "pattern", "pending", "quoted", "substitution")

    def __init__(self, kind: str, *, quoted: bool = False, substitution: bool = False, pending: int = 0) -> None:
        self.kind = kind
        self.quoted = quoted
        self.substitution = substitution
        self.pending = pending
        self.array = False
        self.pattern = False
        self.cases = 0
        self.nested = 0


def pairs(text: str) -> dict[int, int]:
    """Where each opening bracket is closed, whatever stands in quotes."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    for bracket in _BRACKET.finditer(text):
        if bracket.group() == "(":
            waiting.append(bracket.start())
        elif waiting:
            found[waiting.pop()] = bracket.start()
    return found
