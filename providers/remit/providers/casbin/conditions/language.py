"""Conditions: what a policy row may demand of a call's arguments and of the principal's attributes.

A typed, three-valued subset of Python expressions over ``r.ctx.args.NAME``, ``r.ctx.principal.attributes.NAME``, the
other fields of the principal and the plain ids of the call. Casbin's ``&&``, ``||`` and ``!`` are understood.

Values are never coerced: a str is not a number, True is not 1. A missing name, null, NaN, a value of another type, a
text that merely looks like the wanted one, a path or URL that readers take differently: *unknown*. Unknown is neither
true nor false, ``and``, ``or`` and ``not`` follow Kleene, and whoever applies a row decides what unknown means there:
it never grants, and it never lifts a restriction.

A text that begins with a slash is compared as a path: ``r.ctx.args.file == "/etc/passwd"`` sees ``//etc/passwd`` and
``/x/../etc/passwd``. ``text(r.ctx.args.file)`` compares the characters.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from remit.authz.documents import did_you_mean
from remit.authz.types import EMPTY, AuthzRequest, Principal
from remit.providers.casbin.conditions.functions import TESTS
from remit.providers.casbin.conditions.members import member_of_list, member_of_value
from remit.providers.casbin.conditions.syntax import MAX_DEPTH, ConditionError, Source
from remit.providers.casbin.conditions.terms import VIEWS, Term, is_name, literal, read
from remit.providers.casbin.conditions.truths import (
    Truth,
    all_of,
    any_of,
    comparison,
    constant,
    flag,
    negation,
)
from remit.providers.casbin.conditions.views import prepare

__all__ = ["Condition", "ConditionError", "compile_condition"]

FUNCTIONS: Final = (*TESTS, *VIEWS)
"""Every function of the language."""


class _OfPrincipal:
    """What can be asked before there is a call: a principal, and nothing else."""

    __slots__ = ("principal",)
    context: Mapping[str, Any] = EMPTY

    def __init__(self, principal: Principal) -> None:
        self.principal = principal


class Condition:
    """A compiled condition. Immutable; one object may serve any number of rows, snapshots and threads."""

    __slots__ = ("_readers", "_test", "_truth", "reads", "reads_args", "text")

    text: str
    """As the operator wrote it."""
    reads: tuple[str, ...]
    """Every name that it looks at, sorted, without ``r.ctx.``: ``args.amount``, ``principal.attributes.team``."""
    reads_args: bool
    """True when the answer may depend on the call (arguments and ids), and not on the principal alone."""

    def __init__(self, text: str, truth: Truth) -> None:
        self.text = text
        self._truth = truth
        self._test = truth.test
        self._readers = truth.readers
        self.reads = tuple(sorted(truth.readers))
        self.reads_args = truth.call

    def __call__(self, request: AuthzRequest) -> bool | None:
        """Does it hold for `request`? None when that is unknown. Never raises."""
        try:
            return self._test(request)
        except Exception:
            return None

    def outcomes(self, principal: Principal) -> frozenset[bool | None]:
        """Every answer that `principal` may get, whatever the arguments are.

        What a filter needs to know, which asks before there is a call:

        - an allow row applies to some call when True is among them,
        - an ask row applies to some call when True or None is among them,
        - a deny row applies to every call when False is not among them.
        """
        try:
            return self._truth.outcomes(_OfPrincipal(principal))
        except Exception:
            return frozenset({True, False, None}) if self.reads_args else frozenset({None})

    def of_principal(self, principal: Principal) -> bool | None:
        """What is certain of `principal` alone, before there is a call.

        Returns:
            A condition on the principal alone (``reads_args`` is False): exactly what every request by `principal`
            would get; None is unknown and counts as it does for a request.
            A condition that reads the call: True when it restricts every call (it holds or is unknown, and can hold),
            False when it holds for no call, None when the arguments decide.
        """
        outcomes = self.outcomes(principal)
        if not self.reads_args:
            (answer,) = outcomes
            return answer
        if True not in outcomes:
            return False
        return None if False in outcomes else True

    def values(self, request: AuthzRequest) -> dict[str, Any]:
        """The values that it reads of `request`, by name as in ``reads``. Names without a value are left out."""
        found = {name: _total(get, request) for name, get in self._readers.items()}
        return {name: found[name] for name in self.reads if found[name] is not None}

    def describe(self, request: AuthzRequest) -> str:
        """What it read, for operators: ``args.amount is '5000' (str), args.currency is missing``."""
        values = self.values(request)
        return ", ".join(
            f"{name} is {_short(values[name])} ({type(values[name]).__name__})"
            if name in values
            else f"{name} is missing"
            for name in self.reads
        )

    def __repr__(self) -> str:
        return f"compile_condition({self.text!r})"


def _total(get: Any, request: AuthzRequest) -> Any:
    try:
        return get(request)
    except Exception:
        return None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


@lru_cache(maxsize=16_384)
def compile_condition(text: str) -> Condition:
    """Compile a condition. Equal texts share one object, across reloads too.

    Raises:
        ConditionError: A `ValueError` with ``message``, ``advice`` and ``offset`` (characters from the start): the
            text is not understood to its last character, or could never be True.
    """
    source = Source(text)
    tree = source.parse()
    prepare()
    return Condition(text, _Compiler(source).truth(tree, 0))


class _Compiler:
    def __init__(self, source: Source) -> None:
        self.source = source

    def truth(self, node: ast.expr, depth: int) -> Truth:
        """`node` where a condition must stand."""
        self._check_depth(node, depth)
        if isinstance(node, ast.BoolOp):
            parts = tuple(self.truth(part, depth + 1) for part in node.values)
            return all_of(parts) if isinstance(node.op, ast.And) else any_of(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return negation(self.truth(node.operand, depth + 1))
        if isinstance(node, ast.Compare):
            return self._chain(node, depth)
        if isinstance(node, ast.Constant) and type(node.value) is bool:
            return constant(node.value)
        if is_name(node):
            return flag(read(node, self.source))
        if isinstance(node, ast.Call):
            found = self._call(node, depth)
            if isinstance(found, Truth):
                return found
            raise self._error(node, f"{found.written!r} is a value, not a condition", "compare it with something")
        written = self.source.written(node)
        raise self._error(node, f"{written!r} is no condition", "compare a name with it: r.ctx.args.NAME == …")

    def term(self, node: ast.expr, depth: int) -> Term:
        """`node` where a value must stand."""
        self._check_depth(node, depth)
        if is_name(node):
            return read(node, self.source)
        if isinstance(node, ast.Constant):
            if node.value is None:
                advice = "a missing value makes a condition unknown; has(…) asks whether it is there"
                raise self._error(node, "nothing is ever equal to None", advice)
            return self._literal(node.value, node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            inner = self.term(node.operand, depth + 1)
            if inner.fixed and inner.kind == "number":
                sign = -1 if isinstance(node.op, ast.USub) else 1
                return literal(sign * inner.const, self.source, node)
            raise self._error(node, "conditions do not calculate", "write the number itself")
        if isinstance(node, ast.Call):
            found = self._call(node, depth)
            if isinstance(found, Term):
                return found
            what = f"{self.source.written(node)!r} is a condition already"
            raise self._error(node, what, "do not compare it; use not for its opposite")
        if isinstance(node, (ast.List, ast.Tuple)):
            raise self._error(node, "a list can only stand to the right of in", "write NAME in ['a', 'b']")
        if isinstance(node, ast.BinOp):
            raise self._error(node, "conditions do not calculate", "compare with a fixed value")
        raise self._error(node, f"{self.source.written(node)!r} cannot be compared", "compare a name with a value")

    def _literal(self, value: Any, node: ast.Constant) -> Term:
        if isinstance(value, float) and value == float("inf"):
            raise self._error(node, f"the number {self.source.written(node)} is too large", "write a smaller one")
        return literal(value, self.source, node)

    def _chain(self, node: ast.Compare, depth: int) -> Truth:
        operands = [node.left, *node.comparators]
        parts = zip(operands, node.ops, operands[1:], strict=False)
        return all_of(tuple(self._compare(left, op, right, depth + 1) for left, op, right in parts))

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr, depth: int) -> Truth:
        if not isinstance(op, (ast.In, ast.NotIn)):
            return comparison(_SIGNS[type(op)], self.term(left, depth), self.term(right, depth))
        if isinstance(right, (ast.List, ast.Tuple)):
            items = [self.term(item, depth + 1) for item in right.elts]
            for item in items:
                if not item.fixed:
                    advice = "compare names one by one, with or"
                    raise ConditionError("a list holds fixed values only", advice, offset=item.offset)
            found = member_of_list(self.term(left, depth), items, self.source.offset(right))
        else:
            found = member_of_value(self.term(left, depth), self.term(right, depth))
        return found if isinstance(op, ast.In) else negation(found)

    def _call(self, node: ast.Call, depth: int) -> Term | Truth:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if not name:
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            advice = f"write {method}(NAME, …)" if method in FUNCTIONS else f"functions: {', '.join(sorted(FUNCTIONS))}"
            raise self._error(node, f"{self.source.written(node.func)!r} is not a function of the language", advice)
        if name not in FUNCTIONS:
            raise self._error(node, f"unknown function {name!r}", did_you_mean(name, FUNCTIONS))
        arity, test = TESTS.get(name, (1, None))
        if node.keywords or len(node.args) != arity:
            count = f"{arity} argument" + ("s" if arity > 1 else "")
            raise self._error(node, f"{name}(…) takes {count}", "separate them by commas, without names")
        terms = [self.term(argument, depth + 1) for argument in node.args]
        if test is not None:
            return test(*terms)
        (term,) = terms
        if term.fixed:
            raise self._error(node, f"{name}(…) of a fixed value", "write the result itself")
        if name != "len" and term.kind in ("number", "bool"):
            raise self._error(node, f"{term.written!r} is no text", f"{name}(…) takes a text")
        return replace(VIEWS[name](term), node=node)

    def _check_depth(self, node: ast.expr, depth: int) -> None:
        if depth > 2 * MAX_DEPTH:
            raise self._error(node, "is nested too deeply", "split it into several rows")

    def _error(self, node: ast.expr, message: str, advice: str) -> ConditionError:
        return ConditionError(message, advice, offset=self.source.offset(node))


_SIGNS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
