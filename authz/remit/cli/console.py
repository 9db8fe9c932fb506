"""The two streams: results to stdout, messages to stderr. Colour and tables only where a terminal shows them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any, TextIO

Part = str | tuple[str, str]
"""Text, or text with the style in which a terminal shows it."""


def say(*parts: Part) -> None:
    """One line of the result."""
    texts = [part if isinstance(part, str) else part[0] for part in parts]
    if not sys.stdout.isatty():
        _write(sys.stdout, "".join(texts))
        return
    from rich.console import Console
    from rich.text import Text

    styles = ["" if isinstance(part, str) else part[1] for part in parts]
    line = Text.assemble(*zip(map(printable, texts), styles, strict=True))
    Console(file=sys.stdout).print(line, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headings: drawn on a terminal, else in columns of equal width without headings."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            _write(sys.stdout, "  " + "  ".join(map(str.ljust, row, widths)).rstrip())
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, box=SIMPLE, pad_edge=False)
    for row in cells:
        drawn.add_row(*map(Text, row))
    Console(file=sys.stdout).print(drawn)


def document(value: Any) -> None:
    """A JSON document as the result. ASCII, so that no encoding of the stream can break it."""
    _write(sys.stdout, json.dumps(value, indent=2), clean=True)


def text(value: str) -> None:
    """A finished document as the result, without a line end added."""
    sys.stdout.write(value)


def complain(message: object) -> None:
    """A message for whoever runs the command."""
    _write(sys.stderr, str(message))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Tell a terminal that something is going on, once it takes longer than a second."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(what)
    timer = Timer(1.0, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def count(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(value: str) -> str:
    """`value` with control and other invisible characters spelled out: names must not steer the terminal."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in value)


def _write(stream: TextIO, value: str, *, clean: bool = False) -> None:
    stream.write((value if clean else printable(value)) + "\n")
