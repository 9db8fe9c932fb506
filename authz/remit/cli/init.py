"""`remit init`: a commented policy set to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from remit.cli import console
from remit.cli.exits import Exit


def init(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Where to write; made if it does not exist.")
    ] = "policies",
) -> int:
    """Write a starter policy set, with tests.

    Every file is commented. Files that are there already are never overwritten.
    """
    from remit.cli.starter import starter_files, write_files

    files = starter_files()
    write_files(Path(folder), files)
    for name in files:
        console.say(f"wrote {Path(folder) / name}")
    where = shlex.quote(folder)
    console.say("")
    console.say("Next:")
    for command, why in (
        (f"remit lint {where}", "find mistakes"),
        (f"remit test {where}", f"run the tests in {Path(folder) / 'tests'}"),
        (f"remit check --policy {where} --role guest tool:call:bash", "ask about one call"),
        (f"remit explain --policy {where} --role guest tool:call:bash", "see which rules took part"),
    ):
        console.say("  ", (command, "bold"), f"  # {why}")
    return Exit.FINE
