"""A policy set as text again: remit's own `policy.csv`, or what stock Casbin can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from remit.authz.errors import PolicyError, Problem
from remit.providers.casbin.files.effects import ASK, DENY
from remit.providers.casbin.rules import Link, PolicySet, Rule

_SAFE = re.compile(r'[^",#()\[\]\s](?:[^",#()\[\]]*[^",#()\[\]\s])?')
_CASBIN_BREAKS = re.compile(r'["#\n]|^\s|\s$')


def export_csv(policy_set: PolicySet) -> str:
    """`policy_set` as the text of a `policy.csv` that loads to the same rules and links under the same model.

    Roles that only a `roles.yaml` declares, without any rule, have no row and are left out.
    """
    lines = [", ".join([rule.ptype, *map(_field, rule.values)]).rstrip(" ") for rule in policy_set.rules]
    lines += [", ".join([link.gtype, *map(_field, link.values)]) for link in policy_set.links]
    return "\n".join([*lines, ""])


def export_casbin(policy_set: PolicySet) -> str:
    """`policy_set` for stock Casbin under the same model: what asks is written as a denial.

    Raises:
        PolicyError: A rule has a condition, which stock Casbin would ignore, or a name that its reader would break.
    """
    problems: list[Problem] = []
    lines = [_casbin_line(rule.ptype, _without_ask(rule, policy_set), rule, problems) for rule in policy_set.rules]
    lines += [_casbin_line(link.gtype, link.values, link, problems) for link in policy_set.links]
    if policy_set.model.native:
        at = policy_set.model.policy.index("cond")
        problems += (
            _problem(rule, f"the condition {rule.values[at]!r} means nothing to Casbin", "condition-needs-native")
            for rule in policy_set.rules
            if rule.values[at]
        )
    if problems:
        raise PolicyError(problems)
    return "\n".join([*lines, ""])


def _field(value: str) -> str:
    if not value or _SAFE.fullmatch(value) is not None:
        return value
    return '"' + value.replace('"', '""') + '"'


def _without_ask(rule: Rule, policy_set: PolicySet) -> Sequence[str]:
    if not policy_set.model.native:
        return rule.values
    at = policy_set.model.policy.index("eft")
    effect = DENY if rule.values[at] == ASK else rule.values[at]
    return (*rule.values[:at], effect, *rule.values[at + 1 :])


def _casbin_line(kind: str, values: Iterable[str], row: Rule | Link, problems: list[Problem]) -> str:
    for value in values:
        if _CASBIN_BREAKS.search(value) is not None or not _one_field(value):
            problems.append(_problem(row, f"Casbin's reader would break {value!r}", "not-exportable"))
    return ", ".join([kind, *values])


def _one_field(value: str) -> bool:
    """Whether Casbin's reader takes `value` as one field: brackets balance, and every comma is inside some."""
    depth: list[str] = []
    for char in value:
        if char in "([":
            depth.append(char)
        elif char in ")]":
            if not depth:
                return False
            depth.pop()
        elif char == "," and not depth:
            return False
    return not depth


def _problem(row: Rule | Link, message: str, code: str) -> Problem:
    return Problem(row.file, row.line, message, "change the rule, or keep it for remit alone", code, row.key)
