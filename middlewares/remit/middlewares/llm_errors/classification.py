"""What kind of failure an exception of a model call is, and whether trying again may help.

Structure comes before words: an error code that a provider documents, a status, the class of the exception. Words are
looked for only where these leave the matter open, as whole words in the company that gives them their meaning:
"credit balance is too low" is about money, "credit card" in a quoted argument is not.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from remit.middlewares.llm_errors.rules import (
    CHUNK_TIMEOUT,
    CLASSES,
    CODES,
    LAST_WORDS,
    RATE_LIMITED,
    STATUSES,
    VAGUE,
    WORDS,
    Reason,
)

MAX_TEXT: Final = 4_000
"""Characters of an exception's text that are read."""
MAX_CAUSES: Final = 5
RETRIABLE: Final = frozenset({"burst_rate", "transient", "busy"})


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception, understood. Holds nothing that a provider or a user wrote."""

    reason: Reason
    type: str
    """Class of the exception."""
    status: int | None = None
    code: str | None = None
    """The provider's own code, when it is one that is known or a short number."""
    chunk_timeout: bool = False
    """Whether a stream stopped coming."""

    @property
    def retriable(self) -> bool:
        return self.reason in RETRIABLE

    @property
    def detail(self) -> str:
        """Class, status and code: ``RateLimitError (429, rate_limit_exceeded)``."""
        known = ", ".join(str(part) for part in (self.status, self.code) if part is not None)
        return f"{self.type} ({known})" if known else self.type


def classify(error: BaseException, *, retry_announced: bool = False) -> Failure:
    """Understand a failure. Never raises, whatever the exception is made of.

    Args:
        error: What the model call raised.
        retry_announced: Whether the provider said when to come back. What it calls a quota is then a limit of the rate,
            unless a code says otherwise.
    """
    status = _status(error)
    codes = list(dict.fromkeys(_codes(error)))
    names = [kind.__name__ for kind in type(error).__mro__]
    reason = _reason(error, status, codes, names, retry_announced)
    shown = next((code for code in codes if code in CODES), None) or next(
        (code for code in codes if code in VAGUE or (re.fullmatch(r"\d{1,6}", code) and code != str(status))), None
    )
    return Failure(reason, _safe_name(names[0]), status, shown, CHUNK_TIMEOUT in names)


def _reason(
    error: BaseException, status: int | None, codes: list[str], names: list[str], retry_announced: bool
) -> Reason:
    meant = [CODES[code] for code in codes if code in CODES]
    for reason in ("quota", "auth", "burst_rate", "generic"):
        if reason in meant:
            return reason
    if status is not None and status in STATUSES:
        return "busy" if "busy" in meant and STATUSES[status] == "transient" else STATUSES[status]
    if status is None:
        for name in names:
            if name in CLASSES:
                return CLASSES[name]
    text = _text(error)
    for reason, words in WORDS:
        if words.search(text) and not (reason == "quota" and retry_announced):
            return reason
    if status == RATE_LIMITED:
        return "transient"
    if meant:
        return meant[0]
    if status is not None and 400 <= status < 500:
        return "generic"
    if "RateLimitError" in names or "ModelRateLimitError" in names:
        return "transient"
    return next((reason for reason, words in LAST_WORDS if words.search(text)), "generic")


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was raised from, a few steps deep."""
    seen: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__


def attribute(thing: Any, name: str) -> Any:
    """An attribute, or None; also when looking it up fails."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _status(error: BaseException) -> int | None:
    for one in causes(error):
        for holder in (one, attribute(one, "response")):
            for name in ("status_code", "status", "http_status", "code"):
                found = attribute(holder, name)
                if isinstance(found, int) and 100 <= found < 600:
                    return int(found)  # it may be an enumeration
    return None


def _codes(error: BaseException) -> Iterator[str]:
    for one in causes(error):
        for name in ("code", "type", "error_code"):
            yield from _code(attribute(one, name))
        body = attribute(one, "body")
        for place in (body, body.get("error") if isinstance(body, Mapping) else None, attribute(one, "response")):
            if isinstance(place, Mapping):
                place = place.get("Error", place)  # as boto3 has it
            if isinstance(place, Mapping):
                for name in ("code", "type", "Code", "status"):
                    yield from _code(place.get(name))


def _code(value: Any) -> Iterator[str]:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and 0 < len(value) <= 64:
        yield value.strip().casefold().replace("-", "_").replace(" ", "_").replace(".", "_")


def _text(error: BaseException) -> str:
    parts = []
    for one in causes(error):
        with contextlib.suppress(Exception):  # somebody else's `__str__`
            parts.append(str(one))
        message = attribute(one, "message")
        if isinstance(message, str):
            parts.append(message)
        body = attribute(one, "body")
        inner = body.get("error", body) if isinstance(body, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("message"), str):
            parts.append(inner["message"])
    return " \n ".join(part[:MAX_TEXT] for part in parts)[: 2 * MAX_TEXT].casefold()


def _safe_name(name: str) -> str:
    return name[:64] if name.isidentifier() else "Exception"
