"""How a decision is shown, by every command that shows one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from remit.authz import wire
from remit.authz.tooling.report import plain
from remit.authz.tooling.testrun import verdict
from remit.authz.types import AuthzDecision, AuthzRequest
from remit.cli import console

STYLES = {"allow": "bold green", "deny": "bold red", "ask": "bold yellow"}


def say_decision(request: AuthzRequest, decision: AuthzDecision) -> None:
    """The verdict on a line of its own, then who asked, the rule and the reasons."""
    word = verdict(decision)
    console.say((word, STYLES[word]), f" {request.resource}:{request.action}:{request.target}")
    who = request.principal
    named = [f"role {who.role}" if who.role else "no role"]
    if who.user_id:
        named.append(f"user {who.user_id}")
    console.say("  who      ", ", ".join([*named, *_pairs(who.attributes)]))
    if args := _pairs(request.context.get(wire.CTX_ARGS, {})):
        console.say("  args     ", ", ".join(args))
    console.say("  rule     ", decision.policy_id or "none")
    for reason in decision.reasons:
        console.say("  because  ", reason.code, f": {reason.message}" if reason.message else "")
    if decision.policy_version:
        console.say("  version  ", decision.policy_version)


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={json.dumps(plain(value), ensure_ascii=False)}" for name, value in values.items()]
