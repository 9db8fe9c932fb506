"""Enforcement points inside of an agent: the middlewares around model calls and tool calls.

Names are resolved at first use: LangChain is imported then and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.middlewares.approvals import Approvals
    from remit.middlewares.guardrail import GuardrailMiddleware
    from remit.middlewares.guards import guard

__all__ = ["Approvals", "GuardrailMiddleware", "guard"]

_HOME = {"Approvals": "approvals", "GuardrailMiddleware": "guardrail", "guard": "guards"}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
