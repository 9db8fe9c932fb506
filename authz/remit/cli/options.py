"""Options that several commands share, described once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from remit.authz.tooling.location import DEFAULT, VARIABLE

_WHERE = f"A folder with an authz.yaml, or the file itself. Default: ${VARIABLE}, else {DEFAULT}."

Policy = Annotated[str | None, typer.Option("--policy", "-p", metavar="PATH", help=_WHERE)]
PolicyArgument = Annotated[str | None, typer.Argument(metavar="PATH", help=_WHERE, show_default=False)]
Request = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE:ACTION:TARGET",
        help="What is asked, for example tool:call:bash, model:use:large or route:read:threads:read.",
        show_default=False,
    ),
]
Role = Annotated[
    str | None, typer.Option("--role", "-r", metavar="NAME", help="Who asks. Default: authorization.default_role.")
]
User = Annotated[str | None, typer.Option("--user", "-u", metavar="ID", help="The user id, for rules about users.")]
_VALUES = "VALUE is a number, true, null, a list, … where it reads as JSON, else text. Repeatable."
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", metavar="NAME=VALUE", help=f"An attribute of who asks. {_VALUES}"),
]
Args = Annotated[
    list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help=f"An argument of the call. {_VALUES}")
]
Format = Annotated[Literal["text", "json"], typer.Option("--format", "-f", help="How to print the result.")]
