"""Environments for commands and files: where they come from, and the two that are built in.

`bubblewrap` isolates. `local` does not: it is for development, and is never chosen in place of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

if TYPE_CHECKING:
    from remit.harness.sandbox.bubblewrap import BubblewrapSandboxProvider
    from remit.harness.sandbox.local import LocalSandboxProvider
    from remit.harness.sandbox.registry import build_sandbox_provider

__all__ = ["BubblewrapSandboxProvider", "LocalSandboxProvider", "build_sandbox_provider"]

_HOME = {
    "BubblewrapSandboxProvider": ".bubblewrap",
    "LocalSandboxProvider": ".local",
    "build_sandbox_provider": ".registry",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
