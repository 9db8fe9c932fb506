"""Which skill a file read has loaded: name, path and description, from the head of the file that was read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from langchain_core.messages import ToolMessage

from remit.middlewares.tool_result_meta import meta_of, text_of
from remit.runtime.paths import VIRTUAL_SKILLS, normal_virtual_path
from remit.runtime.state import MAX_DESCRIPTION

_SKILL_FILE: Final = re.compile(re.escape(VIRTUAL_SKILLS) + r"/([^/]+)/SKILL\.md")
_HEAD: Final = 8_192
"""Characters at the start of a file among which its head must end."""
_MAX_NAME: Final = 128
_FIELD: Final = re.compile(r"(name|description)[ \t]*:[ \t]*(.*)")


class SkillEntry(TypedDict):
    """A skill that was loaded."""

    name: str
    path: str
    description: str


def skill_entry(message: ToolMessage, args: Any, argument: str) -> SkillEntry | None:
    """The skill whose file `message` is the content of; None when it is none, or the read failed.

    Args:
        message: A result with its stamp.
        args: Arguments of the call.
        argument: The one with the path.
    """
    path = args.get(argument) if isinstance(args, Mapping) else None
    if not isinstance(path, str):
        return None
    try:
        path = normal_virtual_path(path)
    except ValueError:
        return None
    found = _SKILL_FILE.fullmatch(path)
    meta = meta_of(message)
    if found is None or message.status != "success" or meta is None or meta["status"] == "error":
        return None
    head = front_matter(text_of(message))
    return SkillEntry(
        name=(head.get("name") or found[1])[:_MAX_NAME],
        path=path,
        description=head.get("description", "")[:MAX_DESCRIPTION],
    )


def front_matter(text: str) -> dict[str, str]:
    """``name`` and ``description`` at the head of a skill's file: plain, quoted, folded and block scalars, in one line.

    Read by hand and not as YAML: the head is a stranger's text, and nothing but these two strings is wanted of it.
    """
    lines = text[:_HEAD].lstrip("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    end = next((index for index, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), None)
    if end is None:
        return {}
    head, found = lines[1:end], dict[str, str]()
    for index, line in enumerate(head):
        if (field := _FIELD.fullmatch(line.rstrip())) is not None and field[1] not in found:
            more = _continued(head[index + 1 :])
            first = "" if re.fullmatch(r"[|>][-+0-9]*", field[2]) else field[2]
            found[field[1]] = _unquoted(" ".join(" ".join([first, *more]).split()))
    return found


def _continued(lines: list[str]) -> list[str]:
    """The lines that are indented below a field."""
    end = next((index for index, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))
    return lines[:end]


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        quote, inner = value[0], value[1:-1]
        return inner.replace("''", "'") if quote == "'" else inner.replace('\\"', '"').replace("\\\\", "\\")
    return value if value[:1] in "'\"" else re.sub(r"\s#.*", "", value)
