"""`remit chain`: the middlewares of an agent in their order, and why they stand there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remit.authz.errors import ConfigError
from remit.cli.console import say
from remit.cli.exits import Exit

if TYPE_CHECKING:
    from remit.middlewares.slots import Slot


def chain(
    settings: Annotated[
        Path | None,
        typer.Argument(metavar="[REMIT.YAML]", help="Settings; else REMIT_CONFIG, else remit.yaml, else the defaults."),
    ] = None,
    scope: Annotated[str, typer.Option(help="lead, bootstrap, embedded or subagent.")] = "lead",
    every: Annotated[bool, typer.Option("--all", help="Also slots that this chain does not have.")] = False,
    reasons: Annotated[bool, typer.Option("--why", help="Also the reasons for the order.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Print the chain of middlewares, outermost first.

    What is printed is the table that builds the chain.
    """
    try:
        from remit.middlewares.chain import EDGES, SLOTS
        from remit.middlewares.slots import SCOPES, Conditions
        from remit.runtime.config import load_app_config
    except ModuleNotFoundError as exc:
        raise ConfigError(f"the chain needs {exc.name!r}, which is missing; install remit[agent]") from exc
    if scope not in SCOPES:
        raise ConfigError(f"--scope: unknown scope {scope!r}; known: {', '.join(SCOPES)}")
    given = Conditions.of(load_app_config(_source(settings)), scope)
    shown = [(slot, slot.fits(given)) for slot in SLOTS if every or slot.fits(given)]
    present = {slot.id for slot, _ in shown}
    edges = [edge for edge in EDGES if {edge.outer, edge.inner} <= present] if reasons else []
    if as_json:
        rows = [_row(slot, live) for slot, live in shown]
        order = [{"outer": edge.outer, "inner": edge.inner, "why": edge.why} for edge in edges]
        say(json.dumps({"scope": scope, "slots": rows, **({"order": order} if reasons else {})}, indent=2))
        return Exit.FINE
    width = max((len(slot.title) for slot, _ in shown), default=0)
    for slot, live in shown:
        mark = "" if live else "  (absent)"
        say(f"{slot.number:>4}  {slot.title:<{width}}  {', '.join(slot.hooks) or '-'}  [{slot.condition}]{mark}")
    for edge in edges:
        say(f"      {edge.outer} before {edge.inner}: {edge.why}")
    return Exit.FINE


def _source(settings: Path | None) -> Any:
    from remit.runtime.config import CONFIG_VARIABLE, DEFAULT_FILE

    if settings is not None:
        return settings
    named = os.environ.get(CONFIG_VARIABLE)
    return named or (DEFAULT_FILE if Path(DEFAULT_FILE).exists() else {})


def _row(slot: Slot, live: bool) -> dict[str, Any]:
    return {
        "slot": slot.id,
        "number": slot.number,
        "middleware": slot.title,
        "live": live,
        "condition": slot.condition,
        "scopes": list(slot.scopes),
        "hooks": list(slot.hooks),
        "channels": list(slot.channels),
        "tools": list(slot.tools),
    }
