"""From text to `tree`: tree-sitter's grammar of bash, read without trusting it where it is known to be wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from remit.middlewares.sandbox_audit import letters
from remit.middlewares.sandbox_audit.parsing import parsed
from remit.middlewares.sandbox_audit.scan import scanned
from remit.middlewares.sandbox_audit.source import Heredoc
from remit.middlewares.sandbox_audit.taint import Text
from remit.middlewares.sandbox_audit.tree import (
    Assign,
    Function,
    Group,
    Item,
    Node,
    Piece,
    Pipeline,
    Program,
    Redirect,
    Simple,
    Word,
)
from remit.middlewares.sandbox_audit.verdicts import MAX_DEPTH, Budget, Span, TooComplex
from remit.middlewares.sandbox_audit.wording import WordReader

_DECLARATIONS: Final = frozenset({"declaration_command", "unset_command"})
_REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_GROUPS: Final = frozenset(
    {
        "compound_statement",
        "subshell",
        "if_statement",
        "while_statement",
        "for_statement",
        "c_style_for_statement",
        "case_statement",
    }
)
_STATEMENTS: Final = (
    frozenset(
        {
            "command",
            "list",
            "pipeline",
            "redirected_statement",
            "negated_command",
            "variable_assignment",
            "variable_assignments",
            "test_command",
            "function_definition",
        }
    )
    | _GROUPS
    | _DECLARATIONS
)
_CLAUSES: Final = frozenset({"do_group", "elif_clause", "else_clause", "case_item", "ERROR", "program"})
_BARE: Final = r"[\w./:@%,+=-]+|\"[^\"$`\\\n]*\"|'[^'\n]*'"
_PLAIN: Final = re.compile(rf"[\w./:@%,+-]+(?: +(?:{_BARE}))*", re.ASCII)
_PLAIN_WORD: Final = re.compile(_BARE, re.ASCII)
_PLAIN_REDIRECT: Final = re.compile(r"(\d?)(>>|>|<) ?([\w./-]+)", re.ASCII)
_NO_WORDS: Final = _REDIRECTS | _GROUPS | _CLAUSES | {"variable_assignment", "comment"}
_ALWAYS: Final = re.compile(r"(?:\[\[?|\(\()\s*(?:[1-9]\d*|true)\s*(?:\]\]?|\)\))")
"""Tests that never fail."""
_MISPLACED: Final = frozenset({"then", "do", "done", "fi", "esac", "else", "elif", "}", "}{", ";;"})
"""Words that bash refuses as the name of a command and the grammar takes."""


class Parsed:
    """A text that was read. `broken` when the reading is not to be relied on."""

    __slots__ = ("_source", "_text", "broken", "heredocs", "program")

    def __init__(self, text: str, budget: Budget) -> None:
        self._source = scanned(text, budget)
        reader = _Reader(self._source.text, self._source.mark, self._source.braces, budget)
        self._text = reader.text
        self.heredocs: list[Heredoc] = self._source.heredocs
        self.program: Program = reader.program(reader.root.children)
        placed = reader.placed
        self.broken = (
            self._source.doubtful
            or reader.broken
            or len(placed) != len(set(placed))
            or len(placed) != len(self.heredocs)
        )

    def span(self, start: int, end: int) -> Span:
        """The characters of the text that became the bytes from `start` to `end`."""
        if not self._source.text.isascii():
            end = len(self._text[:end].decode("utf-8", "replace"))
            start = len(self._text[:start].decode("utf-8", "replace"))
        return self._source.span(start, end)


def body_word(text: str, budget: Budget) -> tuple[Word, bool]:
    """The body of a here-document that expands, as one quoted word; and whether the reading is not to be relied on."""
    source = scanned(text, budget, body=True)
    reader = _Reader(f': "{source.text}"', source.mark, set(), budget)
    program = reader.program(reader.root.children)
    node = program[0].node if len(program) == 1 else None
    if not isinstance(node, Simple) or len(node.words) != 2:
        return Word((), 0, 0), True
    return node.words[1], source.doubtful or reader.broken or bool(source.heredocs)


class _Reader(WordReader):
    """One parse. Recursion goes as deep as programs are nested, which is bounded."""

    def __init__(self, text: str, mark: str, braces: set[int], budget: Budget) -> None:
        super().__init__(text, braces)
        self.mark = mark
        self.placed: list[int] = []
        self.root = parsed(self.text, budget)
        self.broken = bool(self.root.has_error)

    def program(self, nodes: Iterable[Any]) -> Program:
        """The commands among `nodes`, and what stands loose between them as commands of its own."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex
        items: list[Item] = []
        loose: list[Any] = []
        for node in nodes:
            kind = node.type
            if kind == "command" and not loose:
                items.append(Item(self.simple(node)))
            elif kind in _STATEMENTS:
                self.flush(loose, items)
                items.extend(self.statement(node))
            elif kind in _CLAUSES:
                self.flush(loose, items)
                items.extend(self.program(node.children))
            elif kind == "command_name" or (node.is_named and kind not in _REDIRECTS and kind != "comment"):
                loose.append(node)
            elif kind in _REDIRECTS:
                items.append(Item(Simple([], [], self.redirect(node, []), node.start_byte, node.end_byte)))
            elif kind == "&" and items:
                self.flush(loose, items)
                items[-1] = items[-1]._replace(background=True)
        self.flush(loose, items)
        self.depth -= 1
        return tuple(items)

    def flush(self, loose: list[Any], items: list[Item]) -> None:
        if loose:
            command = Simple(self.words(loose), [], [], loose[0].start_byte, loose[-1].end_byte)
            items.append(Item(command))
            loose.clear()

    def statement(self, node: Any) -> list[Item]:
        kind = node.type
        if kind == "list":
            return self.chain(node)
        if kind == "negated_command":
            return list(self.program(node.children))
        if kind == "redirected_statement":
            return self.redirected(node)
        if kind == "pipeline":
            return self.piped(node)
        return [Item(self.node(node))]

    def piped(self, node: Any) -> list[Item]:
        """A pipeline. What the grammar takes into its first command by mistake goes before it: ``a && b < f | c``."""
        first, *rest = [child for child in node.children if child.is_named and child.type != "comment"]
        before: Program = ()
        sure = True
        if first.type in ("redirected_statement", "list"):
            *ahead, last = self.program([first])
            before, sure, part = tuple(ahead), last.sure, last.node
        else:
            part = self.part(first)
        whole = Pipeline([part, *map(self.part, rest)], node.start_byte, node.end_byte)
        return [*before, Item(whole, sure=sure)]

    def part(self, node: Any) -> Node:
        """One command of a pipeline."""
        return self.simple(node) if node.type == "command" else self.single(self.program([node]), node)

    def chain(self, node: Any) -> list[Item]:
        links: list[tuple[Any, bool]] = []  # the grammar nests to the left, as deep as the chain is long
        while node.type == "list":
            children = node.children
            links.extend((child, False) for child in reversed(children[1:]))
            node = children[0]
        links.append((node, True))
        items: list[Item] = []
        for link, sure in reversed(links):
            found = (Item(self.simple(link)),) if link.type == "command" else self.program([link])
            items.extend(found if sure else [item._replace(sure=False) for item in found])
        return items

    def redirected(self, node: Any) -> list[Item]:
        redirects: list[Redirect] = []
        extra: list[Any] = []
        rest: list[Any] = []
        for child in node.children:
            if child.type in _REDIRECTS:
                redirects.extend(self.redirect(child, extra))
            else:
                rest.append(child)
        items = list(self.program(rest)) or [Item(Simple([], [], [], node.start_byte, node.end_byte))]
        target: Node = items[-1].node
        while isinstance(target, Pipeline):  # they belong to the last command, not to all of them
            target = target.parts[-1]
        if isinstance(target, Function):
            target = Group("group", node.start_byte, node.end_byte)
            items.append(Item(target))
        target.redirects.extend(redirects)
        if isinstance(target, Simple):
            if extra and target.plain is not None:
                target.words = [Word((Piece("text", text.text),), target.start, target.end) for text in target.plain]
                target.plain = None
            target.words.extend(self.words(extra))
            target.end = max(target.end, redirects[-1].end if redirects else 0)
        return items

    def redirect(self, node: Any, extra: list[Any]) -> list[Redirect]:
        found = _PLAIN_REDIRECT.fullmatch(self.slice(node.start_byte, node.end_byte))
        if found is not None:
            descriptor, op, text = found.groups()
            start, end = node.start_byte, node.end_byte
            return [Redirect(op, descriptor, Word((Piece("text", text),), start, end), None, start, end)]
        op = descriptor = ""
        target: list[Any] = []
        behind: list[Any] = []
        if node.type == "heredoc_redirect":
            self.broken = True  # the scanner took out all there are
            return []
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self.slice(child.start_byte, child.end_byte)
            elif not child.is_named and child.type in letters.REDIRECTIONS and not target:
                op = child.type
            elif behind or (target and child.start_byte > target[-1].end_byte):
                behind.append(child)  # the grammar hands the arguments behind a target to the redirection
            else:
                target.append(child)
        extra.extend(behind)
        word = self.words(target)[0] if target else None
        number = None
        if op == "<" and word is not None and len(word.pieces) == 1 and word.pieces[0].text.startswith(self.mark):
            digits = word.pieces[0].text[len(self.mark) :]
            if digits.isdigit():
                number = int(digits)
                self.placed.append(number)
        return [Redirect(op, descriptor, word, number, node.start_byte, node.end_byte)]

    def node(self, node: Any) -> Node:
        kind = node.type
        if kind == "command" or kind in _DECLARATIONS:
            return self.simple(node)
        if kind in ("variable_assignment", "variable_assignments"):
            wanted = [node] if kind == "variable_assignment" else node.children
            made = [self.assign(child) for child in wanted if child.type == "variable_assignment"]
            return Simple([], made, [], node.start_byte, node.end_byte)
        if kind == "test_command" or (kind == "compound_statement" and node.children[0].type == "(("):
            first = node.children[0]
            always = _ALWAYS.fullmatch(self.slice(node.start_byte, node.end_byte)) is not None
            start = Word((Piece("text", "true" if always else first.type),), first.start_byte, first.end_byte)
            return Simple([start, self.loose(node)], [], [], node.start_byte, node.end_byte)
        if kind == "function_definition":
            named = [child for child in node.children if child.is_named and child.type != "comment"]
            name = self.slice(named[0].start_byte, named[0].end_byte) if named else ""
            return Function(name, self.program(named[1:]), node.start_byte, node.end_byte)
        return self.group(node)

    @staticmethod
    def single(program: Program, node: Any) -> Node:
        if len(program) == 1 and not program[0].background:
            return program[0].node
        return Group("group", node.start_byte, node.end_byte, bodies=[program])

    def group(self, node: Any) -> Group:
        kind, children = node.type, node.children
        made = Group("group", node.start_byte, node.end_byte)
        if kind == "subshell":
            made.kind = "subshell"
        if kind in ("compound_statement", "subshell"):
            made.bodies.append(self.program(children))
            return made
        opener = next(
            (n for n, child in enumerate(children) if child.type in ("then", "do_group", "compound_statement")), 0
        )
        if kind == "if_statement":
            made.kind = "if"
            made.head = self.program(children[:opener])
            made.bodies.append(self.program(children[opener:]))
        elif kind == "while_statement":
            made.kind = "until" if children[0].type == "until" else "while"
            made.head = self.program(children[1:opener])
            made.bodies.append(self.program(children[opener:]))
        elif kind == "case_statement":
            made.kind = "case"
            made.words = self.words([child for child in children if child.is_named and child.type != "case_item"])
            made.bodies.extend(self.branch(child) for child in children if child.type in ("case_item", "ERROR"))
        else:
            made.kind = "for"
            head = children[:opener]
            if kind == "c_style_for_statement":
                semicolons = [n for n, child in enumerate(head) if child.type == ";"]
                made.endless = len(semicolons) > 1 and semicolons[1] == semicolons[0] + 1
                made.words = [self.loose(child) for child in head if child.is_named]
            else:
                named = [child for child in head if child.is_named and child.type != "comment"]
                made.name = self.slice(named[0].start_byte, named[0].end_byte) if named else ""
                made.words = self.words(named[1:])
            made.bodies.append(self.program(children[opener:]))
        return made

    def branch(self, node: Any) -> Program:
        children = node.children
        close = next((n for n, child in enumerate(children) if child.type == ")"), -1)
        return self.program(children[close + 1 :])

    def simple(self, node: Any) -> Simple:
        made = Simple([], [], [], node.start_byte, node.end_byte)
        if node.type == "command":
            text = self.slice(made.start, made.end)
            if _PLAIN.fullmatch(text) is not None:  # most commands: no need to ask the grammar for each word
                made.plain = tuple(
                    [Text(word[1:-1] if word[0] in "\"'" else word) for word in _PLAIN_WORD.findall(text)]
                )
                self.broken |= made.plain[0].text in _MISPLACED
                return made
        words: list[Any] = []
        children = node.children
        if b"\n" in self.text[made.start : made.end]:  # two lines in one command: the grammar is mistaken
            self.broken |= any(b"\n" in self.text[a.end_byte : b.start_byte] for a, b in pairwise(children))
        for child in children:
            kind = child.type
            if kind not in _NO_WORDS:
                words.append(child)
            elif kind == "variable_assignment":
                made.assigns.append(self.assign(child))
            elif kind in _REDIRECTS:
                made.redirects.extend(self.redirect(child, words))
            elif kind != "comment":
                made.inner.append(self.program([child]))
        made.words = self.words(words)
        if made.words and all(piece.kind == "text" and not piece.quoted for piece in made.words[0].pieces):
            self.broken |= "".join(piece.text for piece in made.words[0].pieces) in _MISPLACED
        return made

    def assign(self, node: Any) -> Assign:
        children = node.children
        equals = next((n for n, child in enumerate(children) if child.type in ("=", "+=")), len(children))
        left = children[0]
        array = False
        words: list[Word] = []
        if left.type == "subscript":
            array = True
            words.extend(word for word in (self.loose(left),) if word.pieces)
            left = left.children[0]
        values = children[equals + 1 :]
        if len(values) == 1 and values[0].type == "array":
            array = True
            values = [child for child in values[0].children if child.is_named and child.type != "comment"]
        words.extend(self.words(values))
        append = equals < len(children) and children[equals].type == "+="
        return Assign(
            self.slice(left.start_byte, left.end_byte), tuple(words), append, array, node.start_byte, node.end_byte
        )
