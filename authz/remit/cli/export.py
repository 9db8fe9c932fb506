"""`remit export`: the policy for other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from remit.authz.errors import ConfigError, PolicyError
from remit.cli import console, options
from remit.cli.exits import Exit


def export(
    casbin: Annotated[bool, typer.Option("--casbin", help="For stock Casbin. Rules that ask become denials.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write model.conf and policy.csv there, not to stdout."),
    ] = None,
    policy: options.Policy = None,
) -> Exit:
    """Write the policy for another engine.

    Prints the rules, or writes them together with their model. A rule that the other engine would read differently is
    an error; nothing is written then.
    """
    from remit.cli.session import open_policy
    from remit.cli.starter import write_files
    from remit.providers.casbin.files.export import export_casbin
    from remit.providers.casbin.provider import CasbinAuthorizationProvider

    if not casbin:
        raise ConfigError("say what to export to: `remit export --casbin`")
    with open_policy(policy) as session:
        if not isinstance(session.provider, CasbinAuthorizationProvider):
            raise ConfigError(f"the policy of the provider {session.provider.name!r} cannot be written for Casbin")
        policy_set = session.provider.snapshot.policy_set
        try:
            rules = export_casbin(policy_set)
        except PolicyError as exc:
            raise PolicyError(session.location.shown(exc.problems)) from exc
    if output is None:
        console.text(rules)
        return Exit.FINE
    files = {"model.conf": policy_set.model.text, "policy.csv": rules}
    write_files(Path(output), files)
    for name in files:
        console.say(f"wrote {Path(output) / name}")
    return Exit.FINE
