"""What is wrong with a pattern, by the function that reads it.

Casbin reads patterns in surprising ways and raises on malformed ones while deciding. Where it matches more than the
pattern says, an allow row is refused or held to the letter, and a deny row keeps the wider reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from ipaddress import ip_network
from typing import Final, NamedTuple

from remit.authz.errors import Severity


class PatternFlaw(NamedTuple):
    """One thing to say about a pattern."""

    code: str
    message: str
    advice: str
    in_allow: Severity | None
    in_deny: Severity | None
    """Severity in a row that restricts (deny, ask); None keeps silent."""


_MAX_BRACES = 1000
_PLAIN_KEY = re.compile(r"(?:[\w\-~%@ ]|/(?:\*|:\w+)?|/?\{\w+\})*")
_STAR_BEHIND_TEXT = re.compile(r"(?<!^)(?<!/)\*")
_META = re.compile(r"[.+?()\[\]|^$\\]|\{\d")
_SET_TO_COME = re.compile(r"\[\^?\[|\[[^\]]*(?:--|&&|~~|\|\|)")


def pattern_flaws(function: str, pattern: str) -> Iterator[PatternFlaw]:
    """Everything to say about `pattern`, which `function` (``keyMatch``, ``globMatch``, ``timeMatch``, …) reads."""
    return _READERS[function](pattern)


def _both(code: str, severity: Severity, message: str, advice: str) -> PatternFlaw:
    return PatternFlaw(code, message, advice, severity, severity)


def _key_match(pattern: str) -> Iterator[PatternFlaw]:
    head, star, tail = pattern.partition("*")
    if not star or not tail.strip("*"):
        return
    message = f"keyMatch ignores what follows the first '*', so {pattern!r} means {head + '*'!r}"
    if pattern == "*/*":
        yield _both("text-after-star", "warning", message, "write '*'")
    else:
        advice = f"write {head + '*'!r}, or use globMatch in the matcher"
        yield PatternFlaw("text-after-star", message, advice, "error", "warning")


def _regular(pattern: str, source: str) -> Iterator[PatternFlaw]:
    """Whether `source`, what Casbin makes of `pattern`, is a regular expression."""
    if _SET_TO_COME.search(source) is not None:
        message = f"{pattern!r} holds a character set that will change its meaning"
        yield _both("pattern", "error", message, "write a backslash before '[' and doubled characters in the set")
        return
    try:
        re.compile(source)
    except (re.error, OverflowError, RecursionError) as exc:
        reason = exc.msg if isinstance(exc, re.error) else "it is too large"
        yield _both(
            "pattern", "error", f"{pattern!r} is no pattern ({reason})", "correct it; deciding would fail on it"
        )


def _key_match_n(number: int) -> Callable[[str], Iterator[PatternFlaw]]:
    name = f"keyMatch{number}"
    placeholder = re.compile(r":[^/]+" if number == 2 else r"\{[^/]+?\}" if number == 3 else r"\{[^/]+\}")

    def flaws(pattern: str) -> Iterator[PatternFlaw]:
        if (number == 2 and pattern == "*") or (_PLAIN_KEY.fullmatch(pattern) is not None and number != 2):
            return
        source = placeholder.sub("[^/]+" if number != 4 else "([^/]+)", pattern.replace("/*", "/.*"))
        malformed = list(_regular(pattern, f"^{source}$"))
        yield from malformed
        if malformed:
            return
        if number == 4 and re.compile(f"^{source}$").groups != len(placeholder.findall(pattern)):
            yield _both("pattern", "error", f"{pattern!r} has brackets of its own", f"{name} takes {{name}} only")
        literal = placeholder.sub("", pattern)
        if (star := _STAR_BEHIND_TEXT.search(literal)) is not None:
            before = literal[star.start() - 1]
            message = f"{name} reads the '*' in {pattern!r} as a repetition of {before!r}, not as anything"
            yield _both("star-after-text", "warning", message, "write '/*', or use globMatch in the matcher")
        if (meta := _META.search(literal)) is not None:
            yield PatternFlaw(
                "meta-character",
                f"Casbin's {name} reads {meta.group()!r} in {pattern!r} as part of a regular expression",
                "in this allow row it stands for itself; add nothing if that is meant",
                "warning",
                None,
            )
            message = (
                f"{name} reads {meta.group()!r} in {pattern!r} as part of a regular expression, so it matches more"
            )
            yield PatternFlaw("meta-character", message, "nothing to do if that is meant", None, "warning")
        if number == 2 and (colon := re.search(r"(?<!^)(?<!/):[^/]+", pattern)) is not None:
            message = f"keyMatch2 reads {colon.group()!r} in {pattern!r} as a placeholder for anything"
            yield _both("placeholder", "warning", message, "compare with == in the matcher if that is a name")

    return flaws


def _regex_match(pattern: str) -> Iterator[PatternFlaw]:
    malformed = list(_regular(pattern, pattern))
    yield from malformed
    if malformed or all(_anchored(part) for part in _alternatives(pattern)):
        return
    yield PatternFlaw(
        "no-anchor",
        f"Casbin's regexMatch lets {pattern!r} match the beginning of a longer text",
        f"this allow row must match to the end; write {f'^({pattern})$'!r} to say so",
        "warning",
        None,
    )
    message = f"regexMatch lets {pattern!r} match the beginning of a longer text"
    yield PatternFlaw("no-anchor", message, f"write {f'^({pattern})$'!r}, if that is meant", None, "warning")


def _anchored(part: str) -> bool:
    return part.endswith((".*", ".*)", r"\Z")) or re.search(r"(?<!\\)(?:\\\\)*\$\)*$", part) is not None


def _alternatives(pattern: str) -> list[str]:
    """The top-level alternatives of a regular expression."""
    out, depth, in_set, start, at = [], 0, False, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            out.append(pattern[start:at])
            start = at + 1
        at += 1
    return [*out, pattern[start:]]


def _glob_match(pattern: str) -> Iterator[PatternFlaw]:
    for mark, closing in (("[", "]"), ("{", "}")):
        if mark in pattern and not _closed(pattern, mark, closing):
            yield _both(
                "pattern",
                "error",
                f"the {mark!r} in {pattern!r} is never closed",
                f"write {chr(92) + mark!r} for the character",
            )
            return
    if pattern.endswith("\\") and (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        yield _both("pattern", "error", f"{pattern!r} ends with a lone backslash", "write it twice for the character")
        return
    if "{" in pattern and not _few_braces(pattern):
        message = f"the braces in {pattern!r} stand for more than {_MAX_BRACES} patterns"
        yield _both("pattern", "error", message, "write fewer alternatives")
        return
    if pattern.startswith("*/"):
        message = f"Casbin's globMatch drops the '*' of {pattern!r}, so it matches names that begin with '/' only"
        yield PatternFlaw("star-slash", message, "write '**/…' or '?*/…'", "warning", "error")
    elif any(part[:1] in ("*", "?", "[") for part in pattern.split("/")):
        message = f"{pattern!r} does not match names that begin with a dot"
        yield PatternFlaw("hidden-names", message, "add a row for them, or use a lone '*'", None, "warning")


def _closed(pattern: str, mark: str, closing: str) -> bool:
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == mark:
            start = at + 1 + (mark == "[" and pattern[at + 1 : at + 2] in ("!", "^"))
            at = pattern.find(closing, start + (mark == "["))  # a ']' right behind '[' is a member of the set
            if at == -1:
                return False
        at += 1
    return True


def _few_braces(pattern: str) -> bool:
    from wcmatch import glob  # slow to import: only policies with braces pay for it

    try:
        glob.translate(pattern, flags=glob.GLOBSTAR | glob.BRACE, limit=_MAX_BRACES)
    except Exception:  # the library names its limits by several types, and all of them would surface while deciding
        return False
    return True


def _ip_match(pattern: str) -> Iterator[PatternFlaw]:
    try:
        ip_network(pattern, strict=False)
    except ValueError:
        yield _both("pattern", "error", f"{pattern!r} is no IP address or network", "write, for example, '10.0.0.0/8'")


def _time_match(value: str) -> Iterator[PatternFlaw]:
    if value == "_":
        return
    try:
        datetime.strptime(value, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        yield _both(
            "pattern", "error", f"{value!r} is no point in time", "write '2026-01-31 00:00:00', or '_' for none"
        )


_READERS: Final[dict[str, Callable[[str], Iterator[PatternFlaw]]]] = {
    "keyMatch": _key_match,
    "keyMatch2": _key_match_n(2),
    "keyMatch3": _key_match_n(3),
    "keyMatch4": _key_match_n(4),
    "keyMatch5": _key_match_n(5),
    "regexMatch": _regex_match,
    "globMatch": _glob_match,
    "ipMatch": _ip_match,
    "timeMatch": _time_match,
}

SUSPICIOUS: Final[dict[str, str]] = {
    "keyMatch": "*",
    "keyMatch2": "*.+?()[]|^$\\:{}",
    "keyMatch3": "*.+?()[]|^$\\{}",
    "keyMatch4": "*.+?()[]|^$\\{}",
    "keyMatch5": "*.+?()[]|^$\\{}",
    "globMatch": "*?[{\\",
}
"""Function -> characters without which no value needs a second look. Other functions look at every value."""
