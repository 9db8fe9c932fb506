"""`remit lint`: what is wrong, or odd, in the files of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from remit.authz.errors import ConfigError, Problem
from remit.cli import console, options
from remit.cli.exits import Exit


def lint(
    policy: options.PolicyArgument = None,
    catalog: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The names that exist. Default: catalog.yaml beside authz.yaml, if it is there."
        ),
    ] = None,
    errors_only: Annotated[bool, typer.Option("--errors-only", help="Leave out warnings.")] = False,
    style: Annotated[
        Literal["text", "json", "sarif"], typer.Option("--format", "-f", help="How to print the findings.")
    ] = "text",
) -> int:
    """Find mistakes in the files of a policy.

    Looks at the configuration, the model, the rules, the catalogue and the policy tests. Ends with 1 if there are
    findings. Warnings are findings, too; --errors-only leaves them out.
    """
    from remit.authz.tooling.lint import lint as find
    from remit.authz.tooling.location import locate

    location = locate(policy)
    if catalog is not None and not Path(catalog).is_file():
        raise ConfigError(f"--catalog {catalog!r}: there is no such file; check the path")
    with console.working("checking the policy"):
        problems = find(location, catalog=None if catalog is None else Path(catalog))
    if errors_only:
        problems = [problem for problem in problems if problem.severity == "error"]
    if style == "sarif":
        from remit.authz.tooling.sarif import sarif
        from remit.cli.version import version

        console.document(sarif(problems, tool_version=version(), path_of=location.uri_of))
    elif style == "json":
        from remit.authz.tooling.report import lint_json

        console.document(lint_json(problems))
    else:
        _print(problems)
    return Exit.FINDINGS if problems else Exit.FINE


def _print(problems: list[Problem]) -> None:
    for problem in problems:
        place, _, rest = str(problem).partition(" ")
        mark = ("error", "bold red") if problem.severity == "error" else ("warning", "yellow")
        console.say((place, "bold"), " ", mark, f" {rest} ", (f"[{problem.code}]", "dim"))
    errors = sum(problem.severity == "error" for problem in problems)
    if problems:
        console.say(f"{console.count(errors, 'error')}, {console.count(len(problems) - errors, 'warning')}")
    else:
        console.say(("no findings", "green"))
