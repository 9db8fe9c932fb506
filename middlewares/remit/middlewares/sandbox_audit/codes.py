"""Texts that become programs: the code of interpreters, files that the command wrote itself, values of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from remit.middlewares.sandbox_audit import code, effects, environment, words
from remit.middlewares.sandbox_audit.interpreters import Language, interpreter
from remit.middlewares.sandbox_audit.taint import (
    DECODED,
    EMPTY,
    FETCHED,
    GENERATED,
    HOLE,
    OUTPUT,
    READ,
    SUBSTITUTED,
    UNKNOWN,
    Text,
    joined,
)
from remit.middlewares.sandbox_audit.tree import Assign

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk

Way = Literal["code", "text", "eval", "stdin", "file"]


def run_assignments(walk: Walk, assigns: list[Assign], *, sure: bool) -> None:
    """Carry out assignments, with what some of them mean to other programs."""
    for assign in assigns:
        state = walk.state
        if assign.array:
            items = tuple(text for word in assign.words for reading in words.fields(word, walk) for text in reading)
            items = tuple(stored(item) for item in items)
            state.set_array(assign.name, items, sure=sure and not assign.append and len(assign.words) != 1)
            continue
        values = tuple(stored(value) for value in words.values(assign.words[0] if assign.words else None, walk))
        if assign.append:
            before = words.lookup(assign.name, state) if assign.name in state.variables else (EMPTY,)
            values = tuple(joined([old, new]) for old in before for new in values)
        walk.place(assign.start, assign.end)
        run_assignment(walk, assign.name, values, sure=sure)


def run_assignment(walk: Walk, name: str, values: tuple[Text, ...], *, sure: bool) -> None:
    """`name` gets one of `values`."""
    walk.state.set(name, values, sure=sure)
    for value in values:
        found = environment.meaning(name, value)
        if found is None:
            continue
        if found.rule is not None:
            walk.report(found.rule, found.severity)
        elif found.command and value.shown.strip():
            if value.taint & (FETCHED | DECODED):
                walk.report("fetched-code" if value.taint & FETCHED else "decoded-code")
            walk.text(value.text.lstrip("|!"))


def stored(value: Text) -> Text:
    """What interpreters print is often the name of a file: in a variable it counts as any other output."""
    return Text(value.text, value.taint & ~GENERATED | OUTPUT) if value.taint & GENERATED else value


def run_file(walk: Walk, content: Text, arguments: tuple[Text, ...]) -> None:
    """A file that the command itself has written is run."""
    first = content.text.partition("\n")[0]
    language: Language = "shell"
    if first.startswith("#!"):
        kind = interpreter(first[2:].split()[-1].rpartition("/")[2]) if first[2:].split() else None
        language = kind.language if kind is not None else "other"
    run_code(walk, language, content, "file", None, arguments)


def run_code(
    walk: Walk, language: Language, text: Text, way: Way, feed: Feed | None, arguments: tuple[Text, ...]
) -> Text:
    """Judge the text of a program.

    Args:
        language: What it is written in.
        way: How it gets there: an argument (``code``, ``text``, ``eval``), the input (``stdin``), a ``file``.
        feed: The input of the program; for ``stdin``, the program itself.
        arguments: What the program gets as ``$1`` and so on.
    """
    taint = text.taint
    piped = way == "stdin" and feed is not None and feed.piped
    if taint & FETCHED:
        walk.report("downloaded-program" if way == "file" and not taint & SUBSTITUTED else "fetched-code")
    elif taint & DECODED:
        walk.report("decoded-code", "warn" if way == "file" and not taint & SUBSTITUTED else None)
    elif taint & GENERATED and way != "file":
        walk.report(
            "piped-shell" if piped and language == "shell" else "generated-code",
            None if language == "shell" or not piped else "warn",
        )
    elif piped and language == "shell":
        walk.report("piped-shell", "warn" if text.known else None)
    elif (not text.shown.strip() and text.text and way != "file" and (piped or way != "stdin")) or (
        taint & (READ | OUTPUT) and way == "eval" and HOLE in text.text
    ):
        walk.report("unseen-code")
    if not text.shown.strip():
        return UNKNOWN
    if language == "shell":
        return walk.text(text.text, None if way == "stdin" else feed, arguments=arguments)
    for deed in code.deeds(text.text.replace(HOLE, " "), language):
        if deed.kind == "rule":
            walk.report(deed.words[0])
        elif deed.kind == "shell":
            walk.text(deed.words[0])
        elif deed.kind == "command":
            walk.run(tuple(Text(word) for word in deed.words), None)
        elif deed.kind == "reads":
            effects.reading(walk, Text(deed.words[0]))
        elif deed.kind == "writes":
            effects.writing(walk, Text(deed.words[0]))
        else:
            effects.deleting(walk, Text(deed.words[0]), recursive=True)
    return UNKNOWN
