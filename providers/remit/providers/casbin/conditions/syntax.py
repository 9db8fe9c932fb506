"""From the text of a condition to a syntax tree whose every node can be traced back to a character of that text.

Only what the condition language knows gets past the scanner, so that Python's parser never sees anything else: no
keyword outside `and or not in True False None`, no string prefix, no comment, no escape that Python would warn about.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from keyword import iskeyword
from typing import Final

MAX_CHARACTERS: Final = 8192
MAX_TOKENS: Final = 2048
MAX_DEPTH: Final = 16


class ConditionError(ValueError):
    """A condition that is not understood to its last character.

    Args:
        message: What is wrong.
        advice: What to do about it.
        offset: Where, in characters from the start of the condition.
    """

    def __init__(self, message: str, advice: str = "", *, offset: int = 0) -> None:
        super().__init__(f"{message}, at column {offset + 1}" + (f"; {advice}" if advice else ""))
        self.message, self.advice, self.offset = message, advice, offset


class Source:
    """A scanned condition: Casbin's operators in Python's spelling, and the way back to the operator's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at: list[int] = []
        self._from: list[int] = []
        self.python = self._scan(text)

    def parse(self) -> ast.expr:
        """The syntax tree.

        Raises:
            ConditionError: The tokens do not form one expression.
        """
        try:
            return ast.parse(self.python, mode="eval").body
        except SyntaxError as exc:
            offset = self._origin(max((exc.offset or 1) - 1, 0))
            raise ConditionError(
                f"cannot be read ({exc.msg})", "compare one thing with another", offset=offset
            ) from None
        except (RecursionError, MemoryError):
            raise ConditionError("is nested too deeply", "split it into several rows") from None

    def offset(self, node: ast.expr) -> int:
        """Where `node` begins in the operator's text."""
        column = node.col_offset  # in bytes of UTF-8
        return self._origin(column if self.python.isascii() else len(self.python.encode()[:column].decode()))

    def written(self, node: ast.expr) -> str:
        """`node` as the operator wrote it, for messages."""
        end = node.end_col_offset or 0
        stop = self._origin(end if self.python.isascii() else len(self.python.encode()[:end].decode()), end=True)
        return self.text[self.offset(node) : stop]

    def _origin(self, position: int, *, end: bool = False) -> int:
        index = bisect_right(self._at, position - end) - 1
        if index < 0:
            return 0
        return min(self._from[index] + position - self._at[index], len(self.text))

    def _scan(self, text: str) -> str:
        if len(text) > MAX_CHARACTERS:
            raise ConditionError(f"is longer than {MAX_CHARACTERS} characters", "split it into several rows")
        out: list[str] = []
        position, size, depth = 0, 0, 0
        previous = ""
        for match in _TOKEN.finditer(text):
            if match.start() != position:
                raise _unreadable(text, position)
            position = match.end()
            kind, part = match.lastgroup, match.group()
            if kind == "blank":
                if out:
                    out.append(" ")
                    size += 1
                continue
            if kind == "text":
                if previous == "text":
                    advice = "put a comma or an operator between them"
                    raise ConditionError("two strings stand side by side", advice, offset=match.start())
                _check_escapes(part, match.start())
            elif kind == "name":
                part = self._name(part, match.start(), text[position : position + 1], dotted=previous == ".")
                if part.startswith("["):  # a keyword used as the name of an argument
                    out.pop()
                    size -= 1
            elif part in "([":
                depth += 1
                if depth > MAX_DEPTH:
                    raise ConditionError(f"is nested deeper than {MAX_DEPTH}", "simplify it", offset=match.start())
            elif part in ")]":
                depth -= 1
                if depth < 0:
                    raise ConditionError(f"{part!r} closes nothing", "remove it", offset=match.start())
            previous = part if kind == "sign" else kind or ""
            part = _PYTHON.get(part, part) if kind == "sign" else part
            part = part if out else part.lstrip()  # the parser refuses an indent
            self._at.append(size)
            self._from.append(match.start())
            if len(self._at) > MAX_TOKENS:
                raise ConditionError(f"has more than {MAX_TOKENS} parts", "split it into several rows")
            out.append(part)
            size += len(part)
        if position != len(text):
            raise _unreadable(text, position)
        if depth:
            raise ConditionError("a bracket is not closed", "close it", offset=len(text))
        if not self._at:
            raise ConditionError("is empty", "leave the column empty, or write a condition")
        return "".join(out)

    @staticmethod
    def _name(name: str, at: int, following: str, *, dotted: bool) -> str:
        if following in ("'", '"') and following:
            raise ConditionError(f"the string prefix {name!r} is not known", "write a plain string", offset=at)
        if not name.isascii():
            advice = "names outside ASCII go in quotes: r.ctx.args['…']"
            raise ConditionError(f"the name {name!r} is not plain ASCII", advice, offset=at)
        if dotted and name.startswith("__"):
            raise ConditionError(f"the name {name!r} is reserved by Python", "read an argument instead", offset=at)
        if not iskeyword(name):
            return name
        if dotted:
            return f"['{name}']"
        if name not in _KEYWORDS:
            advice = _INSTEAD.get(name, "use comparisons joined by and, or, not")
            raise ConditionError(f"{name!r} is not part of the condition language", advice, offset=at)
        return name


_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<name>[^\W\d]\w*)
    |(?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![\w.]))
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\],.+-])""",
    re.VERBOSE,
)
_PYTHON = {"&&": " and ", "||": " or ", "!": " not "}
_KEYWORDS = frozenset({"and", "or", "not", "in", "True", "False", "None"})
_INSTEAD = {
    "is": "write == or !=, or has(…) to ask whether a value is there",
    "if": "write the condition alone, one row each",
    "lambda": "write the comparison itself",
    "for": "write one comparison per value",
}
_ESCAPE = re.compile(r"""\\(?:[\\'"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(?P<bad>.?))""")


def _check_escapes(token: str, at: int) -> None:
    if "\\" not in token:
        return
    for match in _ESCAPE.finditer(token):
        if match["bad"] is not None:
            advice = "write \\\\ for a backslash"
            raise ConditionError(f"the escape {match.group()!r} is not known", advice, offset=at + match.start())


def _unreadable(text: str, at: int) -> ConditionError:
    char = text[at]
    if char in "'\"":
        return ConditionError("a string is not closed", "close it with the same quote", offset=at)
    if char.isdigit():
        return ConditionError(f"{_word(text, at)!r} is no plain decimal number", "write 10, 10.5 or 1e3", offset=at)
    advice = {
        "=": "write == to compare",
        "&": "write and",
        "|": "write or",
        "#": "a condition holds no comment",
        "{": "write a list in square brackets",
        "*": "conditions do not calculate; glob(x, '*.txt') matches patterns",
        ":": "conditions do not assign",
    }.get(char, "remove it")
    return ConditionError(f"{char!r} is not part of the condition language", advice, offset=at)


def _word(text: str, at: int) -> str:
    found = re.compile(r"[\w.]+").match(text, at)
    return found.group() if found else text[at]
