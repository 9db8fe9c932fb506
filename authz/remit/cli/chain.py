"""`remit chain`: the middlewares of an agent in their order, and why they stand there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from remit.authz.errors import ConfigError
from remit.cli import console
from remit.cli.exits import Exit
from remit.cli.options import Format

if TYPE_CHECKING:
    from remit.middlewares.slots import Slot


Scope = Literal["lead", "bootstrap", "embedded", "subagent"]


def chain(
    settings: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="The settings, a remit.yaml. Default: $REMIT_CONFIG, else remit.yaml, else the defaults.",
            show_default=False,
        ),
    ] = None,
    scope: Annotated[Scope, typer.Option("--scope", "-s", help="For which kind of agent.")] = "lead",
    absent: Annotated[bool, typer.Option("--all", "-a", help="Also what this agent does not have.")] = False,
    why: Annotated[bool, typer.Option("--why", "-w", help="Also the reasons for the order.")] = False,
    form: Format = "text",
) -> Exit:
    """Print the chain of middlewares of an agent.

    Outermost first, out of the very table that builds it.
    """
    try:
        from remit.middlewares.chain import EDGES, SLOTS
        from remit.middlewares.slots import Conditions
        from remit.runtime.config import load_app_config
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"the chain stands around a LangChain agent, and {exc.name!r} is missing; install remit[agent]"
        ) from exc
    given = Conditions.of(load_app_config(_source(settings)), scope)
    shown = [slot for slot in SLOTS if absent or slot.fits(given)]
    present = {slot.id for slot in shown}
    edges = [edge for edge in EDGES if {edge.outer, edge.inner} <= present]
    if form == "json":
        order = [{"outer": edge.outer, "inner": edge.inner, "why": edge.why} for edge in edges]
        console.document({"scope": scope, "slots": [_row(slot, slot.fits(given)) for slot in shown], "order": order})
        return Exit.FINE
    width = max(len(slot.title) for slot in shown)
    for slot in shown:
        state = slot.condition if slot.fits(given) else f"absent: {slot.condition}"
        console.say(f"{slot.number:>4}  {slot.title:<{width}}  {', '.join(slot.hooks) or '-'}  ({state})")
        for edge in edges if why else ():
            if edge.outer == slot.id:
                console.say(f"      before {edge.inner}: {edge.why}")
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
