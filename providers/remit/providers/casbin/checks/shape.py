"""How a matcher uses each policy column: what the semantic checks and the request template need to know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from remit.providers.casbin.files.expression import PATTERN_FUNCTIONS

_MAX_BRANCHES = 64


@dataclass(slots=True)
class Shape:
    """What a matcher does with the columns. Names are without ``r_`` and ``p_``."""

    equal: dict[str, set[str]] = field(default_factory=dict)
    """Policy column -> request columns it is compared with by ``==``."""
    star: set[str] = field(default_factory=set)
    """Policy columns for which a lone ``*`` is asked about (``p.obj == "*"``)."""
    patterns: dict[str, set[str]] = field(default_factory=dict)
    """Policy column -> pattern functions that read it as a pattern."""
    times: set[str] = field(default_factory=set)
    """Policy columns that `timeMatch` reads as a point in time."""
    roles: dict[str, set[tuple[str, bool]]] = field(default_factory=dict)
    """Role definition -> (policy column, True when it stands on the right, where roles do)."""
    askers: dict[str, set[str]] = field(default_factory=dict)
    """Role definition -> request columns that it looks up as a member or role."""
    domains: dict[str, set[str]] = field(default_factory=dict)
    """Role definition -> policy columns used as its domain, or compared with the request column used so."""
    rules: set[str] = field(default_factory=set)
    """Policy columns whose text is spliced in by ``eval``."""
    used: set[str] = field(default_factory=set)
    """Every policy column that the matcher mentions."""
    called: set[str] = field(default_factory=set)
    constants: list[tuple[str, str]] = field(default_factory=list)
    """(function, pattern) for patterns written into the matcher itself."""
    objects: set[str] = field(default_factory=set)
    """Request columns whose attributes or items are read."""


def shape_of(tree: ast.expr) -> Shape:
    """The uses of every column in `tree`, a matcher that passed the checks."""
    shape = Shape()
    request_domains: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name.startswith("p_"):
                shape.used.add(name[2:])
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                _equality(shape, left, right)
                _equality(shape, right, left)
            case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
                shape.objects.add(name[2:])
            case ast.Call(func=ast.Name(id=function), args=args):
                shape.called.add(function)
                _use(shape, request_domains, function, args)
    for gtype, columns in request_domains.items():
        for policy_column, others in shape.equal.items():
            if others & columns:
                shape.domains.setdefault(gtype, set()).add(policy_column)
    return shape


def _equality(shape: Shape, one: ast.expr, other: ast.expr) -> None:
    if isinstance(one, ast.Name) and one.id.startswith("p_"):
        if isinstance(other, ast.Constant) and other.value == "*":
            shape.star.add(one.id[2:])
        elif names := {n for n in names_in(other) if n.startswith("r_")}:
            shape.equal.setdefault(one.id[2:], set()).update(n[2:] for n in names)


def _use(shape: Shape, request_domains: dict[str, set[str]], function: str, args: list[ast.expr]) -> None:
    columns = [arg.id if isinstance(arg, ast.Name) else "" for arg in args]
    if function == "eval":
        shape.rules.update(name[2:] for name in columns)
    elif function == "timeMatch":
        shape.times.update(name[2:] for name in columns if name.startswith("p_"))
        shape.constants += [(function, text) for arg in args if (text := _text(arg)) is not None]
    elif function in PATTERN_FUNCTIONS:
        if columns[1].startswith("p_"):
            shape.patterns.setdefault(columns[1][2:], set()).add(function)
        elif (text := _text(args[1])) is not None:
            shape.constants.append((function, text))
    elif function[:1] == "g" and (function[1:].isdigit() or function == "g"):
        for place, name in enumerate(columns[:2]):
            if name.startswith("p_"):
                shape.roles.setdefault(function, set()).add((name[2:], place == 1))
            elif name.startswith("r_"):
                shape.askers.setdefault(function, set()).add(name[2:])
        for name in columns[2:]:
            if name.startswith("p_"):
                shape.domains.setdefault(function, set()).add(name[2:])
            elif name.startswith("r_"):
                request_domains.setdefault(function, set()).add(name[2:])


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def names_in(node: ast.AST) -> Iterator[str]:
    """Every name in `node`."""
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def branches(tree: ast.expr) -> list[list[ast.expr]]:
    """`tree` as alternatives of conditions that hold together; just ``[[tree]]`` when there would be too many."""
    if isinstance(tree, ast.BoolOp):
        parts = [branches(value) for value in tree.values]
        if isinstance(tree.op, ast.Or):
            out = [branch for part in parts for branch in part]
        else:
            out = [[]]
            for part in parts:
                if len(out) * len(part) > _MAX_BRANCHES:
                    return [[tree]]
                out = [done + branch for done in out for branch in part]
        return out if len(out) <= _MAX_BRANCHES else [[tree]]
    return [[tree]]


def free_branches(tree: ast.expr) -> Iterator[tuple[list[ast.expr], bool, bool]]:
    """Alternatives that consult no policy column, so that they grant without a rule.

    Yields:
        The conditions; whether they read the request at all; whether they compare it with a fixed text.
    """
    for branch in branches(tree):
        names = {name for condition in branch for name in names_in(condition)}
        if not any(name.startswith("p_") for name in names):
            fixed = any(
                isinstance(node, ast.Constant) and isinstance(node.value, str)
                for condition in branch
                for node in ast.walk(condition)
            )
            yield branch, any(name.startswith("r_") for name in names), fixed
