"""What a middleware inside of the guard may do, as it declares it.

A wrapper that stands between the decision and the tool sees arguments that were decided and results that are not yet
sanitised. remit's own are known; any other says in one attribute, of the class or of the instance, what it does:

```python
class Timing(AgentMiddleware):
    remit_power = "observe"      # hands request and result on as they are

retry = ToolRetryMiddleware()
retry.remit_power = "transform"  # changes, repeats or replaces calls or results
```

The declaration is a statement of whoever reviewed the code. It gives no rights: tool bodies decide again about what
differs from the decided call.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from remit.middlewares.fusion import original_class

POWER_ATTRIBUTE: Final = "remit_power"
POWERS: Final = ("observe", "transform")
FIRST_PARTY: Final = "first-party"
UNDECLARED: Final = "undeclared"
_HOME: Final = "remit.middlewares"


def origin(middleware: Any) -> str:
    """``first-party``, the declared power, or ``undeclared``; a value that is no power declares nothing."""
    if is_first_party(middleware):
        return FIRST_PARTY
    declared = getattr(middleware, POWER_ATTRIBUTE, None)
    return declared if isinstance(declared, str) and declared in POWERS else UNDECLARED


def is_first_party(middleware: Any) -> bool:
    """Whether its class is one of `remit.middlewares`, and really the one that stands there."""
    kind = original_class(middleware)
    if not f"{kind.__module__}.".startswith(f"{_HOME}."):
        return False
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
