"""The order in which Casbin walks the rules, and the fingerprint of what they say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from remit.authz.errors import PolicyError, Problem
from remit.providers.casbin.rules import Effect, Link, PolicySet, Rule

_FIELD: Final = "\x1f"
_ROW: Final = "\x1e"
_SECTION: Final = "\x1d"
_CHUNK: Final = 2000
"""Rules that are hashed in one go: short enough for other threads not to notice."""


def in_casbin_order(policy_set: PolicySet) -> Sequence[Rule]:
    """The rules as Casbin sorts them at load: by subject hierarchy under its effect, then by a column `priority`.

    Raises:
        PolicyError: They cannot be sorted.
    """
    model, rules = policy_set.model, policy_set.rules
    if model.effect is Effect.SUBJECT_PRIORITY:
        levels = _levels(policy_set)
        domain = model.policy.index("dom") if "dom" in model.policy else None
        rules = tuple(
            sorted(
                rules,
                key=lambda rule: levels.get(("" if domain is None else rule.values[domain], rule.values[0]), 0),
            )
        )
    if "priority" in model.policy:
        keys = _priorities(rules, model.policy.index("priority"))
        rules = tuple(rules[at] for at in sorted(range(len(rules)), key=keys.__getitem__))
    return rules


def _priorities(rules: Sequence[Rule], column: int) -> list[int | str]:
    keys: list[int | str] = []
    problems = []
    numeric = sum(rule.values[column].isdigit() for rule in rules) * 2 >= len(rules)
    for rule in rules:
        text = rule.values[column]
        try:
            keys.append(int(text) if text.isdigit() else text)
        except ValueError:
            keys.append("")
        if isinstance(keys[-1], int) is not numeric:
            problems.append(
                Problem(
                    rule.file,
                    rule.line,
                    f"the priority {text!r} cannot be compared with the others",
                    _WHOLE,
                    "priority",
                )
            )
    if problems:
        raise PolicyError(problems)
    return keys


_WHOLE: Final = "write a whole number, 0 or more, in every row"


def _levels(policy_set: PolicySet) -> dict[tuple[str, str], int]:
    """How far each subject is above the bottom of its hierarchy: rules of lower subjects come first."""
    above: dict[tuple[str, str], list[tuple[str, str]]] = {}
    waiting: dict[tuple[str, str], int] = {}
    links = [link for link in policy_set.links if link.gtype == "g"]
    for link in links:
        member, role = _named(link, 0), _named(link, 1)
        above.setdefault(member, []).append(role)
        waiting.setdefault(member, 0)
        waiting[role] = waiting.get(role, 0) + 1
    levels: dict[tuple[str, str], int] = {}
    at = [name for name, below in waiting.items() if not below]
    level = 0
    while at:
        levels.update(dict.fromkeys(at, level))
        after = []
        for name in at:
            for role in above.get(name, ()):
                waiting[role] -= 1
                if not waiting[role]:
                    after.append(role)
        at, level = after, level + 1
    if len(levels) < len(waiting):
        link = next(link for link in links if _named(link, 0) not in levels)
        raise PolicyError(
            Problem(
                link.file,
                link.line,
                f"{link.values[0]!r} is in a cycle of roles, so the rules have no order",
                "take one link of the cycle out",
                "role-cycle",
            )
        )
    return levels


def _named(link: Link, place: int) -> tuple[str, str]:
    return (link.values[2] if len(link.values) > 2 else "", link.values[place])


def fingerprint(policy_set: PolicySet, request: Iterable[str] | None) -> str:
    """``sha256:`` and the digest of everything that decides: model, rules and links in order, request templates.

    Comments, blanks, file names and line numbers are left out: they move without a change of policy.
    """
    model = policy_set.model
    digest = hashlib.sha256()
    head: list[Iterable[str]] = [
        ("remit-policy-1", "native" if model.native else "casbin"),
        model.request,
        model.policy,
        *((name, str(width)) for name, width in model.roles.items()),
        (model.effect.value, model.matcher),
        () if request is None else request,
        sorted(policy_set.roles),
    ]
    digest.update(_joined(head))
    sections = [("p", [rule.values for rule in policy_set.rules])]
    sections += [(name, [at.values for at in policy_set.links if at.gtype == name]) for name in model.roles]
    for name, rows in sections:
        digest.update(f"{_SECTION}{name}{_SECTION}".encode())
        for start in range(0, len(rows), _CHUNK):
            digest.update(_joined(rows[start : start + _CHUNK]))
    return f"sha256:{digest.hexdigest()}"


def _joined(rows: Iterable[Iterable[str]]) -> bytes:
    return (_ROW.join(map(_FIELD.join, rows)) + _ROW).encode("utf-8", "surrogatepass")
