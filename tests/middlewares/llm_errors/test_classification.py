"""What kind of failure an exception is."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError, ModelAPIError, ModelAuthenticationError
from langchain_openai.chat_models._client_utils import StreamChunkTimeoutError
from tests.support.model_errors import named, openai_error, timeout

from remit.middlewares.llm_errors.classification import classify
from remit.middlewares.llm_errors.rules import as_json
from remit.runtime.release import canonical_hash


def raised_from(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


STRUCTURE = [
    pytest.param(openai_error(429, code="insufficient_quota"), "quota", "RateLimitError (429, insufficient_quota)", id="openai-quota"),
    pytest.param(openai_error(429, code="rate_limit_exceeded"), "transient", "RateLimitError (429, rate_limit_exceeded)", id="openai-rate"),
    pytest.param(openai_error(429, code="limit_burst_rate"), "burst_rate", "RateLimitError (429, limit_burst_rate)", id="burst-code"),
    pytest.param(openai_error(429, code="Throttling.BurstRate"), "burst_rate", "RateLimitError (429, throttling_burstrate)", id="burst-code-dotted"),
    pytest.param(openai_error(401, code="invalid_api_key", kind="invalid_request_error"), "auth", "AuthenticationError (401, invalid_api_key)", id="openai-key"),
    pytest.param(openai_error(403), "auth", "PermissionDeniedError (403)", id="openai-403"),
    pytest.param(openai_error(402), "quota", "APIStatusError (402)", id="402"),
    pytest.param(openai_error(400, code="context_length_exceeded"), "generic", "BadRequestError (400, context_length_exceeded)", id="too-long"),
    pytest.param(openai_error(404, code="model_not_found"), "generic", "NotFoundError (404, model_not_found)", id="no-such-model"),
    pytest.param(openai_error(422), "generic", "UnprocessableEntityError (422)", id="422"),
    pytest.param(openai_error(409), "transient", "ConflictError (409)", id="409"),
    pytest.param(openai_error(408), "transient", "APIStatusError (408)", id="408"),
    pytest.param(openai_error(425), "transient", "APIStatusError (425)", id="425"),
    *[pytest.param(openai_error(s), "transient", f"InternalServerError ({s})", id=str(s)) for s in (500, 502, 503, 504, 520)],
    pytest.param(openai_error(503, code="server_busy"), "busy", "InternalServerError (503, server_busy)", id="busy-code"),
    pytest.param(openai_error(529, kind="overloaded_error"), "busy", "InternalServerError (529, overloaded_error)", id="overloaded"),
    pytest.param(openai_error(501), "generic", "InternalServerError (501)", id="501"),
    pytest.param(timeout(), "transient", "APITimeoutError", id="openai-timeout"),
    pytest.param(StreamChunkTimeoutError(5.0), "transient", "StreamChunkTimeoutError", id="chunk-timeout"),
    pytest.param(TimeoutError(), "transient", "TimeoutError", id="timeout"),
    pytest.param(ConnectionResetError(), "transient", "ConnectionResetError", id="connection-reset"),
    pytest.param(IndexError("list index out of range"), "transient", "IndexError", id="no-generations"),
    pytest.param(named("RemoteProtocolError"), "transient", "RemoteProtocolError", id="protocol"),
    pytest.param(named("ReadError"), "transient", "ReadError", id="read"),
    pytest.param(named("ReadTimeout", "", type("TimeoutException", (Exception,), {})), "transient", "ReadTimeout", id="base-class"),
    pytest.param(ModelAuthenticationError("x"), "auth", "ModelAuthenticationError", id="langchain-auth"),
    pytest.param(ModelAPIError("x"), "transient", "ModelAPIError", id="langchain-api"),
    pytest.param(ContextOverflowError("please try again"), "generic", "ContextOverflowError", id="langchain-overflow"),
    pytest.param(named("ResourceExhausted", code=HTTPStatus.TOO_MANY_REQUESTS), "transient", "ResourceExhausted (429)", id="google"),
    pytest.param(named("OverloadedError", status_code=529, body={"type": "error", "error": {"type": "overloaded_error"}}), "busy", "OverloadedError (529, overloaded_error)", id="anthropic-overloaded"),
    pytest.param(named("BadRequestError", status_code=400, body={"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}}), "quota", "BadRequestError (400, invalid_request_error)", id="anthropic-credit"),
    pytest.param(named("ClientError", response={"Error": {"Code": "ThrottlingException"}}), "busy", "ClientError (throttlingexception)", id="bedrock"),
    pytest.param(named("ApiError", body={"error": {"code": 1113}}), "generic", "ApiError (1113)", id="numeric-code"),
    pytest.param(raised_from(named("WrapperError", "wrapped"), openai_error(503)), "transient", "WrapperError (503)", id="cause"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "reason", "detail"), STRUCTURE)
def test_structure_decides_before_words(error: Exception, reason: str, detail: str) -> None:
    failure = classify(error)
    assert (failure.reason, failure.detail) == (reason, detail)
    assert failure.retriable is (reason in ("transient", "busy", "burst_rate"))


WORDS = [
    ("You exceeded your current quota, please check your plan and billing details", "quota"),
    ("Quota exceeded for requests", "quota"),
    ("insufficient_quota", "quota"),
    ("billing hard limit has been reached", "quota"),
    ("payment required", "quota"),
    ("your account is out of credits", "quota"),
    ("账户余额不足", "quota"),
    ("Invalid API key provided", "auth"),
    ("API key not valid. Please pass a valid API key.", "auth"),
    ("Unauthorized", "auth"),
    ("you do not have permission to use this model", "auth"),
    ("access denied", "auth"),
    ("403 Forbidden", "auth"),
    ("认证失败", "auth"),
    ("Request rate increased too quickly", "burst_rate"),
    ("limit_burst_rate", "burst_rate"),
    ("burst rate exceeded", "burst_rate"),
    ("请求速率增长过快", "burst_rate"),
    ("the server is busy", "busy"),
    ("server busy", "busy"),
    ("model overloaded", "busy"),
    ("Rate limit reached", "busy"),
    ("Too many requests, please retry after a while", "busy"),
    ("服务器繁忙，请稍后重试", "busy"),
    ("No generations found in stream.", "transient"),
    ("something else", "generic"),
    ("", "generic"),
]
INNOCENT = [
    "invalid value for 'kind': 'credit card'",
    "no credit card on file was mentioned in the text",
    "the actor asks for permission to speak",
    "tool 'billing_report' has a bad schema",
    "argument 'payment' is not of type number",
    "authentication of the painting",
    "unknown field 'quota_bytes'",
    "the string 'forbidden fruit' is too long",
    "author not found",
    "strategy without accredited data",
    "outburst rate of change",
]


@pytest.mark.parametrize(("text", "reason"), WORDS, ids=[text[:30] or "empty" for text, _ in WORDS])
@pytest.mark.parametrize("shouted", [False, True], ids=["as-is", "upper"])
def test_words_decide_where_structure_does_not(text: str, reason: str, shouted: bool) -> None:
    assert classify(ValueError(text.upper() if shouted else text)).reason == reason


@pytest.mark.parametrize("text", INNOCENT)
def test_words_in_other_company_mean_nothing(text: str) -> None:
    assert classify(ValueError(text)).reason == "generic"
    assert classify(openai_error(400, message=text)).reason == "generic"


def test_a_server_error_stays_one_whatever_it_says() -> None:
    assert (
        classify(openai_error(500, message="unauthorized: insufficient quota, payment required")).reason == "transient"
    )


@pytest.mark.parametrize(
    ("code", "announced", "reason"),
    [(None, False, "quota"), (None, True, "transient"), ("insufficient_quota", True, "quota")],
)
def test_a_quota_that_says_when_to_come_back(code: str | None, announced: bool, reason: str) -> None:
    error = openai_error(429, code=code, message="You exceeded your current quota, please check your plan")
    assert classify(error, retry_announced=announced).reason == reason


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefghijklmnop", "AKIA1234567890", "invalid key sk-1", "x" * 65, "https://user:pw@host/", "1234567"],
)
def test_nothing_that_a_provider_wrote_gets_into_the_detail(secret: str) -> None:
    for error in (
        openai_error(401, code=secret, kind=secret, message=secret),
        named("Failure", secret, code=secret, body={"error": {"code": secret, "type": secret}}),
    ):
        assert secret.lower() not in classify(error).detail.lower()


class Hostile(Exception):
    """Every look at it fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __getattribute__(self, name: str) -> Any:
        if name in ("code", "type", "status_code", "response", "body", "headers", "message"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


def test_hostile_exceptions() -> None:
    assert classify(Hostile()).detail == "Hostile"
    loop: Exception = ValueError("x")
    loop.__cause__ = ValueError("y")
    loop.__cause__.__cause__ = loop
    assert classify(loop).reason == "generic"
    assert classify(asyncio.CancelledError()).reason == "generic"
    assert classify(type("Not a name", (Exception,), {})()).type == "Exception"


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.binary(max_size=5)
    | st.lists(st.integers(), max_size=2)
)
BODIES = VALUES | st.dictionaries(
    st.sampled_from(["error", "code", "type", "message", "Error"]),
    VALUES | st.dictionaries(st.sampled_from(["code", "type", "message"]), VALUES, max_size=3),
    max_size=3,
)


@given(st.text(max_size=200), VALUES, VALUES, VALUES, BODIES, BODIES)
def test_any_exception_is_understood(text: str, code: Any, kind: Any, status: Any, body: Any, response: Any) -> None:
    failure = classify(named("Odd", text, code=code, type=kind, status_code=status, body=body, response=response))
    assert len(failure.detail) < 160
    assert failure.detail.isprintable()


@pytest.mark.parametrize(
    "text", ["quota" * 100_000, "no " * 100_000, "over the " * 50_000, "api key " * 50_000], ids=range(4)
)
def test_long_texts_cost_little(text: str) -> None:
    begun = time.perf_counter()
    classify(ValueError(text))
    assert time.perf_counter() - begun < 0.25


def test_rules_have_a_fingerprint() -> None:
    assert len(canonical_hash(as_json())) == 64
