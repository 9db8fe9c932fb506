"""Measurements that need a process of their own: the parent asks, the child answers one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class NotInstalled(Exception):
    """The child's interpreter lacks what is to be measured."""


def ask(module: str, *args: str, python: str = sys.executable, timeout: float = 300) -> Any:
    """Run ``python -m benchmarks.MODULE ARGS`` in a fresh process and return what it printed last, parsed.

    Raises:
        NotInstalled: It ended with exit code 3.
        RuntimeError: It failed otherwise.
    """
    ended = subprocess.run(
        [python, "-m", f"benchmarks.{module}", *args],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if ended.returncode == 3:
        raise NotInstalled(ended.stderr.strip())
    if ended.returncode:
        raise RuntimeError(f"benchmarks.{module} {' '.join(args)} failed:\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])
