"""Reading YAML with the line of every node, and refusing what YAML versions read differently."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from remit.authz.documents import DocumentError, compose, did_you_mean
from remit.providers.casbin.files.findings import Findings

_BOOLEAN = re.compile(r"(?i:y|n|yes|no|on|off|true|false)")
_NOTHING = re.compile(r"(?i:null)|~|")
_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?i:inf))|\.(?i:nan)"
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[Tt \t].*)?")
_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp"))
_MAP = "tag:yaml.org,2002:map"
_SEQ = "tag:yaml.org,2002:seq"


class Entry(NamedTuple):
    """One ``key: value`` of a mapping."""

    key: str
    line: int
    value: Node


class Node:
    """A YAML node with its place. Every reader method reports what is wrong and returns None or nothing."""

    def __init__(self, raw: Any, file: str, findings: Findings, line: int | None = None) -> None:
        self._raw, self._file, self._findings, self._line = raw, file, findings, line

    @property
    def line(self) -> int:
        return int(self._raw.start_mark.line) + 1 if self._line is None else self._line

    @property
    def kind(self) -> str:
        """``mapping``, ``list``, ``text``, ``null``, ``boolean``, ``number``, ``date`` or ``tagged``."""
        tag = str(self._raw.tag)
        if isinstance(self._raw.value, list):
            return {_MAP: "mapping", _SEQ: "list"}.get(tag, "tagged")
        if tag not in _TAGS:
            return "tagged"
        text = self._raw.value
        if self._raw.style in ("'", '"', "|", ">"):
            return "text"
        if _NOTHING.fullmatch(text):
            return "null"
        if _BOOLEAN.fullmatch(text):
            return "boolean"
        if _NUMBER.fullmatch(text):
            return "number"
        return "date" if _DATE.fullmatch(text) else "text"

    @property
    def text(self) -> str:
        """The scalar as written, without its quotes."""
        return str(self._raw.value)

    @property
    def is_true(self) -> bool:
        return self.kind == "boolean" and self.text in ("true", "True", "TRUE")

    @property
    def is_false(self) -> bool:
        return self.kind == "boolean" and self.text in ("false", "False", "FALSE")

    def error(self, code: str, key: str, message: str, advice: str = "") -> None:
        self._findings.error(code, self._file, self.line, message, advice, key)

    def entries(self, key: str, known: Collection[str] | None = None) -> Iterator[Entry]:
        """The entries of a mapping, duplicates and unusable keys left out.

        Args:
            key: The path of this mapping, for problems.
            known: Accepted keys; None accepts any text.
        """
        if self.kind != "mapping":
            self.error("wrong-type", key, f"must be a mapping, not {self.described()}", "write 'key: value' lines")
            return
        seen: dict[str, int] = {}
        for raw_key, raw_value in self._raw.value:
            name = Node(raw_key, self._file, self._findings)
            # a value that is not there stands, for the parser, where the next one begins
            value = Node(raw_value, self._file, self._findings, name.line if raw_value.value == "" else None)
            if name.kind in ("text", "tagged") and name.text == "<<":
                name.error(
                    "merge-key", key, "'<<' merges what a reader does not see here", "use 'inherits', or write it out"
                )
            elif name.kind != "text":
                name.error(
                    "wrong-type", key, f"the key {name.described()} is no text", f'write "{name.text}" in quotes'
                )
            elif name.text in seen:
                name.error(
                    "duplicate-key",
                    key,
                    f"{name.text!r} is written again (first on line {seen[name.text]})",
                    "keep one",
                )
            elif known is not None and name.text not in known:
                hint = did_you_mean(name.text, known)
                name.error("unknown-key", key, f"unknown key {name.text!r}", hint)
            else:
                seen[name.text] = name.line
                yield Entry(name.text, name.line, value)

    def items(self) -> list[Node]:
        """The items of a list."""
        return [Node(raw, self._file, self._findings) for raw in self._raw.value]

    def described(self) -> str:
        """``the number 7``, ``a list``, …: for sentences that say what was found."""
        kind = self.kind
        if kind == "null":
            return "null"
        if kind in ("mapping", "list"):
            return f"a {kind}"
        if kind == "tagged":
            return f"a value with the tag {str(self._raw.tag)!r}"
        return f"the {kind} {self.text!r}"


def read_yaml(text: str, file: str, findings: Findings) -> Node | None:
    """The document in `text`, or None after reporting why there is none."""
    try:
        raw = compose(text, file=file)
    except DocumentError as exc:
        for problem in exc.problems:
            findings.error(problem.code, file, problem.line, problem.message, problem.advice)
        return None
    if raw is None:
        findings.error("empty-file", file, 0, "holds no document", "write 'roles:', or take it out of 'policies'")
        return None
    anchors = list(_anchors(raw))
    for line, name in anchors:
        message = f"the anchor {name!r} repeats text where a reader does not see it"
        findings.error("yaml-anchor", file, line, message, "write it out, or let roles inherit")
    return None if anchors else Node(raw, file, findings)


def _anchors(root: Any) -> Iterator[tuple[int, str]]:
    """Line and name of every anchor. Each node is visited once: an alias may even lead back to its own parent."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        raw = todo.pop()
        if id(raw) in seen:
            continue
        seen.add(id(raw))
        if raw.anchor:
            yield int(raw.start_mark.line) + 1, str(raw.anchor)
        if isinstance(raw.value, list):
            todo += [part for item in raw.value for part in (item if isinstance(item, tuple) else (item,))]
