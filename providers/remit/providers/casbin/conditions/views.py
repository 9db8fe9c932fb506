"""Canonical views of argument values: what a path, a URL or a text *is*, whatever way it was spelled.

Every function here is total. It takes any JSON value, and answers None, *unknown*, where the value has another type or
where readers of such values are known to disagree: a condition that sees None never grants and never lifts a
restriction.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any, Final

from remit.authz.vocabulary import skeleton

MAX_PATH: Final = 4096
MAX_URL: Final = 8192
MAX_TEXT: Final = 65_536
"""Characters of a text that is not plain ASCII and is still normalised; longer ones are unknown."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def text_of(value: Any) -> str | None:
    """A str in Unicode normal form C."""
    if type(value) is not str:
        return None
    if value.isascii():
        return value
    return unicodedata.normalize("NFC", value) if len(value) <= MAX_TEXT else None


def lower_of(value: Any) -> str | None:
    """A text with the differences of case taken away (Unicode case folding)."""
    text = text_of(value)
    return None if text is None else unicodedata.normalize("NFC", text.casefold())


def trim_of(value: Any) -> str | None:
    """A text without white space around it."""
    text = text_of(value)
    return None if text is None else text.strip()


def length_of(value: Any) -> int | None:
    """Characters of a str, items of a list, keys of a mapping."""
    if type(value) is str or isinstance(value, (list, tuple, dict, frozenset)):
        return len(value)
    return None


_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_\-+=,@%][A-Za-z0-9_\-+=,@%.]*)+")
_ALIASES = frozenset({"root", "cwd", "fd", "map_files"})


def path_of(value: Any) -> str | None:
    """A POSIX path with `//`, `.` and `..` resolved and no slash at its end. Symbolic links are not followed.

    Unknown: the empty string, control and invisible characters, a backslash, a leading ``~``, a relative path that
    climbs above its start, the aliases under ``/proc`` and ``/dev/fd``.
    """
    if type(value) is not str or not value or len(value) > MAX_PATH:
        return None
    if _PLAIN_PATH.fullmatch(value) and not value.startswith(("/proc/", "/dev/fd")):
        return value
    if "\\" in value or value[0] == "~" or _has_unseen(value):
        return None
    absolute = value[0] == "/"
    parts: list[str] = []
    for part in unicodedata.normalize("NFC", value).split("/"):
        if part == "..":
            if parts:
                parts.pop()
            elif not absolute:
                return None
        elif part not in ("", "."):
            if part in _ALIASES and absolute and parts[:1] in (["proc"], ["dev"]):
                return None
            parts.append(part)
    return ("/" if absolute else "") + "/".join(parts) or "."


def same_path(left: str | None, right: str | None) -> bool | None:
    """Are two canonical paths one? Unknown when one is relative and the other is not."""
    if left is None or right is None or (left[0] == "/") is not (right[0] == "/"):
        return None
    return left == right


def under(path: str | None, folder: str | None) -> bool | None:
    """Is a canonical path `folder` itself or inside it? Unknown when one is relative and the other is not."""
    if path is None or folder is None or (path[0] == "/") is not (folder[0] == "/"):
        return None
    if folder in ("/", "."):
        return True
    return path == folder or (path.startswith(folder) and path[len(folder)] == "/")


_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([?#][^/]*)?")
_BARE_HOST = re.compile(r"([^\s:/?#@\[\]%]+)(?::[0-9]{1,5})?")
_AUTHORITY = re.compile(r"(?:[^@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]%]+)(?::[0-9]{0,5})?")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_\-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_\-]{0,62}))*")
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!\Z)|\Z)){4}")
_DISPUTED = re.compile(r"[\x00-\x20\x7f\\]")
_DOTS = frozenset("\u3002\uff0e\uff61")
_DEVIATIONS = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")


def scheme_of(value: Any) -> str | None:
    """The scheme of a URL in lower case. Unknown without ``://``."""
    found = _url(value)
    return None if found is None else found[1].lower()


def host_of(value: Any) -> str | None:
    """The host of a URL, or of a bare ``host`` or ``host:port``: lower case, IDNA, no user name, port or final dot.

    Unknown wherever URL readers disagree: blanks, control characters, backslashes, percent signs in the host, several
    ``@``, numeric hosts that are no plain dotted quad, letters that the two IDNA standards map differently.
    """
    if type(value) is not str or len(value) > MAX_URL or _DISPUTED.search(value):
        return None
    if "://" not in value:
        bare = _BARE_HOST.fullmatch(value)
        return None if bare is None else host_name(bare[1])
    found = _url(value)
    if found is None or (found[3] and "@" in found[3]):
        return None
    authority = _AUTHORITY.fullmatch(found[2])
    return None if authority is None else host_name(authority[1])


def host_name(name: str) -> str | None:
    """The canonical form of a host name or address, or None when it is none or is disputed."""
    if ":" in name:
        return _ipv6(name.removeprefix("[").removesuffix("]"))
    if not name.isascii():
        if not all(map(_undisputed, name)):
            return None
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    name = name.lower().removesuffix(".")
    if _HOST.fullmatch(name) is None:
        return None
    last = name.rpartition(".")[2]
    if last[0].isdigit() and (last.isdigit() or last.startswith("0x")):
        return name if _IPV4.fullmatch(name) else None
    return name


def _undisputed(char: str) -> bool:
    """Is `char` ASCII, or a letter, digit, mark or full stop that both IDNA standards read alike?"""
    if char.isascii() or char in _DOTS:
        return True
    return char not in _DEVIATIONS and (char.isalnum() or unicodedata.category(char)[0] == "M")


def _ipv6(text: str) -> str | None:
    from ipaddress import IPv6Address  # only for URLs that hold such an address

    try:
        address = IPv6Address(text)
    except ValueError:
        return None
    return None if address.ipv4_mapped or address.sixtofour or address.teredo else address.compressed


def _url(value: Any) -> re.Match[str] | None:
    if type(value) is not str or len(value) > MAX_URL or _DISPUTED.search(value):
        return None
    return _URL.match(value)


def in_domain(host: str | None, domain: str | None) -> bool | None:
    """Is a canonical host `domain` or one of its subdomains?"""
    if host is None or domain is None:
        return None
    return host == domain or host.endswith("." + domain)


class _Shapes(dict[int, str | None]):
    """Code point -> the ASCII letter it looks like, a space for blanks, nothing for what is invisible, else itself."""

    def __missing__(self, point: int) -> str | None:
        char = " " if chr(point).isspace() else chr(point)
        shape = None if unicodedata.category(char) in _UNSEEN else skeleton(char)
        self[point] = shape
        return shape


_shapes = _Shapes()
_BLANKS = bytes.maketrans(b"\t\n\v\f\r", b"     ")
_CONTROLS = bytes(point for point in (*range(32), 127) if not chr(point).isspace())


def plain(text: str) -> bool:
    """Does `text` hold nothing that a reader could overlook or mistake: visible ASCII only?"""
    return text.isascii() and text.isprintable()


def shape_of(text: str) -> str:
    """`text` as a reader sees it: look-alikes as the ASCII letters they resemble, nothing invisible."""
    if text.isascii():  # by bytes, since whole files may come here
        return text if text.isprintable() else text.encode().translate(_BLANKS, _CONTROLS).decode()
    return unicodedata.normalize("NFKC", text).translate(_shapes)


@cache
def prepare() -> None:
    """Load the tables now, so that no evaluation ever reads a file."""
    shape_of("\u03bf")
    "\u00fc".encode("idna")


def same_text(left: Any, right: Any) -> bool | None:
    """Are two texts equal? Unknown when they differ but look the same on a screen, blanks around them included."""
    if type(left) is not str or type(right) is not str:
        return None
    if left == right:
        return True
    if plain(left) and plain(right):
        return None if left.strip() == right.strip() else False
    first, second = text_of(left), text_of(right)
    if first is None or second is None:
        return None
    if first == second:
        return True
    return None if shape_of(first).strip() == shape_of(second).strip() else False


def starts(value: Any, start: Any) -> bool | None:
    """Does a text begin with `start`? Unknown when it only looks as if it did."""
    text, start = text_of(value), text_of(start)
    if text is None or start is None:
        return None
    return text.startswith(start) or _looks(text, start, str.startswith)


def ends(value: Any, end: Any) -> bool | None:
    """Does a text end with `end`? Unknown when it only looks as if it did."""
    text, end = text_of(value), text_of(end)
    if text is None or end is None:
        return None
    return text.endswith(end) or _looks(text, end, str.endswith)


def contains(value: Any, part: Any) -> bool | None:
    """Does a text hold `part`? Unknown when it only looks as if it did."""
    text, part = text_of(value), text_of(part)
    if text is None or part is None:
        return None
    return part in text or _looks(text, part, str.__contains__)


def _looks(text: str, part: str, relation: Any) -> bool | None:
    if plain(text) and plain(part):
        return False
    shape = shape_of(part)
    return None if shape and relation(shape_of(text), shape) else False


def _has_unseen(text: str) -> bool:
    if text.isascii():
        return not text.isprintable()
    return any(unicodedata.category(char) in _UNSEEN for char in text)
