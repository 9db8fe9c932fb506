"""Reading `policy.csv`: rows of a Casbin policy with their lines, every doubtful one refused.

A hundred thousand rows are usual, so the happy path works on whole columns: a value is looked at once however many
rows repeat it, and single rows are only looked for once something is known to be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TypeVar

from remit.authz.vocabulary import flaw
from remit.providers.casbin.csvline import COMMENT, Cut, LineFlaw, cut
from remit.providers.casbin.effects import Effects
from remit.providers.casbin.findings import Findings, did_you_mean, one_of
from remit.providers.casbin.native import EVERYONE, subject
from remit.providers.casbin.rules import CasbinModel, Link, Rule

_BLANK = " \t"
_MARKS = '"()[]'
_NEEDS_CUT = re.compile(r'["()\[\]]')
_SAMPLE = 1000
_EXTRA_TYPE = re.compile(r"p\d+")


Row = TypeVar("Row", Rule, Link)


@dataclass(slots=True)
class Sheet:
    """What one policy file states."""

    rules: list[Rule] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)
    """Roles that are known without any row, and the line that declares them."""
    columns: list[Sequence[str]] | None = None
    """The values of `rules`, column by column, where reading left them over."""


def read_csv(text: str, file: str, model: CasbinModel, findings: Findings, *, free_text: Iterable[str] = ()) -> Sheet:
    """Every row of `text`. Problems go to `findings`; rows with one are left out.

    Under remit's own model subjects come back with their namespace, but for a bare name on the left of ``g``, which
    only the whole policy set can place.

    Args:
        file: Its name in problems and policy ids.
        free_text: Policy columns that hold an expression, where a quote is an ordinary character.
    """
    if not text.strip():
        findings.error(
            "empty-file", file, 0, "is empty", "write rules, at least a comment, or take it out of 'policies'"
        )
        return Sheet()
    return _CsvReader(text, file, model, findings, frozenset(free_text)).read()


class _CsvReader:
    def __init__(self, text: str, file: str, model: CasbinModel, findings: Findings, free_text: frozenset[str]) -> None:
        self.text, self.file, self.model, self.findings = text, file, model, findings
        self.free_text = free_text
        self.check_every_name = not text.isascii() or "\t" in text

    def error(self, code: str, line: int, message: str, advice: str = "") -> None:
        self.findings.error(code, self.file, line, message, advice)

    def read(self) -> Sheet:
        self.squeezed = self.text.replace(", ", ",")
        self.lines = self.squeezed.split("\n")
        of_kind = self.lines_of_kind()
        self.cut_rows = self.cut_special_lines()
        comments = of_kind.pop("#", [])
        self.trimmed = self.only_comments_hold(" \t", comments)
        if not self.only_comments_hold("#", comments):
            self.refuse_comments_behind_rows(of_kind)
        self.refuse_unknown_types(of_kind.pop("?", ()), of_kind.pop("", ()))
        sheet = Sheet()
        for kind, numbers in of_kind.items():
            if kind == "p":
                sheet.rules, sheet.columns = self.rows(Rule, kind, self.model.policy, numbers)
            else:
                columns = ("member", "role", "domain")[: self.model.roles[kind]]
                sheet.links += self.rows(Link, kind, columns, numbers)[0]
        if len(of_kind) > 2:
            sheet.links.sort(key=lambda link: link.line)
        return sheet

    def lines_of_kind(self) -> dict[str, list[int]]:
        """Kind of row -> its line numbers, from 0, in order. ``p`` is always there."""
        of_kind: dict[str, list[int]] = {}
        rules: list[int] = []
        start = 0
        for number in [number for number, line in enumerate(self.lines) if line[:2] != "p,"]:
            rules += range(start, number)
            start = number + 1
            kind = self.kind(self.lines[number].partition(",")[0])
            (rules if kind == "p" else of_kind.setdefault(kind, [])).append(number)
        rules += range(start, len(self.lines))
        return {"p": rules, **of_kind}

    def only_comments_hold(self, characters: str, comments: Iterable[int]) -> bool:
        """True when no row holds any of `characters`, but for the one blank behind a comma."""
        total = sum(self.squeezed.count(c) for c in characters)
        return total == sum(self.lines[number].count(c) for number in comments for c in characters)

    def kind(self, head: str) -> str:
        """``p``, ``g``, …; the empty string for blank lines, ``#`` for comments, ``?`` for anything else."""
        head = head.strip(_BLANK)
        if not head or head[0] == "#":
            return head[:1]
        return head if head == "p" or head in self.model.roles else "?"

    def cut_special_lines(self) -> dict[int, list[str]]:
        """Line number -> fields, for lines with quotes or brackets; empty after reporting a line that cannot be cut."""
        rows: dict[int, list[str]] = {}
        if not any(mark in self.text for mark in _MARKS):
            return rows
        for number, line in enumerate(self.text.split("\n")):
            if _NEEDS_CUT.search(line) is None or line.lstrip(_BLANK).startswith("#"):
                continue
            found = cut(line)
            if isinstance(found, LineFlaw):
                self.error(found.code, number + 1, found.message, found.advice)
                rows[number] = []
            else:
                rows[number] = found.fields if self.check_cut(found, number + 1) else []
        return rows

    def check_cut(self, found: Cut, line: int) -> bool:
        """A quote inside a field is only expected where expressions stand; a quoted name must be clean."""
        kind = self.kind(found.fields[0])
        columns = self.model.policy if kind == "p" else ()
        for at in found.bare_quotes:
            if not (0 < at <= len(columns) and columns[at - 1] in self.free_text):
                message = f"a quote inside {found.fields[at]!r}"
                self.error("quotes", line, message, 'put the field in double quotes and write "" for a quote in it')
                return False
            if found.fields[at].count('"') % 2:
                self.error(
                    "quotes", line, f"{found.fields[at]!r} has a quote without its partner", "quote the whole field"
                )
                return False
        for at in found.quoted:
            value = found.fields[at]
            if value and (reason := flaw(value)) is not None:
                self.error("name", line, f"{value!r} {reason}", "correct the name")
                return False
        return True

    def refuse_comments_behind_rows(self, of_kind: dict[str, list[int]]) -> None:
        for kind, numbers in of_kind.items():
            kept = []
            for number in numbers:
                if "#" in self.lines[number] and number not in self.cut_rows:
                    self.error(COMMENT.code, number + 1, COMMENT.message, COMMENT.advice)
                else:
                    kept.append(number)
            of_kind[kind] = kept

    def refuse_unknown_types(self, unknown: Iterable[int], blank: Iterable[int]) -> None:
        known = ["p", *self.model.roles]
        for number in unknown:
            cells = self.cut_rows.get(number) or [cell.strip(_BLANK) for cell in self.lines[number].split(",")]
            head = cells[0]
            if _EXTRA_TYPE.fullmatch(head) is not None:
                self.error(
                    "extra-set", number + 1, f"row type {head!r} belongs to a second set", "only one set is supported"
                )
                continue
            if len(cells) == len(self.model.policy):
                advice = f"did you mean {', '.join(['p', *cells])!r}?"
            else:
                advice = did_you_mean(head, known) or f"a row starts with {one_of(known)}"
            self.error("unknown-row-type", number + 1, f"unknown row type {head!r}", advice)
        for number in blank:
            if "," in self.lines[number]:
                self.error("unknown-row-type", number + 1, "the row has no type", f"start it with {one_of(known)}")

    def rows(
        self, make: type[Row], kind: str, names: Sequence[str], numbers: list[int]
    ) -> tuple[list[Row], list[Sequence[str]] | None]:
        """The rows on the lines `numbers`, in that order, as `make` objects; their columns, unless they had to move."""
        table, lines, in_order = self.table(kind, names, numbers)
        if not lines:
            return [], None
        bad: set[int] = set()
        columns = [
            self.column(name, values, lines, bad, self.checker(name)) for name, values in zip(names, table, strict=True)
        ]
        fields = zip(zip(*columns, strict=True), repeat(self.file), lines, repeat(kind), repeat(""))
        rows = list(map(partial(tuple.__new__, make), fields))
        if bad:
            rows = [row for at, row in enumerate(rows) if at not in bad]
        if not in_order:
            rows.sort(key=lambda row: row.line)
        return rows, columns if in_order and not bad else None

    def table(self, kind: str, names: Sequence[str], numbers: list[int]) -> tuple[list[list[str]], list[int], bool]:
        """The columns of the rows, their lines from 1, and whether those are in order."""
        full = len(names) + 1
        allowed = {full, full - 1} if self.model.native and kind == "p" else {full}  # the condition may be left out
        whole = [number for number in numbers if number not in self.cut_rows] if self.cut_rows else numbers
        table: list[list[str]] = [[] for _ in names]
        lines: list[int] = []
        parts = 0
        for size, group in self.by_size(whole).items():
            if size not in allowed:
                for number in group:
                    self.wrong_size(kind, names, number, size)
                continue
            cells = ",".join([self.lines[number] for number in group]).split(",")
            for at, column in enumerate(table, 1):
                column += cells[at::size] if at < size else repeat("", len(group))
            lines += [number + 1 for number in group]
            parts += 1
        for number in numbers if len(whole) < len(numbers) else ():
            row = self.cut_rows.get(number)
            if row and len(row) not in allowed:
                self.wrong_size(kind, names, number, len(row))
            elif row:
                for at, column in enumerate(table, 1):
                    column.append(row[at] if at < len(row) else "")
                lines.append(number + 1)
                parts += 1
        return table, lines, parts < 2

    def by_size(self, numbers: list[int]) -> dict[int, list[int]]:
        """Number of fields -> the lines that have as many."""
        sizes = [self.lines[number].count(",") + 1 for number in numbers]
        distinct = set(sizes)
        if len(distinct) == 1:
            return {distinct.pop(): numbers}
        return {size: [n for n, s in zip(numbers, sizes, strict=True) if s == size] for size in distinct}

    def wrong_size(self, kind: str, names: Sequence[str], number: int, size: int) -> None:
        message = f"{size - 1} values, but {kind!r} has {len(names)}"
        self.error("column-count", number + 1, message, f"write {kind}, {', '.join(names)}")

    def column(
        self, name: str, values: Sequence[str], lines: list[int], bad: set[int], check: Checker
    ) -> Sequence[str]:
        """`values` trimmed, checked and with equal texts being one object. Rows with a problem are added to `bad`."""
        if self.trimmed and not self.check_every_name and check == self.name and "" not in values:
            if len(set(values[:_SAMPLE])) > _SAMPLE // 2:
                return values  # mostly different names: nothing to share
            return list(map({value: value for value in set(values)}.__getitem__, values))
        clean: dict[str, str] = {}
        wrong: dict[str, tuple[str, str, str]] = {}
        for value in set(values):
            found = check(value.strip(_BLANK))
            if isinstance(found, str):
                clean[value] = found
            else:
                wrong[value] = found
        if wrong:
            for at, value in enumerate(values):
                if value in wrong and at not in bad:
                    code, message, advice = wrong[value]
                    self.findings.error(code, self.file, lines[at], message, advice, name)
                    bad.add(at)
                    clean[value] = value
        return list(map(clean.__getitem__, values))

    def checker(self, name: str) -> Checker:
        """What turns a value of the column `name` into its final text, or tells why it is refused."""
        native = self.model.native
        if name == "eft":
            return Effects(native).check
        if native and name == "cond":
            return self.expression_or_nothing
        if name in self.free_text:
            return self.expression
        if native and name == "sub":
            return self.subject
        if native and name == "role":
            return self.role
        if native and name == "member":
            return self.member
        if native and name in ("res", "act"):
            return self.plain_name
        return self.name

    def name(self, text: str) -> Found:
        if not text:
            return ("empty-field", "an empty field", "write a name; nothing stands for nobody and nothing")
        if self.check_every_name and (reason := flaw(text)) is not None:
            return ("name", f"{text!r} {reason}", "correct the name")
        return text

    def plain_name(self, text: str) -> Found:
        if "*" in text and text != EVERYONE:
            return ("pattern-here", f"{text!r} is no pattern here", "write '*' alone, or a name")
        return self.name(text)

    def subject(self, text: str) -> Found:
        found = self.name(text)
        if not isinstance(found, str):
            return found
        who = subject(text)
        if who.problem:
            return ("subject", who.problem, who.advice)
        return f"role:{text}" if who.bare else who.name

    def role(self, text: str) -> Found:
        found = self.subject(text)
        if isinstance(found, str) and not found.startswith("role:"):
            return ("subject", f"{text!r} is no role", "the second field of g names a role, role:NAME")
        return found

    def member(self, text: str) -> Found:
        found = self.name(text)
        if not isinstance(found, str):
            return found
        who = subject(text)
        if who.problem:
            return ("subject", who.problem, who.advice)
        if who.name == EVERYONE:
            return ("subject", "'*' cannot be given a role", "write the rules for '*' in p rows")
        return who.name

    def expression(self, text: str) -> Found:
        return self.expression_or_nothing(text) if text else self.name(text)

    def expression_or_nothing(self, text: str) -> Found:
        if text and self.check_every_name and (reason := flaw(text.replace("\t", " "))) is not None:
            return ("name", f"{text!r} {reason}", "write it as an escape, for example '\\u200b'")
        return text


Found = str | tuple[str, str, str]
"""The final text of a field, or (code, message, advice)."""
Checker = Callable[[str], Found]
