"""What makes an agent out of settings: assembly, sandboxes, tools and models.

Names are resolved at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.harness.assembly import AgentOptions, Assembled, assemble, make_lead_agent
    from remit.harness.services import Services

__all__ = ["AgentOptions", "Assembled", "Services", "assemble", "make_lead_agent"]

_HOME = {
    "AgentOptions": "assembly",
    "Assembled": "assembly",
    "Services": "services",
    "assemble": "assembly",
    "make_lead_agent": "assembly",
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
