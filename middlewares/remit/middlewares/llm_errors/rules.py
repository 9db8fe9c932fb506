"""The rules by which a failure is understood, as data: codes, statuses, classes, and words in their company."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

Reason = Literal["quota", "auth", "burst_rate", "transient", "busy", "generic", "circuit_open"]

CODES: Final[Mapping[str, Reason]] = {
    **dict.fromkeys(
        (
            "insufficient_quota",
            "quota_exceeded",
            "billing_hard_limit_reached",
            "billing_not_active",
            "billing_error",
            "credit_balance_too_low",
            "insufficient_balance",
            "insufficient_credits",
            "payment_required",
            "arrearage",
        ),
        "quota",
    ),
    **dict.fromkeys(
        (
            "invalid_api_key",
            "invalidapikey",
            "incorrect_api_key",
            "expired_api_key",
            "authentication_error",
            "invalid_authentication",
            "authentication_failed",
            "unauthenticated",
            "unauthorized",
            "permission_error",
            "permission_denied",
            "permissiondenied",
            "access_denied",
            "accessdenied",
            "accessdeniedexception",
            "unrecognizedclientexception",
            "forbidden",
            "account_deactivated",
            "organization_deactivated",
        ),
        "auth",
    ),
    **dict.fromkeys(("limit_burst_rate", "burst_rate_limit", "burst_rate", "throttling_burstrate"), "burst_rate"),
    **dict.fromkeys(
        (
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limit_reached_error",
            "overloaded_error",
            "engine_overloaded",
            "engine_overloaded_error",
            "model_overloaded",
            "server_busy",
            "slow_down",
            "too_many_requests",
            "throttling",
            "throttling_ratequota",
            "throttling_allocationquota",
            "throttlingexception",
            "resource_exhausted",
        ),
        "busy",
    ),
    **dict.fromkeys(
        (
            "server_error",
            "api_error",
            "internal_error",
            "internal_server_error",
            "service_unavailable",
            "serviceunavailableexception",
            "modeltimeoutexception",
            "unavailable",
            "timeout",
            "timeout_error",
            "gateway_timeout",
            "deadline_exceeded",
        ),
        "transient",
    ),
    **dict.fromkeys(
        (
            "context_length_exceeded",
            "string_above_max_length",
            "request_too_large",
            "content_filter",
            "content_policy_violation",
            "model_not_found",
            "not_found_error",
            "unsupported_parameter",
            "unsupported_value",
            "invalid_function_parameters",
        ),
        "generic",
    ),
}
"""The code of a provider, in lower case with underscores -> what it means."""
VAGUE: Final = frozenset({"invalid_request_error", "error", "invalid_request"})
"""Codes that stand beside very different failures: shown, and no reason for anything."""

STATUSES: Final[Mapping[int, Reason]] = {
    401: "auth",
    402: "quota",
    403: "auth",
    **dict.fromkeys((408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524), "transient"),
    529: "busy",
}
RATE_LIMITED: Final = 429

CLASSES: Final[Mapping[str, Reason]] = {
    **dict.fromkeys(
        (
            "AuthenticationError",
            "ModelAuthenticationError",
            "PermissionDeniedError",
            "ModelPermissionDeniedError",
            "Unauthenticated",
            "PermissionDenied",
            "Unauthorized",
            "Forbidden",
        ),
        "auth",
    ),
    **dict.fromkeys(
        (
            "APITimeoutError",
            "APIConnectionError",
            "InternalServerError",
            "ReadError",
            "RemoteProtocolError",
            "StreamChunkTimeoutError",
            "ModelTimeoutError",
            "ModelConnectionError",
            "ModelAPIError",
            "ServiceUnavailable",
            "ServiceUnavailableError",
            "DeadlineExceeded",
            "ConnectError",
            "WriteError",
            "TimeoutException",
            "ClientConnectionError",
            "ServerDisconnectedError",
            "ChunkedEncodingError",
            "IncompleteRead",
            "ConnectionError",
            "TimeoutError",
            "IndexError",  # LangChain reading the first of no answers
        ),
        "transient",
    ),
    **dict.fromkeys(("OverloadedError",), "busy"),
    **dict.fromkeys(
        (
            "ContextOverflowError",
            "ModelRefusalError",
            "ModelNotFoundError",
            "NotFoundError",
            "UnprocessableEntityError",
            "LengthFinishReasonError",
            "ContentFilterFinishReasonError",
        ),
        "generic",
    ),
}
"""Name of a class anywhere above the exception's own -> what it means."""
CHUNK_TIMEOUT: Final = "StreamChunkTimeoutError"

_MONEY: Final = (
    r"\binsufficient[ _](?:quota|balance|credits?|funds)\b",
    r"\bquotas?\b.{0,40}\b(?:exceeded|exhausted|reached|used up|insufficient)\b",
    r"\b(?:exceed(?:ed|s)?|out of|over|no|not enough)\b.{0,30}\bquota\b",
    r"\bbilling (?:hard |soft )?(?:limit|is not active|not active|details|disabled|issue|problem|account)\b",
    r"\bcredit balance\b",
    r"\b(?:out of|no|not enough|insufficient) (?:remaining )?credits?\b(?! card)",
    r"\bcredits?\b (?:are |is |have been |has been )?(?:exhausted|depleted|used up|too low)\b",
    r"\bpayment (?:is )?(?:required|overdue|failed)\b",
    "余额不足|欠费|额度不足|额度已用|配额不足|配额已用|超出配额|账户余额",
)
_IDENTITY: Final = (
    r"\b(?:invalid|incorrect|wrong|missing|expired|revoked|no) api[ _-]?key\b",
    r"\bapi[ _-]?key\b.{0,20}\b(?:not valid|invalid|incorrect|missing|expired|revoked)\b",
    r"\bauthentication (?:failed|failure|error|required)\b",
    r"\b(?:unauthori[sz]ed|unauthenticated)\b",
    r"\baccess (?:is |was )?denied\b",
    r"\bpermission[ _]denied\b",
    r"\b(?:does not|do not|doesn't|don't) have (?:the )?permission\b",
    r"\b(?:insufficient|missing) permissions?\b",
    r"(?:^|\b403 |: )forbidden\b",
    "无权限|没有权限|认证失败|鉴权失败|未授权|密钥无效|无效的令牌|无效的密钥",
)
_BURST: Final = (
    r"\blimit_burst_rate\b",
    r"\brate increased too quickly\b",
    r"\bburst[ _]rate\b",
    "请求速率增长过快|突发速率|请求增长过快",
)
_BUSY: Final = (
    r"\bserver (?:is )?(?:too |currently )?busy\b",
    r"\boverloaded\b",
    r"\brate[ _-]?limit(?:s|ed|ing)?\b",
    r"\btoo many requests\b",
    r"\bplease (?:retry|try again)\b",
    r"\bat capacity\b",
    r"\btemporarily unavailable\b",
    "服务器繁忙|系统繁忙|限流|请稍后重试|请稍后再试|负载过高",
)
_EMPTY: Final = (r"\bno generations found in stream\b",)


def _rule(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(words), re.DOTALL)


WORDS: Final[tuple[tuple[Reason, re.Pattern[str]], ...]] = (
    ("quota", _rule(_MONEY)),
    ("auth", _rule(_IDENTITY)),
    ("burst_rate", _rule(_BURST)),
)
LAST_WORDS: Final[tuple[tuple[Reason, re.Pattern[str]], ...]] = (
    ("busy", _rule(_BUSY)),
    ("transient", _rule(_EMPTY)),
)


def as_json() -> list[Any]:
    """Every rule, as JSON values: what a fingerprint of their behaviour is made of."""
    return [
        dict(CODES),
        {str(status): reason for status, reason in STATUSES.items()},
        dict(CLASSES),
        [[reason, words.pattern] for reason, words in (*WORDS, *LAST_WORDS)],
    ]
