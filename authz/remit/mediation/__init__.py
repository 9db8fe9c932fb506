"""The proof that every tool of an agent is reached through a decision, and through nothing else.

```python
audit(graph).raise_if_failed()
```

Names are resolved at first use: LangChain is imported then and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.mediation.agents import audit
    from remit.mediation.powers import POWER_ATTRIBUTE, POWERS
    from remit.mediation.report import MediationError, Report, Row, Standing, Verdict

__all__ = ["POWERS", "POWER_ATTRIBUTE", "MediationError", "Report", "Row", "Standing", "Verdict", "audit"]

_HOME = {
    "POWERS": "powers",
    "POWER_ATTRIBUTE": "powers",
    "MediationError": "report",
    "Report": "report",
    "Row": "report",
    "Standing": "report",
    "Verdict": "report",
    "audit": "agents",
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
