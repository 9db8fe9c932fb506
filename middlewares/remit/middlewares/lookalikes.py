"""How text looks to a reader, for matching only: what cannot be seen is gone, look-alikes are what they imitate."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

_OPENING: Final = "‹〈⟨❮❬❰⧼˂ᐸ≺⋖⪡"
OPENERS: Final = f"<＜﹤≮\U000e003c\u2329\ufe3f⊀{_OPENING}"
"""Every character that looks like ``<``; a test compares."""
_CLOSING: Final = "›〉⟩❯❭❱⧽˃ᐳ≻⋗⪢"
_DASHES: Final = "−⁃─━╌╍┄┅ーｰ⎯˗➖ㅡ⸺"
_SLASHES: Final = "⁄∕⧸╱⟋"
_LETTERS: Final = {
    "a": "аɑαᴀ",
    "b": "Ььвƅʙ",
    "c": "сϲᴄ",
    "d": "ԁɗᴅ",
    "e": "еҽєᴇε",
    "f": "ƒꜰ",
    "g": "ɡցɢ",
    "h": "һհнʜ",
    "i": "іıɩιɪ",
    "j": "јϳᴊ",
    "k": "κкᴋ",
    "l": "ӏǀʟ",
    "m": "мᴍ",
    "n": "ոпɴη",
    "o": "оοօᴏσ",
    "p": "рρᴘ",
    "q": "ԛ",
    "r": "гʀ",
    "s": "ѕꜱ",
    "t": "тτᴛ",
    "u": "υսʋᴜ",
    "v": "νѵᴠ",
    "w": "ԝωᴡ",
    "x": "хχ",
    "y": "уүγʏ",
    "z": "ᴢ",
}
_ALIKE: Final[dict[str, str]] = {
    **dict.fromkeys(_OPENING, "<"),
    **dict.fromkeys(_CLOSING, ">"),
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys(_SLASHES, "/"),
    **{other: letter for letter, others in _LETTERS.items() for other in others},
}
_DROPPED: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me", "Mc"})
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that render as nothing."""
_TAG_CHARACTERS: Final = (0xE0020, 0xE007E)
"""A copy of ASCII that renders as nothing, and that models read all the same."""
_TAGGED: Final = re.compile(f"[{chr(_TAG_CHARACTERS[0])}-{chr(_TAG_CHARACTERS[1])}]")
_CHUNK: Final = 65_536


class _Shapes(dict[int, str]):
    """Code point -> what it looks like; filled as characters are met."""

    def __init__(self, *, hidden: bool = False) -> None:
        super().__init__()
        self._hidden = hidden

    def __missing__(self, point: int) -> str:
        first, last = _TAG_CHARACTERS
        shape = chr(point - 0xE0000) if self._hidden and first <= point <= last else _shape(chr(point))
        self[point] = shape
        return shape


def _shape(char: str) -> str:
    if char.isspace():
        return " "
    shape = []
    for part in unicodedata.normalize("NFKD", char).casefold():
        category = unicodedata.category(part)
        if part.isspace():
            shape.append(" ")
        elif category not in _DROPPED and part not in _BLANK:
            shape.append(_ALIKE.get(part, "-" if category == "Pd" else part))
    return "".join(shape)


_SEEN: Final = _Shapes()
_HIDDEN: Final = _Shapes(hidden=True)


class Shape:
    """The look of one text, and where each of its characters comes from.

    Args:
        text: Any text.
        hidden: Whether to show what is spelled in invisible tag characters, instead of leaving it out.
    """

    __slots__ = ("_starts", "_table", "_text", "text")

    def __init__(self, text: str, *, hidden: bool = False) -> None:
        self._text = text
        self._table = _HIDDEN if hidden else _SEEN
        self._starts: list[int] | None = None
        # In pieces: between them other threads get their turn.
        pieces = (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))
        self.text = "".join(piece.translate(self._table) for piece in pieces)

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The slice of the original whose look is ``text[start:end]``."""
        if self._starts is None:
            self._starts = list(accumulate((len(self._table[ord(char)]) for char in self._text), initial=0))
        return bisect_right(self._starts, start) - 1, bisect_left(self._starts, end)


def look_of(char: str) -> str:
    """What one character looks like: a letter, several, or nothing."""
    return _HIDDEN[ord(char)]


def has_tag_characters(text: str) -> bool:
    """Whether something is spelled in invisible tag characters."""
    return _TAGGED.search(text) is not None
