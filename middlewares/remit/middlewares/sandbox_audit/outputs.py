"""What a program prints, as far as that is known without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import effects, paths
from remit.middlewares.sandbox_audit.taint import (
    DECODED,
    EMPTY,
    FETCHED,
    HOLE,
    OUTPUT,
    READ,
    SUBSTITUTED,
    UNKNOWN,
    Text,
    joined,
)

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk

_INPUT: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
FETCHERS: Final = frozenset(
    [
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "socat",
        "telnet",
        "ftp",
        "lftp",
        "sftp",
        "aria2c",
        "lynx",
        "links",
        "w3m",
        "elinks",
        "http",
        "https",
        "xh",
        "GET",
        "lwp-request",
        "axel",
        "ssh",
        "scp",
        "tftp",
        "dig",
        "host",
        "nslookup",
        "drill",
        "nc.openbsd",
        "nc.traditional",
        "wget2",
        "curlie",
        "youtube-dl",
        "yt-dlp",
    ]
)
DECODERS: Final = frozenset(["base64", "base32", "basenc", "uudecode", "b64decode", "gbase64"])
_SPEAKERS: Final = frozenset(
    [
        "cat",
        "tac",
        "head",
        "tail",
        "sed",
        "awk",
        "gawk",
        "cut",
        "grep",
        "egrep",
        "tr",
        "rev",
        "paste",
        "sort",
        "uniq",
        "fold",
        "jq",
        "yq",
        "strings",
        "less",
        "more",
        "xxd",
        "od",
        "nl",
        "column",
        "fmt",
        "iconv",
        "zcat",
        "gunzip",
        "bzcat",
        "xzcat",
        "printf",
        "echo",
        "dd",
        "tee",
        "perl",
        "ls",
        "find",
        "xclip",
        "pbpaste",
        "sponge",
        "shuf",
        "comm",
        "join",
        "envsubst",
    ]
)
_SUMS: Final = frozenset(
    ["wc", "md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum", "cksum", "sum", "shasum", "true", "test", "["]
)
_SILENT: Final = frozenset(
    [
        ":",
        "true",
        "false",
        "sleep",
        "wait",
        "mkdir",
        "rm",
        "cp",
        "mv",
        "ln",
        "touch",
        "chmod",
        "test",
        "[",
        "[[",
        "((",
        "exit",
        "break",
    ]
)


def printed(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> Text:
    """What the program prints, as far as it is known."""
    given = feed.text if feed is not None else None
    if name == "cat":
        return _shown(walk, argv, given)
    if name in _SILENT:
        return EMPTY
    taint = OUTPUT
    if name in FETCHERS and not (len(argv) == 2 and argv[1].text in ("--version", "-V", "--help", "-h")):
        taint |= FETCHED
    elif (
        name in DECODERS
        or (name == "xxd" and effects.flagged(argv, "r"))
        or (name == "openssl" and effects.flagged(argv, "d"))
        or (name in ("gpg", "gpg2", "age", "sops") and effects.flagged(argv, "d", "--decrypt"))
    ):
        taint |= DECODED
    elif name in ("aws", "gsutil", "rclone", "az", "s5cmd", "mc") and any(word.text in ("-", "cat") for word in argv):
        taint |= FETCHED
    elif name in _SPEAKERS:
        taint |= READ
    if given is not None and name not in _SUMS:
        taint |= given.taint
        if name == "tee":
            return given
    if walk.state.files and name not in _SUMS:
        for word in argv[1:]:
            content = walk.state.files.get(paths.resolved(word.text, walk.state.cwd))
            if content is not None:
                taint |= content.taint
    if name in ("dirname", "basename") and len(argv) == 2:
        folder, _, base = argv[1].text.rstrip("/").rpartition("/")
        return Text(base if name == "basename" else folder or ".", argv[1].taint | taint)
    if name == "find":
        roots = [word.text for word in argv[1:] if word.text.startswith(("/", "~", "."))][:4]
        return Text("\n".join([*roots, HOLE]), taint)
    return Text(HOLE, taint & ~SUBSTITUTED)


def _shown(walk: Walk, argv: tuple[Text, ...], given: Text | None) -> Text:
    found: list[Text] = []
    names = effects.operands(argv)
    for word in names or [Text("-")]:
        if word.text in _INPUT:
            found.append(given if given is not None else UNKNOWN)
        else:
            content = walk.state.files.get(paths.resolved(word.text, walk.state.cwd))
            found.append(
                Text(HOLE, OUTPUT | READ) if content is None else Text(content.text, content.taint & ~SUBSTITUTED)
            )
    return joined(found)
