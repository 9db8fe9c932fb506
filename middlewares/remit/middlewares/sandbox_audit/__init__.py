"""The audit of shell commands: a classifier over a real shell grammar, and the middleware that applies it.

Names are resolved at first use: the grammar is imported then and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.classifier import classify
    from remit.middlewares.sandbox_audit.middleware import SandboxAuditMiddleware
    from remit.middlewares.sandbox_audit.rules import RULES
    from remit.middlewares.sandbox_audit.verdicts import CommandVerdict

__all__ = ["RULES", "CommandVerdict", "SandboxAuditMiddleware", "classify"]

_HOME = {
    "RULES": "remit.middlewares.sandbox_audit.rules",
    "CommandVerdict": "remit.middlewares.sandbox_audit.verdicts",
    "SandboxAuditMiddleware": "remit.middlewares.sandbox_audit.middleware",
    "classify": "remit.middlewares.sandbox_audit.classifier",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
