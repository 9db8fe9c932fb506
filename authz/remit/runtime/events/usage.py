"""Tokens of a run: every model call once, by who called and by model."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

BUCKETS: Final = ("lead_agent", "subagent", "middleware")


@dataclass(slots=True)
class Tokens:
    """Counts of tokens."""

    input: int = 0
    output: int = 0
    total: int = 0
    cache_read: int = 0
    """Part of `input` that the provider had cached."""

    def add(self, other: Tokens) -> None:
        """Count `other` in."""
        self.input += other.input
        self.output += other.output
        self.total += other.total
        self.cache_read += other.cache_read

    def as_dict(self) -> dict[str, int]:
        """For events and records; cached input only where there was some."""
        found = {"input_tokens": self.input, "output_tokens": self.output, "total_tokens": self.total}
        return {**found, "cache_read_tokens": self.cache_read} if self.cache_read else found


def tokens_of(usage: Any) -> Tokens | None:
    """Tokens from a message's ``usage_metadata`` or a record of the same keys; None when it counts nothing."""
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("input_token_details")
    cached = details.get("cache_read") if isinstance(details, Mapping) else usage.get("cache_read_tokens")
    found = Tokens(_count(usage.get("input_tokens")), _count(usage.get("output_tokens")), 0, _count(cached))
    found.total = _count(usage.get("total_tokens")) or found.input + found.output
    return found if found.total else None


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def bucket_of(caller: str) -> str:
    """``lead_agent``, ``subagent`` or ``middleware``."""
    kind = caller.partition(":")[0]
    return kind if kind in BUCKETS else "lead_agent"


@dataclass(slots=True)
class Accounts:
    """What a run used. Not safe to share between threads by itself."""

    all: Tokens = field(default_factory=Tokens)
    by_caller: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BUCKETS, 0))
    """Bucket -> total tokens."""
    by_model: dict[str, Tokens] = field(default_factory=dict)
    _sources: set[Hashable] = field(default_factory=set)

    def count(self, source: Hashable, caller: str, model: str | None, tokens: Tokens) -> bool:
        """Count one model call, unless `source`, the id of its run, was counted already."""
        if source in self._sources:
            return False
        self._sources.add(source)
        self.all.add(tokens)
        self.by_caller[bucket_of(caller)] += tokens.total
        self.by_model.setdefault(model or "unknown", Tokens()).add(tokens)
        return True
