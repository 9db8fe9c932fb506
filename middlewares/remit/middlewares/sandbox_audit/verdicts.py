"""What the classifier says, and how much it may work before it gives up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["pass", "warn", "block"]
Severity = Literal["warn", "block"]
Span = tuple[int, int]
"""Character offsets in the command: the first, and the one behind the last."""

MAX_COMMAND: Final = 10_000
"""Characters of the longest command that is read."""
MAX_DEPTH: Final = 32
"""How deep programs, words and groups may stand inside each other."""
MAX_COMMANDS: Final = 4_000
"""Simple commands that are judged, those inside of code strings and repeated ones included."""
MAX_PARSES: Final = 300
"""Texts that are parsed: the command, code strings, bodies of here-documents."""
MAX_FIELDS: Final = 256
"""Words that one brace expression may expand to."""
CPU_SECONDS: Final = 0.08
"""Processor time of the calling thread. Several times what a long script needs; only hostile input comes near."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that matched."""

    rule_id: str
    severity: Severity
    span: Span | None
    """None when the match has no place of its own: the whole command."""
    message: str
    """A clause about the command that is safe for the model: ``it deletes a system directory``."""


@dataclass(frozen=True, slots=True)
class CommandVerdict:
    """What the classifier says about a command."""

    verdict: Verdict
    rule_id: str | None = None
    """The worst rule that matched; None for a pass."""
    span: Span | None = None
    message: str = ""
    """The message of that rule, empty for a pass."""
    findings: tuple[Finding, ...] = ()
    """Every rule that matched, each once: blocks before warnings, then by place."""


class TooComplex(Exception):
    """The command asks for more work than a command is worth. It is blocked."""


class Budget:
    """Counts the work. One for each command."""

    __slots__ = ("_commands", "_end", "_parses")

    def __init__(self) -> None:
        self._commands = MAX_COMMANDS
        self._parses = MAX_PARSES
        self._end = time.thread_time() + CPU_SECONDS

    def command(self) -> None:
        """A simple command is about to be judged."""
        self._commands -= 1
        if self._commands < 0:
            raise TooComplex
        if self._commands % 16 == 0:
            self.check()

    def parse(self) -> None:
        """A text is about to be parsed."""
        self._parses -= 1
        if self._parses < 0:
            raise TooComplex
        self.check()

    def check(self) -> None:
        """Raise `TooComplex` when the time is up."""
        if self.spent():
            raise TooComplex

    def spent(self) -> bool:
        """Whether the time is up."""
        return time.thread_time() > self._end
