"""The command line, called in this process and as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from remit.cli import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


class Cli:
    """`main([...])` with what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *argv: str | Path) -> Ran:
        self.capsys.readouterr()
        code = main([str(arg) for arg in argv])
        out, err = self.capsys.readouterr()
        for text in (out, err):
            assert "Traceback" not in text, text
        return Ran(code, out, err)


def process(*argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Ran:
    """The installed console script."""
    script = Path(sys.executable).with_name("remit")
    done = subprocess.run(
        [script, *argv], cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)
