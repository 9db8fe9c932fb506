"""The process that searches files with an expression a model wrote: it may be slow, so it can be killed.

The task is JSON on standard input, the answer JSON on standard output; folders are inherited as descriptors. Only the
standard library is imported.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from remit.harness.sandbox.beneath import open_folder, read_in

MAX_FILE = 8 << 20
"""Bytes of the longest file that is searched."""
MAX_LINE = 500
"""Characters of a matching line that are shown."""
_BINARY_HEAD = 8_192

Place = tuple[int, tuple[str, ...]]
"""Descriptor of a folder, and the names from there to a file."""
Found = tuple[int, int, str]
"""Index of the file, number of the line, its text."""


def search(
    places: Iterable[Place],
    finds: Callable[[str], object],
    limit: int,
    *,
    needle: bytes = b"",
    seconds: float = float("inf"),
) -> list[Found]:
    """The first `limit` lines that `finds`, in the order of `places`. What cannot be read is passed over.

    Args:
        places: Files.
        finds: Whether a line matches.
        limit: At most so many.
        needle: A file without it is passed over quickly.
        seconds: How long to go on to the next file.

    Raises:
        TimeoutError: They are over.
    """
    found: list[Found] = []
    end = time.monotonic() + seconds
    for index, data in _texts(places):
        if time.monotonic() > end:
            raise TimeoutError
        if needle and needle not in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            line = line.removesuffix("\r")
            if finds(line):
                found.append((index, number, line[:MAX_LINE]))
                if len(found) >= limit:
                    return found
    return found


def _texts(places: Iterable[Place]) -> Iterator[tuple[int, bytes]]:
    """Index and content of those files that are text, each folder opened once."""
    opened: tuple[int, tuple[str, ...]] | None = None
    folder = -1
    try:
        for index, (root, parts) in enumerate(places):
            try:
                if opened != (root, parts[:-1]):
                    if folder >= 0:
                        os.close(folder)
                    opened, folder = None, -1
                    folder = open_folder(root, parts[:-1])
                    opened = (root, parts[:-1])
                data = read_in(folder, parts[-1], MAX_FILE)
            except OSError:
                continue
            if b"\x00" not in data[:_BINARY_HEAD]:
                yield index, data
    finally:
        if folder >= 0:
            os.close(folder)


def main() -> None:
    task = json.load(sys.stdin.buffer)
    _limit_memory(task["memory_mb"])
    try:
        expression = re.compile(task["pattern"])
    except (re.error, OverflowError, RecursionError, MemoryError) as exc:
        json.dump({"error": str(exc) or type(exc).__name__}, sys.stdout)
        return
    places = [(root, tuple(parts)) for root, parts in task["places"]]
    json.dump({"found": search(places, expression.search, task["limit"])}, sys.stdout)


def _limit_memory(megabytes: int) -> None:
    import resource

    with suppress(ValueError, OSError):  # a tighter limit holds already, or this system knows none
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
