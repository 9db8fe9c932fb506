"""The audit of shell commands: a classifier over a real shell grammar, and the middleware that applies it.

Names are resolved at first use: the grammar is imported then and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.classifier import classify
    from remit.middlewares.sandbox_audit.middleware import SandboxAuditMiddleware
    from remit.middlewares.sandbox_audit.rules import RULES
    from remit.middlewares.sandbox_audit.verdicts import CommandVerdict

__all__ = ["RULES", "CommandVerdict", "SandboxAuditMiddleware", "classify"]

_HOME = {
    "RULES": ".rules",
    "CommandVerdict": ".verdicts",
    "SandboxAuditMiddleware": ".middleware",
    "classify": ".classifier",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
