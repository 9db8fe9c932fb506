"""The file format of a Casbin model: sections, ``key = value``, ``\\`` at a line's end, full-line comments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from remit.authz.documents import near_miss
from remit.providers.casbin.files.findings import Findings

SECTIONS = {
    "request_definition": "r",
    "policy_definition": "p",
    "role_definition": "g",
    "policy_effect": "e",
    "matchers": "m",
}
"""Section -> the key that is defined in it (role definitions go on: g2, g3, …)."""

_EXTRA_SET = re.compile(r"[rpem]\d+")
_LOOKS_LIKE_MATCHER = re.compile(r"&&|\|\||\b[rp]\.|\w\(|^[)!]")


@dataclass(frozen=True, slots=True)
class Definition:
    """One ``key = value``, continuation lines joined as Casbin joins them."""

    key: str
    value: str
    pieces: tuple[tuple[int, str], ...]
    """(line number, text) of every line it was written on."""

    @property
    def line(self) -> int:
        return self.pieces[0][0]

    def line_of(self, token: str) -> int:
        """The line that holds `token`, else the first."""
        return next((number for number, text in self.pieces if token and token in text), self.line)


class _Reader:
    def __init__(self, file: str, findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.found: dict[str, Definition] = {}
        self.seen_sections: set[str] = set()
        self.section: str | None = None
        self.skipping = False
        self.pending: list[tuple[int, str]] = []

    def error(self, line: int, message: str, advice: str = "", code: str = "model-syntax", key: str = "") -> None:
        self.findings.error(code, self.file, line, message, advice, key)

    def line(self, number: int, line: str) -> None:
        if not line or line[0] in "#;" or (line[0] == "[" and line[-1] == "]"):
            self.cut(number)
            if line[:1] == "[":
                self.header(number, line[1:-1])
            return
        if line[0] == "[" and not self.pending:
            what = "text after a section header" if "]" in line else "a section header without its ']'"
            self.skipping = True
            self.error(number, f"{what}: {line!r}", "write the header alone on its line")
            return
        self.pending.append((number, line))
        if line[-1] != "\\":
            self.define()

    def cut(self, number: int) -> None:
        """A blank line, comment, header or the end of the file ends what a backslash wanted to continue."""
        if self.pending:
            first = self.pending[0][0]
            self.error(
                self.pending[-1][0],
                f"the definition of line {first} is cut in two: line {number} does not continue it after the '\\'",
                "delete the '\\', or remove what stands between its lines",
                "cut-definition",
            )
            self.pending = []

    def header(self, number: int, name: str) -> None:
        self.skipping = name not in SECTIONS
        if self.skipping:
            hint = near_miss(name, SECTIONS) or "known: " + ", ".join(f"[{known}]" for known in SECTIONS)
            self.error(number, f"unknown section {name!r}", hint, "unknown-section")
            return
        self.section = name
        self.seen_sections.add(name)

    def define(self) -> None:
        pieces, self.pending = tuple(self.pending), []
        if self.skipping:
            return
        number = pieces[0][0]
        joined = "".join(text[:-1].strip() + " " if text[-1] == "\\" else text for _, text in pieces)
        key, equals, value = (part.strip() for part in joined.partition("="))
        if self.section is None:
            self.error(number, f"{joined!r} stands before any section", "start with [request_definition]")
            return
        wanted = SECTIONS[self.section]
        if not equals or not self.expected(key, wanted):
            self.unexpected(number, key, bool(equals), wanted)
        elif key in self.found:
            self.error(
                number,
                f"{key!r} is defined again (first on line {self.found[key].line})",
                "keep one",
                "duplicate-definition",
                key,
            )
        elif not value:
            self.error(number, f"{key!r} has no value", "write it after the '='", key=key)
        else:
            self.found[key] = Definition(key, value, pieces)

    @staticmethod
    def expected(key: str, wanted: str) -> bool:
        return key == wanted or (wanted == "g" and re.fullmatch(r"g[2-9]\d*", key) is not None)

    def unexpected(self, number: int, key: str, equals: bool, wanted: str) -> None:
        if _EXTRA_SET.fullmatch(key):
            self.error(
                number,
                f"{key!r} starts a second set of definitions, which is not supported",
                "put its rules under the first set, or run it as a provider of its own",
                "extra-set",
                key,
            )
        elif wanted == "m" and _LOOKS_LIKE_MATCHER.search(key):
            self.error(
                number,
                f"{key!r} is no definition: the matcher is cut in two",
                "end the line before it with '\\'",
                "cut-definition",
            )
        elif not equals:
            self.error(number, f"{key!r} is no definition", f"write '{wanted} = …', or '#' in front of a comment")
        else:
            hint = f"this section defines {wanted!r}" + (" (and g2, g3, …)" if wanted == "g" else "")
            self.error(number, f"unknown key {key!r} in [{self.section}]", hint, "unknown-key", key)


def read_definitions(text: str, file: str, findings: Findings) -> dict[str, Definition] | None:
    """Every definition of a model by key, or None when a needed one is missing. All problems are reported."""
    reader = _Reader(file, findings)
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        reader.line(number, line.strip(" \t"))
    reader.cut(len(lines) + 1)
    missing = False
    for section, key in SECTIONS.items():
        if key in reader.found or key == "g":
            continue
        missing = True
        if section not in reader.seen_sections:
            findings.error(
                "missing-section", file, 0, f"the section [{section}] is missing", f"add it, with '{key} = …'"
            )
        elif not findings.failed:
            findings.error("missing-definition", file, 0, f"[{section}] defines no {key!r}", f"add '{key} = …' to it")
    for number, key in enumerate(sorted((k for k in reader.found if k[0] == "g"), key=lambda k: int(k[1:] or 1)), 1):
        if key != ("g" if number == 1 else f"g{number}"):
            wanted = "g" if number == 1 else f"g{number}"
            findings.error(
                "role-order",
                file,
                reader.found[key].line,
                f"{key!r} is defined but {wanted!r} is not, and Casbin stops there",
                f"call it {wanted!r}",
                key,
            )
            break
    return None if missing else reader.found
