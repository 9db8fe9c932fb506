"""What rows bring along that the matcher runs: the texts of `eval`, and the patterns of matching functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from remit.providers.casbin.engine.closures import Names
from remit.providers.casbin.engine.finder import findable
from remit.providers.casbin.engine.matcher import Branch, Const, Matches
from remit.providers.casbin.files.expression import Checker, Flaw, parse
from remit.providers.casbin.rules import CasbinModel

Report = Callable[[int, str], None]
"""Told the number of a rule that cannot be put in force, and why."""


def spliced_trees(
    model: CasbinModel, values: Sequence[tuple[str, ...]], functions: Iterable[str], report: Report
) -> dict[str, tuple[ast.expr, list[int]]]:
    """Every text that `eval` may meet: its tree, and the rules that hold it.

    A text must be one whole condition by itself, so that it cannot break out of the brackets it is spliced into.
    """
    columns = sorted(
        {
            model.policy.index(node.args[0].id[2:])
            for node in ast.walk(model.tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "eval"
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id[2:] in model.policy
        }
    )
    rows: dict[str, list[int]] = {}
    for number, row in enumerate(values):
        for column in columns:
            rows.setdefault(row[column], []).append(number)
    found: dict[str, tuple[ast.expr, list[int]]] = {}
    for text, numbers in rows.items():
        tree = parse(text)
        flaws = [tree] if isinstance(tree, Flaw) else []
        if not isinstance(tree, Flaw):
            checker = Checker(model.request, model.policy, model.roles, list(functions), spliced=True)
            flaws = checker.check(tree, text)
        if isinstance(tree, Flaw) or flaws:
            for number in numbers:
                report(
                    number,
                    "; ".join(f"{flaw.message}; {flaw.advice}" if flaw.advice else flaw.message for flaw in flaws),
                )
        else:
            found[text] = tree, numbers
    return found


def check_patterns(
    branches: Sequence[Branch],
    values: Sequence[tuple[str, ...]],
    spliced: Mapping[str, tuple[ast.expr, list[int]]],
    names: Names,
    grants: Sequence[bool],
    report: Report,
) -> None:
    """Report every rule with a pattern that cannot be read, as Casbin would by raising at each decision."""
    every = range(len(values))
    uses: dict[tuple[str, int, frozenset[str]], Iterable[int]] = {}
    for branch in branches:
        for test in branch.tests:
            fixed = frozenset(atom.text for atom in test.atoms if isinstance(atom, Const))
            for atom in test.atoms:
                if isinstance(atom, Matches):
                    uses[atom.function, test.column, fixed] = every
            if not test.atoms:
                uses.update({(*use, frozenset()): every for use in _patterns(test.node, names)})
        for part in (*branch.rest, *branch.guards):
            uses.update({(*use, frozenset()): every for use in _patterns(part, names)})
    for (function, column, fixed), rows in uses.items():
        _check(function, column, fixed, rows, values, names, grants, report)
    for tree, numbers in spliced.values():
        for function, column in _patterns(tree, names):
            _check(function, column, frozenset(), numbers, values, names, grants, report)


def _patterns(tree: ast.expr, names: Names) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=function), args=[_, ast.Name(id=column)]):
                if findable(function) and function not in names.functions and column in names.policy:
                    yield function, names.policy[column]


def _check(
    function: str,
    column: int,
    fixed: frozenset[str],
    rows: Iterable[int],
    values: Sequence[tuple[str, ...]],
    names: Names,
    grants: Sequence[bool],
    report: Report,
) -> None:
    readings = {side: names.reading(function, side) for side in (True, False)}
    for row in rows:
        pattern = values[row][column]
        if pattern in fixed:
            continue
        try:
            readings[grants[row]].match(pattern)
        except ValueError as error:
            report(row, str(error))


def reads_text_as_object(tree: ast.expr, names: Names, objects: frozenset[int]) -> str | None:
    """A request column whose attributes `tree` reads although it holds text, or None."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in names.request and names.request[name] not in objects:
                return f"r.{name[2:]}"
    return None
