"""`remit coverage`: whether every tool of an agent is reached through a decision, and what stands before it."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remit.authz.errors import ConfigError
from remit.cli import console
from remit.cli.exits import Exit
from remit.cli.options import Format

if TYPE_CHECKING:
    from remit.mediation import Report

_TARGET = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


def coverage(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FACTORY",
            help="A function without arguments that builds the agent, or the compiled agent itself.",
            show_default=False,
        ),
    ],
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="NAME=REASON",
            help="Accept what cannot be looked into, by name or path, and say why. Repeatable.",
        ),
    ] = None,
    form: Format = "text",
) -> Exit:
    """Prove that every tool of an agent is guarded.

    Prints a row for each tool, hosted tool, node and inner agent. Ends with 1 if one of them is uncovered, or cannot
    be looked into and was not accepted.
    """
    try:
        from remit.mediation import MediationError, audit
    except ModuleNotFoundError as exc:
        raise ConfigError(f"agents are made with LangChain, and {exc.name!r} is missing; install remit[agent]") from exc
    exceptions = _exceptions(allow or ())
    try:
        with redirect_stdout(sys.stderr):  # what the module prints is no result
            agent = _built(target)
        report = audit(agent, exceptions=exceptions)
    except MediationError as exc:
        if exc.report is None:
            raise
        report = exc.report  # the factory proves its agent itself
    except TypeError as exc:
        raise ConfigError(f"{target!r}: {exc}") from exc
    _print(report, form)
    return Exit.FINE if report.ok else Exit.FINDINGS


def _exceptions(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, mark, reason = text.partition("=")
        if not mark or not name.strip() or not reason.strip():
            raise ConfigError(f"--allow {text!r}: say what is accepted and why, for example --allow 'plan=reviewed'")
        if name.strip() in found:
            raise ConfigError(f"--allow {text!r}: {name.strip()!r} is accepted twice; leave one out")
        found[name.strip()] = reason.strip()
    return found


def _built(target: str) -> Any:
    """What `target` names, called when it is a function.

    Raises:
        ConfigError: It cannot be imported, is not there, needs arguments, or fails.
        MediationError: As the factory raised it.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise ConfigError(f"{target!r} is not of the form MODULE:FACTORY, for example my_app.agents:build")
    found = _imported(target, match["module"])
    for name in match["name"].split("."):
        try:
            found = getattr(found, name)
        except AttributeError as exc:
            raise ConfigError(
                f"{target!r}: module {match['module']!r} has no {match['name']!r}; check the name"
            ) from exc
    if not (inspect.isroutine(found) or isinstance(found, type)):
        return found
    try:
        inspect.signature(found).bind()
    except TypeError as exc:
        raise ConfigError(f"{target!r} cannot be called without arguments ({exc}); name a function that can") from exc
    except ValueError:  # no signature to look at
        pass
    return _called(target, found)


def _imported(target: str, module: str) -> Any:
    sys.path.insert(0, "")  # where the command is run, as `python -m` does
    try:
        return import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is not None and f"{module}.".startswith(f"{exc.name}."):
            raise ConfigError(
                f"{target!r}: there is no module {exc.name!r}; run the command where it can be imported"
            ) from exc
        raise _failed(target, "cannot be imported", exc) from exc
    except Exception as exc:
        raise _failed(target, "cannot be imported", exc) from exc
    finally:
        sys.path.remove("")


def _called(target: str, factory: Any) -> Any:
    from remit.mediation import MediationError

    try:
        made = factory()
        return asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made
    except MediationError:
        raise
    except Exception as exc:
        raise _failed(target, "failed", exc) from exc


async def _awaited(made: Any) -> Any:
    return await made


def _failed(target: str, what: str, exc: Exception) -> ConfigError:
    text = " ".join(str(exc).split())
    return ConfigError(f"{target!r} {what}: {type(exc).__name__}: {text}" if text else f"{target!r} {what}: {exc!r}")


def _print(report: Report, form: str) -> None:
    if form == "json":
        console.document(
            {
                "ok": report.ok,
                "rows": [asdict(row) for row in report.rows],
                "middlewares": [asdict(one) for one in report.standings],
                "notes": list(report.notes),
                "problems": [str(problem) for problem in report.problems],
            }
        )
        return
    if report.rows:
        console.table(
            ("path", "kind", "verdict", "forms", "decided by", "note"),
            [
                (row.path, row.kind, row.verdict, row.forms, row.dominated_by or "-", row.remark or "-")
                for row in report.rows
            ],
        )
    for path in dict.fromkeys(one.path for one in report.standings):
        order = [f"{one.name} ({one.place})" for one in report.standings if one.path == path]
        console.say(f"middlewares of {path}: {', '.join(order)}")
    for note in report.notes:
        console.say(f"note: {note}")
    for problem in report.problems:
        console.say((problem.file, "bold"), f": {problem.message}; {problem.advice}")
    if report.ok:
        console.say((f"{console.count(len(report.rows), 'row')}, everything is covered", "green"))
    else:
        console.say(console.count(len(report.problems), "problem"))
