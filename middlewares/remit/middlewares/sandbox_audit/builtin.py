"""Commands that the shell carries out itself, as far as they change what is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import effects, letters, paths
from remit.middlewares.sandbox_audit.codes import run_assignment, run_code, stored
from remit.middlewares.sandbox_audit.taint import DECODED, EMPTY, FETCHED, HOLE, SUBSTITUTED, UNKNOWN, Text, joined

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk


def _eval(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    return (
        run_code(walk, "shell", joined(list(argv[1:]), " "), "eval", feed, walk.state.positional or ())
        if argv[1:]
        else EMPTY
    )


def _source(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    if len(argv) < 2:
        return EMPTY
    if argv[1].text in ("/dev/stdin", "/dev/fd/0") and feed is not None:
        return run_code(walk, "shell", feed.text, "stdin", feed, argv[2:])
    if argv[1].taint & (FETCHED | DECODED) and not argv[1].taint & SUBSTITUTED:
        walk.report("fetched-code" if argv[1].taint & FETCHED else "decoded-code")
    content = effects.reading(walk, argv[1])
    if content is not UNKNOWN or argv[1].taint & SUBSTITUTED:
        return run_code(walk, "shell", content, "eval" if argv[1].taint & SUBSTITUTED else "file", feed, argv[2:])
    return UNKNOWN


def _say(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    at, escapes, newline = 1, False, True
    while at < len(argv) and argv[at].text[:1] == "-" and argv[at].text[1:] and set(argv[at].text[1:]) <= set("neE"):
        escapes |= "e" in argv[at].text
        newline &= "n" not in argv[at].text
        at += 1
    said = joined(list(argv[at:]), " ") if argv[at:] else EMPTY
    text = letters.printed(said.text) if escapes else said.text
    return Text(text + ("\n" if newline else ""), said.taint)


def _printf(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    at = 1
    if len(argv) > 3 and argv[1].text == "-v":
        printed = _formatted(argv[3:])
        run_assignment(walk, argv[2].text, (printed,), sure=sure)
        return EMPTY
    at += len(argv) > 1 and argv[1].text == "--"
    return _formatted(argv[at:]) if argv[at:] else EMPTY


def _formatted(given: tuple[Text, ...]) -> Text:
    pattern, rest = given[0], list(given[1:])
    taint = pattern.taint
    text = letters.printed(pattern.text)
    made: list[Text] = []
    while True:
        before = len(rest)
        bits = text.split("%")
        made.append(Text(bits[0], taint))
        skip = False
        for n, bit in enumerate(bits[1:], 1):
            if skip:
                made.append(Text(bit))
                skip = False
            elif not bit and n < len(bits) - 1:
                made.append(Text("%"))
                skip = True
            else:
                tail = bit.lstrip("-+ #0123456789.*")
                value = rest.pop(0) if rest else EMPTY
                made.append(value if tail[:1] in ("s", "b", "q", "d", "i") else Text(HOLE, value.taint))
                made.append(Text(tail[1:]))
        if not rest or len(rest) == before:
            return joined(made)


def _read(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    given = feed.text if feed is not None else UNKNOWN
    line = Text(given.text.partition("\n")[0], given.taint) if argv[0].text == "read" else given
    names = effects.operands(
        argv, "-a -d -i -n -N -p -t -u -O -s -C -c" if argv[0].text == "read" else "-d -n -O -s -u -C -c"
    )
    array = argv[0].text != "read" or effects.flagged(argv, "a")
    for name in [*names, *(effects.valued(argv, "-a") if argv[0].text == "read" else [])] or [Text("REPLY")]:
        walk.state.set(name.text, (line if len(names) == 1 else Text(HOLE, given.taint), Text(HOLE, given.taint)))
        if array:
            walk.state.set_array(name.text, (Text(HOLE, given.taint),))
    return EMPTY


def _declare(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    if (
        argv[0].text != "local"
        and not walk.assigned
        and (len(argv) == 1 or (len(argv) == 2 and argv[1].text in ("-p", "-x", "-px", "-xp")))
    ):
        walk.report("environment-dump")
    for word in argv[1:]:
        name, equals, value = word.text.partition("=")
        if equals and name.rstrip("+").isidentifier():
            run_assignment(walk, name.rstrip("+"), (stored(Text(value, word.taint)),), sure=sure)
    return UNKNOWN


def _unset(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    for name in effects.operands(argv):
        if sure:
            walk.state.set(name.text, (EMPTY,))
    return EMPTY


def _set(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    marks = [n for n, word in enumerate(argv) if word.text == "--"]
    first = next(
        (
            n
            for n, word in enumerate(argv)
            if n and word.text[:1] not in ("-", "+") and argv[n - 1].text not in ("-o", "+o")
        ),
        len(argv),
    )
    given = argv[marks[0] + 1 :] if marks and marks[0] < first else argv[first:]
    if given or marks:
        walk.state.positional = given
    return UNKNOWN


def _shift(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    if walk.state.positional:
        count = int(argv[1].text) if len(argv) > 1 and argv[1].text.isdigit() and len(argv[1].text) < 4 else 1
        walk.state.positional = walk.state.positional[count:]
    return EMPTY


def _cd(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    target = next(iter(effects.operands(argv)), Text("~"))
    path = paths.resolved(target.text, walk.state.cwd)
    walk.state.cwd = path if path.startswith(("/", "~")) and HOLE not in path else None
    return EMPTY


def _trap(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    given = effects.operands(argv)
    if len(given) > 1:
        run_code(walk, "shell", given[0], "text", None, ())
    return EMPTY


def _alias(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    for word in argv[1:]:
        _, equals, value = word.text.partition("=")
        if equals and value.strip(HOLE):
            run_code(walk, "shell", Text(value, word.taint), "text", None, ())
    return EMPTY


SPECIAL: Final[dict[str, Callable[[Walk, tuple[Text, ...], Feed | None, bool], Text]]] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "echo": _say,
    "printf": _printf,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "export": _declare,
    "declare": _declare,
    "typeset": _declare,
    "local": _declare,
    "readonly": _declare,
    "unset": _unset,
    "set": _set,
    "shift": _shift,
    "cd": _cd,
    "pushd": _cd,
    "trap": _trap,
    "alias": _alias,
}
