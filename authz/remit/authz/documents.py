"""YAML as operators write it, read strictly and with the place of every key and value.

YAML 1.2 through ruamel.yaml's composer: `yes`, `on` and `12:30` stay text. Refused because they surprise: duplicate
keys, anchors and aliases, merge keys, tags, keys that are not text, unquoted dates, more than one document.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from remit.authz.errors import Problem

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 64

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document as plain dicts, lists, str, int, float, bool and None, with positions."""

    data: Any
    file: str
    """The name to show in messages."""
    lines: Mapping[Path_, int] = field(default_factory=dict)
    """Path of a value -> 1-based line of its key (of the item, in a list)."""
    unquoted: frozenset[Path_] = frozenset()
    """Paths of text values that stand without quotes: where `yes` may have been meant as a truth value."""

    def line(self, path: Iterable[str | int]) -> int:
        """The line of `path`, or of the nearest parent that exists; 0 for an empty document."""
        at = tuple(path)
        while at not in self.lines and at:
            at = at[:-1]
        return self.lines.get(at, 0)

    def problem(self, path: Iterable[str | int], message: str, advice: str = "", *, code: str = "invalid") -> Problem:
        """A `Problem` at `path`."""
        at = tuple(path)
        return Problem(self.file, self.line(at), message, advice, code, dotted(at))


class DocumentError(ValueError):
    """The document cannot be read. `problems` says why."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def dotted(path: Iterable[str | int]) -> str:
    """``("roles", "user", 0)`` as ``roles.user[0]``."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else (f".{part}" if out else part)
    return out


def near_miss(name: str, known: Iterable[str]) -> str:
    """``"did you mean 'tools'?"``, or the empty string when nothing in `known` comes close.

    Case and white space are the commonest slips, so they are looked through first.
    """
    folded = {choice.casefold(): choice for choice in reversed(list(known))}
    if (same := folded.get("".join(name.split()).casefold())) is not None:
        return f"did you mean {same!r}?"
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return f"did you mean {folded[close[0]]!r}?" if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Advice for an unknown name: its nearest neighbour, else everything that is known, in the given order."""
    options = sorted(known) if isinstance(known, (set, frozenset)) else list(known)
    return near_miss(name, options) or (f"known: {', '.join(options)}" if options else "")


def read_document(path: Path, *, file: str | None = None) -> Document:
    """Read the YAML file at `path`.

    Args:
        path: Where it is.
        file: How messages name it; the path itself when None.

    Raises:
        DocumentError: The file is missing, a folder, unreadable, too large, not UTF-8 or not the YAML we accept.
    """
    name = str(path) if file is None else file
    try:
        size = path.stat().st_size
        raw = path.read_bytes() if size <= MAX_BYTES else None
    except OSError as exc:
        what = exc.strerror or type(exc).__name__
        raise DocumentError(
            [Problem(name, 0, f"cannot be read: {what.lower()}", "check the path and its permissions", "unreadable")]
        ) from exc
    if raw is None:
        raise DocumentError([Problem(name, 0, f"is larger than {MAX_BYTES} bytes", "split it", "too-large")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw[: exc.start].count(b"\n") + 1
        raise DocumentError([Problem(name, line, "is not UTF-8", "save the file as UTF-8", "encoding")]) from exc
    return parse_document(text, file=name)


def parse_document(text: str, *, file: str) -> Document:
    """Read YAML from `text`.

    Raises:
        DocumentError: As `read_document`, the reasons that lie in the text.
    """
    node = compose(text, file=file)
    builder = _Builder(file)
    data = builder.build(node, ()) if node is not None else None
    if builder.problems:
        raise DocumentError(sorted(builder.problems))
    return Document(data, file, builder.lines, frozenset(builder.unquoted))


def compose(text: str, *, file: str) -> Node | None:
    """The node tree of the one document in `text`; None when there is no document.

    Raises:
        DocumentError: It is not valid YAML, or is nested too deeply.
    """
    from ruamel.yaml import YAML  # slow to import: only who has a YAML file pays for it
    from ruamel.yaml.error import MarkedYAMLError

    loader = YAML(typ="safe", pure=True)
    loader.max_depth = MAX_DEPTH
    loader.composer.warn_double_anchors = False
    try:
        return cast("Node | None", loader.compose(text))
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = int(mark.line) + 1 if mark is not None else 0
        reason = " ".join(str(exc.problem or exc.context or "cannot be read").split())
        raise _no_yaml(file, line, reason) from exc
    except Exception as exc:  # the parser raises many types on hostile text; none of them may leave as another error
        raise _no_yaml(file, 0, " ".join(str(exc).split())[:120] or type(exc).__name__) from exc


def _no_yaml(file: str, line: int, reason: str) -> DocumentError:
    what = f"is not valid YAML ({reason})"
    return DocumentError([Problem(file, line, what, "check indentation, quotes and brackets", "yaml-syntax")])


def _kind(node: Node) -> str:
    """The last part of the node's resolved tag: ``str``, ``int``, ``bool``, …"""
    return str(node.tag).rpartition(":")[2]


class _Builder:
    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.lines: dict[Path_, int] = {}
        self.unquoted: set[Path_] = set()
        self._seen: set[int] = set()

    def refuse(self, node: Node, path: Path_, message: str, advice: str) -> None:
        self.problems.append(
            Problem(self.file, node.start_mark.line + 1, message, advice, "yaml-surprise", dotted(path))
        )

    def build(self, node: Node, path: Path_) -> Any:
        from ruamel.yaml import nodes  # loaded by then: the composer made the node

        self.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self._seen:
            self.refuse(node, path, "an alias (*name) is not accepted", "write the value out")
            return None
        self._seen.add(id(node))
        if node.anchor:
            self.refuse(node, path, f"an anchor (&{node.anchor}) is not accepted", "write the value out")
        if len(path) > MAX_DEPTH:
            self.refuse(node, path, f"is nested deeper than {MAX_DEPTH} levels", "flatten it")
            return None
        if isinstance(node, nodes.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, nodes.SequenceNode):
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(cast("ScalarNode", node), path, _kind(node))

    def _mapping(self, node: MappingNode, path: Path_) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value
            if not isinstance(name, str) or _kind(key_node) != "str":
                shown = name if isinstance(name, str) else "…"
                self.refuse(key_node, path, f"the key {shown!r} is not text", f'write it in quotes: "{shown}"')
                continue
            at = (*path, name)
            self.lines[at] = key_node.start_mark.line + 1
            if name in out:
                self.refuse(key_node, at, f"the key {name!r} stands here twice", "keep one of them")
                continue
            out[name] = self.build(value_node, at)
        return out

    def _scalar(self, node: ScalarNode, path: Path_, kind: str) -> Any:
        text: str = node.value
        if kind == "str":
            if node.style is None or node.style == "":
                self.unquoted.add(path)
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        try:
            if kind == "int":
                return int(text.replace("_", ""), 0) if text.lower().startswith(("0x", "0o")) else int(text)
            if kind == "float":
                return float(text)
        except ValueError:
            pass
        self.refuse(node, path, f"the unquoted value {text!r} would be read as {kind}", f'write it in quotes: "{text}"')
        return None
