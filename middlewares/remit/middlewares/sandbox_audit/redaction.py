"""Commands and paths as they may stand in a log: without secrets, on one line, of bounded length."""

from __future__ import annotations

import json
import re
from typing import Final

from remit.middlewares.token_forms import KNOWN_FORMS

MASK: Final = "***"
MAX_COMMAND: Final = 1_000
"""Characters of a command that are logged."""
_READ: Final = 4_000
"""Characters of a command that are looked at: a secret that begins in what is shown must not end behind it."""

_WORD: Final = r"(?:\"(?:[^\"\\]|\\.)*\"?|\$?'[^']*'?|[^\s\"'\\;&|<>]|\\.)+"
"""One word of a shell: quoted parts and bare ones in a row. Nothing may follow it in a pattern."""
_NAMED: Final = re.compile(
    r"(?<![\w.-])(?P<dash>--?)?(?P<name>[A-Za-z_][\w.-]{1,200})(?P<set>[\"']?\s{0,4}[=:]\s{0,4}|\s{1,10})(?![=\s])"
)
_SECRET: Final = re.compile(
    r"passw|passphrase|secret|token|credential|api[_.-]?key|access[_.-]?key|private[_.-]?key|authorization|cookie"
    r"|(?:^|[_.-])(?:pass|pwd|pw|auth|key|dsn|signature|sig|pat|otp|pin)(?:$|[_.-])",
    re.IGNORECASE,
)
_PERHAPS: Final = re.compile(
    r"pass|secret|token|cred|key|auth|cookie|pwd|pw\b|dsn|sig|pat\b|otp|pin\b|pw[_.-]|pat[_.-]|pin[_.-]", re.IGNORECASE
)
"""What every name has that `_SECRET` finds."""
_HEADER: Final = re.compile(r"(?:authorization|cookie)$", re.IGNORECASE)
_VALUE: Final = re.compile(_WORD, re.DOTALL)
_REST: Final = re.compile(r"[^\r\n\"']+")

_FORMS: Final[tuple[re.Pattern[str], ...]] = (
    # Keys in PEM form, also when the command was cut before their end.
    re.compile(r"(?P<kept>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----)(?:(?!-----END ).)+", re.DOTALL),
    # user:password@ in a URL, and a token in the place of the user.
    re.compile(r"(?P<kept>(?<=://))[^\s/@\"']{1,500}(?=@)"),
    # Passwords in places where they have no name.
    re.compile(rf"(?P<kept>(?<![\w-])(?:-u|--user|--proxy-user)(?:\s{{1,10}}|=)){_WORD}", re.DOTALL),
    re.compile(rf"(?P<kept>\b(?:mysql\w*|mariadb)\b[^\n;|&]{{0,200}}?\s-p)(?=\S){_WORD}", re.DOTALL),
    re.compile(rf"(?P<kept>\bsshpass\s{{1,10}}-p\s{{0,10}}){_WORD}", re.DOTALL),
    re.compile(r"(?P<kept>\b(?:bearer|basic)\s{1,4})[\w.~+/=-]{8,}", re.IGNORECASE),
    # Tokens that are known by their form.
    re.compile(rf"(?P<kept>(?<![\w-])){KNOWN_FORMS}"),
)


def redacted(text: str) -> str:
    """`text` with everything masked that looks like a secret. Only its first `_READ` characters are kept."""
    text = text[:_READ]
    for form in _FORMS:
        text = form.sub(_masked, text)
    return text if _PERHAPS.search(text) is None else _without_named(text)


def loggable(text: str, limit: int = MAX_COMMAND) -> str:
    """`text` redacted and cut to `limit` characters, of which the JSON form has at most twice as many.

    Args:
        text: A command, a path or a name.
        limit: Characters that are kept; three dots at the end say that some were not.
    """
    text = redacted(text)
    kept = text[:limit]
    while len(json.dumps(kept)) > 2 * limit:  # what has to be written out takes up to twelve characters for one
        kept = kept[: len(kept) * 3 // 4]
    return kept if len(kept) == len(text) else kept[: max(len(kept) - 3, 0)] + "..."


def _masked(found: re.Match[str]) -> str:
    return found["kept"] + MASK


def _without_named(text: str) -> str:
    """`text` without the values of options, variables, fields and headers whose names sound like a secret."""
    parts: list[str] = []
    done = position = 0
    while (found := _NAMED.search(text, position)) is not None:
        position = found.end()
        by_space = not found["set"].strip()
        if (by_space and not found["dash"]) or not _SECRET.search(found["name"]):
            position = found.end("name")
            continue
        value = (_REST if _HEADER.search(found["name"]) else _VALUE).match(text, found.end())
        if value is None or (by_space and value[0].startswith("-")):
            continue
        parts += (text[done : value.start()], MASK)
        done = position = value.end()
    return "".join((*parts, text[done:]))
