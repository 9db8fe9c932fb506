"""One small change of a policy: a row added, a row or role link taken out, and how to say it to an operator."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from remit.providers.casbin.native import ROLE
from remit.providers.casbin.rules import Link, PolicySet, Rule


@dataclass(frozen=True, slots=True)
class Addition:
    """A row that is added, or an item of `roles.yaml` with the rows that it stands for.

    Where order matters it goes in front of the row `before`.
    """

    rows: tuple[Rule, ...]
    before: Rule | None = None

    def applied(self, policy_set: PolicySet) -> PolicySet:
        rules = list(policy_set.rules)
        at = len(rules) if self.before is None else rules.index(self.before)
        return replace(policy_set, rules=(*rules[:at], *self.rows, *rules[at:]))

    def __str__(self) -> str:
        row = self.rows[0]
        place = row.file if self.before is None else f"{self.before.policy_id}, before that line"
        return f"add to {place}: {f'{row.key}: {_item(row)}' if row.key else csv_line(row.ptype, row.values)}"


@dataclass(frozen=True, slots=True)
class Removal:
    """Everything that one entry of a file says: one row, or the rows that one item of `roles.yaml` stands for."""

    rows: tuple[Rule | Link, ...]

    def applied(self, policy_set: PolicySet) -> PolicySet:
        gone = set(map(id, self.rows))
        return replace(
            policy_set,
            rules=tuple(rule for rule in policy_set.rules if id(rule) not in gone),
            links=tuple(link for link in policy_set.links if id(link) not in gone),
        )

    def __str__(self) -> str:
        row = self.rows[0]
        kind = row.ptype if isinstance(row, Rule) else row.gtype
        what = f"{row.key}: {_item(row)}" if row.key else csv_line(kind, row.values)
        return f"remove {row.file}:{row.line}: {what}"


Change = Addition | Removal


def applied(policy_set: PolicySet, changes: Iterable[Change]) -> PolicySet:
    """`policy_set` with all of `changes`."""
    for change in changes:
        policy_set = change.applied(policy_set)
    return policy_set


def csv_line(kind: str, values: Sequence[str]) -> str:
    """A row as a line of a policy file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([kind, *values])
    plain = ", ".join([kind, *values]).rstrip()
    return plain if out.getvalue() == ",".join([kind, *values]) else out.getvalue()


def removals(rows: Iterable[Rule | Link], everything: Sequence[Rule] | Sequence[Link]) -> list[Removal]:
    """One removal for each entry of a file that some of `rows` come from."""
    entries: dict[tuple[Any, ...], None] = dict.fromkeys(map(_entry, rows))
    found: dict[tuple[Any, ...], list[Rule | Link]] = {entry: [] for entry in entries}
    for row in everything:
        if (entry := _entry(row)) in found:
            found[entry].append(row)
    return [Removal(tuple(group)) for group in found.values()]


def _entry(row: Rule | Link) -> tuple[Any, ...]:
    return (row.file, row.line, row.key, _item(row)) if row.key else (row.file, row.line)


def _item(row: Rule | Link) -> str:
    """What stands in `roles.yaml` for `row`."""
    return row.values[2] if isinstance(row, Rule) else row.values[1].removeprefix(ROLE)
