"""The command line: `remit init`, `lint`, `check`, `explain`, `test`, `schema`, `export`, `demo`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["entry_point", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Results go to stdout, messages to stderr; only a closed stdout raises (`BrokenPipeError`).

    Args:
        argv: The arguments without the program's name; None: those of the process.

    Returns:
        The exit code (`remit.cli.exits.Exit`).
    """
    from remit.cli.run import run

    return run(sys.argv[1:] if argv is None else list(argv))


def entry_point() -> None:
    """The console script."""
    from remit.cli.run import run_process

    run_process(sys.argv[1:])
