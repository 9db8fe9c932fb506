"""The conformance kit for authorization providers, for ours and for anybody's.

It asks a provider some 250 questions in a tiny policy world (`print(World())` shows it) and looks at how it answers:
decisions, look-alike names, filters, arguments, sync against async against batch, threads, tasks, cancellation, errors.

With pytest:

```python
from remit.authz.testing import ProviderContract

class TestAcme(ProviderContract):
    @pytest.fixture
    def provider(self):
        return AcmeProvider(rules=[to_acme(rule) for rule in self.world.rules])
```

Without:

```python
from remit.authz.testing import check_provider

report = check_provider(make_acme)
print(report)
report.raise_for_failures()
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remit.authz.testing.cases import Case, all_cases
from remit.authz.testing.runner import NotConforming, Report, Result, check_provider, run_case
from remit.authz.testing.world import Question, Rule, When, World

if TYPE_CHECKING:
    from remit.authz.testing.contract import ProviderContract

__all__ = [
    "Case",
    "NotConforming",
    "ProviderContract",
    "Question",
    "Report",
    "Result",
    "Rule",
    "When",
    "World",
    "all_cases",
    "check_provider",
    "run_case",
]


def __getattr__(name: str) -> Any:
    if name == "ProviderContract":  # needs pytest, which only a test run has
        from remit.authz.testing.contract import ProviderContract

        return ProviderContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
