"""What the proof found: one row for everything that can have an effect, and why the whole holds or does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from remit.authz.errors import ConfigError, Problem

Verdict = Literal["dominated", "uncovered", "opaque"]
"""``dominated``: reached through a decision alone. ``uncovered``: reached without one. ``opaque``: cannot be looked
into; accepted only as a named exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that can have an effect."""

    path: str
    """From the agent inwards, for example ``agent > tools > research > (agent) tools > fetch``."""
    kind: str
    """``tool``, ``hosted tool``, ``node``, ``router``, ``middleware``, ``guard``, ``agent`` or ``approvals``."""
    name: str
    verdict: Verdict
    dominated_by: str = ""
    """What decides about it."""
    sync: bool = True
    """Whether that holds for synchronous runs."""
    asynchronous: bool = True
    """Whether that holds for asynchronous runs."""
    note: str = ""
    """What is wrong, or what there is to know."""
    advice: str = ""
    """What to do about it."""
    accepted: str = ""
    """Why the operator accepts it; empty when nobody did."""

    @property
    def fails(self) -> bool:
        """Whether the proof fails because of it."""
        return self.verdict == "uncovered" or (self.verdict == "opaque" and not self.accepted)

    @property
    def forms(self) -> str:
        """``both``, ``sync``, ``async`` or ``-``: in which kind of run it is dominated."""
        return {(True, True): "both", (True, False): "sync", (False, True): "async"}.get(
            (self.sync, self.asynchronous), "-"
        )

    @property
    def remark(self) -> str:
        """Everything there is to say about it."""
        return "; ".join(text for text in (self.note, self.accepted and f"accepted: {self.accepted}") if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One middleware of an agent, and where it stands."""

    path: str
    name: str
    place: Literal["outside", "guard", "inside", "beside"]
    """Of the tool calls: outside of the guard, the guard, inside of it, or not around them at all."""
    origin: str
    """``first-party``, what it declares (``observe``, ``transform``), or ``undeclared``."""
    hooks: tuple[str, ...]
    """Hooks that it has, by their synchronous names."""


class MediationError(ConfigError):
    """An agent that is not mediated completely. Every culprit is named, with the path to it.

    Args:
        problems: One for each culprit, or one sentence when nothing could be read at all.
        report: What was found.
    """

    def __init__(self, problems: str | Sequence[Problem], report: Report | None = None) -> None:
        super().__init__(problems)
        self.report = report


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an audit."""

    rows: tuple[Row, ...]
    standings: tuple[Standing, ...] = ()
    """The middlewares of every agent, outermost first."""
    notes: tuple[str, ...] = ()
    """What does not fail, and is worth knowing."""
    problems: tuple[Problem, ...] = field(init=False)
    """Why it fails; the path to the culprit stands where a file would."""

    def __post_init__(self) -> None:
        found = tuple(
            Problem(row.path, 0, row.note, row.advice, f"mediation-{row.verdict}") for row in self.rows if row.fails
        )
        object.__setattr__(self, "problems", found)

    @property
    def ok(self) -> bool:
        """Whether everything is mediated, or accepted by name."""
        return not self.problems

    def raise_if_failed(self) -> None:
        """Do nothing when the proof holds.

        Raises:
            MediationError: It does not.
        """
        if self.problems:
            raise MediationError(self.problems, self)

    def __str__(self) -> str:
        cells = [["path", "kind", "verdict", "forms", "by", "note"]]
        cells += [
            [row.path, row.kind, row.verdict, row.forms, row.dominated_by or "-", row.remark] for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"problem: {problem}" for problem in self.problems]
        return "\n".join(lines)


def accepting(rows: Sequence[Row], exceptions: dict[str, str]) -> tuple[list[Row], list[str]]:
    """`rows` with the operator's exceptions applied, and what is to be said about exceptions that did not apply.

    An exception names the path of an opaque row, or its name when no other opaque row has it. Nothing makes an
    uncovered row acceptable.
    """
    opaque = [row for row in rows if row.verdict == "opaque"]
    names = [row.name for row in opaque]
    used: set[str] = set()
    out: list[Row] = []
    for row in rows:
        key = row.path if row.path in exceptions else row.name
        if row.verdict == "opaque" and key in exceptions and (key == row.path or names.count(row.name) == 1):
            used.add(key)
            row = replace(row, accepted=exceptions[key])
        out.append(row)
    notes = []
    for key in exceptions:
        if key in used:
            continue
        if names.count(key) > 1:
            paths = ", ".join(repr(row.path) for row in opaque if row.name == key)
            notes.append(f"the exception {key!r} fits several and was not applied; name one of {paths}")
        elif any(key in (row.path, row.name) for row in rows):
            notes.append(f"the exception {key!r} was not applied: only what is opaque can be accepted")
        else:
            notes.append(f"the exception {key!r} names nothing in this agent; remove it")
    return out, notes
