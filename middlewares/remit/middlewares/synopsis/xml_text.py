"""A synopsis of XML. Document types, and with them every entity declaration, are refused."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final
from xml.parsers import expat

from remit.middlewares.synopsis.parts import Effort, Synopsis, listed, plural, token

MAX_DEPTH: Final = 4
MAX_PATHS: Final = 24
MAX_ATTRIBUTES: Final = 6
MAX_COUNTED: Final = 2_000
"""Different paths that are counted."""
_START: Final = re.compile(r"<(?:[?_:]|!--|[^\W\d])")
_CHUNK: Final = 65_536


class _RefusedError(Exception):
    """The text declares a document type."""


def read_xml(text: str, effort: Effort) -> Synopsis | None:
    """What is in an XML text; None when it is none, or declares a document type."""
    body = text.lstrip("\ufeff \t\r\n")
    if _START.match(body) is None:
        return None
    outline = _Outline()
    try:
        whole = outline.feed(body, effort)
    except (expat.ExpatError, _RefusedError, ValueError, UnicodeError):
        return None
    if outline.root is None:
        return None
    count = plural(outline.elements, "element")
    return Synopsis(
        kind="xml",
        title=f"XML document <{token(outline.root, 40)}> with {count if whole else f'at least {count}'}",
        summary=tuple(outline.attributes),
        structure=tuple(f"{path}: {number:,}" for path, number in list(outline.paths.items())[:MAX_PATHS]),
        notable=(f"deepest nesting: {outline.deepest}", f"tags: {listed(outline.names, len(outline.names), 12)}"),
    )


class _Outline:
    """Counts elements by their path while a parser reads."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.elements = 0
        self.deepest = 0
        self.attributes: list[str] = []
        self.paths: Counter[str] = Counter()
        self.names: dict[str, None] = {}
        self._path: list[str] = []
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.EntityDeclHandler = self._refuse

    def feed(self, text: str, effort: Effort) -> bool:
        """Read on until the end, or until the time is up; says which."""
        for at in range(0, len(text), _CHUNK):
            if effort.spent:
                return False
            self._parser.Parse(text[at : at + _CHUNK], False)
        self._parser.Parse("", True)
        return True

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        if self.root is None:
            self.root = name
            for key, value in list(attributes.items())[:MAX_ATTRIBUTES]:
                self.attributes.append(f"{token(key, 40)} = {token(value)}")
        if self._depth > MAX_DEPTH:
            return
        self._path.append(token(name, 24))
        path = "/" + "/".join(self._path)
        if path in self.paths or len(self.paths) < MAX_COUNTED:
            self.paths[path] += 1
            self.names.setdefault(self._path[-1])

    def _end(self, name: str) -> None:
        if self._depth <= MAX_DEPTH:
            self._path.pop()
        self._depth -= 1

    def _refuse(self, *_: Any) -> None:
        raise _RefusedError
