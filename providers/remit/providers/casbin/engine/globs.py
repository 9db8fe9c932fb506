"""Casbin's globMatch: a star stops at a slash, two stars as a whole segment do not, repeated slashes count as one.

Regular expressions are the engine's own (wcmatch, as Casbin calls it). The usual patterns are decided without them.
"""

from __future__ import annotations

import re
from typing import Final

GLOB_MAGIC: Final = re.compile(r"[*?\[\]{}\\]")
_STARS = re.compile(r"\*{2,}")


def collapse(value: str) -> str:
    """`value` with runs of ``/`` as one and none at the end: equal for all spellings that a glob cannot tell apart."""
    while "//" in value:
        value = value.replace("//", "/")
    return value.removesuffix("/")


def glob_head(pattern: str) -> str:
    """The text that the collapsed form of every matching value starts with."""
    while pattern.startswith("*/"):
        pattern = pattern[1:]
    magic = GLOB_MAGIC.search(pattern)
    return collapse(pattern[: magic.start()] if magic else pattern)


def _as_casbin(pattern: str) -> str:
    """The pattern that Casbin hands to its glob engine."""
    while pattern.startswith("*/"):
        pattern = pattern[1:]
    text = "/".join(part if part == "**" else _STARS.sub("*", part) for part in pattern.split("/"))
    return f"{{{text[:-3]},{text}}}" if text.endswith("/**") else text


def _one_alternative(base: str) -> bool:
    """Does `base` stay one piece inside braces? Casbin turns ``BASE/**`` into ``{BASE,BASE/**}``."""
    depth = 0
    for char in base:
        depth += (char == "{") - (char == "}")
        if depth < 0 or (char == "," and depth == 0):
            return False
    return depth == 0


class Glob:
    """One pattern, called with a value.

    Raises:
        ValueError: The pattern cannot be read.
    """

    __slots__ = ("_base", "_parts", "_regex", "_tail", "pattern", "prefix")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._regex: re.Pattern[str] | None = None
        self._parts: tuple[str, ...] | None = None
        """The literal text between the stars, in a pattern of nothing else and without a slash."""
        self._base: str | None = None
        """The collapsed literal path, in a pattern that is one, or one and a last segment of stars."""
        self._tail = ""
        """That last segment: nothing, ``*`` or ``**``."""
        literal = pattern.replace("*", "")
        if GLOB_MAGIC.search(literal) is None:
            self._plan(literal)
        self.prefix = bool(self._parts and self._parts[0] and not any(self._parts[1:]))
        """It matches every value without a slash that begins with its literal head."""
        if pattern.endswith("/**") and not _one_alternative(pattern[:-3]):
            raise ValueError(
                f"Casbin would read the comma in {pattern!r} as an alternative; put the alternatives in braces"
            )
        if any(c in pattern for c in "[{\\"):  # nothing else can be malformed
            self._regex = self._compiled()

    def _plan(self, literal: str) -> None:
        pattern = self.pattern
        if "/" not in literal:
            if "*" in pattern and pattern != "**":
                self._parts = tuple(pattern.split("*"))
            return
        base, _, tail = pattern.rpartition("/")
        if "*" not in pattern and tail:
            self._base = collapse(pattern)
        elif tail in ("*", "**") and "*" not in base and collapse(base):
            self._base, self._tail = collapse(base), tail

    def _compiled(self) -> re.Pattern[str]:
        from wcmatch import glob

        try:
            sources, _ = glob.translate(_as_casbin(self.pattern), flags=glob.GLOBSTAR | glob.BRACE | glob.FORCEUNIX)
            return re.compile("|".join(f"(?:{source})" for source in sources))
        except Exception as error:  # the engine's own error types are not public
            raise ValueError(f"the pattern {self.pattern!r} is not a valid glob ({error})") from None

    def __call__(self, value: str) -> bool:
        if self._parts is not None and "/" not in value:
            return self._by_parts(self._parts, value)
        if self._base is not None:
            return self._by_path(self._base, collapse(value))
        if self._regex is None:
            self._regex = self._compiled()
        return self._regex.fullmatch(value) is not None

    @staticmethod
    def _by_parts(parts: tuple[str, ...], value: str) -> bool:
        first, *middle, last = parts
        if not value.startswith(first) or not value.endswith(last):
            return False
        if not first and value[:1] in ("", "."):  # a leading star stands for something, and not for a hidden name
            return False
        at, end = len(first), len(value) - len(last)
        if at > end:
            return False
        for part in middle:
            at = value.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    def _by_path(self, base: str, path: str) -> bool:
        if path == base:
            return self._tail != "*"
        if not self._tail or not path.startswith(base) or path[len(base)] != "/":
            return False
        below = path[len(base) :]
        return "/." not in below and (self._tail == "**" or "/" not in below[1:])
