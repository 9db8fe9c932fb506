"""A guardrail that is two lists of tool names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Final

from remit.authz.errors import ConfigError
from remit.authz.provider import GuardrailDecision, GuardrailReason, GuardrailRequest
from remit.authz.vocabulary import canonical, flaw, skeleton

POLICY_ID: Final = "guardrail:allowlist"


class AllowlistProvider:
    """Allows the tools of one list and denies those of another. Deny wins.

    Names are exact and case-sensitive; a name that is not in its canonical form (white space around it, invisible
    characters, not NFC) is never allowed. A denied name denies its twins too: other upper and lower case, and names
    that look alike on a screen.

    Args:
        allowed_tools: The tools that may be called. None or left out: every tool. An empty list: none.
        denied_tools: The tools that may not be called. None or left out, or an empty list: none is denied.

    Raises:
        ConfigError: A list is no list, or a name no clean tool name.
    """

    name = "allowlist"
    blocking = False

    def __init__(self, allowed_tools: Iterable[str] | None = None, denied_tools: Iterable[str] | None = None) -> None:
        allowed, denied = _names("allowed_tools", allowed_tools), _names("denied_tools", denied_tools)
        self._allowed = None if allowed is None else frozenset(allowed)
        self._denied_shapes = frozenset(map(_shape, denied or ()))
        listed = json.dumps([None if allowed is None else sorted(self._allowed or ()), sorted(denied or ())])
        self.policy_version = hashlib.sha256(listed.encode()).hexdigest()[:16]
        self._allow = self._decision(True, "guardrail.tool_allowed", "")

    def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """Decide by the name of the tool alone."""
        tool = request.tool_name
        if type(tool) is not str or (reason := flaw(tool)) is not None:
            why = "is not text" if type(tool) is not str else reason
            return self._decision(False, "guardrail.malformed_tool_name", f"tool name {tool!r} {why}")
        if _shape(tool) in self._denied_shapes:
            return self._decision(False, "guardrail.tool_denied", f"tool {tool!r} is in denied_tools, or a twin is")
        if self._allowed is not None and tool not in self._allowed:
            return self._decision(False, "guardrail.tool_not_allowed", f"tool {tool!r} is not in allowed_tools")
        return self._allow

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """The same answer as `evaluate`."""
        return self.evaluate(request)

    def _decision(self, allow: bool, code: str, message: str) -> GuardrailDecision:
        return GuardrailDecision(allow, (GuardrailReason(code, message),), POLICY_ID, self.policy_version)


def _shape(name: str) -> str:
    return skeleton(name).casefold()


def _names(key: str, value: object) -> list[str] | None:
    """The names of one list, None when it is left out.

    Raises:
        ConfigError: See `AllowlistProvider`.
    """
    if value is None:
        return None
    if not isinstance(value, (list, tuple, set, frozenset)):
        advice = f"write [{value}]" if isinstance(value, str) and value != "*" else "leave it out to mean every tool"
        raise ConfigError(f"{key} must be a list of tool names, got {type(value).__name__} {value!r}; {advice}")
    found = []
    for name in value:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise ConfigError(f"{key} must hold tool names, got {kind} {name!r}; put quotes around it if it is one")
        if name == "*":
            raise ConfigError(f"{key} holds '*', which is no tool name; leave allowed_tools out to mean every tool")
        if (reason := flaw(name)) is not None:
            clean = canonical(name)
            advice = "remove it" if flaw(clean) else f"did you mean {clean!r}?"
            raise ConfigError(f"{key} holds {name!r}, which {reason}; {advice}")
        found.append(name)
    return found
