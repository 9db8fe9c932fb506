"""The single place that calls a provider and judges its answer. Sync and async differ only in how they wait.

A provider that raises, is late or answers with anything but what its protocol promises has *failed*. A failure is never
an answer: it denies (hides) under ``fail_closed`` and allows (shows) otherwise, and is logged either way.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from remit.authz.errors import AuthzError
from remit.authz.provider import (
    AuthorizationProvider,
    GuardrailDecision,
    GuardrailProvider,
    GuardrailReason,
    GuardrailRequest,
    SupportsAsyncFilter,
)
from remit.authz.types import APPROVAL, AuthzDecision, AuthzReason, AuthzRequest, FrozenDict, Principal
from remit.authz.workers import WORKERS

log = logging.getLogger("remit.authz")

KNOWN_OBLIGATIONS: Final = frozenset({APPROVAL})
_FAILURE: Final = FrozenDict({"failure": True})


class MalformedAnswer(AuthzError):
    """The provider answered with something that is no answer."""


def passes_through(exc: BaseException) -> bool:
    """Whether `exc` is a signal of the agent runtime (interrupt, parent command), which is nobody's to judge."""
    errors = sys.modules.get("langgraph.errors")  # who raises it has imported it
    return errors is not None and isinstance(exc, errors.GraphBubbleUp)


def failure_reason(exc: BaseException) -> tuple[str, str]:
    """Reason code and operator's message for a failed provider call.

    The text of foreign exceptions may hold secrets (a URL, a token): it goes to the log, not into the decision.
    """
    if isinstance(exc, MalformedAnswer):
        return "authz.malformed_decision", str(exc)
    if isinstance(exc, TimeoutError):
        return "authz.timeout", "the provider did not answer within the deadline"
    text = str(exc) if isinstance(exc, AuthzError) else ""
    return "authz.evaluator_error", f"the provider raised {type(exc).__name__}" + (f": {text}" if text else "")


def in_place(provider: object) -> bool:
    """Whether `provider` only computes: it is then called where the caller stands, without a deadline."""
    return getattr(provider, "blocking", True) is False


class Judge:
    """Calls providers and judges what comes back. Never raises for a provider's failure.

    `GraphBubbleUp`, cancellation and every other `BaseException` that is no `Exception` pass through untouched.

    Args:
        fail_closed: Whether a failure denies. False is the operator's explicit choice.
        deadline: Seconds that a blocking or asynchronous provider may take for one answer.
    """

    __slots__ = ("_logged", "deadline", "fail_closed")

    def __init__(self, *, fail_closed: bool = True, deadline: float = 2.0) -> None:
        self.fail_closed = fail_closed
        self.deadline = deadline
        self._logged = _FailureLog()

    def decide(self, provider: AuthorizationProvider, request: AuthzRequest) -> AuthzDecision:
        """One judged decision."""
        try:
            if in_place(provider):
                return self._decision(provider.authorize(request))
            return self._decision(WORKERS.call(self.deadline, provider.authorize, request))
        except Exception as exc:
            return self._failed(provider, exc)

    async def adecide(self, provider: AuthorizationProvider, request: AuthzRequest) -> AuthzDecision:
        """`decide` for the event loop, through the provider's asynchronous form."""
        try:
            if in_place(provider):
                return self._decision(provider.authorize(request))
            async with asyncio.timeout(self.deadline):
                return self._decision(await provider.aauthorize(request))
        except Exception as exc:
            return self._failed(provider, exc)

    def filter(
        self, provider: AuthorizationProvider, principal: Principal, resource: str, candidates: Sequence[str]
    ) -> list[str]:
        """What `provider` shows of `candidates`, in their order; after a failure nothing (fail-open: everything)."""
        names = list(candidates)
        try:
            if in_place(provider):
                answer = provider.filter_resources(principal, resource, list(names))
            else:
                answer = WORKERS.call(self.deadline, provider.filter_resources, principal, resource, list(names))
            return _shown(names, answer)
        except Exception as exc:
            return self._unfiltered(provider, exc, names)

    async def afilter(
        self, provider: AuthorizationProvider, principal: Principal, resource: str, candidates: Sequence[str]
    ) -> list[str]:
        """`filter` for the event loop; a provider without an asynchronous filter is asked in a worker thread."""
        names = list(candidates)
        try:
            if in_place(provider):
                answer: Any = provider.filter_resources(principal, resource, list(names))
            elif isinstance(provider, SupportsAsyncFilter):
                async with asyncio.timeout(self.deadline):
                    answer = await provider.afilter_resources(principal, resource, list(names))
            else:
                answer = await WORKERS.acall(self.deadline, provider.filter_resources, principal, resource, list(names))
            return _shown(names, answer)
        except Exception as exc:
            return self._unfiltered(provider, exc, names)

    def evaluate(self, provider: GuardrailProvider, request: GuardrailRequest) -> GuardrailDecision:
        """One judged answer of an explicit guardrail."""
        try:
            if in_place(provider):
                return self._guardrail(provider.evaluate(request))
            return self._guardrail(WORKERS.call(self.deadline, provider.evaluate, request))
        except Exception as exc:
            return self._guardrail_failed(provider, exc)

    async def aevaluate(self, provider: GuardrailProvider, request: GuardrailRequest) -> GuardrailDecision:
        """`evaluate` for the event loop."""
        try:
            if in_place(provider):
                return self._guardrail(provider.evaluate(request))
            async with asyncio.timeout(self.deadline):
                return self._guardrail(await provider.aevaluate(request))
        except Exception as exc:
            return self._guardrail_failed(provider, exc)

    def failed(self, exc: Exception, *, provider: object = None) -> AuthzDecision:
        """The decision that a failure amounts to. Logged; the first of its kind in a minute with its traceback.

        Raises:
            Exception: `exc` itself when it is a signal of the agent runtime.
        """
        return self._failed(provider, exc)

    def _failed(self, provider: object, exc: Exception) -> AuthzDecision:
        code, message = self._judged_failure(provider, exc)
        return AuthzDecision(not self.fail_closed, (AuthzReason(code, message),), metadata=_FAILURE)

    def _guardrail_failed(self, provider: object, exc: Exception) -> GuardrailDecision:
        code, message = self._judged_failure(provider, exc)
        return GuardrailDecision(not self.fail_closed, (GuardrailReason(code, message),), metadata=_FAILURE)

    def _unfiltered(self, provider: object, exc: Exception, names: list[str]) -> list[str]:
        self._judged_failure(provider, exc)
        return [] if self.fail_closed else names

    def _judged_failure(self, provider: object, exc: Exception) -> tuple[str, str]:
        if passes_through(exc):
            raise exc
        code, message = failure_reason(exc)
        self._logged.note(code, provider, exc, fail_closed=self.fail_closed)
        return code, message

    @staticmethod
    def _decision(answer: Any) -> AuthzDecision:
        if type(answer) is not AuthzDecision:
            raise MalformedAnswer(f"the provider answered with {type(answer).__name__}, not with an AuthzDecision")
        if answer.allow is not True and answer.allow is not False:  # overwritten after it was made
            raise MalformedAnswer(f"the provider's decision has {type(answer.allow).__name__} for allow")
        if answer.obligations:
            for obligation in answer.obligations:
                if obligation.type not in KNOWN_OBLIGATIONS:
                    reason = AuthzReason("authz.unknown_obligation", f"nobody here can fulfil {obligation.type!r}")
                    return AuthzDecision(False, (reason,), answer.policy_id, answer.policy_version)
        return answer

    @staticmethod
    def _guardrail(answer: Any) -> GuardrailDecision:
        if type(answer) is not GuardrailDecision:
            raise MalformedAnswer(f"the guardrail answered with {type(answer).__name__}, not with a GuardrailDecision")
        if answer.allow is not True and answer.allow is not False:
            raise MalformedAnswer(f"the guardrail's decision has {type(answer.allow).__name__} for allow")
        for obligation in answer.obligations:
            if obligation.type not in KNOWN_OBLIGATIONS:
                why = GuardrailReason("authz.unknown_obligation", f"nobody here can fulfil {obligation.type!r}")
                return GuardrailDecision(False, (why,), answer.policy_id, answer.policy_version)
        return answer


def _shown(names: list[str], answer: Any) -> list[str]:
    """`names` reduced to those in `answer`: a filter can only shrink, never add or reorder."""
    if type(answer) is not list:
        raise MalformedAnswer(f"the provider's filter answered with {type(answer).__name__}, not with a list")
    for item in answer:
        if not isinstance(item, str):
            raise MalformedAnswer(f"the provider's filter answered with a list that holds {type(item).__name__}")
    keep = set(answer)
    return [name for name in names if name in keep]


class _FailureLog:
    """Logs the first failure per reason and minute; the next line states how many were left out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, int]] = {}

    def note(self, code: str, provider: object, exc: Exception, *, fail_closed: bool) -> None:
        minute = int(time.monotonic() // 60)
        with self._lock:
            last, left_out = self._seen.get(code, (-1, 0))
            if last == minute:
                self._seen[code] = (minute, left_out + 1)
                return
            self._seen[code] = (minute, 0)
        name = getattr(provider, "name", type(provider).__name__)
        outcome = "denied (fail_closed)" if fail_closed else "ALLOWED AFTER AN ERROR (fail_closed: false)"
        more = f"; {left_out} alike were not logged" if left_out else ""
        log.warning("%s from provider %r: %s%s", code, name, outcome, more, exc_info=exc)
