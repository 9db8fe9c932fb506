"""Environments for commands and files: where they come from, and the two that are built in.

`bubblewrap` isolates. `local` does not: it is for development, and is never chosen in place of the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.harness.sandbox.bubblewrap import BubblewrapSandboxProvider
    from remit.harness.sandbox.local import LocalSandboxProvider
    from remit.harness.sandbox.registry import build_sandbox_provider

__all__ = ["BubblewrapSandboxProvider", "LocalSandboxProvider", "build_sandbox_provider"]

_HOME = {
    "BubblewrapSandboxProvider": "bubblewrap",
    "LocalSandboxProvider": "local",
    "build_sandbox_provider": "registry",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
