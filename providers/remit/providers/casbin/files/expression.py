"""Casbin's expression language: the rewriting to Python that Casbin does, and what a matcher may consist of.

Casbin turns ``r.sub == p.sub && g(r.obj, p.obj)`` into Python by text replacement and evaluates the result per row.
Whatever would raise, mean something else than it says, or run foreign code at that point is refused here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from remit.authz.documents import near_miss

KEY_FUNCTIONS: Final = ("keyMatch", "keyMatch2", "keyMatch3", "keyMatch4", "keyMatch5")
PATTERN_FUNCTIONS: Final = (*KEY_FUNCTIONS, "globMatch", "regexMatch", "ipMatch")
FUNCTIONS: Final[Mapping[str, int]] = {**dict.fromkeys(PATTERN_FUNCTIONS, 2), "timeMatch": 2}
"""Functions that Casbin brings along -> number of arguments. ``eval`` is no function but a splice of row text."""

_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_KNOWN_ESCAPE = re.compile(r"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})")
_GLUED = re.compile(r"\w(?:&&|\|\|)|(?:&&|\|\|)\w|(?<![\w.])\d[\w.]*?(?:and|or|in|is|not|if|else|for)\b")
_HIDDEN_COLUMN = re.compile(r"\.\s*([pr]\d*)\.")
_EVAL = re.compile(r"\beval\(p_\w+\)")
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why an expression is refused: `message`, `advice`, and a piece of the text that helps to find the line."""

    message: str
    advice: str = ""
    token: str = ""
    code: str = "matcher"


def rewrite(text: str) -> str:
    """`text` as Python, by the replacements that Casbin makes, in its order."""
    text = re.sub(r"\bp\.", "p_", text)
    text = re.sub(r"\br\.", "r_", text)
    text = text.replace("&&", "and").replace("||", "or")
    return re.sub(r"!(?!=)", "not ", text)


def parse(text: str) -> ast.expr | Flaw:
    """The Python tree of a Casbin expression, or why it has none."""
    if (flaw := _text_flaw(text)) is not None:
        return flaw
    try:
        tree = ast.parse(rewrite(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        reason = exc.msg if isinstance(exc, SyntaxError) else "it is nested too deeply"
        return Flaw(f"{_short(text)} is no expression ({reason})", "check brackets, quotes and operators")
    if _depth(tree) > _MAX_DEPTH:
        return Flaw(f"{_short(text)} is nested too deeply", "simplify it")
    return tree


def _text_flaw(text: str) -> Flaw | None:
    """What the text replacement would turn into something that was not written."""
    bare = _STRING.sub("''", text)
    if "'" in bare.replace("''", "") or '"' in bare:
        return Flaw(f"{_short(text)} has a quote without its partner", "close the quoted text")
    for match in _STRING.finditer(text):
        literal = match.group()
        if "#" in literal or rewrite(literal) != literal:
            return Flaw(
                f"the quoted text {literal} would be changed by Casbin's own rewriting",
                "leave '#', '!', '&&', '||', 'r.' and 'p.' out of quoted text, or move the text into a policy column",
                literal,
            )
        if "\\" in _KNOWN_ESCAPE.sub("", literal):
            return Flaw(f"the quoted text {literal} holds an unknown escape", "write a backslash as '\\\\'", literal)
    if "#" in bare or ";" in bare:
        return Flaw(f"{_short(text)} holds an in-line comment", "put the comment on a line of its own", code="comment")
    if (glued := _GLUED.search(bare)) is not None:
        return Flaw(f"no blank in {glued.group()!r}", "write a blank on both sides of every operator", glued.group())
    if (hidden := _HIDDEN_COLUMN.search(bare)) is not None:
        return Flaw(
            f"an attribute called {hidden.group(1)!r} would be changed by Casbin's own rewriting",
            "rename the attribute",
        )
    single = re.sub(r"&&|\|\|", "", bare)
    if (one := next((c for c in "&|" if c in single), None)) is not None:
        return Flaw(f"{one!r} combines bits, not conditions", f"write {one * 2!r}", one)
    if (extra := re.search(r"\b[pr]\d+[._]", bare)) is not None:
        name = extra.group()[:-1]
        return Flaw(f"{name!r} belongs to a second set of definitions", "use one set: r, p, e and m", name, "extra-set")
    if not bare.isascii():
        odd = next(c for c in bare if not c.isascii())
        return Flaw(f"the character {odd!r} (U+{ord(odd):04X}) stands outside quoted text", "use ASCII", odd)
    return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _depth(tree: ast.AST) -> int:
    deepest, todo = 0, [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        todo += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest


# simpleeval refuses these at decision time
_REFUSED_ATTRIBUTES = frozenset({"format", "format_map", "mro", "tb_frame", "gi_frame", "ag_frame", "cr_frame", "exec"})
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUALITY = (ast.Eq, ast.NotEq)
_MEMBER = (ast.In, ast.NotIn)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)


class Checker:
    """Walks one expression and tells what Casbin would stumble over while deciding.

    Every part gets a kind: ``bool``, ``str``, ``num``, ``list``, ``none``, or ``any`` where only the request will tell.
    Columns are text: request templates make them so. Numbers and truth values come from the context, as its attributes.

    Args:
        request, policy: Column names.
        roles: Role definitions, ``{"g": 2}``.
        functions: Names that the deployment adds.
        spliced: True for the text of a row that ``eval`` splices in: ``eval`` itself is no part of it.
    """

    def __init__(
        self,
        request: Collection[str],
        policy: Collection[str],
        roles: Mapping[str, int],
        functions: Collection[str] = (),
        *,
        spliced: bool = False,
    ) -> None:
        self._columns = {f"r_{name}" for name in request} | {f"p_{name}" for name in policy}
        self._arity: dict[str, int | None] = {**roles, **dict.fromkeys(functions), **FUNCTIONS, **roles}
        self._spliced = spliced
        self.flaws: list[Flaw] = []
        self.objects: set[str] = set()
        """Request columns whose attributes are read."""

    def check(self, tree: ast.expr, text: str) -> list[Flaw]:
        """All flaws of `tree`, which `text` was parsed to. Empty when Casbin can evaluate it on every row."""
        self._condition(tree)
        calls = sum(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "eval" for n in ast.walk(tree)
        )
        if not self.flaws and len(_EVAL.findall(rewrite(text))) != calls:
            self._flaw("Casbin does not find the call of eval()", "write it as eval(p.COLUMN), without blanks", "eval")
        return self.flaws

    def _flaw(self, message: str, advice: str = "", token: str = "", code: str = "matcher") -> str:
        self.flaws.append(Flaw(message, advice, token, code))
        return "any"

    def _condition(self, node: ast.expr) -> None:
        kind = self._kind(node)
        if kind not in ("bool", "any") or (isinstance(node, ast.Name) and node.id in self._columns):
            shown = shown_as_casbin(node)
            self._flaw(f"{shown!r} is no condition", "compare it with something", shown)

    def _kind(self, node: ast.expr) -> str:
        match node:
            case ast.BoolOp(values=values):
                for value in values:
                    self._condition(value)
                return "bool"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._kind(operand)
                return "bool"
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self._number(operand)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                return self._comparison([left, *rest], ops)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                return self._arithmetic(node, left, op, right)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                for item in items:
                    self._kind(item)
                return "list"
            case ast.Constant(value=value):
                return self._constant(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute() | ast.Subscript():
                return self._reading(node)
            case ast.Call():
                return self._call(node)
        return self._flaw(
            f"{shown_as_casbin(node)!r} is nothing a matcher may hold",
            "use columns, ==, !=, <, in, &&, ||, ! and functions",
            code="syntax",
        )

    def _number(self, node: ast.expr) -> str:
        if self._kind(node) not in ("num", "any"):
            shown = shown_as_casbin(node)
            self._flaw(f"{shown!r} is no number", token=shown)
        return "num"

    def _arithmetic(self, node: ast.BinOp, left: ast.expr, op: ast.operator, right: ast.expr) -> str:
        kinds = {self._kind(left), self._kind(right)} - {"any"}
        if kinds == {"str"} and isinstance(op, ast.Add):
            return "str"
        shown = shown_as_casbin(node)
        if kinds - {"num"}:
            return self._flaw(f"{shown!r} does arithmetic on text", "compare text with == or a function", shown)
        if isinstance(op, (ast.Div, ast.Mod)) and not (isinstance(right, ast.Constant) and right.value):
            return self._flaw(f"{shown!r} may divide by zero", "divide by a fixed number", shown)
        return "num" if kinds else "any"

    def _comparison(self, parts: list[ast.expr], ops: list[ast.cmpop]) -> str:
        kinds = [self._kind(part) for part in parts]
        for (left, right), op in zip(pairwise(kinds), ops, strict=True):
            known = {left, right} - {"any"}
            if isinstance(op, _ORDER) and known not in ({"str"}, {"num"}, set()):
                advice = "columns are text: compare with ==, or read a number from the context, r.COLUMN.args.NAME"
                self._flaw("an order comparison mixes text and numbers", advice, "<")
            elif isinstance(op, _MEMBER) and (
                right in ("num", "bool", "none") or (right == "str" and left not in ("str", "any"))
            ):
                self._flaw("'in' needs a list or a text on its right", "write (…) in ['a', 'b']", "in")
            elif not isinstance(op, (*_ORDER, *_EQUALITY, *_MEMBER)):
                self._flaw("'is' compares identity, not values", "write == or !=", "is")
        return "bool"

    def _constant(self, value: object) -> str:
        if isinstance(value, bool):
            return "bool"
        if isinstance(value, (int, float)):
            return "num"
        if isinstance(value, str):
            return "str"
        if value is None:
            return "none"
        return self._flaw(f"{value!r} is no text, number or truth value")

    def _name(self, name: str) -> str:
        if name in self._columns:
            return "str"
        if name.casefold() in ("true", "false"):
            return self._flaw(f"unknown name {name!r}", f"write {name.capitalize()!r}", name, "unknown-name")
        if name in self._arity or name == "eval":
            return self._flaw(f"the function {name!r} is not called", "write its arguments in brackets", name)
        shown = f"{name[0]}.{name[2:]}" if name[:2] in ("r_", "p_") else name
        kind = "column" if name[:2] in ("r_", "p_") else "name"
        hint = near_miss(name, self._columns)
        for column in self._columns:
            hint = hint.replace(repr(column), repr(f"{column[0]}.{column[2:]}"))
        return self._flaw(f"unknown {kind} {shown!r}", hint or self._known_columns(), shown, "unknown-name")

    def _known_columns(self) -> str:
        return "known: " + ", ".join(sorted(f"{c[0]}.{c[2:]}" for c in self._columns))

    def _reading(self, node: ast.expr) -> str:
        """Attributes and items of a request column: ``r.sub.age``, ``r.ctx["tenant"]``."""
        base: ast.expr = node
        while True:
            if isinstance(base, ast.Attribute):
                if base.attr.startswith(("_", "func_")) or base.attr in _REFUSED_ATTRIBUTES:
                    return self._flaw(
                        f"the attribute {base.attr!r} may not be read", token=base.attr, code="unknown-name"
                    )
                base = base.value
            elif isinstance(base, ast.Subscript):
                if not (isinstance(base.slice, ast.Constant) and isinstance(base.slice.value, (str, int))):
                    return self._flaw(
                        "an item is read by something else than a fixed name", 'write r.COLUMN["name"]', "["
                    )
                base = base.value
            else:
                break
        shown = shown_as_casbin(node)
        if not isinstance(base, ast.Name):
            return self._flaw(f"{shown!r} reads an attribute of something that is no column")
        if base.id not in self._columns:
            return self._name(base.id)
        if base.id.startswith("p_"):
            message = f"{shown!r} reads an attribute of policy text, which has none"
            return self._flaw(message, "read request columns", shown)
        self.objects.add(base.id[2:])
        return "any"

    def _call(self, node: ast.Call) -> str:
        if not isinstance(node.func, ast.Name):
            shown = shown_as_casbin(node.func)
            return self._flaw(f"the method {shown!r} may not be called", "use a function such as regexMatch", shown)
        name, args = node.func.id, node.args
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in args):
            return self._flaw(f"{name}() takes plain arguments only", token=name)
        if name == "eval":
            return self._splice(args)
        if name not in self._arity:
            hint = near_miss(name, [*self._arity, *([] if self._spliced else ["eval"])])
            known = "known: " + ", ".join([*self._arity, *([] if self._spliced else ["eval"])])
            return self._flaw(f"unknown function {name!r}", hint or known, name, "unknown-function")
        wanted = self._arity[name]
        if wanted is not None and len(args) != wanted:
            return self._flaw(f"{name}() takes {wanted} arguments, not {len(args)}", token=name)
        for arg in args:
            kind = self._kind(arg)
            if wanted is not None and kind not in ("str", "any"):
                shown = shown_as_casbin(arg)
                return self._flaw(f"{name}() takes text, and {shown!r} is none", "pass columns or quoted text", shown)
        if name == "timeMatch" and any(column.startswith("r_") for arg in args for column in _names(arg)):
            return self._flaw(
                "timeMatch() reads its times from the request", "write timeMatch(p.COLUMN, p.COLUMN)", name
            )
        if name in PATTERN_FUNCTIONS and any(column.startswith("r_") for column in _names(args[1])):
            return self._flaw(
                f"{name}() takes its pattern from the request, so a caller could match every rule",
                f"write {name}(r.COLUMN, p.COLUMN)",
                name,
                "request-pattern",
            )
        return "bool" if wanted is not None else "any"

    def _splice(self, args: list[ast.expr]) -> str:
        if self._spliced:
            return self._flaw("eval() does not work inside the text of a rule", token="eval")  # noqa: S106 # no secret
        match args:
            case [ast.Name(id=name)] if name.startswith("p_") and name in self._columns:
                return "bool"
        return self._flaw("eval() takes one policy column", "write eval(p.COLUMN)", "eval")


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def shown_as_casbin(node: ast.AST) -> str:
    """`node` in the operator's syntax."""
    text = re.sub(r"\b([pr])_(?=[A-Za-z_])", r"\1.", ast.unparse(node))
    text = re.sub(r"\band\b", "&&", re.sub(r"\bor\b", "||", text))
    return re.sub(r"\bnot (?!in\b)", "!", text)
