"""Checks that need to know what remit asks: rules of its own model that no request can reach, and their conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from remit.authz.documents import near_miss
from remit.authz.vocabulary import RESOURCES, unsafe_target
from remit.providers.casbin.checks.names import SimilarRoles
from remit.providers.casbin.checks.rows import report
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.files.effects import ALLOW, DENY
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.native import EVERYONE, ROLE
from remit.providers.casbin.rules import Link, Rule

_GLOB = frozenset("*?[{\\")
_SUB, _RES, _OBJ, _ACT, _EFT, _COND = range(6)


def check_native(
    table: Table, links: Iterable[Link], declared: Collection[str], resources: Collection[str], findings: Findings
) -> None:
    """Report rules of remit's own model that are never asked for, and conditions that cannot be evaluated.

    Args:
        declared: Roles that some `roles.yaml` declares.
        resources: Resource types of this deployment beside the built-in ones.
    """
    _check_subjects(table, links, declared, findings)
    _check_vocabulary(table, resources, findings)
    _check_targets(table, findings)
    _check_shadows(table, findings)
    _check_conditions(table, findings)


def _check_subjects(table: Table, links: Iterable[Link], declared: Collection[str], findings: Findings) -> None:
    """Roles that only rules mention: misspelled, probably, where roles are declared or case alone tells them apart.

    Denials of a role that nobody has would be lost without a word.
    """
    roles = {name for name in table.distinct("sub") if name.startswith(ROLE)}
    if declared:
        known = set(declared).union(*(link.values for link in links))
        similar = SimilarRoles(declared)
        wrong = {name: similar.to(name) for name in roles - known}
    else:
        folded: dict[str, str] = {}
        wrong = {
            name: folded[key]
            for name in sorted(roles)
            if folded.setdefault(key := "".join(name.split()).casefold(), name) != name
        }
    told: set[str] = set()
    for rule in table.having("sub", wrong):
        name = rule.values[_SUB]
        if name in told:
            continue
        told.add(name)
        if (other := wrong[name]) is None:
            message, advice = f"no roles file declares {name!r}", f"add '{name.removeprefix(ROLE)}: {{}}' to it"
            hint = near_miss(name, declared)
            report(rule, False, "undeclared-role", message, f"{hint} If not, {advice}" if hint else advice, findings)
        else:
            message = f"the role {name!r} is almost {other!r}"
            report(rule, bool(declared), "unknown-role", message, f"did you mean {other!r}?", findings)


def _check_vocabulary(table: Table, resources: Collection[str], findings: Findings) -> None:
    types, actions_used = table.distinct("res"), table.distinct("act")
    one_each = len(types) == 1 or len(actions_used) == 1
    pairs = (
        product(types, actions_used) if one_each else set(zip(table.column("res"), table.column("act"), strict=True))
    )
    wrong: dict[tuple[str, str], tuple[bool, str, str, str]] = {}
    for resource, action in pairs:
        if resource == EVERYONE or resource in resources:
            continue
        actions = RESOURCES.get(resource)
        if actions is None:
            hint = near_miss(resource, (*RESOURCES, *resources))
            advice = hint or "list it under 'vocabulary.resources' if this deployment asks about it"
            wrong[resource, action] = (bool(hint), "unknown-resource", f"unknown resource type {resource!r}", advice)
        elif actions and action != EVERYONE and action not in actions:
            hint = near_miss(action, actions)
            advice = hint or f"actions of {resource!r}: " + ", ".join(actions)
            message = f"nobody asks for the action {action!r} on {resource!r}"
            wrong[resource, action] = (bool(hint), "unknown-action", message, advice)
    if not wrong:
        return
    for rule in table.having("res", {resource for resource, _ in wrong}):
        if (found := wrong.get((rule.values[_RES], rule.values[_ACT]))) is not None:
            slip, code, message, advice = found
            severe = slip or (code == "unknown-action" and table.restricts(rule))
            report(rule, severe, code, message, advice, findings)


def _check_targets(table: Table, findings: Findings) -> None:
    special = table.distinct("res") & {"route", "sandbox", "command"}
    for rule in table.having("res", special):
        if (found := _misfit(rule)) is not None:
            message, advice = found
            report(
                rule, table.restricts(rule) or rule.values[_RES] == "command", "unreachable", message, advice, findings
            )
    if ".." not in table.text("obj"):
        return
    for rule in table.having("obj", {obj for obj in table.distinct("obj") if ".." in obj}):
        obj = rule.values[_OBJ]
        if not _GLOB & set(obj) and (reason := unsafe_target(obj)) is not None:
            message = f"{obj!r} {reason}, and such targets are refused before any rule is read"
            report(rule, False, "unreachable", message, "write the resolved path", findings)


def _misfit(rule: Rule) -> tuple[str, str] | None:
    """Why the target of a rule is never asked for with its action: message and advice."""
    _, resource, obj, action, effect, _ = rule.values
    pattern = bool(_GLOB & set(obj))
    if resource == "sandbox" and not pattern:
        return f"sandboxes have no names, so {obj!r} is never asked for", "write '*'"
    if resource == "command" and effect == ALLOW and pattern:
        return f"{obj!r} cannot lower a verdict of the command audit", "allow exact rule ids"
    if resource == "route" and not pattern:
        verb = obj.rpartition(":")[2]
        if ":" not in obj:
            return f"{obj!r} is no permission", f"write 'THING:VERB', for example {obj + ':read'!r}"
        if action not in (EVERYONE, verb):
            return (
                f"the permission {obj!r} is asked for with the action {verb!r}, not {action!r}",
                f"write {verb!r} or '*'",
            )
    return None


def _check_shadows(table: Table, findings: Findings) -> None:
    """Rows that a wider unconditional deny of the same subject, or of everyone, makes void."""
    walls: dict[tuple[bool, ...], dict[tuple[str, ...], Rule]] = {}
    for rule in _wide_denials(table):
        key = rule.values[:_EFT]
        mask = tuple(value == EVERYONE for value in key)
        walls.setdefault(mask, {}).setdefault(key, rule)
    if not walls:
        return
    for rule in table.rules:
        effect = rule.values[_EFT]
        if effect == DENY:
            continue
        for mask, known in walls.items():
            key = tuple(EVERYONE if wide else value for wide, value in zip(mask, rule.values, strict=False))
            if (wall := known.get(key)) is not None:
                message = f"{wall.policy_id} denies all of this, so the row changes nothing"
                report(rule, False, "unreachable", message, "delete one of them", findings)
                break


def _wide_denials(table: Table) -> Iterator[Rule]:
    stars = any(EVERYONE in table.distinct(name) for name in ("sub", "res", "obj", "act"))
    if DENY not in table.distinct("eft") or not stars:
        return
    for rule in table.having("eft", {DENY}):
        if not rule.values[_COND] and EVERYONE in rule.values[:_EFT]:
            yield rule


def _check_conditions(table: Table, findings: Findings) -> None:
    texts = table.distinct("cond") - {""}
    if not texts:
        return
    from remit.providers.casbin.conditions import compile_condition  # only policies with conditions pay for it

    wrong: dict[str, str] = {}
    for text in texts:
        try:
            compile_condition(text)
        except ValueError as exc:
            wrong[text] = str(exc)
    for rule in table.having("cond", wrong):
        message, _, advice = wrong[rule.values[_COND]].partition("; ")
        report(rule, True, "condition", f"in the condition {rule.values[_COND]!r}: {message}", advice, findings)
