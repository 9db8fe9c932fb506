"""All semantic checks of one policy set, in one place: what a file alone cannot show."""

from __future__ import annotations

from collections.abc import Collection

from remit.authz.vocabulary import RESOURCES
from remit.providers.casbin.checks.links import check_links
from remit.providers.casbin.checks.names import deceiving
from remit.providers.casbin.checks.native import check_native
from remit.providers.casbin.checks.rows import check_rows
from remit.providers.casbin.checks.shape import shape_of
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.rules import Link


def check_set(
    table: Table,
    links: list[Link],
    declared: Collection[str],
    findings: Findings,
    *,
    complete: bool = True,
    ascii_only: bool = False,
    functions: Collection[str] = (),
    resources: Collection[str] = (),
) -> set[str]:
    """Report everything that is wrong with the rules and links of a policy set.

    Args:
        declared: Roles that are known without a row.
        complete: False when rows were refused before: what is missing may have been in one of them.
        ascii_only: True when no name can hold another character.
        functions: Names of the deployment's own matcher functions.
        resources: Its own resource types.

    Returns:
        Request columns whose attributes the matcher or some rule reads.
    """
    shape = shape_of(table.model.tree)
    objects = check_rows(table, shape, functions, findings)
    check_links(table, shape, links, declared, findings, complete=complete)
    if table.model.native:
        check_native(table, links, declared, resources, findings)
    if not ascii_only:
        _check_deceiving_names(table, shape.rules, links, declared, resources, findings)
    return objects | shape.objects


def _check_deceiving_names(
    table: Table,
    texts: Collection[str],
    links: list[Link],
    declared: Collection[str],
    resources: Collection[str],
    findings: Findings,
) -> None:
    columns = [name for name in table.model.policy if name not in texts and name not in ("cond", "eft", "priority")]
    names = set(declared).union(*map(table.distinct, columns), *(link.values for link in links))
    vocabulary = {*RESOURCES, *resources, *(action for actions in RESOURCES.values() for action in actions)}
    wrong = deceiving(names, vocabulary)
    advice = "type it again, in one script"
    for column in columns:
        at = table.model.policy.index(column)
        for rule in table.having(column, wrong):
            findings.error("look-alike", rule.file, rule.line, wrong[rule.values[at]], advice, rule.key)
    for link in links:
        for name in wrong.keys() & set(link.values):
            findings.error("look-alike", link.file, link.line, wrong[name], advice, link.key)
