"""`remit schema`: JSON Schemas for editors."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from remit.cli import console
from remit.cli.exits import Exit


def schema(
    document: Annotated[
        Literal["authz", "roles", "remit"], typer.Argument(help="Of which file: authz.yaml, roles.yaml or remit.yaml.")
    ] = "authz",
) -> Exit:
    """Print the JSON Schema of a file.

    Editors complete and check a file by it.
    """
    if document == "roles":
        from remit.providers.casbin.files.rolesschema import roles_schema

        console.document(roles_schema())
    elif document == "remit":
        from remit.runtime.config import app_config_schema

        console.document(app_config_schema())
    else:
        from remit.authz.config import config_schema

        console.document(config_schema())
    return Exit.FINE
