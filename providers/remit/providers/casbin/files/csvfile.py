"""Reading `policy.csv`: rows of a Casbin policy with their lines, every doubtful one refused.

A hundred thousand rows are usual. Most lines are plain ``p, …`` rows: those are cut all at once and looked at column by
column, each value once however many rows repeat it. All other lines (comments, links, quotes, brackets, whatever looks
odd) are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import TypeVar

from remit.authz.documents import near_miss
from remit.authz.vocabulary import flaw
from remit.providers.casbin.files.csvfields import FieldCheck, Fields
from remit.providers.casbin.files.csvline import Cut, LineFlaw, cut
from remit.providers.casbin.files.findings import Findings, one_of
from remit.providers.casbin.rules import CasbinModel, Link, Rule

_BLANK = " \t"
_OTHER_LINE = re.compile(r"\n(?!p,)")
_MARKS = '"()[]#'
_MARK = re.compile(r'["()\[\]#]')
_EXTRA_TYPE = re.compile(r"p\d+")
_SAMPLE = 1000  # rows that tell whether a column repeats its texts
_BLOCK = 200_000  # characters
_AT_ONCE = 10_000  # rows that are made in one go: no other thread decides anything meanwhile

Row = TypeVar("Row", Rule, Link)


@dataclass(slots=True)
class Sheet:
    """What one policy file states."""

    rules: list[Rule] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    """Roles that are known without any row."""
    columns: list[Sequence[str]] | None = None
    """The values of `rules`, column by column, where reading left them over."""
    ascii: bool = True
    """False when some name may hold other characters."""


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


class _Part:
    """Rows of one kind, as columns, on their way to becoming objects. Equal texts of a column are one object."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.columns: list[list[str]] = [[] for _ in names]
        self.known: list[dict[str, str] | None] = [{} for _ in names]
        """The different texts of each column; None for a column of mostly different ones, where nothing is shared."""
        self.lines: list[int] = []
        self.in_order = True

    def add_row(self, fields: Sequence[str], line: int) -> None:
        for at, (column, known) in enumerate(zip(self.columns, self.known, strict=True), 1):
            text = fields[at] if at < len(fields) else ""
            column.append(text if known is None else known.setdefault(text, text))
        self.in_order = self.in_order and (not self.lines or self.lines[-1] < line)
        self.lines.append(line)

    def add_block(self, cells: list[str], size: int, lines: Sequence[int]) -> None:
        """Add rows of `size` fields each, row after row in `cells`, the type first."""
        for at, column in enumerate(self.columns, 1):
            texts = cells[at::size] if at < size else [""] * len(lines)
            known = self.known[at - 1]
            if not column and len(set(texts[:_SAMPLE])) > _SAMPLE // 2:
                known = self.known[at - 1] = None
            column += texts if known is None else map(known.setdefault, texts, texts)
        self.in_order = self.in_order and (not self.lines or self.lines[-1] < lines[0])
        self.lines += lines


class _CsvReader:
    def __init__(self, text: str, file: str, model: CasbinModel, findings: Findings, free_text: frozenset[str]) -> None:
        self.text, self.file, self.model, self.findings = text, file, model, findings
        self.free_text = free_text
        self.fields = Fields(model, free_text, every_name=not text.isascii() or "\t" in text)
        self.parts = {"p": _Part(model.policy)}
        for gtype, width in model.roles.items():
            self.parts[gtype] = _Part(("member", "role", "domain")[:width])

    def error(self, code: str, line: int, message: str, advice: str = "") -> None:
        self.findings.error(code, self.file, line, message, advice)

    def read(self) -> Sheet:
        block, lines, odd = self.sorted_out()
        self.trimmed = " " not in block and "\t" not in block
        if lines:
            self.read_block(block, lines)
        for number, line in odd:
            self.read_line(number, line)
        sheet = Sheet(ascii=self.text.isascii())
        sheet.rules, sheet.columns = self.made(Rule, "p")
        for gtype in self.model.roles:
            sheet.links += self.made(Link, gtype)[0]
        if len(self.model.roles) > 1:
            sheet.links.sort(key=lambda link: link.line)
        return sheet

    def sorted_out(self) -> tuple[str, list[int], list[tuple[int, str]]]:
        """The plain rows, each behind a line feed and with no blank behind its commas; their lines; all other lines."""
        text = "\n" + self.text
        starts = {found.end() for found in _OTHER_LINE.finditer(text)}
        for mark in _MARKS:
            starts |= set(_lines_with(mark, text))
        plain: list[str] = []
        lines: list[int] = []
        odd: list[tuple[int, str]] = []
        at, number = 0, 1  # `at` is the line feed in front of line `number`
        for start in sorted(starts):
            if at < start - 1:
                plain.append(text[at : start - 1])
                count = plain[-1].count("\n")
                lines += range(number, number + count)
                number += count
            at = text.find("\n", start)
            at = len(text) if at == -1 else at
            odd.append((number, text[start:at]))
            number += 1
        plain.append(text[at:])
        lines += range(number, number + plain[-1].count("\n"))
        return "".join(plain).replace(", ", ","), lines, odd

    def read_block(self, block: str, lines: list[int]) -> None:
        """Cut the plain rows, some thousands at once, so that what is cut off and not kept makes room for the next."""
        end = block.find("\n", 1)
        size = block.count(",", 0, end if end != -1 else len(block)) + 1
        at = done = 0
        while at < len(block):
            end = block.find("\n", at + _BLOCK)
            chunk = block[at : end if end != -1 else len(block)]
            at += len(chunk)
            cells = chunk.replace("\n", ",\n").split(",")
            del cells[0]
            of_chunk = lines[done : done + chunk.count("\n")]
            done += len(of_chunk)
            # INVARIANT: only a row's first field starts with a line feed, so no row can hide behind one of odd length
            if len(cells) == size * len(of_chunk) and set(cells[::size]) == {"\np"} and self.fits("p", size):
                self.parts["p"].add_block(cells, size, of_chunk)
            else:
                self.read_uneven(chunk.split("\n")[1:], of_chunk)

    def read_uneven(self, rows: list[str], lines: list[int]) -> None:
        """Plain rows of which not all have as many fields as the first of the file."""
        for row, line in zip(rows, lines, strict=True):
            fields = row.split(",")
            if self.fits("p", len(fields)):
                self.parts["p"].add_row(fields, line)
            else:
                self.wrong_size("p", len(fields), line)

    def read_line(self, number: int, line: str) -> None:
        stripped = line.strip(_BLANK)
        if not stripped or stripped[0] == "#":
            return
        if _MARK.search(line) is not None:
            found = cut(line)
            if isinstance(found, LineFlaw):
                self.error(found.code, number, found.message, found.advice)
                return
            if not self.check_quotes(found, number):
                return
            fields = found.fields
        else:
            fields = [part.strip(_BLANK) for part in line.split(",")]
        kind = fields[0]
        if kind not in self.parts:
            self.unknown_type(fields, number)
        elif self.fits(kind, len(fields)):
            self.parts[kind].add_row(fields, number)
        else:
            self.wrong_size(kind, len(fields), number)

    def fits(self, kind: str, size: int) -> bool:
        full = len(self.parts[kind].names) + 1
        return size == full or (size == full - 1 and kind == "p" and self.model.native)  # `cond` may be left out

    def wrong_size(self, kind: str, size: int, number: int) -> None:
        names = self.parts[kind].names
        message = f"{size - 1} values, but {kind!r} has {len(names)}"
        self.error("column-count", number, message, f"write {kind}, {', '.join(names)}")

    def unknown_type(self, fields: list[str], number: int) -> None:
        kind = fields[0]
        if not kind:
            self.error("unknown-row-type", number, "the row has no type", f"start it with {one_of(self.parts)}")
        elif _EXTRA_TYPE.fullmatch(kind) is not None:
            message = f"row type {kind!r} belongs to a second set of definitions"
            self.error("extra-set", number, message, "only one set is supported")
        else:
            row = f"did you mean {', '.join(['p', *fields])!r}?" if len(fields) == len(self.model.policy) else ""
            advice = near_miss(kind, self.parts) or row or f"a row starts with {one_of(self.parts)}"
            self.error("unknown-row-type", number, f"unknown row type {kind!r}", advice)

    def check_quotes(self, found: Cut, line: int) -> bool:
        """A quote inside a field is only expected where expressions stand; a quoted name must be clean."""
        columns = self.model.policy if found.fields[0] == "p" else ()
        for at in found.bare_quotes:
            value = found.fields[at]
            if not (0 < at <= len(columns) and columns[at - 1] in self.free_text):
                message = f"a quote inside {value!r}"
                self.error("quotes", line, message, 'put the field in double quotes and write "" for a quote in it')
                return False
            if value.count('"') % 2:
                self.error("quotes", line, f"{value!r} has a quote without its partner", "quote the whole field")
                return False
        for at in found.quoted:
            value = found.fields[at]
            free = 0 < at <= len(columns) and columns[at - 1] in self.free_text
            if value and not free and (reason := flaw(value)) is not None:
                self.error("name", line, f"{value!r} {reason}", "correct the name")
                return False
        return True

    def made(self, make: type[Row], kind: str) -> tuple[list[Row], list[Sequence[str]] | None]:
        """The rows of one kind as objects, in the order of the file; their columns, unless rows had to move."""
        part = self.parts[kind]
        if not part.lines:
            return [], None
        bad: set[int] = set()
        columns = [self.column(part, at, bad) for at in range(len(part.names))]
        values = zip(*columns, strict=True)
        fields = zip(
            values, repeat(self.file), part.lines, repeat(kind), repeat("")
        )  # in the order of `Rule` and `Link`
        objects = map(tuple.__new__, repeat(make), fields)
        rows: list[Row] = []
        while some := list(islice(objects, _AT_ONCE)):
            rows += some
        if bad:
            rows = [row for at, row in enumerate(rows) if at not in bad]
        if not part.in_order:
            rows.sort(key=lambda row: row.line)
        return rows, columns if part.in_order and not bad else None

    def column(self, part: _Part, at: int, bad: set[int]) -> Sequence[str]:
        """The column `at`, trimmed and checked. Rows with a problem are added to `bad`."""
        name, values, known = part.names[at], part.columns[at], part.known[at]
        check = self.fields.check_of(name)
        if check is None and self.trimmed and "" not in values:
            return values
        clean, wrong = _looked_at(set(values) if known is None else known, check or self.fields.name)
        if wrong:
            for row, value in enumerate(values):
                if value in wrong and row not in bad:
                    code, message, advice = wrong[value]
                    self.findings.error(code, self.file, part.lines[row], message, advice, name)
                    bad.add(row)
        if all(text is value for value, text in clean.items()):
            return values
        return list(map(clean.__getitem__, values))


def _lines_with(mark: str, text: str) -> Iterator[int]:
    """Where the lines start that hold `mark`."""
    at = text.find(mark)
    while at != -1:
        yield text.rfind("\n", 0, at) + 1
        at = text.find("\n", at)
        at = text.find(mark, at) if at != -1 else -1


def _looked_at(values: Iterable[str], check: FieldCheck) -> tuple[dict[str, str], dict[str, tuple[str, str, str]]]:
    """Value -> its final text (itself when it is refused), and refused value -> (code, message, advice)."""
    clean: dict[str, str] = {}
    wrong: dict[str, tuple[str, str, str]] = {}
    for value in values:
        found = check(value.strip(_BLANK))
        if isinstance(found, str):
            clean[value] = found
        else:
            clean[value] = value
            wrong[value] = found
    return clean, wrong
