"""Deployments for tests of the chain: a policy on disk, a real local sandbox, and the parts that can be switched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware
from tests.support.policies import Policy, Row

from remit.harness.sandbox import build_sandbox_provider
from remit.harness.services import guarded_access
from remit.middlewares.slots import Build, Scope
from remit.providers.guardrails.allowlist import AllowlistProvider
from remit.runtime.config import AppConfig, load_app_config

SWITCHES = ("receipts", "authorization", "guardrail", "read_before_write", "tool_progress", "custom")
EVERYTHING: Row = ("p", "role:user", "*", "*", "*", "allow", "")


class Noting(AgentMiddleware[Any, Any, Any]):
    """A middleware of a host: it only looks."""

    remit_power = "observe"

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


def settings(on: Mapping[str, bool], **sections: Any) -> AppConfig:
    """Settings with the named parts switched on or off."""
    return load_app_config(
        {
            "sandbox": {"use": "local"},
            "verification": {"receipts_enabled": on.get("receipts", True)},
            "read_before_write": {"enabled": on.get("read_before_write", True)},
            "tool_progress": {"enabled": on.get("tool_progress", False)},
            **sections,
        }
    )


def build(
    folder: Path,
    on: Mapping[str, bool],
    *,
    scope: Scope = "lead",
    rows: Sequence[Row] = (EVERYTHING,),
    config: AppConfig | None = None,
) -> Build:
    """What a chain is built from, below `folder`."""
    config = config or settings(on)
    policy = Policy(folder, rows, default_role="user")
    enforcer = policy.enforcer
    if not on.get("authorization", True):
        enforcer = type(enforcer)(None, default_role=None)
    provider = build_sandbox_provider(config)
    return Build(
        config=config,
        scope=scope,
        enforcer=enforcer,
        access=guarded_access(provider, config.authz, enforcer),
        guardrail=AllowlistProvider(denied_tools=["never"]) if on.get("guardrail") else None,
        custom=(Noting(),) if on.get("custom") and scope != "subagent" else (),
    )


def coverings(names: Sequence[str] = SWITCHES) -> list[dict[str, bool]]:
    """All on, all off, each alone on, each alone off, and enough others that every pair of settings occurs."""
    chosen = [dict.fromkeys(names, True), dict.fromkeys(names, False)]
    chosen += [{other: other == name for other in names} for name in names]
    chosen += [{other: other != name for other in names} for name in names]
    open_pairs = set(_pairs(names)) - {pair for one in chosen for pair in _pairs_of(one)}
    for values in itertools.product((True, False), repeat=len(names)):
        one = dict(zip(names, values, strict=True))
        if found := open_pairs & set(_pairs_of(one)):
            chosen.append(one)
            open_pairs -= found
    return chosen


def _pairs(names: Sequence[str]) -> Iterator[tuple[tuple[str, bool], tuple[str, bool]]]:
    for one, other in itertools.combinations(names, 2):
        for left, right in itertools.product((True, False), repeat=2):
            yield (one, left), (other, right)


def _pairs_of(on: Mapping[str, bool]) -> Iterator[tuple[tuple[str, bool], tuple[str, bool]]]:
    return itertools.combinations(on.items(), 2)


def label(on: Mapping[str, bool]) -> str:
    """For test ids: the parts that are on."""
    return "+".join(name for name, value in on.items() if value) or "nothing"
