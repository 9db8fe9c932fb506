"""Sandboxes for tests: both built-in providers, of which the isolating one may not run everywhere."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remit.harness.sandbox.bubblewrap import BubblewrapSandboxProvider, why_unusable
from remit.harness.sandbox.local import LocalSandboxProvider
from remit.runtime.config import SandboxConfig

PROVIDERS = {"local": LocalSandboxProvider, "bubblewrap": BubblewrapSandboxProvider}
WORKSPACE = "/mnt/user-data/workspace"


@cache
def missing() -> str | None:
    return why_unusable()


def need_bubblewrap() -> None:
    """Skip where bubblewrap cannot run; fail where every tier is required."""
    if (reason := missing()) is not None:
        if os.environ.get("REMIT_REQUIRE_ALL_TIERS") == "1":
            pytest.fail(f"bubblewrap cannot run here: {reason}")
        pytest.skip(f"bubblewrap cannot run here: {reason}")


def provider_of(name: str, base_dir: Path, **settings: Any) -> Any:
    """A provider of that kind, or a skipped test."""
    if name == "bubblewrap":
        need_bubblewrap()
    return PROVIDERS[name](SandboxConfig(**settings), base_dir=base_dir)
