"""Text of a stranger made harmless: it can imitate neither the blocks nor the boundary that the server writes.

Models are told things by the server in blocks with a tag (``<system-reminder>``), and what a user wrote stands between
two boundary lines. A tag of the list below, and a boundary line, in text from outside is escaped in place; everything
else stays as it is. Matching looks at the text as a reader would see it (`remit.middlewares.lookalikes`); what is left
alone keeps its very characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from remit.middlewares.lookalikes import OPENERS, Shape, has_tag_characters, look_of

BEGIN: Final = "--- BEGIN USER INPUT ---"
END: Final = "--- END USER INPUT ---"
_PREFIX, _SUFFIX, _EMPTY = f"{BEGIN}\n", f"\n{END}", f"{BEGIN}\n{END}"

BLOCKED_NAMES: Final = frozenset(
    {
        # Blocks of the platforms whose prompts we meet.
        "analysis",
        "available-deferred-tools",
        "available_skills",
        "background_task_event",
        "citations",
        "clarification_system",
        "critical_reminders",
        "current_date",
        "current_uploads",
        "disabled_skills",
        "durable_context_data",
        "file_editing_workflow",
        "goal_continuation",
        "guidelines",
        "mcp_routing_hints",
        "memory",
        "memory_tool_system",
        "output_format",
        "response_style",
        "role",
        "self_update",
        "skill_index",
        "skill_system",
        "slash_skill_activation",
        "soul",
        "subagent_system",
        "system-reminder",
        "system_reminder",
        "think",
        "thinking_style",
        "todo_list_system",
        "tool_restrictions",
        "uploaded_files",
        "working_directory",
        # Words that sound like authority.
        "ignore",
        "important",
        "instruction",
        "override",
        "prompt",
        "system",
        # Blocks of our own that are not among those above.
        "tool_receipts",
    }
)
"""Names of tags that nobody outside may write. Whoever adds a block to prompts adds its tag here; a test compares."""

MAX_DEPTH: Final = 64
"""Levels of nesting in structured content that are looked through."""
END_GROWTH: Final = 8
TOO_DEEP: Final = "[nested too deeply]"


def _name_pattern(name: str) -> str:
    return r"[-_\s]?".join(map(re.escape, re.split("[-_]", name)))


_PATTERNS: Final = sorted({_name_pattern(name) for name in BLOCKED_NAMES}, key=lambda name: (-len(name), name))
_FIRST: Final = "".join(sorted({name[0] for name in BLOCKED_NAMES}))
# Every quantifier is possessive or ends at the next `<`: the time is linear whatever the text.
_TAG: Final = re.compile(
    rf"(?P<open><)[\s/\\!?|]*+(?=[{_FIRST}])(?:{'|'.join(_PATTERNS)})(?!\w)[^<>]*+(?P<close>>)?", re.IGNORECASE
)
_LINE: Final = re.compile(
    r"(?<!-)-++\s*+(?P<which>begin|end)\s++user\s++input(?!\w)(?:\s*+-++)?"
    r"|(?<!\w)(?P<other>begin|end)\s++user\s++input\s*+-++",
    re.IGNORECASE,
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def neutralize(text: str) -> str:
    """`text` with forged tags and boundary lines escaped; the same object when there are none.

    ``neutralize(neutralize(text)) == neutralize(text)``. The time is linear in the length.
    """
    edits = _edits(text)
    if not edits:
        return text
    out, at = [], 0
    for edit in edits:
        out += [text[at : edit.start], edit.text]
        at = edit.end
    clean = "".join([*out, text[at:]])
    # What is spelled in tag characters is a second text in the first: their forgeries may overlap.
    return neutralize(clean) if has_tag_characters(clean) else clean


def neutralize_end(text: str) -> str:
    """`text`, which was cut off, without the tag or boundary line that the cut may have made of its last words.

    At most `END_GROWTH` characters longer.
    """
    opener = max(map(text.rfind, OPENERS))
    start = max(min(opener if opener >= 0 else len(text), len(text) - 200), 0)
    window = text[start:]
    end = len(window)
    for edit in reversed(_edits(window)):
        if edit.start == opener - start or edit.end == end:
            window = window[: edit.start] + edit.text + window[edit.end :]
    return text[:start] + window


def neutralize_parts(parts: Sequence[str]) -> list[str]:
    """Each part neutralised, and what would be a forgery once the parts are joined as well."""
    once = [neutralize(part) for part in parts]
    if len(once) < 2 or not (edits := _edits("".join(once))):
        return once
    starts = list(accumulate(map(len, once), initial=0))
    for edit in reversed(edits):  # from the end: positions further to the front stay valid
        first = bisect_right(starts, edit.start) - 1
        for index in range(len(once) - 1, first - 1, -1):
            begin, end = max(edit.start - starts[index], 0), edit.end - starts[index]
            if begin < end:
                once[index] = once[index][:begin] + (edit.text if index == first else "") + once[index][end:]
    return once


def frame(text: str) -> str:
    """What a user wrote, neutralised and between the boundary lines. Blank text and framed text stay as they are."""
    if not text or text.isspace() or text == _EMPTY:
        return text
    if text.startswith(_PREFIX) and text.endswith(_SUFFIX):
        text = text[len(_PREFIX) : -len(_SUFFIX)]
    return f"{_PREFIX}{neutralize(text)}{_SUFFIX}"


def frame_parts(parts: Sequence[str]) -> list[str]:
    """Parts of what a user wrote: the first begins with one boundary line, the last ends with the other."""
    inner = list(parts)
    written = [index for index, part in enumerate(inner) if part.strip()]
    if not written:
        return inner
    first, last = written[0], written[-1]
    if first == last and inner[first] == _EMPTY:
        return inner
    if inner[first].startswith(_PREFIX) and inner[last].endswith(_SUFFIX):
        inner[first] = inner[first][len(_PREFIX) :]
        inner[last] = inner[last][: -len(_SUFFIX)]
    inner = neutralize_parts(inner)
    inner[first] = f"{_PREFIX}{inner[first]}"
    inner[last] = f"{inner[last]}{_SUFFIX}"
    return inner


def neutralize_all(value: Any, change: Callable[[str], str] = neutralize) -> Any:
    """Structured data with `change` applied to every text in it, keys included; the same object when nothing changes.

    Looks into mappings, lists and tuples. Anything nested deeper than `MAX_DEPTH`, or inside of itself, is replaced.
    """
    return _Walk(change).value(value, 0)


def escape_all(text: str) -> str:
    """`text` without any character that could begin a tag or a boundary line: for when nothing finer can be trusted."""
    return "".join(_blunt(char) for char in text)


def _blunt(char: str) -> str:
    look = look_of(char)
    return next((safe for sharp, safe in (("<", "&lt;"), (">", "&gt;"), ("-", "_")) if sharp in look), char)


class _Walk:
    """One pass over structured data. Shared parts are looked at once."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change
        self._done: dict[int, tuple[Any, Any]] = {}

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._change(value)
        if not isinstance(value, (dict, list, tuple)):
            return value
        if id(value) in self._done:
            return self._done[id(value)][1]
        if depth >= MAX_DEPTH:
            return TOO_DEEP
        self._done[id(value)] = value, TOO_DEEP  # until it is done: a container inside of itself
        changed = self._mapping(value, depth) if isinstance(value, dict) else self._items(value, depth)
        self._done[id(value)] = value, changed
        return changed

    def _mapping(self, value: dict[Any, Any], depth: int) -> Any:
        pairs = [(self.value(key, depth + 1), self.value(held, depth + 1)) for key, held in value.items()]
        same = all(key is old and held is value[old] for (key, held), old in zip(pairs, value, strict=True))
        return value if same else dict(pairs)

    def _items(self, value: Any, depth: int) -> Any:
        items = [self.value(item, depth + 1) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)


def _edits(text: str) -> list[_Edit]:
    """What to change in `text`, in order; the edits do not overlap."""
    if text.isascii():
        if "<" not in text and "user" not in text.lower():
            return []
        if _CONTROL.search(text) is None:
            return _found(text, None)
    shape = Shape(text)
    edits = _found(shape.text, shape)
    if has_tag_characters(text):
        hidden = Shape(text, hidden=True)
        edits = _merged(edits, _found(hidden.text, hidden))
    return edits


def _found(look: str, shape: Shape | None) -> list[_Edit]:
    edits = []
    if "<" in look:
        for match in _TAG.finditer(look):
            edits.append(_edit(match.span("open"), "&lt;", shape))
            if match["close"] is not None:
                edits.append(_edit(match.span("close"), "&gt;", shape))
    if "user" in look.lower():
        lines = [
            _edit(match.span(), f"[{(match['which'] or match['other']).upper()} USER INPUT]", shape)
            for match in _LINE.finditer(look)
        ]
        edits = _merged(edits, lines) if lines else edits
    return edits


def _edit(span: tuple[int, int], text: str, shape: Shape | None) -> _Edit:
    start, end = span if shape is None else shape.source(*span)
    return _Edit(start, end, text)


def _merged(one: list[_Edit], other: list[_Edit]) -> list[_Edit]:
    merged: list[_Edit] = []
    for edit in sorted({*one, *other}):
        if not merged or edit.start >= merged[-1].end:
            merged.append(edit)
    return merged
