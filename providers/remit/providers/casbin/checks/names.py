"""Names that a reader would take for one another: look-alikes, and roles that are one slip of the hand apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from remit.authz.vocabulary import skeleton

_LETTERS = re.compile(r"[^\W\d_]+")


def mixed_scripts(name: str) -> str | None:
    """``"Latin and Cyrillic"`` when one word of `name` mixes letters that look alike across scripts, else None."""
    for word in _LETTERS.findall(name):
        if word.isascii():
            continue
        scripts = {unicodedata.name(char, "?").partition(" ")[0].capitalize() for char in word}
        others = scripts & {"Cyrillic", "Greek", "Armenian", "Cherokee", "Fullwidth", "Mathematical"}
        if others and "Latin" in scripts and any(not c.isascii() and skeleton(c).isascii() for c in word):
            return f"Latin and {min(others)}"
    return None


def deceiving(names: Iterable[str], vocabulary: Iterable[str]) -> dict[str, str]:
    """Those of `names` that a reader would take for something else -> what to say about it.

    Args:
        vocabulary: Further names that must not be imitated.
    """
    listed = list(names)
    strange = sorted({name for name in listed if not name.isascii()})
    if not strange:
        return {}
    plain = {name for name in (*vocabulary, *listed) if name.isascii()}
    wrong: dict[str, str] = {}
    shapes: dict[str, str] = {}
    for name in strange:
        shape = skeleton(name)
        other = shape if shape in plain else shapes.setdefault(shape, name)
        if other != name:
            wrong[name] = f"{name!r} looks like {other!r} but is another name"
        elif (scripts := mixed_scripts(name)) is not None:
            wrong[name] = f"{name!r} mixes {scripts} letters in one word"
    return wrong


class SimilarRoles:
    """Finds the known role that another name was probably meant to be.

    Similar means equal up to case and blanks, or one insertion, deletion, replacement or swap of neighbours away
    inside a word of more than four letters. Digits and one-letter words tell names apart: ``team_x`` is not ``team_y``.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = list(known)
        self._folded: dict[str, str] = {}
        for name in self._known:
            self._folded.setdefault(_folded(name), name)
        self._shortened: dict[str, list[str]] | None = None

    def to(self, name: str) -> str | None:
        """The known role that `name` resembles, other than itself; None when there is none."""
        same = self._folded.get(_folded(name))
        if same is not None and same != name:
            return same
        if self._shortened is None:
            self._shortened = {}
            for known in self._known:
                for short in _shortenings(known):
                    self._shortened.setdefault(short, []).append(known)
        for short in _shortenings(name):
            for known in self._shortened.get(short, ()):
                if known != name and _one_slip(name, known):
                    return known
        return None


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


def _shortenings(name: str) -> set[str]:
    """`name`, and `name` without any one character: two names one edit apart share one of these."""
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


def _one_slip(one: str, other: str) -> bool:
    """One edit apart, in a word long enough for it to be a slip."""
    if len(one) > len(other):
        one, other = other, one
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) == len(other):
        swapped = one[at + 1 : at + 2] == other[at : at + 1] and one[at : at + 1] == other[at + 1 : at + 2]
        if one[at + 1 :] != other[at + 1 :] and not (swapped and one[at + 2 :] == other[at + 2 :]):
            return False
        changed = one[at] + other[at]
    elif len(one) + 1 == len(other) and one[at:] == other[at + 1 :]:
        changed = other[at]
    else:
        return False
    if any(char.isdigit() for char in changed):
        return False
    return max(_word_length(one, at), _word_length(other, at)) > 4


def _word_length(name: str, at: int) -> int:
    """Length of the run of letters that touches position `at`."""
    start = end = at
    while start > 0 and name[start - 1].isalpha():
        start -= 1
    while end < len(name) and name[end].isalpha():
        end += 1
    return end - start
