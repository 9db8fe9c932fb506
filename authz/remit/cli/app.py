"""The commands, put together. What they need beyond the terminal is imported when they run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from remit.cli import chain, check, coverage, explain, export, init, lint, schema, test
from remit.cli.exits import Exit
from remit.cli.version import version


def build_app() -> typer.Typer:
    """The application, with help drawn in boxes where a terminal shows it."""
    app = typer.Typer(
        name="remit",
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_remit)
    app.command("init")(init.init)
    app.command("lint")(lint.lint)
    app.command("check")(check.check)
    app.command("explain")(explain.explain)
    app.command("test")(test.run_tests)
    app.command("schema")(schema.schema)
    app.command("export")(export.export)
    app.command("chain")(chain.chain)
    app.command("coverage")(coverage.coverage)
    app.command("demo")(_demo)
    return app


def _remit(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=lambda on: _say_version(on), help="Print the release.")
    ] = False,
) -> None:
    """Policy as code for LLM agents: write, check, test and explain what an agent may do.

    Exit codes: 0 fine or allow, 1 findings, 2 wrong usage or unreadable input, 3 deny, 4 ask.
    """


def _say_version(on: bool) -> None:
    if on:
        from remit.cli.console import say

        say(f"remit {version()}")
        raise typer.Exit(Exit.FINE)


def _demo() -> int:
    """Watch an agent refuse, ask and obey.

    Offline, in one screen.
    """
    from remit.cli.demo import run

    return int(run())
