"""The words of a command, as the grammar has them, in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Literal

from remit.middlewares.sandbox_audit import letters
from remit.middlewares.sandbox_audit.tree import Piece, Program, Word
from remit.middlewares.sandbox_audit.verdicts import MAX_DEPTH, TooComplex

_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_EXPANSIONS: Final = frozenset({"command_substitution", "simple_expansion", "expansion", "arithmetic_expansion"})


class WordReader:
    """Reads words out of the nodes of one parse; the programs in them are read by who inherits.

    Args:
        text: What was parsed.
        braces: Offsets of backslashes that were put in front of a brace that opens a list.
    """

    def __init__(self, text: str, braces: set[int]) -> None:
        self.text = text.encode("utf-8", "replace")
        self.plain = text if text.isascii() else None
        if braces and not text.isascii():
            braces = {len(text[:place].encode("utf-8", "replace")) for place in braces}
        self.braces = braces
        self.depth = 0
        self.broken = False

    def program(self, nodes: Iterable[Any]) -> Program:
        """The commands among `nodes`."""
        raise NotImplementedError

    def slice(self, start: int, end: int) -> str:
        """The letters between two bytes."""
        return self.plain[start:end] if self.plain is not None else self.text[start:end].decode("utf-8", "replace")

    def words(self, nodes: list[Any]) -> list[Word]:
        """The words of `nodes`. What stands side by side is one word, whatever the grammar made of it."""
        made: list[Word] = []
        pieces: list[Piece] = []
        start = end = -1
        for node in nodes:
            first = node.start_byte
            if first != end and end >= 0:
                made.append(Word(_mended(pieces), start, end))
                pieces = []
                start = -1
            if start < 0:
                start = first
            end = node.end_byte
            kind = node.type
            if kind == "word" or kind == "number" or (kind == "command_name" and node.child(0).type == "word"):
                self.bare(first, end, pieces)
            else:
                self.pieces(node, pieces, quoted=False)
        if end >= 0:
            made.append(Word(_mended(pieces), start, end))
        return made

    def loose(self, node: Any) -> Word:
        """Every substitution below `node`, as one word: where only they matter."""
        found: list[Piece] = []
        waiting = [node]
        while waiting:
            here = waiting.pop()
            if here.type in ("command_substitution", "process_substitution"):
                self.pieces(here, found, quoted=True)
            else:
                waiting.extend(reversed(here.children))
        return Word(tuple(found), node.start_byte, node.end_byte)

    def pieces(self, node: Any, found: list[Piece], *, quoted: bool) -> None:
        kind, start, end = node.type, node.start_byte, node.end_byte
        if quoted and kind in _EXPANSIONS and self.text[start] in b" \t\r\n":  # it takes in the blanks in front of it
            blanks = len(self.text[start:end]) - len(self.text[start:end].lstrip())
            if blanks:
                found.append(Piece("text", self.slice(start, start + blanks), True))
        if kind == "command_substitution":
            found.append(Piece("run", "", quoted, self.program(node.children[1:])))
        elif kind == "process_substitution":
            way: Literal["in", "out"] = "in" if node.children[0].type == "<(" else "out"
            found.append(Piece(way, "", True, self.program(node.children[1:])))
        elif kind in ("simple_expansion", "expansion"):
            self.parameter(node, found, quoted=quoted)
        elif kind == "arithmetic_expansion":
            found.append(Piece("number", "", True, alt=self.loose(node)))
        elif kind == "raw_string":
            found.append(Piece("text", self.slice(start + 1, end - 1), True))
        elif kind == "ansi_c_string":
            found.append(Piece("text", letters.ansi(self.slice(start + 2, end - 1)), True))
        elif kind in ("string", "translated_string"):
            found.append(Piece("text", "", True))  # a word is there even if nothing is in it
            self.filled(node, start + 1, end - 1, node.children, found, quoted=True)
        elif kind == "string_content" or (quoted and kind in ("word", "heredoc_content")):
            found.append(Piece("text", letters.unescaped(self.slice(start, end)), True))
        elif kind in ("concatenation", "command_name", "ERROR") and node.children:
            self.filled(node, start, end, node.children, found, quoted=quoted)
        elif node.child_count and kind not in ("brace_expression",):
            found.extend(self.loose(node).pieces)
            found.append(Piece("text", self.slice(start, end), quoted))
        elif kind == "$" and node.next_sibling is not None and node.next_sibling.type == "string":
            return
        else:
            self.bare(start, end, found)

    def bare(self, start: int, end: int, found: list[Piece]) -> None:
        """Letters outside of quotes."""
        text = self.slice(start, end)
        if "\n" in text:
            self.broken = True  # no bare word has a newline: the grammar took two lines for one
        if "\\" in text:
            letters.bare(text, start, self.braces, found)
        else:
            found.append(Piece("text", text, op="$" if text == "$" else ""))

    def filled(self, node: Any, start: int, end: int, children: list[Any], found: list[Piece], *, quoted: bool) -> None:
        """The pieces of `children`, and the blanks between them, which the grammar drops."""
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise TooComplex
        at = start
        for child in children:
            if child.end_byte <= start or child.start_byte >= end:
                continue
            if child.start_byte > at:
                found.append(Piece("text", self.slice(at, child.start_byte), quoted))
            if quoted and not child.is_named:
                found.append(Piece("text", self.slice(child.start_byte, child.end_byte), True))
            else:
                self.pieces(child, found, quoted=quoted)
            at = max(at, child.end_byte)
        if at < end:
            found.append(
                Piece("text", letters.unescaped(self.slice(at, end)) if quoted else self.slice(at, end), quoted)
            )
        self.depth -= 1

    def parameter(self, node: Any, found: list[Piece], *, quoted: bool) -> None:
        text = self.slice(node.start_byte, node.end_byte)
        blanks = len(text) - len(text.lstrip())
        name, op, offset = letters.parameter(text.lstrip())
        alt = None
        if op:
            first = node.start_byte + blanks + len(text.lstrip()[:offset].encode("utf-8", "replace"))
            inside: list[Piece] = []
            children = [child for child in node.children if child.start_byte >= first]
            self.filled(node, first, node.end_byte - 1, children, inside, quoted=quoted)
            alt = Word(tuple(inside), first, node.end_byte)
        found.append(Piece("var", name, quoted, op=op, alt=alt))
        if not op and not text.endswith("}") and blanks + offset < len(text):
            found.append(Piece("text", text[blanks + offset :], quoted))


def _mended(pieces: list[Piece]) -> tuple[Piece, ...]:
    """`pieces` with each dollar sign that the grammar left alone put together with its name."""
    for n, piece in enumerate(pieces[:-1]):
        if piece.op == "$" and piece.kind == "text" and pieces[n + 1].kind == "text" and not pieces[n + 1].quoted:
            name = _NAME.match(pieces[n + 1].text)
            if name is not None:
                pieces[n] = Piece("var", name.group(), piece.quoted)
                pieces[n + 1] = pieces[n + 1]._replace(text=pieces[n + 1].text[name.end() :])
    return tuple(pieces)
