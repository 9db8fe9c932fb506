"""Running one command: every way in which it can end becomes an exit code and, if it failed, one clear message."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NoReturn

import typer

from remit.authz.errors import AuthzError, ConfigError
from remit.cli.app import build_app
from remit.cli.console import complain
from remit.cli.exits import Exit


def run(argv: list[str]) -> int:
    """Run the command that `argv` spells."""
    with _log_to_stderr():
        try:
            if not argv and "_REMIT_COMPLETE" not in os.environ:  # shell completion calls without arguments
                with redirect_stdout(sys.stderr):
                    run(["--help"])
                return Exit.USAGE
            command = typer.main.get_command(build_app())
            return int(command.main(argv, prog_name="remit", standalone_mode=False) or Exit.FINE)
        except typer.TyperException as exc:
            complain(_usage(exc, argv))
        except ConfigError as exc:
            errors = [str(problem) for problem in exc.problems if problem.severity == "error"]
            for message in errors or [str(exc)]:
                complain(message)
        except AuthzError as exc:
            complain(f"remit: {exc}")
        except (KeyboardInterrupt, typer.Abort):
            return Exit.INTERRUPTED
        except SystemExit as exc:  # after shell completion, or when the reader of stdout has gone
            return Exit.USAGE if exc.code else Exit.FINE
        except BrokenPipeError:
            raise
        except Exception as exc:
            where = traceback.extract_tb(exc.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            what = " ".join(str(exc).split())
            complain(f"remit: internal error at {place}: {type(exc).__name__}: {what}; please report it")
        return Exit.USAGE


def run_process(argv: list[str]) -> NoReturn:
    """`run` as a process of its own: with its streams, whose other end may be closed at any time."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.USAGE
    sys.exit(code)


def _usage(exc: typer.TyperException, argv: list[str]) -> str:
    path = f"remit {argv[0]}" if argv and not argv[0].startswith("-") else "remit"
    if (context := getattr(exc, "ctx", None)) is not None:  # errors of the option parser come without
        path = context.command_path
    message = " ".join(exc.format_message().split()).rstrip(".")
    message = message.replace("Value error, ", "").replace(". Did you mean", "; did you mean")
    return f"{path}: {message[:1].lower()}{message[1:]}; see `{path} --help`"


class _Brief(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"remit: {record.getMessage()}"


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Warnings of the decision layer as messages, without the traceback that a service would log with them."""
    log = logging.getLogger("remit")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Brief())
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
