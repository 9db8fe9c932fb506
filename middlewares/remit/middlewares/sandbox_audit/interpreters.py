"""Interpreters: which of their arguments is a program, which is a file with one, and when they read one from input."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from remit.middlewares.sandbox_audit.taint import Text
from remit.middlewares.sandbox_audit.wrappers import options

Language = Literal["shell", "python", "perl", "ruby", "node", "php", "awk", "other"]

SHELLS: Final = frozenset(
    [
        "sh",
        "bash",
        "zsh",
        "dash",
        "ash",
        "ksh",
        "ksh93",
        "mksh",
        "lksh",
        "pdksh",
        "yash",
        "posh",
        "fish",
        "csh",
        "tcsh",
        "rbash",
        "osh",
    ]
)


class Interpreter(NamedTuple):
    """The command line of one."""

    language: Language
    codes: frozenset[str]
    """Options whose value is a program."""
    values: frozenset[str] = frozenset()
    """Options that take another value."""
    reads: bool = True
    """Whether it runs what it reads when it is given no program."""
    operand: bool = False
    """Whether the first operand is the program itself."""


def _interpreter(
    language: Language, codes: str, values: str = "", *, reads: bool = True, operand: bool = False
) -> Interpreter:
    return Interpreter(language, frozenset(codes.split()), frozenset(values.split()), reads, operand)


_PYTHON: Final = _interpreter("python", "-c", "-W -X -m -Q --check-hash-based-pycs")
_NODE: Final = _interpreter(
    "node", "-e -p --eval --print", "-r -C -i --require --import --loader --conditions --env-file"
)
_AWK: Final = _interpreter(
    "awk", "-e --source", "-f -v -F -i -l --file --assign --field-separator", reads=False, operand=True
)
INTERPRETERS: Final[dict[str, Interpreter]] = {
    **{
        shell: _interpreter("shell", "-c --command", "-o -O +o +O --rcfile --init-file -C --init-command")
        for shell in SHELLS
    },
    "python": _PYTHON,
    "pypy": _PYTHON,
    "ipython": _PYTHON,
    "perl": _interpreter("perl", "-e -E", "-I -M -m -C -D -F -l -i -0 -x"),
    "ruby": _interpreter("ruby", "-e", "-r -I -C -E -F -K -W -x -i"),
    "jruby": _interpreter("ruby", "-e", "-r -I"),
    "node": _NODE,
    "nodejs": _NODE,
    "bun": _interpreter("node", "-e -p --eval --print", "-r --preload", reads=False),
    "deno": _interpreter("node", "-e --eval", reads=False),
    "tsx": _interpreter("node", "-e -p --eval --print", "", reads=False),
    "php": _interpreter(
        "php", "-r -B -R -E --run --process-code --process-begin --process-end", "-c -d -f -z -t -S -F"
    ),
    "lua": _interpreter("other", "-e", "-l"),
    "luajit": _interpreter("other", "-e", "-l"),
    "Rscript": _interpreter("other", "-e"),
    "julia": _interpreter("other", "-e -E --eval --print", "-L -J -p -t"),
    "osascript": _interpreter("other", "-e", "-l -s"),
    "tclsh": _interpreter("other", ""),
    "expect": _interpreter("other", "-c", "-f"),
    "pwsh": _interpreter("other", "-c -Command -command -EncodedCommand -e -ec", "-ExecutionPolicy -File"),
    "powershell": _interpreter("other", "-c -Command -command -EncodedCommand -e -ec", "-ExecutionPolicy -File"),
    "elixir": _interpreter("other", "-e --eval"),
    "groovy": _interpreter("other", "-e"),
    "gawk": _AWK,
    "awk": _AWK,
    "mawk": _AWK,
    "nawk": _AWK,
}
_VERSIONED: Final = re.compile(r"(python|pypy|perl|ruby|php|lua|node|bash|ksh|tclsh)[\d.]+[a-z]?")


def interpreter(name: str) -> Interpreter | None:
    """The interpreter that `name` is, with a version or without."""
    found = INTERPRETERS.get(name)
    if found is None and name[-1:].isdigit():
        versioned = _VERSIONED.fullmatch(name)
        found = INTERPRETERS.get(versioned.group(1)) if versioned is not None else None
    return found


class Runs(NamedTuple):
    """What an interpreter is told to run."""

    codes: tuple[Text, ...] = ()
    script: Text | None = None
    module: tuple[Text, ...] = ()
    """The name of a Python module, and its arguments."""
    name: Text | None = None
    """What a shell gets as ``$0``."""
    arguments: tuple[Text, ...] = ()
    """What the program gets."""
    stdin: bool = False
    inert: bool = False
    """It only looks, or says something about itself."""


def runs(kind: Interpreter, argv: tuple[Text, ...]) -> Runs:
    """What ``argv`` runs."""
    if kind.language == "shell":
        return _shell(kind, argv)
    codes: list[Text] = []
    at, inert = 1, False
    for at, option, value in options(argv, kind.codes | kind.values):
        if option in kind.codes:
            codes.append(value if value is not None else Text(""))
            if kind.language in ("python", "php"):
                break
        elif option == "-m" and kind.language == "python" and value is not None:
            return Runs(module=(value, *argv[at:]))
        elif option == "-f" and value is not None:
            return Runs(script=value, arguments=argv[at:])
        elif option in ("--version", "-V", "--help", "-h") and kind.language not in ("other", "awk"):
            inert = True
    rest = argv[at:] if len(argv) > 1 else ()
    if codes:
        return Runs(codes=tuple(codes), arguments=rest)
    if inert:
        return Runs(inert=True)
    if kind.operand:
        return Runs(codes=rest[:1], arguments=rest[1:])
    if not rest or rest[0].text == "-":
        return Runs(stdin=kind.reads, arguments=rest[1:])
    return Runs(script=rest[0], arguments=rest[1:])


def _shell(kind: Interpreter, argv: tuple[Text, ...]) -> Runs:
    at, code, reads, checks = 1, False, False, False
    while at < len(argv):
        text = argv[at].shown
        if text in ("--", "-"):
            at += 1
            break
        if len(text) < 2 or text[0] not in "-+":
            break
        at += 1
        if text.startswith("--"):
            if text in ("--version", "--help", "--dump-strings"):
                return Runs(inert=True)
            if text.startswith("--command="):
                return Runs(codes=(Text(text.partition("=")[2], argv[at - 1].taint),))
            code |= text == "--command"
            if text in kind.values:
                at += 1
            continue
        code |= "c" in text and text[0] == "-"
        reads |= "s" in text and text[0] == "-"
        checks = (text[0] == "-") if "n" in text else checks
        if text[-1] in "oO":
            at += 1
    rest = argv[at:]
    if code:
        return Runs(codes=rest[:1], name=rest[1] if len(rest) > 1 else None, arguments=rest[2:])
    if checks:
        return Runs(inert=True)
    if reads or not rest:
        return Runs(stdin=True, arguments=rest)
    return Runs(script=rest[0], arguments=rest[1:])
