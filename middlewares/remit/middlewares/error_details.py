"""What of an exception may be shown to the model: its kind, and its message without secrets and host paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from remit.authz.errors import AuthzError
from remit.middlewares.results import escaped
from remit.middlewares.token_forms import KNOWN_FORMS
from remit.runtime.sandboxes import SandboxError

MAX_DETAIL: Final = 500
"""Characters of a message that are shown."""
_READ: Final = 4_000
"""Characters of a message that are looked at."""
_MIN_SECRET: Final = 8
"""Shorter values are too common to be masked wherever they occur."""
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|credential|auth|dsn", re.IGNORECASE)
_SECRETS: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic|token)\s+)[\w.~+/=-]{8,}"
    r"|(?P<name>(?<![\w-])[\w-]{0,40}(?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|pwd|authorization|signature)"
    r"[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"'&,;]{3,}"
    r"|(?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)"
    rf"|\b{KNOWN_FORMS}",
    re.IGNORECASE,
)
_PATHS: Final = re.compile(
    r"(?<![\w/:.~-])/(?!mnt/(?:user-data|skills)(?:/|\b))(?:[\w.@+~-]+/)+[\w.@+~-]*"
    r"|(?<=file://)/(?:[\w.@+~-]+/)*[\w.@+~-]*"
    r"|(?<![\w])[A-Za-z]:\\(?:[^\\\s\"'<>|]+\\)*[^\\\s\"'<>|]*"
)
_MASK: Final = "***"


def error_detail(error: BaseException, *, secrets: Iterable[str] = ()) -> str:
    """The message of `error` in one readable piece of at most `MAX_DETAIL` characters. Never raises.

    Empty for errors of this package that are written for operators.

    Args:
        error: The exception. Its traceback and its cause are not shown.
        secrets: Values that must not appear, beside those of the environment variables named like secrets.
    """
    if isinstance(error, AuthzError) and not isinstance(error, SandboxError):
        return ""
    try:
        text = str(error)[:_READ]
    except Exception:  # a message that cannot be made is as good as none
        return ""
    return shortened(escaped_lines(safe_text(text, secrets=secrets)))


def safe_text(text: str, *, secrets: Iterable[str] = ()) -> str:
    """`text` with secrets masked and absolute paths of the host cut to their last part."""
    for value in sorted({*secrets, *_environment_secrets()}, key=len, reverse=True):
        if len(value) >= _MIN_SECRET and value in text:
            text = text.replace(value, _MASK)
    return _PATHS.sub(_last_part, _SECRETS.sub(_masked, text))


def shortened(text: str, limit: int = MAX_DETAIL) -> str:
    """`text` cut to `limit` characters, the last three dots when something was cut."""
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def escaped_lines(text: str) -> str:
    """`text` with its lines kept, and everything else that a reader cannot see written out."""
    return "\n".join(escaped(line) for line in text.splitlines())


def _environment_secrets() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET]


def _masked(found: re.Match[str]) -> str:
    kept = found["scheme"] or found["name"] or found["user"] or ""
    return kept + _MASK


def _last_part(found: re.Match[str]) -> str:
    path = found[0].replace("\\", "/").rstrip("/")
    return f".../{path.rpartition('/')[2]}"
