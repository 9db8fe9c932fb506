"""What is known about texts, variables and files while a command is walked through once, from the first word on."""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from remit.middlewares.sandbox_audit.verdicts import TooComplex

FunctionT = TypeVar("FunctionT")
"""What is kept of a function."""

HOLE: Final = "\0"
"""Stands in a text for letters that are not known. No command contains it: such commands are refused unread."""

OUTPUT: Final = 1
"""Printed by a program."""
READ: Final = 2
"""Printed by a program that prints what it reads: the letters are somebody's text."""
GENERATED: Final = 4
"""Printed by an interpreter."""
DECODED: Final = 8
"""Decoded, so that nobody can see what it says."""
FETCHED: Final = 16
"""From the network."""
SUBSTITUTED: Final = 32
"""The output of a process substitution, behind the name of a file."""
INTERACTIVE: Final = 64
"""The prompt and the output of a shell that takes commands."""
RISKY: Final = GENERATED | DECODED | FETCHED

LONGEST: Final = 40_000
"""Letters of the longest text that is followed. Only texts that double themselves get there."""
ALTERNATIVES: Final = 6
"""Values that a variable may have at one time; more become one that is not known."""

INTERESTING: Final = frozenset(
    [
        "sh",
        "bash",
        "zsh",
        "dash",
        "ksh",
        "fish",
        "ash",
        "csh",
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "socat",
        "rm",
        "dd",
        "mkfs",
        "shred",
        "eval",
        "source",
        "python",
        "python3",
        "perl",
        "ruby",
        "node",
        "php",
        "base64",
        "xxd",
        "openssl",
        "sudo",
        "su",
        "xargs",
        "find",
        "/",
        "/*",
        "~",
        "-c",
        "-rf",
        "-r",
        "-fr",
        "cat",
        "tee",
    ]
)
"""Words that are worth a place among the values of a variable."""


class Text(NamedTuple):
    """Letters, as far as they are known, and where they come from."""

    text: str
    taint: int = 0

    @property
    def known(self) -> bool:
        return HOLE not in self.text

    @property
    def shown(self) -> str:
        """The letters that are known: what is left when the rest turns out to be empty."""
        return self.text.replace(HOLE, "")


UNKNOWN: Final = Text(HOLE)
EMPTY: Final = Text("")


def joined(texts: list[Text], separator: str = "") -> Text:
    """One text of many."""
    if len(texts) == 1 and len(texts[0].text) <= LONGEST:
        return texts[0]
    taint = length = 0
    for text in texts:
        taint |= text.taint
        length += len(text.text)
    if length > LONGEST:
        raise TooComplex
    return Text(separator.join(text.text for text in texts), taint)


def blended(texts: list[Text]) -> Text:
    """A text that is one of `texts`, which one is not known."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == 1:
        return distinct[0]
    taint = 0
    for text in distinct:
        taint |= text.taint
    return Text(HOLE, taint)


def narrowed(values: list[Text]) -> tuple[Text, ...]:
    """At most `ALTERNATIVES` of `values`. Those that matter stay; the others become one that is not known."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) <= ALTERNATIVES:
        return tuple(distinct)
    ranked = sorted(
        distinct, key=lambda value: value.text.rpartition("/")[2] not in INTERESTING and not value.taint & RISKY
    )
    return (*ranked[: ALTERNATIVES - 1], blended(ranked[ALTERNATIVES - 1 :]))


class State(Generic[FunctionT]):
    """Variables, files and functions at one point of the walk."""

    __slots__ = ("arrays", "cwd", "files", "functions", "positional", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, tuple[Text, ...]] = {}
        self.arrays: dict[str, tuple[Text, ...]] = {}
        self.files: dict[str, Text] = {}
        self.functions: dict[str, FunctionT] = {}
        self.positional: tuple[Text, ...] | None = ()
        """None when they are not known. A command line has none."""
        self.cwd: str | None = None

    def branch(self) -> State[FunctionT]:
        """What a subshell sees: it may change files for all, but variables for itself alone."""
        made: State[FunctionT] = State()
        made.variables = dict(self.variables)
        made.arrays = dict(self.arrays)
        made.files = self.files
        made.functions = dict(self.functions)
        made.positional = self.positional
        made.cwd = self.cwd
        return made

    def set(self, name: str, values: tuple[Text, ...], *, sure: bool = True) -> None:
        """`name` has one of `values` from here on; beside those it had, unless that is `sure`."""
        if not sure and name in self.variables:
            values = (*self.variables[name], *values)
        self.variables[name] = narrowed(list(values))
        if sure:
            self.arrays.pop(name, None)

    def restore(self, name: str, values: tuple[Text, ...] | None) -> None:
        """`name` has `values` again, or is not set."""
        if values is None:
            self.variables.pop(name, None)
        else:
            self.variables[name] = values

    def set_array(self, name: str, items: tuple[Text, ...], *, sure: bool = True) -> None:
        """`name` is an array of `items`; some of them may not be there unless that is `sure`."""
        if not sure:
            items = (*self.arrays.get(name, ()), *items)
        if len(items) > LONGEST // 10:
            raise TooComplex
        self.arrays[name] = items

    def written(self, path: str, content: Text, *, append: bool) -> None:
        """`content` went into the file at `path`."""
        before = self.files.get(path)
        if append and before is not None:
            content = joined([before, content])
        elif append:
            content = Text(HOLE + content.text, content.taint)
        elif before is not None and before.taint & FETCHED and not content.taint & FETCHED:
            return  # it may not run; what was fetched stays under suspicion
        self.files[path] = content
