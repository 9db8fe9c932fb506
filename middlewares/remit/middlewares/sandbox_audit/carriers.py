"""Programs that take a command as one of their options or operands, and run it: editors, archivers, version control."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from remit.middlewares.sandbox_audit import effects
from remit.middlewares.sandbox_audit.taint import HOLE, Text
from remit.middlewares.sandbox_audit.wrappers import Inner


def inner(name: str, argv: tuple[Text, ...]) -> Iterator[Inner]:
    """Commands that the program takes as options or operands and runs."""
    finder = _INNER.get(name)
    if finder is not None:
        yield from finder(argv)


def _git(argv: tuple[Text, ...]) -> Iterator[Inner]:
    for setting in effects.valued(argv, "-c --config --config-env"):
        key, _, value = setting.text.partition("=")
        yield from _git_setting(key, Text(value, setting.taint))
    plain = [word for word in effects.operands(argv, "-C -c --git-dir --work-tree")]
    verb = plain[0].text if plain else ""
    if verb == "config" and len(plain) > 2:
        yield from _git_setting(plain[-2].text, plain[-1])
    elif verb in ("submodule", "bisect") and len(plain) > 2 and plain[1].text in ("foreach", "run"):
        at = next(n for n, word in enumerate(argv) if word.text == plain[1].text) + 1
        while at < len(argv) and argv[at].text.startswith("-"):
            at += 1
        if at + 1 == len(argv):
            yield Inner("text", argv[at:])
        else:
            yield Inner("command", argv[at:])
    elif verb == "rebase":
        for word in effects.valued(argv, "-x --exec"):
            yield Inner("text", (word,))
    elif verb == "filter-branch":
        for word in effects.valued(
            argv, "--tree-filter --index-filter --msg-filter --env-filter --commit-filter --parent-filter"
        ):
            yield Inner("text", (word,))
    elif verb in ("clone", "fetch", "pull", "ls-remote", "push"):
        for word in effects.valued(argv, "-u --upload-pack --receive-pack --exec"):
            if verb != "push" or not word.text.isalnum():
                yield Inner("text", (word,))
        for word in plain[1:]:
            if word.text.startswith("ext::"):
                yield Inner("text", (Text(word.text[5:], word.taint),))
    elif verb in ("difftool", "mergetool"):
        for word in effects.valued(argv, "-x --extcmd"):
            yield Inner("text", (word,))


def _git_setting(key: str, value: Text) -> Iterator[Inner]:
    name = key.lower()
    if name.startswith("alias."):
        if value.text.startswith("!"):
            yield Inner("text", (Text(value.text[1:], value.taint),))
    elif name.endswith(
        (
            "command",
            "pager",
            "editor",
            "askpass",
            "fsmonitor",
            ".cmd",
            ".textconv",
            ".helper",
            ".program",
            ".smudge",
            ".clean",
        )
    ):
        yield Inner("text", (Text(value.text.lstrip("!"), value.taint),))


def _find(argv: tuple[Text, ...]) -> Iterator[Inner]:
    at = 1
    while at < len(argv) and argv[at].text in ("-H", "-L", "-P"):
        at += 1
    roots: list[Text] = []
    while at < len(argv) and not argv[at].text.startswith(("-", "(", "!")):
        roots.append(argv[at])
        at += 1
    filtered = _is_filtered(argv[at:])
    deletes = any(word.text == "-delete" for word in argv[at:])
    if deletes and not filtered:
        yield Inner("command", (Text("rm"), Text("-rf"), *roots))
    while at < len(argv):
        if argv[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(argv) and argv[end].text not in (";", "+"):
                end += 1
            for root in roots[:3] or [Text(".")]:
                found = Text(f"{root.text.rstrip('/') or ''}/{HOLE}" if filtered else root.text, root.taint)
                yield Inner("command", tuple(_put(word, found) for word in argv[at + 1 : end]))
            at = end
        elif argv[at].text in ("-fprint", "-fprintf", "-fls", "-fprint0"):
            yield Inner("command", (Text("tee"), *argv[at + 1 : at + 2]))
        at += 1


def _is_filtered(tests: tuple[Text, ...]) -> bool:
    """Whether only files of a certain name are meant."""
    for n, word in enumerate(tests[:-1]):
        if word.text in ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex") and tests[n - 1].text not in (
            "!",
            "-not",
        ):
            return sum(letter.isalnum() for letter in tests[n + 1].text) >= 2
    return False


def _put(word: Text, found: Text) -> Text:
    return Text(word.text.replace("{}", found.text), word.taint | found.taint) if "{}" in word.text else word


def _option(*names: str) -> Callable[[tuple[Text, ...]], Iterator[Inner]]:
    """The values of these options are commands."""

    def finder(argv: tuple[Text, ...]) -> Iterator[Inner]:
        for value in effects.valued(argv, " ".join(names)):
            yield Inner("text", (value,))

    return finder


def _tar(argv: tuple[Text, ...]) -> Iterator[Inner]:
    yield from _option(
        "--to-command", "-I", "--use-compress-program", "--rsh-command", "-F", "--info-script", "--new-volume-script"
    )(argv)
    for action in effects.valued(argv, "--checkpoint-action"):
        if action.text.startswith("exec="):
            yield Inner("text", (Text(action.text[5:], action.taint),))


def _editor(argv: tuple[Text, ...]) -> Iterator[Inner]:
    for word in [*effects.valued(argv, "-c --cmd"), *(word for word in argv[1:] if word.text.startswith("+"))]:
        command = word.text.lstrip("+:")
        if command.startswith("!"):
            yield Inner("text", (Text(command[1:], word.taint),))
        elif command.startswith(("sil !", "silent !")):
            yield Inner("text", (Text(command.partition("!")[2], word.taint),))


_SED_RUNS: Final = re.compile(r"(?:^|[;\n{\d$/])[ \t]{0,9}e[ \t]+([^\n]+)")


def _sed(argv: tuple[Text, ...]) -> Iterator[Inner]:
    scripts = effects.valued(argv, "-e --expression") or effects.operands(argv)[:1]
    for script in scripts:
        for found in _SED_RUNS.finditer(script.text):
            yield Inner("text", (Text(found.group(1), script.taint),))


def _make(argv: tuple[Text, ...]) -> Iterator[Inner]:
    for word in argv[1:]:
        key, _, value = word.text.partition("=")
        if key in ("SHELL", "CC", "CXX", "LD") and value:
            yield Inner("text", (Text(value, word.taint),))
        elif word.text.startswith("--eval="):
            yield from (
                Inner("text", (Text(found, word.taint),)) for found in re.findall(r"\$\(shell ([^)]*)\)", word.text)
            )


_INNER: Final[dict[str, Callable[[tuple[Text, ...]], Iterator[Inner]]]] = {
    "git": _git,
    "find": _find,
    "gfind": _find,
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    "vim": _editor,
    "vi": _editor,
    "nvim": _editor,
    "ex": _editor,
    "sed": _sed,
    "gsed": _sed,
    "make": _make,
    "gmake": _make,
    "rsync": _option("-e", "--rsh", "--rsync-path"),
    "scp": _option("-S"),
    "sftp": _option("-S"),
    "man": _option("-P", "--pager"),
    "split": _option("--filter"),
    "sort": _option("--compress-program"),
    "fd": _option("-x", "-X", "--exec", "--exec-batch"),
    "rg": _option("--pre"),
    "zip": _option("-TT", "--unzip-command"),
    "tcpdump": _option("-z"),
    "mysql": _option("-e"),
    "ssh-keygen": _option("-D"),
    "inotifywait": _option("--exec"),
    "fzf": _option("--preview", "--bind"),
    "nmap": _option("--script"),
    "wget": _option("--use-askpass"),
    "nodemon": _option("-x", "--exec"),
    "watchexec": _option("--shell"),
    "concurrently": _option("-x"),
    "logger": _option("--exec"),
}
