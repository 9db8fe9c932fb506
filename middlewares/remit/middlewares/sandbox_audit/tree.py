"""What a command is made of: programs of pipelines of simple commands, and words of pieces. Built by `grammar`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from remit.middlewares.sandbox_audit.taint import Text


class Piece(NamedTuple):
    """A part of a word.

    ``text``: letters. ``var``: a parameter, `op` holds what its braces say beside the name. ``run``: a command
    substitution. ``in`` and ``out``: process substitutions. ``number``: arithmetic; its substitutions are in `program`.
    """

    kind: Literal["text", "var", "run", "in", "out", "number"]
    text: str = ""
    quoted: bool = False
    program: Program = ()
    op: str = ""
    alt: Word | None = None
    """The word behind the operator of a parameter."""


class Word(NamedTuple):
    """A word as written; `start` and `end` are byte offsets in the text that was parsed."""

    pieces: tuple[Piece, ...]
    start: int
    end: int


class Redirect(NamedTuple):
    """A redirection: its operator, the descriptor in front of it, its target, or the number of its here-document."""

    op: str
    descriptor: str
    target: Word | None
    heredoc: int | None
    start: int
    end: int


class Assign(NamedTuple):
    """An assignment to a variable, or to a whole array."""

    name: str
    words: tuple[Word, ...]
    append: bool
    array: bool
    start: int
    end: int


@dataclass(slots=True)
class Simple:
    """A simple command; `inner` holds programs that stand among its words, as behind ``time``."""

    words: list[Word]
    assigns: list[Assign]
    redirects: list[Redirect]
    start: int
    end: int
    plain: tuple[Text, ...] | None = None
    """The words of a command that holds nothing but letters; `words` is empty then."""
    inner: list[Program] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """A compound command. `head` always runs; which of the `bodies` run is not known."""

    kind: Literal["group", "subshell", "if", "case", "while", "until", "for"]
    start: int
    end: int
    head: Program = ()
    bodies: list[Program] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    """The list of a ``for``, the subject of a ``case``."""
    name: str = ""
    """The variable of a ``for``."""
    endless: bool = False
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Pipeline:
    """Commands joined by ``|`` or ``|&``."""

    parts: list[Node]
    start: int
    end: int


@dataclass(slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Program
    start: int
    end: int


Node: TypeAlias = "Simple | Group | Pipeline | Function"


class Item(NamedTuple):
    """One entry of a list of commands."""

    node: Node
    background: bool = False
    sure: bool = True
    """False behind ``&&`` and ``||``: it may not run."""


Program: TypeAlias = tuple[Item, ...]
