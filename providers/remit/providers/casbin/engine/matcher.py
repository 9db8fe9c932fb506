"""A matcher taken apart: what can be looked up in an index, and what must be evaluated on the rows that are left."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from remit.providers.casbin.engine.closures import Names
from remit.providers.casbin.engine.finder import EQUAL, findable


@dataclass(frozen=True, slots=True)
class Equal:
    """``p.column == value``, where `value` reads the request alone."""

    value: ast.expr


@dataclass(frozen=True, slots=True)
class Const:
    """``p.column == "text"``."""

    text: str


@dataclass(frozen=True, slots=True)
class Linked:
    """``g(name, p.column)``: the column holds a role of `name` (`upward`), or a member of it."""

    role: str
    name: ast.expr
    domain: ast.expr | None
    upward: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """``keyMatch(value, p.column)`` or another function that reads the column as a pattern."""

    function: str
    value: ast.expr


@dataclass(frozen=True, slots=True)
class Given:
    """A condition on the request alone: when it holds, every value of the column will do."""

    condition: ast.expr


Atom = Equal | Const | Linked | Matches | Given


@dataclass(frozen=True, slots=True)
class Test:
    """A condition about exactly one policy column."""

    column: int
    atoms: tuple[Atom, ...]
    """Any of them suffices. Empty: only `node` itself can tell, for one stored value after the other."""
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Branch:
    """Conditions that must all hold."""

    guards: tuple[ast.expr, ...]
    """About the request alone."""
    tests: tuple[Test, ...]
    rest: tuple[ast.expr, ...]
    """About several columns at once, or not to be remembered: evaluated on the rows that the tests leave."""


def take_apart(tree: ast.expr, names: Names) -> tuple[Branch, ...]:
    """The alternatives of a matcher; a row matches when one of them holds."""
    return tuple(_branch(alternative, names) for alternative in _split(tree, ast.Or))


def _split(node: ast.expr, op: type[ast.boolop]) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, op):
        for value in node.values:
            yield from _split(value, op)
    else:
        yield node


def _branch(alternative: ast.expr, names: Names) -> Branch:
    guards: list[ast.expr] = []
    tests: list[Test] = []
    rest: list[ast.expr] = []
    for part in _split(alternative, ast.And):
        columns = names.columns(part)
        spliced = any(isinstance(n, ast.Name) and n.id == "eval" for n in ast.walk(part))
        if not columns:
            guards.append(part)
        elif len(columns) == 1 and not spliced and names.pure(part):
            (column,) = columns
            tests.append(Test(column, _atoms(part, names), part))
        else:
            rest.append(part)
    return Branch(tuple(guards), tuple(tests), tuple(rest))


def _atoms(part: ast.expr, names: Names) -> tuple[Atom, ...]:
    atoms = [_atom(alternative, names) for alternative in _split(part, ast.Or)]
    return tuple(atom for atom in atoms if atom is not None) if None not in atoms else ()


def _atom(node: ast.expr, names: Names) -> Atom | None:
    if not names.columns(node):
        return Given(node)
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, ast.Name) and one.id in names.policy and not names.columns(other):
                    if isinstance(other, ast.Constant):
                        return Const(other.value) if isinstance(other.value, str) else None
                    return Equal(other)
        case ast.Call(func=ast.Name(id=function), args=[first, second, *domain]) if function in names.roles:
            if len(domain) > 1 or any(names.columns(part) for part in domain):
                return None
            upward = isinstance(second, ast.Name) and second.id in names.policy
            column, name = (second, first) if upward else (first, second)
            if isinstance(column, ast.Name) and column.id in names.policy and not names.columns(name):
                return Linked(function, name, domain[0] if domain else None, upward)
        case ast.Call(func=ast.Name(id=function), args=[value, ast.Name(id=column)]) if (
            function not in names.functions and findable(function) and column in names.policy
        ):
            if not names.columns(value):
                return Matches(function, value)
    return None


@dataclass(frozen=True, slots=True)
class Key:
    """A policy column that is compared with one request column."""

    column: int
    field: int
    kind: str = EQUAL
    """``"=="`` or the matching function."""
    star: bool = False
    """A lone ``*`` in the column stands for everything."""


@dataclass(frozen=True, slots=True)
class CommonShape:
    """The shape of nearly every role-based matcher, for which decisions are looked up and never computed."""

    subject: Key
    role: str | None
    """The role definition that the subject is looked up through; None: by equality."""
    keys: tuple[Key, ...]
    """Compared by equality."""
    target: Key
    """By equality, keyMatch or globMatch."""


def common_shape(branches: tuple[Branch, ...], names: Names, target_field: int | None) -> CommonShape | None:
    """The common shape of a matcher, or None when it has another.

    Args:
        target_field: The request column that the caller varies most: the one to look up last.
    """
    if len(branches) != 1 or branches[0].guards or branches[0].rest:
        return None
    subject: tuple[Key, str] | None = None
    keys: list[Key] = []
    for test in branches[0].tests:
        found = _key(test, names)
        if found is None:
            return None
        key, role = found
        if role:
            if subject is not None:
                return None
            subject = key, role
        else:
            keys.append(key)
    used = [key.column for key in keys] + ([subject[0].column] if subject else [])
    if len(set(used)) < len(used) or not keys:
        return None
    patterned = [key for key in keys if key.kind != EQUAL]
    if len(patterned) > 1:
        return None
    target = patterned[0] if patterned else next((key for key in keys if key.field == target_field), keys[-1])
    keys.remove(target)
    if subject is not None:
        return CommonShape(subject[0], subject[1], tuple(keys), target)
    if not keys:
        return None
    return CommonShape(keys[0], None, tuple(keys[1:]), target)


def _key(test: Test, names: Names) -> tuple[Key, str] | None:
    fields: set[int] = set()
    kind, star, role, equal = EQUAL, False, "", False
    for atom in test.atoms:
        match atom:
            case Const(text="*"):
                star = True
                continue
            case Equal(value=ast.Name(id=name)):
                equal = True
            case Linked(role=function, name=ast.Name(id=name), domain=None, upward=True) if not role:
                role = function
            case Matches(function="keyMatch" | "globMatch" as function, value=ast.Name(id=name)) if kind == EQUAL:
                kind = function
            case _:
                return None
        fields.add(names.request[name])
    if len(fields) != 1 or (role and kind != EQUAL) or (equal and kind != EQUAL):
        return None
    if role in names.domains:
        return None
    return Key(test.column, fields.pop(), kind, star), role
