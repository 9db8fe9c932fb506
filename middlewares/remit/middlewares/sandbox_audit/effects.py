"""Which files a program reads and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import paths
from remit.middlewares.sandbox_audit.taint import (
    FETCHED,
    HOLE,
    UNKNOWN,
    Text,
)

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk

_READERS: Final = frozenset(
    [
        "cat",
        "tac",
        "nl",
        "less",
        "more",
        "most",
        "head",
        "tail",
        "cut",
        "sort",
        "uniq",
        "od",
        "xxd",
        "hexdump",
        "hd",
        "strings",
        "base64",
        "base32",
        "basenc",
        "fold",
        "rev",
        "column",
        "expand",
        "unexpand",
        "paste",
        "join",
        "comm",
        "diff",
        "cmp",
        "sdiff",
        "wc",
        "sum",
        "md5sum",
        "sha1sum",
        "sha224sum",
        "sha256sum",
        "sha384sum",
        "sha512sum",
        "b2sum",
        "cksum",
        "shasum",
        "view",
        "bat",
        "batcat",
        "pr",
        "fmt",
        "iconv",
        "zcat",
        "bzcat",
        "xzcat",
        "zless",
        "gzip",
        "bzip2",
        "xz",
        "zstd",
        "7z",
        "zip",
        "vi",
        "vim",
        "nvim",
        "nano",
        "emacs",
        "pico",
        "open",
        "xdg-open",
        "pandoc",
        "csvtool",
        "source",
        ".",
        "split",
        "csplit",
        "tr",
        "rg",
        "dos2unix",
        "tee-in",
        "gunzip",
        "mapfile",
        "readarray",
        "file",
        "look",
        "numfmt",
        "shuf",
        "tsort",
        "ul",
    ]
)
_PATTERN_FIRST: Final = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "zgrep",
        "rg",
        "ag",
        "ack",
        "awk",
        "gawk",
        "mawk",
        "nawk",
        "jq",
        "yq",
        "sed",
        "gsed",
        "perl",
        "ruby",
    ]
)
_COPIES: Final = frozenset(["cp", "mv", "install", "ln", "rsync", "scp", "gcp", "gmv", "link"])
_WRITERS: Final = frozenset(
    ["touch", "truncate", "sponge", "unlink", "mkdir", "shred", "gshred", "wipe", "patch", "ed", "ex"]
)
_MODES: Final = frozenset(["chmod", "chown", "chgrp", "setfacl"])
_COUNTED: Final = frozenset({"head", "tail", "cut", "sort", "split"})
_FILE_ARGUMENT: Final = re.compile(r"[^=@<]*[=]?[@<](.+)", re.DOTALL)
_REMOTE_NAME: Final = re.compile(r"https?://[^/?#]+/(?:[^?#]*/)?([^/?#]+)")


def reading(walk: Walk, target: Text) -> Text:
    """A file is read; returns what is in it."""
    path = paths.resolved(target.text, walk.state.cwd)
    if not path.startswith(("/", "~", HOLE)):
        pass  # somewhere in the workspace
    elif paths.is_secret(path):
        walk.report("secret-file")
    elif paths.is_credential(path):
        walk.report("credential-file")
    elif paths.is_network(path):
        walk.report("network-device")
    return walk.state.files.get(path, UNKNOWN)


def writing(walk: Walk, target: Text) -> str:
    """A file is written; returns its path."""
    path = paths.resolved(target.text, walk.state.cwd)
    if not path.startswith(("/", "~")):
        return path
    if paths.is_network(path):
        walk.report("network-device")
    elif paths.is_disk(path):
        walk.report("disk-overwrite")
    elif paths.is_startup(path):
        walk.report("startup-file")
    elif paths.is_system(path):
        walk.report("system-file")
    return path


def deleting(walk: Walk, target: Text, *, recursive: bool) -> None:
    """A file or a tree is removed."""
    path = paths.resolved(target.text, walk.state.cwd)
    if recursive and paths.is_vital(path):
        walk.report("destructive-delete")
    elif recursive and paths.may_be_root(path):
        walk.report("unknown-delete")
    else:
        writing(walk, target)


def operands(argv: tuple[Text, ...], values: str = "") -> list[Text]:
    """The arguments that are no options, wherever they stand; `values` are options that take the next argument."""
    takes = values.split()
    found: list[Text] = []
    at = 1
    while at < len(argv):
        text = argv[at].shown
        if text == "--":
            return [*found, *argv[at + 1 :]]
        if len(text) > 1 and text[0] == "-":
            at += 2 if text in takes else 1
        else:
            found.append(argv[at])
            at += 1
    return found


def flagged(argv: tuple[Text, ...], letters: str, *names: str) -> bool:
    """Whether one of the options is there: a letter, alone or among others, or a name."""
    for word in argv[1:]:
        text = word.shown
        if text == "--":
            return False
        if text.startswith("--"):
            if text.partition("=")[0] in names:
                return True
        elif text.startswith("-") and any(letter in text[1:] for letter in letters):
            return True
    return False


def valued(argv: tuple[Text, ...], names: str) -> list[Text]:
    """The values of the options `names`, wherever they stand."""
    takes = names.split()
    found: list[Text] = []
    for n, word in enumerate(argv):
        for name in takes:
            if word.text == name and n + 1 < len(argv):
                found.append(argv[n + 1])
            elif name.startswith("--") and word.text.startswith(name + "="):
                found.append(Text(word.text[len(name) + 1 :], word.taint))
            elif len(name) == 2 and word.text.startswith(name) and len(word.text) > 2:
                found.append(Text(word.text[2:], word.taint))
            elif (
                len(name) == 2
                and re.fullmatch(r"-[A-Za-z]+", word.text)
                and word.text.endswith(name[1])
                and n + 1 < len(argv)
            ):
                found.append(argv[n + 1])
    return found


def files(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    """Look at what the program does to files."""
    effect = _EFFECTS.get(name)
    if effect is not None:
        effect(walk, name, argv, feed)


def _tee(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    given = feed.text if feed is not None else UNKNOWN
    for target in operands(argv):
        path = writing(walk, target)
        if path in walk.sinks:
            walk.sunk(path, given)
        else:
            walk.state.written(path, given, append=flagged(argv, "a", "--append"))


def _removed(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    recursive = name != "rmdir" and (name != "rm" or flagged(argv, "rR", "--recursive"))
    if flagged(argv, "", "--no-preserve-root"):
        walk.report("destructive-delete")
    for target in operands(argv):
        deleting(walk, target, recursive=recursive)


def _changed(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    for target in operands(argv, "-s --size -m --mode -n --iterations -r --reference -d --date -t"):
        writing(walk, target)


def _permitted(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    recursive = flagged(argv, "R", "--recursive")
    for target in operands(argv)[1:]:
        path = paths.resolved(target.text, walk.state.cwd)
        if recursive and paths.is_vital(path):
            walk.report("destructive-delete")
        elif paths.is_secret(path) or paths.is_system(path):
            walk.report("system-file")


def _dd(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    for word in argv[1:]:
        key, _, value = word.text.partition("=")
        if key == "of":
            writing(walk, Text(value, word.taint))
        elif key == "if":
            reading(walk, Text(value, word.taint))


def _filtered(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    """The first operand is a pattern or a script, unless options give one."""
    scripted = flagged(argv, "ef", "--regexp", "--file", "--from-file", "--expression")
    greps = name in ("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack")
    values = "-e -f --regexp --file --expression " + ("-A -B -C -m -g -t" if greps else "-v -F --arg --argjson")
    targets = operands(argv, values)[0 if scripted else 1 :]
    if name in ("sed", "gsed", "perl", "ruby") and flagged(argv, "i", "--in-place"):
        for target in targets:
            writing(walk, target)
        return
    for target in targets:
        reading(walk, target)


def _looked_at(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    for target in operands(argv, "-n -c -d -f -k -t -s -w -o" if name in _COUNTED else ""):
        reading(walk, target)
    if name == "sort":
        for target in valued(argv, "-o --output"):
            writing(walk, target)


def _unpacked(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    for target in valued(argv, "-d" if name == "unzip" else "-o"):
        writing(walk, target)


def _copied(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    into = valued(argv, "-t --target-directory")
    found = operands(
        argv, "-t --target-directory -m --mode -o --owner -g --group -S --suffix -e --rsh -P -i -F --exclude --include"
    )
    if name == "install" and flagged(argv, "d", "--directory"):
        sources: list[Text] = []
        targets = found
    else:
        sources, targets = (found, into) if into else (found[:-1], found[-1:])
    for source in sources:
        if name == "mv":
            deleting(walk, source, recursive=True)
        reading(walk, source)
    for target in targets:
        path = writing(walk, target)
        for source in sources:
            origin = paths.resolved(source.text, walk.state.cwd)
            base = origin.rpartition("/")[2]
            if origin in walk.state.files:
                content = walk.state.files[origin]
                walk.state.written(path, content, append=False)
                walk.state.written(f"{path.rstrip('/')}/{base}", content, append=False)
            elif source.text.startswith("/") and "bin/" in source.text:
                walk.programs[path] = base


def _fetched(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    content = Text(HOLE, FETCHED)
    names = {"curl": "-o --output", "aria2c": "-o --out"}.get(name, "-O --output-document")
    written = valued(argv, names)
    folder = valued(argv, {"curl": "--output-dir", "aria2c": "-d --dir"}.get(name, "-P --directory-prefix"))
    for target in written:
        path = writing(walk, target)
        if path in walk.sinks:
            walk.sunk(path, content)
        elif target.text != "-":
            walk.state.written(path, content, append=False)
    for target in folder:
        writing(walk, target)
    if not written and (name != "curl" or flagged(argv, "OJ", "--remote-name", "--remote-name-all")):
        for word in argv[1:]:
            base = _REMOTE_NAME.match(word.text)
            if base is not None:
                path = base.group(1) if not folder else f"{folder[0].text.rstrip('/')}/{base.group(1)}"
                walk.state.written(paths.resolved(path, walk.state.cwd), content, append=False)
            elif HOLE in word.text:
                walk.state.written(HOLE, content, append=False)
    for word in valued(argv, "-T --upload-file -K --config -E --cert --key -i --input-file --post-file --body-file"):
        reading(walk, word)
    for word in valued(
        argv, "-d --data --data-binary --data-urlencode --data-raw -F --form --json -H --header --url-query"
    ):
        found = _FILE_ARGUMENT.match(word.text)
        if found is not None:
            reading(walk, Text(found.group(1).partition(";")[0], word.taint))
    for word in argv[1:]:
        if word.text.startswith("file:"):
            reading(walk, Text(word.text[5:].lstrip("/").join(("/", "")), word.taint))


def _packed(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    mode = argv[1].shown if len(argv) > 1 else ""
    extracts = "x" in mode.lstrip("-").partition("=")[0] or flagged(argv, "x", "--extract", "--get")
    for target in valued(argv, "-C --directory --one-top-level"):
        if extracts and writing(walk, target) == "/":
            walk.report("system-file")
    if not extracts:
        for target in operands(argv, "-C --directory -X --exclude --exclude-from -T --files-from"):
            reading(walk, target)
        for target in valued(argv, "-f --file"):
            writing(walk, target)


_EFFECTS: Final[dict[str, Callable[[Walk, str, tuple[Text, ...], Feed | None], None]]] = {
    "tee": _tee,
    "dd": _dd,
    **dict.fromkeys(("rm", "srm", "rimraf", "trash", "rmdir"), _removed),
    **dict.fromkeys(_WRITERS, _changed),
    **dict.fromkeys(_MODES, _permitted),
    **dict.fromkeys(_READERS, _looked_at),
    **dict.fromkeys(_PATTERN_FIRST, _filtered),
    **dict.fromkeys(_COPIES, _copied),
    **dict.fromkeys(("curl", "wget", "aria2c", "wget2"), _fetched),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _packed),
    **dict.fromkeys(("unzip", "7z"), _unpacked),
}
