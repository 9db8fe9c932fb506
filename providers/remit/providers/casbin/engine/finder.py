"""Which of many stored patterns does this name match? Found without trying them all.

A pattern is looked up through the literal text that it starts with, a name without wildcards through a dict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from remit.providers.casbin.engine.functions import BUILTINS, Match, compile_match, literal_head
from remit.providers.casbin.engine.globs import GLOB_MAGIC, Glob, collapse

T = TypeVar("T", int, str)

EQUAL = "=="
"""The kind of patterns that are plain names."""

_SPECIAL = re.compile(r"[*?\[\]{}\\/]")


class Reading:
    """How the patterns of one policy column are read. Shared by every `Finder` over that column.

    Args:
        kind: ``"=="`` or the name of a built-in function that takes a pattern.
        strict: Which reading of the patterns (see `functions`).
        star: A pattern that is exactly ``*`` matches everything, whatever the kind says.
    """

    __slots__ = ("compiled", "kind", "star", "strict")

    def __init__(self, kind: str, *, strict: bool = False, star: bool = False) -> None:
        self.kind, self.strict, self.star = kind, strict, star
        self.compiled: dict[str, Match] = {}

    def match(self, pattern: str) -> Match:
        """`pattern`, compiled once.

        Raises:
            ValueError: The pattern cannot be read.
        """
        found = self.compiled.get(pattern)
        if found is None:
            found = self.compiled[pattern] = compile_match(self.kind, pattern, strict=self.strict)
        return found

    def all_literal(self, patterns: Sequence[str]) -> bool:
        """Is none of `patterns` more than a name? May answer False although none is."""
        if self.kind == EQUAL and not self.star:
            return True
        return _SPECIAL.search("\0".join(patterns)) is None and "" not in patterns

    def sure(self, name: str) -> bool:
        """Is a pattern of literal text and one star at the end settled by the start of `name`?"""
        return self.kind != "globMatch" or "/" not in name

    def check(self, pattern: str) -> None:
        """Make sure that `pattern` can be read.

        Raises:
            ValueError: It cannot.
        """
        if self.kind not in (EQUAL, "keyMatch") and not (self.star and pattern == "*") and not self.literal(pattern):
            self.match(pattern)

    def literal(self, pattern: str) -> bool:
        """Does `pattern` match nothing but itself (for globs: itself, give or take slashes at the end)?"""
        if self.kind == EQUAL:
            return True
        if self.kind == "keyMatch":
            return "*" not in pattern
        return self.kind == "globMatch" and pattern != "" and "/" not in pattern and GLOB_MAGIC.search(pattern) is None


class Bucket(Generic[T]):
    """The patterns that start with one literal text."""

    __slots__ = ("checked", "sure", "unsure")

    def __init__(self) -> None:
        self.sure: list[T] = []
        """Items of patterns that match whatever starts so, if it has no slash."""
        self.unsure: list[tuple[Match, list[T]]] = []
        """The same patterns, for names with a slash."""
        self.checked: list[tuple[Match, list[T]]] = []
        """All other patterns."""

    def collect(self, name: str, sure: bool, found: list[T]) -> None:
        """Add to `found` every item whose pattern matches `name`, which starts as all patterns here do."""
        if sure:
            found += self.sure
        elif self.unsure:
            found += [item for match, items in self.unsure if match(name) for item in items]
        if self.checked:
            found += [item for match, items in self.checked if match(name) for item in items]


def merged(tables: Iterable[Mapping[str, Bucket[T]]]) -> dict[str, Bucket[T]]:
    """One table of literal starts from several."""
    out: dict[str, Bucket[T]] = {}
    for table in tables:
        for start, bucket in table.items():
            held = out.get(start)
            if held is None:
                out[start] = bucket
                continue
            both: Bucket[T] = Bucket()
            for part in (held, bucket):
                both.sure += part.sure
                both.unsure += part.unsure
                both.checked += part.checked
            out[start] = both
    return out


class Finder(Generic[T]):
    """Stored patterns with the items that hang on them: numbers of rules, or the patterns themselves."""

    __slots__ = ("_heads", "everything", "exact", "lengths", "patterned", "reading")

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.everything: list[T] = []
        self.exact: dict[str, T | list[T]] = {}
        self.patterned: dict[str, list[T]] = {}
        self._heads: dict[str, Bucket[T]] | None = None
        self.lengths: tuple[int, ...] = ()
        """Of the literal starts, ascending. Known once `heads` was called."""

    def add(self, pattern: str, item: T) -> None:
        """Hang `item` on `pattern`. Only before the first `find`.

        Raises:
            ValueError: The pattern cannot be read.
        """
        reading = self.reading
        if reading.star and pattern == "*":
            self.everything.append(item)
        elif reading.literal(pattern):
            held = self.exact.get(pattern)
            if held is None:
                self.exact[pattern] = item  # most names carry one item: no list for it
            elif isinstance(held, list):
                held.append(item)
            else:
                self.exact[pattern] = [held, item]
        else:
            if reading.kind != "keyMatch":
                reading.match(pattern)
            self.patterned.setdefault(pattern, []).append(item)

    def find(self, name: str) -> list[T]:
        """Every item whose pattern `name` matches, in no particular order."""
        found = self.everything.copy()
        key = collapse(name) if "/" in name and self.reading.kind == "globMatch" else name
        held = self.exact.get(key)
        if held is not None:
            if isinstance(held, list):
                found += held
            else:
                found.append(held)
        if self.patterned:
            heads, sure = self.heads(), self.reading.sure(name)
            for length in self.lengths:
                bucket = heads.get(key[:length])
                if bucket is not None:
                    bucket.collect(name, sure, found)
        return found

    def heads(self) -> dict[str, Bucket[T]]:
        """Literal start -> the patterns that begin so."""
        if self._heads is not None:
            return self._heads
        heads: dict[str, Bucket[T]] = {}
        reading = self.reading
        for pattern, items in self.patterned.items():
            head = literal_head(reading.kind, pattern)
            bucket = heads.get(head)
            if bucket is None:
                bucket = heads[head] = Bucket()
            match = reading.match(pattern)
            if reading.kind == "keyMatch":
                bucket.sure += items
            elif isinstance(match, Glob) and match.prefix:
                bucket.sure += items
                bucket.unsure.append((match, items))
            else:
                bucket.checked.append((match, items))
        self.lengths = tuple(sorted({len(head) for head in heads}))
        self._heads = heads  # last: a thread that sees it must see the lengths as well
        return heads


def findable(kind: str) -> bool:
    """Can a `Finder` hold patterns of this kind?"""
    return kind == EQUAL or (kind in BUILTINS and BUILTINS[kind].pattern is not None)
