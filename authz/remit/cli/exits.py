"""Exit codes: the contract with shell scripts and build servers."""

from __future__ import annotations

from enum import IntEnum

from remit.authz.tooling.policytests import Verdict


class Exit(IntEnum):
    """What the process says when it ends."""

    FINE = 0
    """It worked; of a decision: allow."""
    FINDINGS = 1
    """Lint found something, or a policy test failed."""
    USAGE = 2
    """Wrong usage, unreadable input, or (every command but lint) a policy that does not load."""
    DENY = 3
    ASK = 4
    INTERRUPTED = 130
    """Ended from the keyboard, as shells have it."""


def exit_of(verdict: Verdict) -> Exit:
    """The code of a decision."""
    return {"allow": Exit.FINE, "deny": Exit.DENY, "ask": Exit.ASK}[verdict]
