"""What the loader hands to the index: rules with their place in the operator's files, and the model they follow.

Nothing here reads files or decides; nothing here changes after it was made.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from remit.authz.errors import Problem


class Rule(NamedTuple):
    """One `p` row (of any policy type). `values` follow the columns of the model's definition for `ptype`."""

    values: tuple[str, ...]
    file: str
    """The file's name as the configuration gives it (``policy.csv``), the first half of the policy id."""
    line: int
    ptype: str = "p"
    key: str = ""
    """For rules that come from `roles.yaml`: the dotted path, ``roles.user.tools.allow``."""

    @property
    def policy_id(self) -> str:
        return f"{self.file}:{self.line}"


class Link(NamedTuple):
    """One `g` row: `values` are member, role and, with domains, the domain."""

    values: tuple[str, ...]
    file: str
    line: int
    gtype: str = "g"
    key: str = ""


class Effect(Enum):
    """How the effects of the matching rules combine. Values are the expressions that a model file may state."""

    ALLOW_OVERRIDE = "some(where (p.eft == allow))"
    DENY_OVERRIDE = "!some(where (p.eft == deny))"
    ALLOW_AND_DENY = "some(where (p.eft == allow)) && !some(where (p.eft == deny))"
    PRIORITY = "priority(p.eft) || deny"
    SUBJECT_PRIORITY = "subjectPriority(p.eft) || deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasbinModel:
    """A parsed `model.conf`. One request, policy, effect and matcher definition each; extra sets are refused."""

    file: str
    request: tuple[str, ...]
    """Column names of ``r``: ``("sub", "res", "obj", "act", "ctx")``."""
    policy: tuple[str, ...]
    """Column names of ``p``, ``eft`` and ``cond`` included where stated."""
    roles: Mapping[str, int] = field(default_factory=dict)
    """Role definitions: ``{"g": 2}``, ``{"g": 3, "g2": 2}`` (the number of ``_``)."""
    effect: Effect
    matcher: str
    """As written, continuation lines joined, in Casbin's syntax (``&&``, ``||``, ``!``, ``r.sub``)."""
    matcher_line: int
    tree: ast.expr
    """`matcher` as a Python expression over the names ``r_sub``, ``p_obj``, … (Casbin's own rewriting)."""
    text: str = ""
    """The whole file, for pycasbin itself and for the policy version."""
    native: bool = False
    """True for remit's shipped model shape: ``cond`` and ``ask`` are understood, subjects are namespaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """Everything that was read, in the order of the files and of the lines in them."""

    model: CasbinModel
    rules: tuple[Rule, ...]
    links: tuple[Link, ...]
    roles: frozenset[str] = frozenset()
    """Every role that is known by some row: namespaced where the model is native (``role:admin``), else as principals
    carry it. Empty under another model whose request templates do not mention the role."""
    problems: tuple[Problem, ...] = ()
    """Warnings only: a set with errors is never built."""
    sources: tuple[str, ...] = ()
    """Absolute paths of every file that was read, the model included; what a watch must look at."""
    request: tuple[str, ...] = ()
    """One template per request column, given or by default; empty where the model is native."""
