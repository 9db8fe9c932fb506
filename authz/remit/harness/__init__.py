"""What makes an agent out of settings: assembly, sandboxes, tools and models.

Names are resolved at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

if TYPE_CHECKING:
    from remit.harness.assembly import AgentOptions, Assembled, assemble, make_lead_agent
    from remit.harness.services import Services

__all__ = ["AgentOptions", "Assembled", "Services", "assemble", "make_lead_agent"]

_HOME = {
    "AgentOptions": ".assembly",
    "Assembled": ".assembly",
    "Services": ".services",
    "assemble": ".assembly",
    "make_lead_agent": ".assembly",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
