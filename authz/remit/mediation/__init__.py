"""The proof that every tool of an agent is reached through a decision, and through nothing else.

```python
audit(graph).raise_if_failed()
```

Names are resolved at first use: LangChain is imported then and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

if TYPE_CHECKING:
    from remit.mediation.agents import audit
    from remit.mediation.powers import POWER_ATTRIBUTE, POWERS
    from remit.mediation.report import MediationError, Report, Row, Standing, Verdict

__all__ = ["POWERS", "POWER_ATTRIBUTE", "MediationError", "Report", "Row", "Standing", "Verdict", "audit"]

_HOME = {
    "POWERS": ".powers",
    "POWER_ATTRIBUTE": ".powers",
    "MediationError": ".report",
    "Report": ".report",
    "Row": ".report",
    "Standing": ".report",
    "Verdict": ".report",
    "audit": ".agents",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
