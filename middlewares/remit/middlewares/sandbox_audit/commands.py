"""One simple command with its arguments: what it is, what it runs in turn, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import code, effects, environment, habits, letters, paths, words
from remit.middlewares.sandbox_audit.interpreters import Interpreter, Language, interpreter, runs
from remit.middlewares.sandbox_audit.taint import (
    DECODED,
    EMPTY,
    FETCHED,
    GENERATED,
    HOLE,
    OUTPUT,
    READ,
    RISKY,
    SUBSTITUTED,
    UNKNOWN,
    Text,
    joined,
)
from remit.middlewares.sandbox_audit.tree import Assign
from remit.middlewares.sandbox_audit.verdicts import TooComplex
from remit.middlewares.sandbox_audit.wrappers import WRAPPERS, Inner, unwrapped, with_input

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk

_DEEPEST_CALL: Final = 8
_ENVIRONMENT_TOOLS: Final = frozenset(
    """ssh-agent pyenv rbenv nodenv jenv goenv direnv brew conda mamba micromamba starship zoxide fnm mise rtx asdf opam
    docker-machine minikube dircolors lesspipe luarocks register-python-argcomplete keychain thefuck pip npm gh kubectl
    helm poetry uv fzf atuin vault-env resize tput stty""".split()
)
"""Programs that print settings for the shell that calls them; to evaluate these is what they are for."""


def run_assignments(walk: Walk, assigns: list[Assign], *, sure: bool) -> None:
    """Carry out assignments, with what some of them mean to other programs."""
    for assign in assigns:
        state = walk.state
        if assign.array:
            items = tuple(text for word in assign.words for reading in words.fields(word, walk) for text in reading)
            items = tuple(_stored(item) for item in items)
            state.set_array(assign.name, items, sure=sure and not assign.append and len(assign.words) != 1)
            continue
        values = tuple(_stored(value) for value in words.values(assign.words[0] if assign.words else None, walk))
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


def _stored(value: Text) -> Text:
    """What interpreters print is often the name of a file: in a variable it counts as any other output."""
    return Text(value.text, value.taint & ~GENERATED | OUTPUT) if value.taint & GENERATED else value


def run_argv(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, *, sure: bool = True) -> Text:
    """Judge one command, and whatever it runs; returns what it prints."""
    walk.budget.command()
    walk.deeper()
    printed = _judged(walk, argv, feed, sure=sure)
    walk.depth -= 1
    return printed


def _judged(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, *, sure: bool) -> Text:
    head = argv[0]
    if head.taint:
        _named(walk, head)
    if HOLE in head.text or head.taint & SUBSTITUTED:
        unknown = _unknown(walk, argv, feed)
        if unknown is not None:
            return unknown
    text = head.shown
    name = _program(text)
    if walk.state.files or walk.programs:
        path = paths.resolved(text, walk.state.cwd)
        content = walk.state.files.get(path)
        if content is not None:
            _script(walk, content, argv[1:])
        name = walk.programs.get(path, name)
    if name in walk.state.functions:
        return _call(walk, name, argv, feed)
    if walk.defining:
        walk.calls.setdefault(walk.defining[-1], set()).add(name)
    return _run(walk, name, argv, feed, sure=sure)


def _run(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None, *, sure: bool) -> Text:
    special = SPECIAL.get(name)
    if special is not None:
        return special(walk, argv, feed, sure)
    habits.check(walk, name, argv, feed)
    if name in WRAPPERS:
        return _wrapped(walk, name, argv, feed)
    kind = interpreter(name)
    if kind is not None:
        effects.files(walk, name, argv, feed)
        return _interpret(walk, kind, name, argv, feed)
    for inner in habits.inner(name, argv):
        _inner(walk, inner, feed)
    effects.files(walk, name, argv, feed)
    if name in _ENVIRONMENT_TOOLS and feed is None:
        return EMPTY
    return effects.printed(walk, name, argv, feed)


def _named(walk: Walk, head: Text) -> None:
    """What it means that the name of a command comes from somewhere else."""
    if head.taint & SUBSTITUTED:
        content = walk.state.files.get(head.text)
        if content is not None and content.taint & RISKY:
            walk.report(
                "fetched-code"
                if content.taint & FETCHED
                else "decoded-code"
                if content.taint & DECODED
                else "generated-code"
            )
    elif head.taint & FETCHED:
        walk.report("fetched-code")
    elif head.taint & DECODED:
        walk.report("decoded-code")
    elif head.taint & GENERATED:
        if "/" not in head.text.rpartition(HOLE)[2]:
            walk.report("generated-code")
    elif head.taint & READ and head.text == HOLE:
        walk.report("unseen-code")


def _unknown(walk: Walk, argv: tuple[Text, ...], feed: Feed | None) -> Text | None:
    """A command whose name is not known, or not all of it; None if what is known of it is a name, too."""
    head = argv[0].shown
    if head and "/" not in head and not argv[0].taint & SUBSTITUTED:
        return None
    if head.rpartition("/")[2] and head.startswith("/") and not argv[0].text.startswith(HOLE):
        return None
    if (
        feed is not None
        and feed.text.taint & (FETCHED | DECODED)
        and all(word.text in ("-", "-s") for word in argv[1:2])
    ):
        walk.report("unseen-code")
    if not head and len(argv) > 1:
        with walk.mooded("guess"):  # if the variable is empty, its arguments are the command
            run_argv(walk, argv[1:], feed)
    taint = OUTPUT | (feed.text.taint if feed is not None else 0)
    return Text(HOLE, taint)


def _program(text: str) -> str:
    """The program that a name or a path stands for; a file of the workspace stands for itself."""
    if "/" not in text:
        return text
    folder, _, name = text.rpartition("/")
    return name if text.startswith(("/", "~")) or folder.endswith("bin") else text


def _call(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> Text:
    if walk.defining:
        walk.calls.setdefault(walk.defining[-1], set()).add(name)
    if name in walk.calling:
        return UNKNOWN
    if len(walk.calling) > _DEEPEST_CALL:
        raise TooComplex
    state = walk.state
    positional, state.positional = state.positional, argv[1:]
    walk.calling = (*walk.calling, name)
    function, parsed, anchor = state.functions[name], walk.parsed, walk.anchor
    walk.parsed, walk.anchor = function.parsed, function.anchor
    printed = walk.program(function.body, feed)
    walk.parsed, walk.anchor = parsed, anchor
    walk.calling = walk.calling[:-1]
    state.positional = positional
    return printed


def _wrapped(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> Text:
    wrapper = WRAPPERS[name]
    if wrapper.rule is not None:
        walk.report(wrapper.rule)
    if name in ("xargs", "parallel"):
        argv = with_input(name, argv, None if feed is None else feed.text)
        feed = None
    if name == "env":
        for word in argv[1:]:
            key, equals, value = word.text.partition("=")
            if equals and key.isidentifier():
                run_assignment(walk, key, (Text(value, word.taint),), sure=False)
    printed: list[Text] = []
    mood = "remote" if wrapper.remote else walk.mood
    with walk.mooded(mood):
        for inner in unwrapped(name, argv):
            printed.append(_inner(walk, inner, feed, remote=wrapper.remote))
    if not printed and name == "env":
        walk.report("environment-dump")
    if (
        name == "ssh"
        and len(printed) == 0
        and feed is not None
        and len(effects.operands(argv, " ".join(wrapper.values))) == 1
    ):
        with walk.mooded("remote"):
            run_code(walk, "shell", feed.text, "stdin", feed, ())
    if name in effects.FETCHERS:
        return Text(HOLE, FETCHED | OUTPUT)
    effects.files(walk, name, argv, feed)
    if printed:
        return joined(printed)
    return EMPTY if name in _ENVIRONMENT_TOOLS and feed is None else Text(HOLE, OUTPUT)


def _inner(walk: Walk, inner: Inner, feed: Feed | None, *, remote: bool = False) -> Text:
    if inner.form == "text":
        return run_code(walk, "shell", inner.words[0], "text", feed, ())
    if not inner.words:
        return EMPTY
    if remote:
        state, walk.state = walk.state, walk.state.branch()
        walk.state.cwd = None
        printed = run_argv(walk, inner.words, feed)
        walk.state = state
        return printed
    return run_argv(walk, inner.words, feed)


def _interpret(walk: Walk, kind: Interpreter, name: str, argv: tuple[Text, ...], feed: Feed | None) -> Text:
    told = runs(kind, argv)
    generated = Text(HOLE, GENERATED | OUTPUT | (feed.text.taint & (FETCHED | DECODED) if feed is not None else 0))
    if told.inert:
        return Text(HOLE, OUTPUT)
    if told.module:
        if told.module[0].text.partition(".")[0] in ("pip", "pipx", "uv", "ensurepip"):
            return run_argv(walk, told.module, feed)
        return generated
    printed: list[Text] = []
    arguments = (told.arguments if told.codes else told.arguments) or ()
    for text in told.codes:
        printed.append(run_code(walk, kind.language, text, "code", feed, arguments))
    if told.script is not None:
        content = effects.reading(walk, told.script)
        if told.script.taint & (FETCHED | DECODED) and not told.script.taint & SUBSTITUTED:
            walk.report("unseen-code")
        if told.script.text in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") and feed is not None:
            run_code(walk, kind.language, feed.text, "stdin", feed, arguments)
        elif told.script.text.startswith(("http://", "https://")):
            walk.report("fetched-code")
        elif content is not UNKNOWN or told.script.taint & SUBSTITUTED:
            run_code(walk, kind.language, content, "file", feed, arguments)
    if told.stdin and feed is not None:
        run_code(walk, kind.language, feed.text, "stdin", feed, arguments)
    if kind.operand:
        return Text(HOLE, OUTPUT | READ | (feed.text.taint if feed is not None else 0))
    if kind.language == "shell" and printed and all(text.known for text in printed):
        return joined(printed)
    return generated


def _script(walk: Walk, content: Text, arguments: tuple[Text, ...]) -> None:
    """A file that the command itself has written is run."""
    first = content.text.partition("\n")[0]
    language: Language = "shell"
    if first.startswith("#!"):
        kind = interpreter(first[2:].split()[-1].rpartition("/")[2]) if first[2:].split() else None
        language = kind.language if kind is not None else "other"
    run_code(walk, language, content, "file", None, arguments)


def run_code(
    walk: Walk, language: Language, text: Text, way: str, feed: Feed | None, arguments: tuple[Text, ...]
) -> Text:  # fmt: skip
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
    elif not text.shown.strip() and text.text and way != "file" and (piped or way != "stdin"):
        walk.report("unseen-code")
    elif taint & (READ | OUTPUT) and way == "eval" and HOLE in text.text:
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
            run_argv(walk, tuple(Text(word) for word in deed.words), None)
        elif deed.kind == "reads":
            effects.reading(walk, Text(deed.words[0]))
        elif deed.kind == "writes":
            effects.writing(walk, Text(deed.words[0]))
        else:
            effects.deleting(walk, Text(deed.words[0]), recursive=True)
    return UNKNOWN


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
        argv, "-a -d -i -n -N -p -t -u -O -s -C -c" if argv[0].text == "read" else "-d -n -O -s -t -u -C -c"
    )
    array = argv[0].text != "read" or effects.flagged(argv, "a")
    for name in [*names, *(effects.valued(argv, "-a") if argv[0].text == "read" else [])] or [Text("REPLY")]:
        walk.state.set(name.text, (line if len(names) == 1 else Text(HOLE, given.taint), Text(HOLE, given.taint)))
        if array:
            walk.state.set_array(name.text, (Text(HOLE, given.taint),))
    return EMPTY


def _declare(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    if argv[0].text != "local" and not walk.assigned and (len(argv) == 1 or (len(argv) == 2 and argv[1].text in ("-p", "-x", "-px", "-xp"))):
        walk.report("environment-dump")
    for word in argv[1:]:
        name, equals, value = word.text.partition("=")
        if equals and name.rstrip("+").isidentifier():
            run_assignment(walk, name.rstrip("+"), (_stored(Text(value, word.taint)),), sure=sure)
    return UNKNOWN


def _unset(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    for name in effects.operands(argv):
        if sure:
            walk.state.set(name.text, (EMPTY,))
    return EMPTY


def _set(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
    marks = [n for n, word in enumerate(argv) if word.text == "--"]
    given = argv[marks[0] + 1 :] if marks else tuple(effects.operands(argv, "-o +o"))
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
        name, equals, value = word.text.partition("=")
        if equals and value.strip(HOLE):
            run_code(walk, "shell", Text(value, word.taint), "text", None, ())
    return EMPTY


def _function_copy(walk: Walk, argv: tuple[Text, ...], feed: Feed | None, sure: bool) -> Text:
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
