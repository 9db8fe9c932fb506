"""What remit raises on purpose. A denial is no exception here: enforcement points turn a decision into their own form.

```text
AuthzError                     everything in this package
    ConfigError (ValueError)   the operator must change something; start-up refuses
        PolicyError            a policy, model or roles file; a running provider keeps its last good policy
    ProviderError              the policy brain cannot answer now; enforcement points deny
    ModelAuthorizationError    no model may be used by this principal (ValueError)
    SandboxAuthorizationError  a sandbox may not be used by this principal
    TicketRefused              a tool body was reached without a decision that covers the call
```
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong in one place.

    Sorting is by file, line, then text, which is the order in which operators read.
    """

    file: str
    """As the operator wrote it in the configuration, or the path that was opened."""
    line: int
    """1-based; 0 when the problem concerns the file as a whole."""
    message: str
    """What is wrong. Lower case, no final full stop, input quoted with `repr`."""
    advice: str = ""
    """What to do about it."""
    code: str = "invalid"
    """Stable kebab-case id, the rule id of `remit lint`."""
    key: str = ""
    """Dotted path inside the document, for example ``roles.user.tools.allow``."""
    severity: Severity = "error"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {self.key}:" if self.key else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{place}:{key} {self.message}{advice}"


class AuthzError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigError(AuthzError, ValueError):
    """Configuration that cannot be used. All problems are reported at once, sorted.

    Args:
        problems: What is wrong and where, or one sentence when there is no position (an environment variable).
    """

    problems: tuple[Problem, ...]

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            self.problems = ()
            super().__init__(problems)
            return
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


class PolicyError(ConfigError):
    """A policy set that was refused whole: nothing of it is in force."""


class ProviderError(AuthzError):
    """The provider cannot answer this request now. Enforcement points treat it as a failure, never as an answer."""


class ModelAuthorizationError(AuthzError, ValueError):
    """No model may be used.

    Args:
        name: The model that was wanted.
        role: Role of the caller.
        tried: Every model that was asked about.
        code: Reason code of the last answer.
    """

    def __init__(self, name: str, role: str | None, tried: Iterable[str], code: str) -> None:
        self.name, self.role, self.tried, self.code = name, role, tuple(tried), code
        shown = ", ".join(map(repr, self.tried))
        super().__init__(
            f"role {role!r} may use no model ({code}); tried {shown}; grant the role one of the configured models"
        )


class SandboxAuthorizationError(AuthzError):
    """The principal may not use a sandbox.

    Args:
        message: Safe to show to the user.
        details: For the operator: role, reason codes.
    """

    def __init__(self, message: str, *, details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


class TicketRefused(AuthzError):
    """A tool body was reached without a decision that covers this very call.

    Not a `ToolException`, which a tool may turn into an ordinary result.

    Args:
        tool: Name of the tool.
        code: Reason code, for example ``authz.no_ticket``.
        message: Safe to show to the model.
    """

    def __init__(self, tool: str, code: str, message: str = "") -> None:
        super().__init__(f"{tool!r} was not run ({code})" + (f": {message}" if message else ""))
        self.tool, self.code, self.message = tool, code, message
