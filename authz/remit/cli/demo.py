"""`remit demo`: three people ask one agent for the same four things, and a policy in files decides.

Everything shown was observed: the tools the model was bound to, the outcome of each call, what the tools really did.
At the end all of it is compared with what the policy files say when they are asked directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from remit.authz.config import load_config
from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError

if TYPE_CHECKING:
    pass

PEOPLE = (("gwen", "guest"), ("ulli", "user"), ("ada", "admin"))
CALLS: dict[str, dict[str, Any]] = {
    "web_search": {"query": "quarterly report"},
    "write_file": {"path": "notes.txt", "content": "draft"},
    "bash": {"command": "ls"},
    "send_email": {"to": "team@example.org", "subject": "draft"},
}
RELOAD_SECONDS = 5.0
Verdict = Literal["allowed", "denied", "asked"]
STYLES: dict[Verdict, str] = {"allowed": "green", "denied": "red", "asked": "yellow"}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was observed of one call."""

    role: str
    tool: str
    verdict: Verdict
    rule: str | None
    """``policy.csv:12``; None when no rule decided."""
    code: str
    ran: bool


class Stage:
    """The agent, the policy it obeys, and what its tools did: appended to a list, never carried out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = load_config(folder / "authz.yaml")
        self.enforcer = Enforcer.from_config(self.config)
        self.effects: list[str] = []
        self.mismatches: list[str] = []


def run() -> int:
    """Play the demo.

    Returns:
        0 when everything shown is what the policy says, else 1.

    Raises:
        ConfigError: The extra ``agent`` is not installed, or the installation lacks the starter policy.
    """
    try:
        import langchain.agents  # noqa: F401 - the message of a missing extra comes before any output
    except ModuleNotFoundError as exc:
        raise ConfigError("the demo runs a LangChain agent; install 'remit[agent]'") from exc
    ...
