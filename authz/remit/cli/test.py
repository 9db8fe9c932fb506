"""`remit test`: policy tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from remit.authz.errors import ConfigError
from remit.cli import console, options
from remit.cli.exits import Exit

if TYPE_CHECKING:
    from remit.authz.tooling.testrun import RuleCoverage, RunReport

SHOWN = 50
"""Rules without a test that the text lists."""


def run_tests(
    policy: options.PolicyArgument = None,
    style: Annotated[
        Literal["text", "json", "junit"], typer.Option("--format", "-f", help="How to print the outcome.")
    ] = "text",
) -> Exit:
    """Run the policy tests.

    They are the YAML files in the folder `tests` beside authz.yaml. Lists the rules that no test exercises. Ends with 1
    if an expectation is not met, and with 2 if there are no tests.
    """
    from remit.authz.tooling.location import find_test_files
    from remit.authz.tooling.policytests import load_policy_tests
    from remit.authz.tooling.testrun import run_policy_tests
    from remit.cli.session import open_policy

    with open_policy(policy) as session:
        files = find_test_files(session.location)
        if not files:
            where = session.location.folder / "tests"
            raise ConfigError(f"there are no policy tests in {str(where)!r}; `remit init` shows what they look like")
        tests = load_policy_tests(files, resources=session.config.vocabulary.resources)
        with console.working("running the policy tests"):
            report = run_policy_tests(
                tests,
                provider=session.provider,
                decide=session.enforcer.decide,
                default_role=session.config.default_role,
            )
    if style == "json":
        from remit.authz.tooling.report import run_json

        console.document(run_json(report))
    elif style == "junit":
        from remit.authz.tooling.junit import junit

        console.text(junit(report))
    else:
        _print(report, len(tests))
    return Exit.FINDINGS if report.failures else Exit.FINE


def _print(report: RunReport, tests: int) -> None:
    for outcome in report.failures:
        place = f"{outcome.test.file}:{outcome.expectation.line}:"
        asked = outcome.expectation.asked
        console.say((place, "bold"), " ", ("failed", "bold red"), f" {outcome.test.name}: {asked}: {outcome.failure}")
    if report.coverage is not None:
        _print_coverage(report.coverage)
    failed = len(report.failures)
    summary = f"{console.count(tests, 'test')}, {console.count(len(report.outcomes), 'expectation')}, {failed} failed"
    console.say((summary, "bold red" if failed else "bold green"))


def _print_coverage(coverage: RuleCoverage) -> None:
    if coverage.missing:
        console.say("rules that no test exercises")
        console.table(("rule", "text"), [(rule.policy_id, rule.text) for rule in coverage.missing[:SHOWN]])
        if len(coverage.missing) > SHOWN:
            console.say(f"  and {len(coverage.missing) - SHOWN} more; --format json lists all")
    if coverage.total:
        share = 100 * coverage.exercised // coverage.total
        console.say(f"rule coverage {coverage.exercised} of {coverage.total} ({share} %)")
