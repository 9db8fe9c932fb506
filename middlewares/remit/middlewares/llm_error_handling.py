"""Failures of the model become retries, and in the end an answer that says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from typing import Any, Final, NamedTuple

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, TracePolicy, omit_payload
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from remit.authz import wire
from remit.authz.errors import AuthzError
from remit.middlewares.llm_errors.breaker import BREAKERS, Breaker, Pass
from remit.middlewares.llm_errors.classification import Failure, classify
from remit.middlewares.llm_errors.identity import ModelIdentity, identity_of
from remit.middlewares.llm_errors.limiter import LIMITER
from remit.middlewares.llm_errors.retry import apause, attempts, delay, pause, retry_after
from remit.middlewares.llm_errors.rules import Reason, as_json
from remit.middlewares.shells import run_now, settled
from remit.runtime.config import CircuitBreakerConfig, LlmCallConfig
from remit.runtime.journal import record
from remit.runtime.release import canonical_hash

log = logging.getLogger("remit.middlewares")

RETRY_EVENT: Final = "llm_retry"
CIRCUIT_OPEN: Final = Failure("circuit_open", "CircuitOpenError")

_TEXTS: Final[dict[Reason, str]] = {
    "quota": (
        "The model provider refused the request: the quota or the credit of this deployment is used up. An operator "
        "has to renew it; trying again will not help."
    ),
    "auth": (
        "The model provider refused the credentials of this deployment. An operator has to check its key and its "
        "rights; trying again will not help."
    ),
    "burst_rate": (
        "The model provider slowed us down because requests came in too quickly. Please wait a moment and try again."
    ),
    "transient": "The model provider could not be reached or did not answer in time. Please try again in a moment.",
    "busy": "The model provider is busy. Please try again in a moment.",
    "generic": "The model call failed. Please try again; when it fails again, an operator should look at the logs.",
    "circuit_open": (
        "The model provider has been failing, so it is left alone for a short while. Please try again in a moment."
    ),
}
_CHUNK_TIMEOUT: Final = (
    "The model stopped answering in the middle of its answer. Please split the work into smaller steps, or ask for a "
    "shorter answer."
)
_RETRYING: Final[dict[Reason, str]] = {
    "burst_rate": "The model provider asks us to slow down",
    "transient": "The model provider did not answer",
    "busy": "The model provider is busy",
}
_NOT_OURS: Final = (GraphBubbleUp, AuthzError, StructuredOutputError, CancelledError)
"""Interrupts, denials, cancellation, and an answer that the host asked to be refused: no failures of a model."""


class LLMErrorHandlingMiddleware(AgentMiddleware[Any, Any, Any]):
    """Tries failed model calls again, spares a model that keeps failing, and answers in its place when nothing helps.

    The answer is an assistant message with ``deerflow_error_fallback`` in its metadata, by which the run knows that it
    failed. Circuit breaker and limit of calls belong to the process: all agents of all runs share them.

    Args:
        llm_call: Retries, and how many calls there may be at the same time. The limit that was configured last holds.
        circuit_breaker: When a model is spared, and for how long.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, llm_call: LlmCallConfig, circuit_breaker: CircuitBreakerConfig) -> None:
        super().__init__()
        self._llm_call = llm_call
        self._circuit = circuit_breaker
        LIMITER.resize(llm_call.max_concurrent_calls)

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return {
            "llm_call": self._llm_call.model_dump(mode="json"),
            "circuit_breaker": self._circuit.model_dump(mode="json"),
            "rules": canonical_hash(as_json()),
            "texts": canonical_hash([_TEXTS, _CHUNK_TIMEOUT]),
        }

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Call the model, with retries."""
        return run_now(self._model_call(request, handler, _NOW))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        return await self._model_call(request, handler, _SOON)

    async def _model_call(self, request: ModelRequest[Any], handler: Callable[..., Any], port: _Port) -> Any:
        model = identity_of(request.model)
        breaker = BREAKERS.of(model)
        given = breaker.enter(self._circuit)
        if given is None:
            return self._fallback(CIRCUIT_OPEN, request, model, tried=0)
        told = False
        try:
            result, failure, tried = await self._attempts(request, handler, port, breaker, given)
            told = True
            if failure is None:
                breaker.succeeded(given)
            elif failure.retriable and failure.reason != "burst_rate":
                if breaker.failed(given, self._circuit):
                    log.error("model %r of %s keeps failing and is left alone", model.name, model.provider)
            else:
                breaker.released(given)
        finally:
            if not told:
                breaker.released(given)
        if failure is not None:
            return self._fallback(failure, request, model, tried=tried)
        if tried > 1:
            self._record("recovered", request, model, tried, {})
        return result

    async def _attempts(
        self, request: ModelRequest[Any], handler: Callable[..., Any], port: _Port, breaker: Breaker, given: Pass
    ) -> tuple[Any, Failure | None, int]:
        """The result of the first call that succeeds, or what the last one failed of; and how many there were."""
        wait: float | None = None
        tried = 0
        while True:
            tried += 1
            await settled(port.acquire())
            try:
                return await settled(handler(request)), None, tried
            except _NOT_OURS:
                raise
            except Exception as error:
                announced = retry_after(error)
                failure = classify(error, retry_announced=announced is not None)
                fault = failure.reason == "generic" and failure.status is None
                log.warning("model call failed: %s, %s", failure.detail, failure.reason, exc_info=fault)
            finally:
                LIMITER.release()
            allowed = attempts(failure, self._llm_call)
            if not failure.retriable or tried >= allowed:
                return None, failure, tried
            wait = delay(failure, announced, wait, self._llm_call)
            if wait is None:
                return None, failure, tried
            _announce(request.runtime, failure, tried, allowed, wait)
            await settled(port.pause(wait))
            if not breaker.holds(given):
                return None, failure, tried  # others found out meanwhile that it is of no use

    def _fallback(self, failure: Failure, request: ModelRequest[Any], model: ModelIdentity, *, tried: int) -> AIMessage:
        changes = {"reason": failure.reason, "error_type": failure.type, "error_detail": failure.detail}
        self._record("fallback", request, model, tried, changes)
        return AIMessage(
            _CHUNK_TIMEOUT if failure.chunk_timeout else _TEXTS[failure.reason],
            additional_kwargs={
                wire.ERROR_FALLBACK: True,
                wire.ERROR_TYPE: failure.type,
                wire.ERROR_REASON: failure.reason,
                wire.ERROR_DETAIL: failure.detail,
            },
        )

    def _record(
        self, action: str, request: ModelRequest[Any], model: ModelIdentity, tried: int, changes: dict[str, Any]
    ) -> None:
        record(
            getattr(request.runtime, "context", None),
            "llm_error",
            name=self.name,
            hook="wrap_model_call",
            action=action,
            changes={**changes, "provider": model.provider, "model": model.name, "attempts": tried},
        )


class _Port(NamedTuple):
    """How one form of the hook waits."""

    acquire: Callable[[], Any]
    pause: Callable[[float], Any]


_NOW: Final = _Port(LIMITER.acquire, pause)
_SOON: Final = _Port(LIMITER.aacquire, apause)


def _announce(runtime: Any, failure: Failure, tried: int, allowed: int, wait: float) -> None:
    """Tell whoever watches the run's own stream of events that there will be a pause."""
    writer = getattr(runtime, "stream_writer", None)
    if writer is None:
        return
    try:
        writer(
            {
                "type": RETRY_EVENT,
                "attempt": tried,
                "max_attempts": allowed,
                "wait_ms": round(wait * 1000),
                "reason": failure.reason,
                "message": f"{_RETRYING[failure.reason]}; trying again in {wait:.1f} s ({tried} of {allowed}).",
            }
        )
    except Exception:
        log.exception("a retry could not be announced")
