"""Casbin's matching functions, with every pattern compiled once.

A pattern has two readings. Casbin's own is used where a match restricts (deny and ask rows). Where a match grants,
the strict reading must hold *as well*, so it can only narrow: keyMatch2–5 and regexMatch reach to the very end of the
value, and keyMatch2–5 take every character outside a placeholder or a ``*`` literally.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from remit.providers.casbin.engine.globs import Glob, glob_head

Match = Callable[[Any], bool]
"""Does this value match the pattern that was compiled?"""

PURE: Final = "__remit_pure__"
_F = TypeVar("_F", bound=Callable[..., Any])


def pure(function: _F) -> _F:
    """Declare that `function` depends on its arguments alone, so that its answers may be remembered."""
    setattr(function, PURE, True)
    return function


class Builtin(NamedTuple):
    """What there is to know about one of Casbin's functions."""

    pattern: Callable[[str, bool], Match] | None
    """Compiles the second argument: ``(pattern, strict) -> Match``. None: both arguments are values."""
    narrows: bool = False
    """The strict reading differs from Casbin's own."""
    pure: bool = True
    head: Callable[[str], str] = lambda pattern: ""
    """A text that every matching value starts with."""


def compile_match(name: str, pattern: str, *, strict: bool) -> Match:
    """The built-in function `name` with its pattern fixed.

    Raises:
        ValueError: Casbin itself could not evaluate the pattern, or it can never match anything.
    """
    compile_ = BUILTINS[name].pattern
    if compile_ is None:
        raise ValueError(f"{name} takes no pattern")
    return compile_(pattern, strict)


def literal_head(name: str, pattern: str) -> str:
    """The text that every value starts with that `pattern` of function `name` matches; "" when nothing is sure."""
    return BUILTINS[name].head(pattern)


def _compiled(source: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(source)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern {pattern!r} is not a valid regular expression ({error})") from None


def _key_match(pattern: str, strict: bool) -> Match:
    head, star, _ = pattern.partition("*")
    if not star:
        return lambda value: bool(value == pattern)
    return lambda value: bool(value.startswith(head))


def _regex_match(pattern: str, strict: bool) -> Match:
    regex = _compiled(pattern, pattern)
    if strict:
        return lambda value: regex.fullmatch(value) is not None
    return lambda value: regex.match(value) is not None


_COLON = re.compile(r"(.*?):[^\/]+(.*?)")
_COLON_NAME = re.compile(r":[^/]+")
_SHORT_BRACES = re.compile(r"(.*?){[^\/]+?}(.*?)")
_SHORT_BRACES_NAME = re.compile(r"{[^/]+?}")
_BRACES = re.compile(r"{[^/]+}")
_BRACES_NAME = re.compile(r"{([^/]+)}")

# Text that no regular expression reads in a second way, with stars only where Casbin rewrites them.
_PLAIN_PATH = re.compile(r"(?:[\w/@%~,=&;<>\-:{} ]|(?<=/)\*(?![*?+{]))*", re.ASCII)


def _literal_but_placeholders(pattern: str, placeholder: re.Pattern[str]) -> re.Pattern[str]:
    out, at = [], 0
    for found in placeholder.finditer(pattern):
        out += [re.escape(pattern[at : found.start()]), "[^/]+"]
        at = found.end()
    out.append(re.escape(pattern[at:]))
    return re.compile("".join(out).replace(r"\*", ".*"), re.DOTALL)


class _Path:
    """One keyMatch2–5 pattern. Regular expressions are built at the first value that comes near the pattern."""

    __slots__ = ("literal", "narrow", "own", "pattern", "placeholder", "query", "source", "tied")

    def __init__(
        self, pattern: str, source: str, placeholder: re.Pattern[str], strict: bool, *, query: bool = False
    ) -> None:
        self.pattern, self.source, self.placeholder = pattern, source, placeholder
        self.narrow, self.query = strict, query
        self.own: re.Pattern[str] | None = None
        self.literal: re.Pattern[str] | None = None
        self.tied: tuple[str, ...] = ()
        """The placeholder names of keyMatch4, in order; equal names must hold equal text."""
        if not _PLAIN_PATH.fullmatch(pattern) or "{" in source:
            self.own = _compiled(source, pattern)

    def __call__(self, value: str) -> bool:
        if self.query:
            value = value.partition("?")[0]
        own = self.own
        if own is None:
            own = self.own = _compiled(self.source, self.pattern)
        found = own.match(value)
        if found is None:
            return False
        if self.tied:
            first: dict[str, str] = {}
            if any(first.setdefault(name, text) != text for name, text in zip(self.tied, found.groups(), strict=True)):
                return False
        if not self.narrow:
            return True
        if self.literal is None:
            self.literal = _literal_but_placeholders(self.pattern, self.placeholder)
        return self.literal.fullmatch(value) is not None


def _key_match2(pattern: str, strict: bool) -> Match:
    text = _COLON.sub(r"\g<1>[^\/]+\g<2>", pattern.replace("/*", "/.*"))
    return _Path(pattern, "^(.*)$" if text == "*" else f"^{text}$", _COLON_NAME, strict)


def _key_match3(pattern: str, strict: bool) -> Match:
    text = _SHORT_BRACES.sub(r"\g<1>[^\/]+\g<2>", pattern.replace("/*", "/.*"))
    return _Path(pattern, f"^{text}$", _SHORT_BRACES_NAME, strict)


def _key_match4(pattern: str, strict: bool) -> Match:
    text, names = pattern.replace("/*", "/.*"), []

    def name(found: re.Match[str]) -> str:
        names.append(found.group(1))
        return "([^/]+)"

    path = _Path(pattern, f"^{_BRACES_NAME.sub(name, text)}$", _BRACES_NAME, strict)
    if (path.own or _compiled(path.source, pattern)).groups != len(names):
        raise ValueError(f"the pattern {pattern!r} has brackets of its own beside its {{placeholders}}")
    path.tied = tuple(names) if len(set(names)) < len(names) else ()
    return path


def _key_match5(pattern: str, strict: bool) -> Match:
    text = _BRACES.sub(r"[^/]+", pattern.replace("/*", "/.*"))
    return _Path(pattern, f"^{text}$", _BRACES, strict, query=True)


_SAFE_START = re.compile(r"[\w/-]*", re.ASCII)


def _path_head(pattern: str) -> str:
    if "|" in pattern:  # an alternative of Casbin's regular expression may start with anything
        return ""
    found = _SAFE_START.match(pattern)
    head = found.group() if found else ""
    follows = pattern[len(head) : len(head) + 1]
    if follows in ("?", "+", "{") or (follows == "*" and not head.endswith("/")):
        return head[:-1]  # read as a quantifier of the last character, which may then be missing
    return head


def _glob_match(pattern: str, strict: bool) -> Match:
    return Glob(pattern)


def _ip_match(pattern: str, strict: bool) -> Match:
    try:
        network = ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        raise ValueError(f"{pattern!r} is neither an IP address nor a network, so the rule could never match") from None
    return lambda value: ipaddress.ip_address(value) in network


def time_match(start: str, end: str) -> bool:
    """Is it later than `start` and earlier than `end` now? ``_`` leaves a side open; local time, to the second.

    Raises:
        ValueError: A side is neither ``_`` nor of the form ``2031-12-24 18:00:00``.
    """
    now = datetime.now()
    opens = start == "_" or now > datetime.strptime(start, "%Y-%m-%d %H:%M:%S")
    closes = end == "_" or now < datetime.strptime(end, "%Y-%m-%d %H:%M:%S")
    return opens and closes


BUILTINS: Final[dict[str, Builtin]] = {
    "keyMatch": Builtin(_key_match, head=lambda pattern: pattern.partition("*")[0]),
    "keyMatch2": Builtin(_key_match2, narrows=True, head=_path_head),
    "keyMatch3": Builtin(_key_match3, narrows=True, head=_path_head),
    "keyMatch4": Builtin(_key_match4, narrows=True, head=_path_head),
    "keyMatch5": Builtin(_key_match5, narrows=True, head=_path_head),
    "regexMatch": Builtin(_regex_match, narrows=True),
    "globMatch": Builtin(_glob_match, head=glob_head),
    "ipMatch": Builtin(_ip_match),
    "timeMatch": Builtin(None, pure=False),
}
