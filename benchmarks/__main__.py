"""`python -m benchmarks`: one table of ratios. Exit code 1 with --check when a bound is missed."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from benchmarks import (
    bench_agent,
    bench_audit,
    bench_chain,
    bench_decisions,
    bench_filter,
    bench_import,
    bench_load,
    bench_reload,
    peers,
)
from benchmarks.measure import Row

GROUPS: dict[str, Callable[[float], Iterator[Row]]] = {
    "decision": bench_decisions.rows,
    "filter": bench_filter.rows,
    "agent": bench_agent.rows,
    "chain": bench_chain.rows,
    "shell": bench_audit.rows,
    "load": bench_load.rows,
    "reload": bench_reload.rows,
    "import": bench_import.rows,
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"any of {', '.join([*GROUPS, 'peers'])}; all if none"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bound is missed")
    parser.add_argument("--seconds", type=float, default=0.8, help="how long to measure each line (0.8)")
    asked = parser.parse_args(argv)
    wanted = asked.groups or [*GROUPS, "peers"]
    if unknown := set(wanted) - {*GROUPS, "peers"}:
        parser.error(f"no such group: {', '.join(sorted(unknown))}")

    errors = Console(stderr=True)
    taken: list[Row] = []
    skipped: list[str] = []
    with errors.status("measuring"):
        for group in wanted:
            source = peers.rows(asked.seconds, skipped.append) if group == "peers" else GROUPS[group](asked.seconds)
            for row in source:
                taken.append(row)
                errors.print(f"{row.group}: {row.name}: {_value(row)}", style="dim", highlight=False)
    _print(taken, skipped)
    missed = [row for row in taken if not row.ok]
    return 1 if missed and asked.check else 0


def _print(taken: list[Row], skipped: list[str]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table(title="remit against bounds and peers; x = times the frozenset floor unless the name says otherwise")
    for column in ("group", "what"):
        table.add_column(column, no_wrap=True)
    for column in ("measured", "bound"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("us", justify="right", no_wrap=True)
    table.add_column("note")
    before = ""
    for row in taken:
        if before and row.group != before:
            table.add_section()
        before = row.group
        verdict = "" if row.bound is None else "pass" if row.ok else "MISS"
        table.add_row(
            row.group,
            row.name,
            _value(row),
            "" if row.bound is None else f"{row.bound:g} {row.unit}",
            verdict,
            "" if row.us is None else f"{row.us:,.2f}" if row.us < 100 else f"{row.us:,.0f}",
            row.note,
            style="red" if not row.ok else None,
        )
    console.print(table)
    for reason in skipped:
        console.print(reason, highlight=False)
    bounded = [row for row in taken if row.bound is not None]
    console.print(
        f"{sum(row.ok for row in bounded)} of {len(bounded)} bounds met; CPython {platform.python_version()},"
        f" {platform.machine()}, pycasbin {version('pycasbin')}",
        highlight=False,
    )


def _value(row: Row) -> str:
    text = f"{row.value:,.0f}" if row.value >= 100 or row.unit == "wrong" else f"{row.value:.2f}"
    return f"{text} {row.unit}"


if __name__ == "__main__":
    sys.exit(main())
