"""Resources, actions, and the canonical form of every name that a decision compares.

A name is compared exactly, after it was brought into (or proved to be in) one canonical form: NFC, trimmed, without
control or format characters. Case is kept. Look-alikes of known names are refused where names are written (policy
files) and simply match nothing where they are asked for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

RESOURCES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "tool": ("call",),
        "mcp_server": ("use",),
        "route": (),  # the verb after the colon, open-ended
        "model": ("list", "use"),
        "sandbox": ("execute",),
        "command": ("execute",),
        "skill": ("read", "activate", "manage"),
        "subagent": ("delegate",),
        "memory": ("read", "write"),
        "policy": ("read", "manage"),
        "access": ("evaluate",),
        "approval": ("decide",),
    }
)
"""Resource type -> its actions. An empty tuple means that the deployment names the actions."""

VISIBILITY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tool": "call",
        "model": "list",
        "skill": "read",
        "mcp_server": "use",
        "subagent": "delegate",
        "memory": "read",
        "sandbox": "execute",
        "command": "execute",
        "policy": "read",
        "access": "evaluate",
        "approval": "decide",
    }
)
"""Resource type -> the action that `filter_resources` asks about. Routes: `visibility_action`."""

EVERYTHING: Final = "*"


def visibility_action(resource: str, candidate: str) -> str:
    """The action that makes `candidate` visible: the verb after the colon for routes, else one per resource type.

    A resource type of the deployment's own is visible to whoever may do *something* with it; for those the type's
    conventional action ``"use"`` is asked.
    """
    if resource == "route":
        return candidate.rpartition(":")[2] or candidate
    return VISIBILITY.get(resource, "use")


def canonical(name: str) -> str:
    """`name` in NFC and without white space around it. Case is kept."""
    return unicodedata.normalize("NFC", name).strip()


def flaw(name: str) -> str | None:
    """What keeps `name` from being its own canonical form, as a phrase, or None when it is clean.

    Clean: not empty, NFC, no surrounding white space, no control, format, surrogate or private-use character, no line
    or paragraph separator, and no blank other than the plain space.
    """
    if name.isascii():  # the usual case, decided without a table look-up per character
        if not name:
            return "is empty"
        if not name.isprintable():
            return f"holds the control character {_spelled(next(c for c in name if not c.isprintable()))}"
        return "has white space around it" if name[0] == " " or name[-1] == " " else None
    if name != name.strip():
        return "has white space around it"
    for char in name:
        category = unicodedata.category(char)
        if category in _UNSEEN or (category == "Zs" and char != " ") or char in _BLANK_LETTERS:
            return f"holds the invisible character {_spelled(char)}"
    if unicodedata.normalize("NFC", name) != name:
        return "is not in Unicode normal form C"
    return None


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that render as nothing: Hangul fillers, combining grapheme joiner, Khmer inherent vowels,
# variation selectors (Unicode property Default_Ignorable_Code_Point, those outside category Cf); then the empty
# Braille pattern and the musical null notehead.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\U0001d159") | {
    chr(point)
    for first, last in ((0xFE00, 0xFE0F), (0x180B, 0x180F), (0xE0100, 0xE01EF))
    for point in range(first, last + 1)
}


def _spelled(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'unnamed')}"


@lru_cache(maxsize=65_536)
def skeleton(name: str) -> str:
    """The shape of `name` as a reader sees it: equal skeletons mean that two names look alike.

    Source: Unicode Technical Standard 39, section 4, by the confusables table of the `confusable-homoglyphs` package,
    reduced to ASCII look-alikes, on the NFKC form. Case is kept.
    """
    if name.isascii():
        return name
    from confusable_homoglyphs import confusables  # the table is large: loaded at the first non-ASCII name

    out: list[str] = []
    for char in unicodedata.normalize("NFKC", name):
        if char.isascii():
            out.append(char)
            continue
        found = confusables.is_confusable(char, greedy=True, preferred_aliases=[])
        twins = [h["c"] for entry in found or () for h in entry["homoglyphs"] if h["c"].isascii()]
        out.append(twins[0] if twins else char)
    return "".join(out)


def look_alike(name: str, known: Iterable[str]) -> str | None:
    """The member of `known` that `name` could be mistaken for on a screen, or None. A name never resembles itself."""
    if name.isascii():
        return None
    shape = skeleton(name)
    return next((other for other in known if other != name and skeleton(other) == shape), None)


def unsafe_target(target: str) -> str | None:
    """Why `target` is refused before any rule sees it, or None.

    A target with a control or format character, or with a ``..`` path segment, is never matched: patterns over
    paths would otherwise grant what the resolved path does not deserve.
    """
    reason = flaw(target)
    if reason is None and ".." in target and ".." in target.replace("\\", "/").split("/"):
        reason = "holds a '..' segment"
    return reason
