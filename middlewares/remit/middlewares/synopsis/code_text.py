"""A synopsis of source code: imports and names that are defined."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from remit.middlewares.synopsis.parts import Effort, Synopsis, plural, token

MAX_IMPORTS: Final = 12
MAX_SYMBOLS: Final = 24
MAX_LINES: Final = 20_000
MIN_SIGNS: Final = 3
_LINE: Final = 300
_IMPORT: Final = re.compile(
    r"\s{0,8}(?:import\s+[\w.{*\"'(]|from\s+[\w.]+\s+import\s|#include\s*[<\"]|use\s+[\w:]+|"
    r"(?:const|let|var)\s+[\w{}, ]{1,80}=\s*require\(|package\s+[\w.]+;?\s*$|require\s+['\"]|using\s+[\w.]+;)"
)
_SYMBOL: Final = re.compile(
    r"\s{0,24}(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub|unsafe)\s+){0,4}"
    r"(?P<kind>def|class|function|func|fn|interface|struct|enum|trait|impl|module|type)\s+"
    r"(?:\([^)]{0,80}\)\s*)?(?P<name>[A-Za-z_$][\w$]{0,80})\s*(?P<after>[(:{<=;]|\bextends\b|\bimplements\b|\bstruct\b|$)"
)


def read_code(text: str, effort: Effort) -> Synopsis | None:
    """What is in source code; None when it does not look like any."""
    imports: list[str] = []
    symbols: list[str] = []
    lines = 0
    for line in islice(text.splitlines(), MAX_LINES):
        lines += 1
        if not lines % 1_000 and effort.spent:
            break
        line = line[:_LINE]
        if _IMPORT.match(line):
            imports.append(line.strip())
        elif (match := _SYMBOL.match(line)) is not None:
            symbols.append(f"line {lines}: {match['kind']} {match['name']}")
    if len(imports) + len(symbols) < MIN_SIGNS or not symbols or (len(imports) + len(symbols)) * 60 < lines:
        return None
    return Synopsis(
        kind="code",
        title=f"source code with {plural(len(symbols), 'definition')} in {plural(text.count(chr(10)) + 1, 'line')}",
        summary=tuple(token(line) for line in imports[:MAX_IMPORTS]),
        structure=tuple(token(symbol) for symbol in symbols[:MAX_SYMBOLS]),
        notable=(plural(len(symbols) - MAX_SYMBOLS, "more definition"),) if len(symbols) > MAX_SYMBOLS else (),
    )
