"""A provider that answers by script, behind a real configuration, and what the tests of all gates have in common."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph.errors import GraphInterrupt

from remit.authz.config import AuthorizationConfig, load_config
from remit.authz.registry import shared_provider
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal
from remit.authz.vocabulary import visibility_action

DEADLINE_MS: Final = 40
LATE_SECONDS: Final = 0.4
"""How long a late provider takes: far beyond the deadline, yet soon over, so that no worker thread stays occupied."""


def _raise(exc: BaseException) -> Any:
    raise exc


ANSWERS: Final[Mapping[str, Callable[[], Any]]] = {
    "allow": lambda: AuthzDecision(True, (AuthzReason("authz.allowed"),), "script:1", "v1"),
    "deny": lambda: AuthzDecision(False, (AuthzReason("authz.denied"),), "script:2", "v1"),
    "ask": lambda: AuthzDecision(False, (AuthzReason("authz.ask"),), "script:3", obligations=(Obligation("approval"),)),
    "duty": lambda: AuthzDecision(True, (AuthzReason("authz.allowed"),), obligations=(Obligation("sing"),)),
    "unknown_role": lambda: AuthzDecision(False, (AuthzReason("authz.unknown_role"),)),
    "raise": lambda: _raise(KeyError("no such rule")),
    "late": lambda: AuthzDecision(True),
    "none": lambda: None,
    "true": lambda: True,
    "text": lambda: "allow",
    "mapping": lambda: {"allow": True},
    "interrupt": lambda: _raise(GraphInterrupt(())),
    "cancel": lambda: _raise(asyncio.CancelledError("by the provider")),
}
NOT_SURE: Final = frozenset({"raise", "late", "none", "true", "text", "mapping"})
"""The answers that are failures: they follow ``fail_closed``."""


class Scripted:
    """Answers by target (``*``: any other), and notes who asked what, and where.

    Args:
        answers: target -> key of `ANSWERS`.
        blocking: As the protocol's `blocking`.
        show: What the filter answers, a key of `FILTERS`; by default what the answers allow or ask.
    """

    name = "scripted"

    def __init__(self, answers: Mapping[str, str], *, blocking: bool = True, show: str = "") -> None:
        self.answers, self.blocking, self.show = dict(answers), blocking, show
        self.asked: list[AuthzRequest] = []
        self.filtered: list[tuple[Principal, str, list[str]]] = []
        self.threads: set[threading.Thread] = set()
        self.cancelled = 0

    def _answer(self, request: AuthzRequest) -> tuple[str, Any]:
        self.asked.append(request)
        self.threads.add(threading.current_thread())
        key = self.answers.get(request.target, self.answers.get("*", "deny"))
        return key, ANSWERS[key]

    def authorize(self, request: AuthzRequest) -> Any:
        key, answer = self._answer(request)
        if key == "late":
            threading.Event().wait(LATE_SECONDS)
        return answer()

    async def aauthorize(self, request: AuthzRequest) -> Any:
        key, answer = self._answer(request)
        try:
            await asyncio.sleep(LATE_SECONDS if key == "late" else 0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return answer()

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> Any:
        self.filtered.append((principal, resource_type, list(candidates)))
        self.threads.add(threading.current_thread())
        if self.show:
            if self.show == "late":
                threading.Event().wait(LATE_SECONDS)
            return FILTERS[self.show](candidates)
        shown = []
        for name in candidates:
            request = AuthzRequest(principal, resource_type, visibility_action(resource_type, name), name)
            key, answer = self.answers.get(name, self.answers.get("*", "deny")), None
            if key == "late":
                threading.Event().wait(LATE_SECONDS)
            answer = ANSWERS[key]()
            assert request
            if answer.allow is True or answer.asks:
                shown.append(name)
        return shown


FILTERS: Final[Mapping[str, Callable[[list[str]], Any]]] = {
    "all": list,
    "nothing": lambda names: [],
    "reversed": lambda names: names[::-1],
    "tuple": tuple,
    "set": set,
    "null": lambda names: None,
    "with null": lambda names: [*names[:1], None],
    "generator": lambda names: (name for name in names),
    "text": lambda names: "".join(names),
    "mapping": lambda names: dict.fromkeys(names, True),
    "added": lambda names: [*names[:1], "zzz"],
    "twice": lambda names: [names[0], names[0]],
    "upper": lambda names: [name.upper() for name in names],
    "mutating": lambda names: names.clear() or names,
    "raise": lambda names: _raise(KeyError("no such rule")),
    "late": list,
    "interrupt": lambda names: _raise(GraphInterrupt(())),
    "cancel": lambda names: _raise(asyncio.CancelledError("by the provider")),
}


def scripted(
    answers: Mapping[str, str] | str,
    *,
    blocking: bool = True,
    show: str = "",
    ledger: Mapping[str, Any] | None = None,
    **section: Any,
) -> AuthorizationConfig:
    """A loaded configuration with a `Scripted` provider; one word is its answer to everything."""
    config = {
        "answers": {"*": answers} if isinstance(answers, str) else dict(answers),
        "blocking": blocking,
        "show": show,
    }
    provider = {"use": f"{__name__}:Scripted", "config": config}
    authorization = {
        "enabled": True,
        "default_role": "guest",
        "deadline_ms": DEADLINE_MS,
        "provider": provider,
        **section,
    }
    return load_config({"authorization": authorization, **({"ledger": dict(ledger)} if ledger else {})})


def behind(config: AuthorizationConfig) -> Scripted:
    """The one provider instance that serves `config`."""
    provider = shared_provider(config)
    assert isinstance(provider, Scripted)
    return provider


OUTCOMES: Final = [
    # answer, blocking, allowed when fail_closed, allowed when fail-open
    ("allow", True, True, True),
    ("allow", False, True, True),
    ("deny", True, False, False),
    ("deny", False, False, False),
    ("ask", True, False, False),
    ("ask", False, False, False),
    ("duty", True, False, False),
    ("unknown_role", True, False, False),
    ("raise", True, False, True),
    ("raise", False, False, True),
    ("late", True, False, True),
    ("none", True, False, True),
    ("none", False, False, True),
    ("true", True, False, True),
    ("text", True, False, True),
    ("mapping", False, False, True),
]
"""What one answer of a provider amounts to at any gate that allows or denies."""

MALFORMED_CONTEXTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "role with white space": {"user_role": " admin"},
    "role that is no text": {"user_role": 1},
    "role that is False": {"user_role": False},
    "role that is a list": {"user_role": ["admin"]},
    "invisible character": {"user_id": "al\u200bice"},
    "line break": {"user_id": "alice\n"},
    "not in normal form": {"user_id": "e\u0301ve"},
    "id that is a number": {"user_id": 7},
    "attributes that are a list": {"authz_attributes": [("team", "red")]},
    "attributes that are text": {"authz_attributes": "admin"},
    "attribute name that is no text": {"authz_attributes": {1: "x"}},
    "seal that is no principal": {"__principal": {"user_id": "alice", "role": "admin"}},
    "oauth id that is a mapping": {"oauth_id": {"sub": "1"}},
}
"""Run contexts that name nobody."""
