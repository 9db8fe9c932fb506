"""Which roles a policy set knows: what `validate_role` compares with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from remit.providers.casbin.checks.shape import shape_of
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.native import ROLE
from remit.providers.casbin.rules import Link


def native_roles(table: Table, links: Iterable[Link], declared: Iterable[str]) -> set[str]:
    """Roles of remit's own model that some row or section names, with their namespace."""
    if not table.model.native:
        return set()
    names = {*declared, *table.distinct("sub"), *(link.values[1] for link in links)}
    return {name for name in names if name.startswith(ROLE)}


def foreign_roles(table: Table, links: Iterable[Link], templates: Sequence[str]) -> set[str]:
    """Roles of an operator's own model, as principals carry them.

    These are the names that the matcher compares with a request column whose template mentions the role.
    """
    shape = shape_of(table.model.tree)
    out: set[str] = set()
    for column, template in zip(table.model.request, templates, strict=True):
        before, role, after = template.partition("{role}")
        if not role or "{" in before + after:
            continue
        names = set().union(*(table.distinct(name) for name, others in shape.equal.items() if column in others))
        for gtype, askers in shape.askers.items():
            if column in askers:
                names |= {name for link in links if link.gtype == gtype for name in link.values[:2]}
                names |= set().union(*(table.distinct(name) for name, _ in shape.roles.get(gtype, ())))
        fitting = (name for name in names if name.startswith(before) and name.endswith(after))
        out |= {name[len(before) : len(name) - len(after)] for name in fitting}
    return out - {"", "*"}
