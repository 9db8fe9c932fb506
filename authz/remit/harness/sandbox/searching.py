"""Searching files by expression, bounded in time whatever the expression is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from remit.harness.sandbox.search_worker import Found, Place, search
from remit.runtime.sandboxes import SandboxFileError

MAX_SECONDS: Final = 10.0
MAX_MEMORY_MB: Final = 1_024
MAX_PATTERN: Final = 2_000
_SPECIAL: Final = re.compile(r"[\\.^$*+?{}\[\]|()\n\r]")
_START: Final = "import sys; sys.path.append(sys.argv[1]); from remit.harness.sandbox.search_worker import main; main()"


def matching_lines(places: Sequence[Place], pattern: str, *, limit: int) -> list[Found]:
    """The first `limit` lines of the files in `places` in which the regular expression `pattern` occurs.

    Plain words are looked for right here. Anything else is matched in a process of its own, since an expression can
    take exponential time: it is killed after `MAX_SECONDS`.

    Args:
        places: Files, as (descriptor of a folder, names below it).
        pattern: In the syntax of Python's `re`.
        limit: At most so many lines.

    Raises:
        SandboxFileError: `pattern` is no expression, or the search takes too long.
    """
    if not pattern or len(pattern) > MAX_PATTERN:
        raise SandboxFileError(f"a search pattern has 1 to {MAX_PATTERN} characters, this one has {len(pattern)}")
    if not _SPECIAL.search(pattern):
        needle = pattern.encode("utf-8", "surrogatepass")
        try:
            return search(places, lambda line: pattern in line, limit, needle=needle, seconds=MAX_SECONDS)
        except TimeoutError as exc:
            raise _too_long(pattern) from exc
    return _in_process(places, pattern, limit)


def _in_process(places: Sequence[Place], pattern: str, limit: int) -> list[Found]:
    task = {"pattern": pattern, "places": places, "limit": limit, "memory_mb": MAX_MEMORY_MB}
    source_root = str(Path(__file__).resolve().parents[3])
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(task).encode("ascii"))
        stdin.seek(0)
        try:
            ended = subprocess.run(  # noqa: S603 - our own module, by the running interpreter
                [sys.executable, "-I", "-S", "-c", _START, source_root],
                stdin=stdin,
                capture_output=True,
                env={},
                pass_fds=sorted({root for root, _ in places}),
                timeout=MAX_SECONDS,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise _too_long(pattern) from exc
        except OSError as exc:
            raise SandboxFileError(f"the search for {pattern!r} could not be started: {exc.strerror}") from exc
    if ended.returncode != 0:
        raise SandboxFileError(f"the search for {pattern!r} failed; write a simpler expression")
    answer = json.loads(ended.stdout)
    if "error" in answer:
        raise SandboxFileError(f"{pattern!r} is no regular expression: {answer['error']}")
    return [(index, line, text) for index, line, text in answer["found"]]


def _too_long(pattern: str) -> SandboxFileError:
    return SandboxFileError(
        f"the search for {pattern!r} took longer than {MAX_SECONDS:g} s; "
        "write a simpler expression, or search in fewer files"
    )
