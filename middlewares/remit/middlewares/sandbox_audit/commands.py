"""One simple command with its arguments: what it is, what it runs in turn, and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import carriers, effects, habits, outputs, paths
from remit.middlewares.sandbox_audit.builtin import SPECIAL
from remit.middlewares.sandbox_audit.codes import run_assignment, run_code, run_file
from remit.middlewares.sandbox_audit.interpreters import Interpreter, interpreter, runs
from remit.middlewares.sandbox_audit.taint import (
    DECODED,
    EMPTY,
    FETCHED,
    GENERATED,
    HOLE,
    INTERACTIVE,
    OUTPUT,
    READ,
    RISKY,
    SUBSTITUTED,
    UNKNOWN,
    Text,
    joined,
)
from remit.middlewares.sandbox_audit.verdicts import TooComplex
from remit.middlewares.sandbox_audit.wrappers import WRAPPERS, Inner, unwrapped, with_input

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk

_DEEPEST_CALL: Final = 8
_ENVIRONMENT_TOOLS: Final = frozenset(
    [
        "ssh-agent",
        "pyenv",
        "rbenv",
        "nodenv",
        "jenv",
        "goenv",
        "direnv",
        "brew",
        "conda",
        "mamba",
        "micromamba",
        "starship",
        "zoxide",
        "fnm",
        "mise",
        "rtx",
        "asdf",
        "opam",
        "docker-machine",
        "minikube",
        "dircolors",
        "lesspipe",
        "luarocks",
        "register-python-argcomplete",
        "keychain",
        "thefuck",
        "pip",
        "npm",
        "gh",
        "kubectl",
        "helm",
        "poetry",
        "uv",
        "fzf",
        "atuin",
        "vault-env",
        "resize",
        "tput",
        "stty",
    ]
)
"""Programs that print settings for the shell that calls them; to evaluate these is what they are for."""


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
            run_file(walk, content, argv[1:])
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
    for inner in carriers.inner(name, argv):
        _inner(walk, inner, feed)
    if name in ("at", "batch") and feed is not None:
        run_code(walk, "shell", feed.text, "text", None, ())
    effects.files(walk, name, argv, feed)
    if name in _ENVIRONMENT_TOOLS and feed is None:
        return EMPTY
    return outputs.printed(walk, name, argv, feed)


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
    state = walk.state
    if walk.defining:
        walk.calls.setdefault(walk.defining[-1], set()).add(name)
    function = state.functions[name]
    if any(function.body is body for body in walk.calling):
        return UNKNOWN
    if len(walk.calling) > _DEEPEST_CALL:
        raise TooComplex
    positional, state.positional = state.positional, argv[1:]
    walk.calling = (*walk.calling, function.body)
    parsed, anchor = walk.parsed, walk.anchor
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
    if wrapper.assigns:
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
    if name in outputs.FETCHERS:
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
    if told.stdin and kind.language == "shell" and effects.flagged(argv, "i"):
        generated = Text(HOLE, generated.taint | INTERACTIVE)
    printed: list[Text] = []
    arguments = told.arguments
    if told.name is not None:
        walk.state.set("0", (told.name,))
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
