"""Matcher expressions as closures: parsed once, never handed to an interpreter, only what is listed here can run.

A closure takes the request's values and one row's values. Meaning and errors follow Casbin's own evaluator.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from remit.providers.casbin.engine.finder import Reading
from remit.providers.casbin.engine.functions import BUILTINS, PURE, time_match
from remit.providers.casbin.engine.roles import RoleGraph

Values = Sequence[Any]
Run = Callable[[Values, Values], Any]

_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: operator.contains(container, item),
    ast.NotIn: lambda item, container: not operator.contains(container, item),
}
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_MAX_TEXT: Final = 100_000
_NUMBERS: Final = frozenset({int, float})


class NotCompilable(Exception):
    """An expression that cannot be taken apart. The text says what and why, for operators."""


class EvaluationError(Exception):
    """An expression that has no answer for this request. Whoever sees it must deny."""


class Names:
    """What an expression may speak of.

    Args:
        request, policy: Column names, in order.
        roles: Role definition -> domain -> links. Without domains the only key is the empty string.
        domains: The role definitions that have domains.
        functions: The deployment's own.
    """

    def __init__(
        self,
        request: Sequence[str],
        policy: Sequence[str],
        roles: Mapping[str, Mapping[str, RoleGraph]],
        domains: frozenset[str] = frozenset(),
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.request = {f"r_{name}": place for place, name in enumerate(request)}
        self.policy = {f"p_{name}": place for place, name in enumerate(policy)}
        self.roles, self.domains = roles, domains
        self.functions = dict(functions or {})
        self.readings: dict[tuple[str, bool], Reading] = {}

    def columns(self, node: ast.AST) -> set[int]:
        """The policy columns that `node` reads."""
        return {self.policy[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.policy}

    def fields(self, node: ast.AST) -> set[int]:
        """The request columns that `node` reads."""
        return {self.request[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.request}

    def pure(self, node: ast.AST) -> bool:
        """Does the answer of `node` depend on its columns alone, so that it may be remembered?"""
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                name = call.func.id
                if name in self.functions:
                    if getattr(self.functions[name], PURE, False) is not True:
                        return False
                elif name in BUILTINS and not BUILTINS[name].pure:
                    return False
        return True

    def graph(self, role: str, domain: Any) -> RoleGraph:
        """The links of role definition `role` that hold in `domain`."""
        graphs = self.roles[role]
        return graphs.get(str(domain) if role in self.domains else "", _NO_LINKS)

    def reading(self, kind: str, strict: bool) -> Reading:
        """The one reading of its kind, so that each pattern is compiled once."""
        strict = strict and kind in BUILTINS and BUILTINS[kind].narrows
        found = self.readings.get((kind, strict))
        if found is None:
            found = self.readings[kind, strict] = Reading(kind, strict=strict)
        return found


_NO_LINKS: Final = RoleGraph()


class Closures:
    """Compiles expressions for one side of the policy.

    Args:
        names: What they may speak of.
        grants: True for rows that allow, where matching functions are read narrowly; under a negation they are read
            as Casbin does, since there the wide reading is the narrow one.
        spliced: What `eval` of a row's text runs; filled while rows are read.
    """

    def __init__(self, names: Names, *, grants: bool, spliced: Mapping[str, Run]) -> None:
        self.names, self.grants, self.spliced = names, grants, spliced

    def condition(self, node: ast.expr, *, positive: bool = True) -> Run:
        """`node` where an answer must stand: the closure returns True or False, or raises.

        Raises:
            NotCompilable: It holds something that is not understood.
        """
        match node:
            case ast.BoolOp(op=op, values=values):
                runs = tuple(self.condition(value, positive=positive) for value in values)
                if isinstance(op, ast.And):
                    return lambda r, p: all(run(r, p) for run in runs)
                return lambda r, p: any(run(r, p) for run in runs)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                run = self.condition(operand, positive=not positive)
                return lambda r, p: not run(r, p)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(name, args, positive)
            case ast.Compare():
                return _answer(self._compare(node), node)
            case ast.Constant(value=bool(value)):
                return lambda r, p: value
            case ast.Attribute() | ast.Subscript():
                return _answer(self.value(node), node)
        raise NotCompilable(f"{_shown(node)} is no condition")

    def value(self, node: ast.expr) -> Run:
        """`node` where a value must stand.

        Raises:
            NotCompilable: It holds something that is not understood.
        """
        match node:
            case ast.Name(id=name) if name in self.names.request:
                place = self.names.request[name]
                return lambda r, p: r[place]
            case ast.Name(id=name) if name in self.names.policy:
                place = self.names.policy[name]
                return lambda r, p: p[place]
            case ast.Constant(value=value) if value is None or isinstance(value, (str, bool, int, float)):
                return lambda r, p: value
            case ast.Attribute(value=base, attr=attr):
                if attr.startswith(("_", "func_")):
                    raise NotCompilable(f"{_shown(node)} reads the private attribute {attr!r}")
                of = self.value(base)
                return lambda r, p: _attribute(of(r, p), attr)
            case ast.Subscript(value=base, slice=ast.Constant(value=str() | int() as key)):
                of = self.value(base)
                return lambda r, p: of(r, p)[key]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                runs, kind = tuple(self.value(item) for item in items), list if isinstance(node, ast.List) else tuple
                return lambda r, p: kind([run(r, p) for run in runs])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                one, other, apply = self.value(left), self.value(right), _ARITHMETIC[type(op)]
                return lambda r, p: _calculated(apply, one(r, p), other(r, p))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                run = self.value(operand)
                return lambda r, p: -run(r, p)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                run = self.value(operand)
                return lambda r, p: +run(r, p)
            case ast.Compare():
                return self._compare(node)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                if self._narrows(node):
                    raise NotCompilable(
                        f"{_shown(node)} is used as a value; its answer may only be combined with &&, || and !"
                    )
                return self._call(name, args, positive=False)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                if self._narrows(node):
                    raise NotCompilable(f"{_shown(node)} is used as a value; it may only stand as a condition")
                return self.condition(node, positive=False)
        raise NotCompilable(f"{_shown(node)} is nothing that can be evaluated safely")

    def _narrows(self, node: ast.AST) -> bool:
        return any(
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Name)
            and (n.func.id == "eval" or (n.func.id in BUILTINS and BUILTINS[n.func.id].narrows))
            for n in ast.walk(node)
        )

    def _compare(self, node: ast.Compare) -> Run:
        first, operators = self.value(node.left), []
        for op, right in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _COMPARE:
                raise NotCompilable(f"{_shown(node)} compares in a way that is not supported")
            operators.append((_COMPARE[type(op)], self.value(right)))
        if len(operators) == 1:
            compare, second = operators[0]
            return lambda r, p: compare(first(r, p), second(r, p))

        def chain(r: Values, p: Values) -> Any:
            left, result = first(r, p), True
            for compare, run in operators:
                if not result:
                    break
                right = run(r, p)
                result = compare(left, right)
                left = right
            return result

        return chain

    def _call(self, name: str, args: list[ast.expr], positive: bool) -> Run:
        names = self.names
        if name == "eval":
            return self._splice(args, positive)
        if name in names.roles:
            return self._role(name, args)
        runs = tuple(self.value(arg) for arg in args)
        if name in names.functions:
            function = names.functions[name]
            return _answer(lambda r, p: function(*[run(r, p) for run in runs]), name)
        if name not in BUILTINS or len(runs) != 2:
            raise NotCompilable(f"{name}() with {len(runs)} arguments is not known")
        first, second = runs
        if BUILTINS[name].pattern is None:
            return lambda r, p: time_match(first(r, p), second(r, p))
        if names.fields(args[1]):
            raise NotCompilable(f"{name}() takes its pattern from the request, so a caller could match every rule")
        reading = names.reading(name, self.grants and positive)
        if isinstance(args[1], ast.Constant) and isinstance(args[1].value, str):
            try:
                match_ = reading.match(args[1].value)
            except ValueError as error:
                raise NotCompilable(str(error)) from None
            return lambda r, p: match_(_text(first(r, p), name))
        return lambda r, p: reading.match(second(r, p))(_text(first(r, p), name))

    def _role(self, name: str, args: list[ast.expr]) -> Run:
        if len(args) not in (2, 3):
            raise NotCompilable(f"{name}() takes a member, a role and at most a domain")
        member, role, *domain = (self.value(arg) for arg in args)
        graph = self.names.graph
        if not domain:
            links = graph(name, "")
            return lambda r, p: _has(links, member(r, p), role(r, p))
        return lambda r, p: _has(graph(name, domain[0](r, p)), member(r, p), role(r, p))

    def _splice(self, args: list[ast.expr], positive: bool) -> Run:
        if len(args) != 1 or not isinstance(args[0], ast.Name) or args[0].id not in self.names.policy:
            raise NotCompilable("eval() takes one policy column")
        if not positive:
            raise NotCompilable("eval() stands under a negation")
        place, spliced = self.names.policy[args[0].id], self.spliced
        return lambda r, p: spliced[p[place]](r, p)


def _has(links: RoleGraph, member: Any, role: Any) -> bool:
    if type(member) is not str or type(role) is not str:
        return bool(member == role)
    return member == role or role in links.above(member)


def _text(value: Any, name: str) -> Any:
    if not isinstance(value, str):
        raise EvaluationError(f"{name}() was given {type(value).__name__}, not text")
    return value


def _attribute(of: Any, attr: str) -> Any:
    try:
        return getattr(of, attr)
    except (AttributeError, TypeError):
        return of[attr]


def _calculated(apply: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if type(left) is str and type(right) is str and apply is operator.add and len(left) + len(right) <= _MAX_TEXT:
        return left + right
    if type(left) not in _NUMBERS or type(right) not in _NUMBERS:
        raise EvaluationError(f"arithmetic on {type(left).__name__} and {type(right).__name__}")
    return apply(left, right)


def _answer(run: Run, what: ast.expr | str) -> Run:
    """`run`, refusing every answer that is neither True nor False: Casbin would raise, or read it as one of them."""

    def checked(r: Values, p: Values) -> bool:
        result = run(r, p)
        if result is True or result is False:
            return result
        shown = f"{what}()" if isinstance(what, str) else _shown(what)
        raise EvaluationError(f"{shown} answered {type(result).__name__} instead of True or False")

    return checked


def _shown(node: ast.AST) -> str:
    from remit.providers.casbin.files.expression import shown_as_casbin

    return repr(shown_as_casbin(node))
