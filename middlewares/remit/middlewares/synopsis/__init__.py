"""What a long tool result is and what is in it, in a few lines, whatever somebody put into it.

The kinds are tried in this order: empty, oversized, binary, JSON, XML, TSV, CSV, YAML, code, text. Everything that is
shown of a text is cut to a fixed length token by token, so that no key, header or line can make a synopsis long; and
it is neutralised, since a parser may spell out a tag that was hidden in escapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from remit.middlewares.neutralize import neutralize
from remit.middlewares.synopsis.binary_text import read_binary
from remit.middlewares.synopsis.code_text import read_code
from remit.middlewares.synopsis.json_text import read_json
from remit.middlewares.synopsis.parts import MAX_LINE, MAX_PARSED_BYTES, Effort, Synopsis
from remit.middlewares.synopsis.plain_text import read_empty, read_oversized, read_text
from remit.middlewares.synopsis.table_text import read_csv, read_tsv
from remit.middlewares.synopsis.xml_text import read_xml
from remit.middlewares.synopsis.yaml_text import read_yaml

__all__ = ["MAX_SYNOPSIS", "Synopsis", "rendered", "synopsis_of"]

MAX_SYNOPSIS: Final = 2_600
"""Characters of a rendered synopsis."""
_READERS: Final[tuple[Callable[[str, Effort], Synopsis | None], ...]] = (
    read_json,
    read_xml,
    read_tsv,
    read_csv,
    read_yaml,
    read_code,
)


def synopsis_of(text: str, *, sampled: bool = True, effort: Effort | None = None) -> Synopsis:
    """What `text` is. Never raises, and stops looking when its time is up.

    Args:
        text: Any text.
        sampled: Whether the reader sees its beginning and end anyway.
        effort: The time that may be spent.
    """
    effort = effort or Effort()
    if not text or text.isspace():
        return read_empty(text)
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    if size > MAX_PARSED_BYTES:
        return read_binary(text) or read_oversized(text, size)
    if (binary := read_binary(text)) is not None:
        return binary
    for read in _READERS:
        if effort.spent:
            break
        try:
            found = read(text, effort)
        except Exception:  # noqa: S112
            continue  # the text is a stranger's: a reader that stumbles over it has not recognised it
        if found is not None:
            return found
    return read_text(text, sampled=sampled)


def rendered(synopsis: Synopsis) -> str:
    """The synopsis as lines of text, at most `MAX_SYNOPSIS` characters, harmless whatever it was made from."""
    lines = [synopsis.title, *(f"- {line}" for line in synopsis.summary)]
    for heading, items in (("Structure:", synopsis.structure), ("Notable:", synopsis.notable)):
        if items:
            lines += [heading, *(f"- {line}" for line in items)]
    return _fitting("\n".join(line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…" for line in lines))


def _fitting(text: str) -> str:
    """`text`, neutralised and within the limit: in this order a cut could make a tag of half a word."""
    end = len(text)
    while len(safe := neutralize(text[:end])) > MAX_SYNOPSIS:
        end -= len(safe) - MAX_SYNOPSIS
    return safe
