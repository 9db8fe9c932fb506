"""What of a long text the model is shown, and how a name of a file is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from remit.middlewares.results import escaped
from remit.runtime.paths import normal_virtual_path


def without_middle(text: str, limit: int) -> str:
    """`text`, of which the middle is left out, with a note, when it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit} of {len(text)} characters and a little more left out ...]\n"
    room = limit - len(note)
    if room <= 0:
        return text[:limit]
    return text[: room - room // 2] + note + text[len(text) - room // 2 :]


def lines_within(lines: Iterable[str], limit: int, hint: str) -> str:
    """`lines` as a text of at most `limit` characters; a last line says when some are left out, and gives `hint`."""
    listed = list(lines)
    text = "\n".join(listed)
    if len(text) <= limit:
        return text
    note = f"[cut: not all of {len(listed)} lines are shown; {hint}]"
    room = limit - len(note) - 1
    kept = text[: max(room, 0)].rpartition("\n")[0]
    return f"{kept}\n{note}"[:limit] if kept else note[:limit]


def path_line(path: str) -> str:
    """A path as one line of readable text, whatever its name holds."""
    return escaped(path)


def normal(path: str) -> str:
    """The path in its one spelling, or as it is when it has none."""
    try:
        return normal_virtual_path(path)
    except ValueError:
        return path


def parent(path: str) -> str:
    """The folder of a path."""
    return str(PurePosixPath(path).parent)
