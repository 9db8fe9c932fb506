"""A synopsis of tables: values separated by tabs or commas under a line of column names."""

from __future__ import annotations

import csv
import re
from itertools import islice
from typing import Final

from remit.middlewares.synopsis.parts import Effort, Synopsis, listed, plural, token

MAX_SAMPLED_LINES: Final = 50
MAX_SAMPLED_CHARS: Final = 200_000
MAX_COLUMNS: Final = 18
CHECKED_ROWS: Final = 10
REGULAR_ROWS: Final = 5
"""Of the checked rows, at least so many have as many cells as there are columns."""
_COLUMN: Final = re.compile(r"[^\W\d][\w .:/()%#\[\]-]{0,200}")


def read_tsv(text: str, effort: Effort) -> Synopsis | None:
    """What is in a table with tabs; None when it is none."""
    return _read(text, "\t", "tsv")


def read_csv(text: str, effort: Effort) -> Synopsis | None:
    """What is in a table with commas; None when it is none."""
    return _read(text, ",", "csv")


def _read(text: str, separator: str, kind: str) -> Synopsis | None:
    sample = text[:MAX_SAMPLED_CHARS].lstrip("\ufeff")
    if separator not in sample.partition("\n")[0]:
        return None
    if len(text) > MAX_SAMPLED_CHARS:
        sample = sample[: sample.rfind("\n") + 1]  # the last line may be cut
    try:
        lines = [line for line in sample.splitlines()[: MAX_SAMPLED_LINES + 1] if line.strip()]
        rows = list(islice(csv.reader(lines, delimiter=separator), MAX_SAMPLED_LINES))
    except csv.Error:
        return None
    if len(rows) < 2:
        return None
    header, body = [cell.strip() for cell in rows[0]], rows[1:]
    if len(header) < 2 or not all(_COLUMN.fullmatch(cell) for cell in header):
        return None
    checked = body[:CHECKED_ROWS]
    if sum(len(row) == len(header) for row in checked) < min(REGULAR_ROWS, max(len(checked), 2)):
        return None
    first = list(zip(header, body[0], strict=False))[:MAX_COLUMNS]
    lines_in_all = text.count("\n") + (not text.endswith("\n"))
    return Synopsis(
        kind=kind,
        title=f"{kind.upper()} table with {plural(len(header), 'column')}, about {plural(lines_in_all - 1, 'row')}",
        summary=(f"columns: {listed(header, len(header), MAX_COLUMNS)}",),
        structure=tuple(f"{token(name, 40)} = {token(cell)}" for name, cell in first),
        notable=("the values under Structure are those of the first row",),
    )
