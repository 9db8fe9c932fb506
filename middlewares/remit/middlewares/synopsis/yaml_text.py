"""A synopsis of YAML, read off its lines: nothing is parsed, so that no alias can unfold."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from remit.middlewares.synopsis.parts import Effort, Synopsis, listed, plural, token

MAX_CHARS: Final = 500_000
MAX_LOOKED_AT: Final = 80
"""Lines in which it must show that this is YAML."""
MIN_KEY_LINES: Final = 3
MAX_LINES: Final = 5_000
MAX_STRUCTURE: Final = 24
_KEY: Final = re.compile(r"(?P<indent> {0,16})(?:- )?(?P<key>[A-Za-z_][\w.-]{0,100}):(?:\s+(?P<value>\S.{0,400}))?\s*")
_LOG_PREFIX: Final = re.compile(r"[A-Z][A-Z_]*")
_NOT_TEXT: Final = re.compile(r"[-+.\d\[{&*!|>'\"]|true\b|false\b|null\b|yes\b|no\b")


def read_yaml(text: str, effort: Effort) -> Synopsis | None:
    """What is in a YAML text; None when it does not look like one."""
    if len(text) > MAX_CHARS:
        return None
    lines = [line[:600] for line in islice(text.splitlines(), MAX_LINES)]
    marked = any(line.rstrip() == "---" for line in lines[:MAX_LOOKED_AT])
    keys = [match for line in lines if (match := _KEY.fullmatch(line)) and not _LOG_PREFIX.fullmatch(match["key"])]
    early = sum(bool(_KEY.fullmatch(line)) for line in lines[:MAX_LOOKED_AT] if not _is_log(line))
    if not (marked and keys) and early < MIN_KEY_LINES:
        return None
    if not marked and all(match["value"] and not _NOT_TEXT.match(match["value"]) for match in keys):
        return None  # lines of prose with a colon: headers of a mail, a chat
    if len(keys) * 3 < sum(bool(line.strip()) for line in lines[:MAX_LOOKED_AT]) and not marked:
        return None
    least = min(len(match["indent"]) for match in keys)
    top = [match for match in keys if len(match["indent"]) == least]
    scalars = [match for match in top if match["value"]]
    return Synopsis(
        kind="yaml",
        title=f"YAML with {plural(len(top), 'key')} at its outermost level",
        summary=(
            f"keys: {listed([match['key'] for match in top], len(top), 12)}",
            *(f"{token(match['key'], 40)} = {token(match['value'])}" for match in scalars[:6]),
        ),
        structure=tuple(
            f"{'  ' * min((len(match['indent']) - least) // 2, 4)}{token(match['key'], 40)}"
            for match in [one for one in keys if not one["value"]][:MAX_STRUCTURE]
        ),
        notable=(f"{plural(sum(line.rstrip() == '---' for line in lines), 'document marker')}",) if marked else (),
    )


def _is_log(line: str) -> bool:
    return bool(_LOG_PREFIX.match(line.split(":", 1)[0]) and _LOG_PREFIX.fullmatch(line.split(":", 1)[0]))
