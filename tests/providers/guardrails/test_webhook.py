"""The wire format and the configuration of the webhook, without a wire."""

from __future__ import annotations

import json
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.guardrails import call

from remit.authz.errors import ConfigError, ProviderError
from remit.authz.provider import GuardrailDecision, GuardrailReason, GuardrailRequest
from remit.providers.guardrails.webhook import MEMBERS, answer_of, headers_of, limit_of, question_of, url_of

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


def test_the_question_holds_every_member_but_the_tool_object() -> None:
    assert set(MEMBERS) == {field.name for field in fields(GuardrailRequest)} - {"tool"}


def test_the_question_as_documented() -> None:
    request = call(
        "send_mail", {"to": "x@example.org", "n": [1, {"a": None}]}, agent_id="passport-1", user_role="user",
        authz_attributes=MappingProxyType({"team": MappingProxyType({"name": "blue"})}), tool=object(),
    )  # fmt: skip
    assert json.loads(question_of(request)) == {
        "version": 1,
        "tool_name": "send_mail",
        "tool_input": {"to": "x@example.org", "n": [1, {"a": None}]},
        "tool_call_id": "call-1",
        "agent_id": "passport-1",
        "thread_id": "thread-1",
        "run_id": "run-1",
        "is_subagent": False,
        "timestamp": "2026-01-01T00:00:00+00:00",
        "user_id": "u-1",
        "user_role": "user",
        "oauth_provider": None,
        "oauth_id": None,
        "channel_user_id": None,
        "is_internal": False,
        "authz_attributes": {"team": {"name": "blue"}},
    }


@pytest.mark.parametrize(
    "value",
    [b"secret", object(), float("nan"), float("inf"), {1, 2}, 1j, ENDLESS],
    ids=["bytes", "object", "nan", "infinity", "set", "complex", "recursive"],
)
def test_what_is_no_json_is_never_sent(value: Any) -> None:
    with pytest.raises(ProviderError, match="cannot be written as JSON") as caught:
        question_of(call("send_mail", {"secret-name": value}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "decision"),
    [
        ('{"allow": true}', GuardrailDecision(True, policy_id="guardrail:http")),
        ('{"allow": false}', GuardrailDecision(False, policy_id="guardrail:http")),
        ('{"allow": false, "reasons": []}', GuardrailDecision(False, policy_id="guardrail:http")),
        (
            '{"allow": false, "reasons": [{"code": "dlp.address", "message": "no"}, {"code": "dlp.more"}],'
            ' "policy_id": "dlp:7", "policy_version": "v2"}',
            GuardrailDecision(
                False, (GuardrailReason("dlp.address", "no"), GuardrailReason("dlp.more")), "dlp:7", "v2"
            ),
        ),
        (
            '{"policy_version": null, "policy_id": null, "reasons": null, "allow": true}',
            GuardrailDecision(True, policy_id="guardrail:http"),
        ),
    ],
)
def test_answers(body: str, decision: GuardrailDecision) -> None:
    assert answer_of(body.encode()) == decision


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "is not JSON"),
        (b"allow", "is not JSON"),
        (b'{"allow": true', "is not JSON"),
        (b'{"allow": true}}', "is not JSON"),
        (b'{"allow": true} {"allow": false}', "is not JSON"),
        (b'{"allow": tru', "is not JSON"),
        (b"<html>Sign in</html>", "is not JSON"),
        (b'\xff\xfe{"allow": true}', "is not JSON"),
        ('{"allow": true}'.encode("utf-16"), "is not JSON"),
        (b'\xef\xbb\xbf{"allow": true}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"true", "is not a JSON object"),
        (b'"allow"', "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b'[{"allow": true}]', "is not a JSON object"),
        (b"{}", "has no member 'allow'"),
        (b'{"result": true}', "has the unknown member 'result'"),
        (b'{"Allow": true}', "has the unknown member 'Allow'"),
        (b'{"allow": true, "note": 1}', "has the unknown member 'note'"),
        (b'{"allow": true, "obligations": []}', "has the unknown member 'obligations'"),
        (b'{"allow": true, "allow": false}', "has a member twice"),
        (b'{"allow": false, "allow": true}', "has a member twice"),
        (b'{"allow": null}', "has 'allow' as null"),
        (b'{"allow": 1}', "has 'allow' as int"),
        (b'{"allow": 0}', "has 'allow' as int"),
        (b'{"allow": "true"}', "has 'allow' as str"),
        (b'{"allow": "false"}', "has 'allow' as str"),
        (b'{"allow": {"value": true}}', "has 'allow' as dict"),
        (b'{"allow": [true]}', "has 'allow' as list"),
        (b'{"allow": NaN}', "a number that JSON does not know"),
        (b'{"allow": true, "reasons": "ok"}', "has no list of at most 32 in 'reasons'"),
        (b'{"allow": true, "reasons": {}}', "has no list of at most 32 in 'reasons'"),
        (b'{"allow": true, "reasons": ["ok"]}', "has a reason that is no object"),
        (b'{"allow": true, "reasons": [{}]}', "has a reason that is no object"),
        (b'{"allow": true, "reasons": [{"code": "x", "level": 1}]}', "has a reason that is no object"),
        (b'{"allow": true, "reasons": [{"code": 7}]}', "has a reason without a clean code"),
        (b'{"allow": true, "reasons": [{"code": ""}]}', "has a reason without a clean code"),
        (b'{"allow": true, "reasons": [{"code": "a\\nb"}]}', "has a reason without a clean code"),
        (b'{"allow": true, "reasons": [{"code": "x", "message": 1}]}', "has a reason whose message is no text"),
        (b'{"allow": true, "reasons": [%s]}' % b",".join([b'{"code": "x"}'] * 33), "has no list of at most 32"),
        (b'{"allow": true, "policy_id": 7}', "has no clean text in 'policy_id'"),
        (b'{"allow": true, "policy_id": ""}', "has no clean text in 'policy_id'"),
        (b'{"allow": true, "policy_version": "a\\u200b"}', "has no clean text in 'policy_version'"),
    ],
)
def test_what_is_no_answer(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        answer_of(body)


@given(st.binary(max_size=200))
def test_noise_is_never_an_answer(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|holds) "):
        answer_of(body)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["allow", "reasons", "policy_id", "policy_version", "x"]), _JSON))
def test_only_a_literal_true_allows(answer: dict[str, Any]) -> None:
    try:
        decision = answer_of(json.dumps(answer).encode())
    except ValueError:
        return
    assert set(answer) <= {"allow", "reasons", "policy_id", "policy_version"}
    assert decision.allow is answer["allow"]


@pytest.mark.parametrize(
    "url",
    [
        "https://guard.example.org/v1",
        "https://guard.example.org:8443",
        "HTTPS://guard.example.org/",
        "http://localhost:8000/guard",
        "http://127.0.0.1/guard",
        "http://127.8.9.1/guard",
        "http://[::1]:9/guard",
    ],
)
def test_usable_addresses(url: str) -> None:
    assert url_of(url, allow_http=False) == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (None, "got null"),
        (7, "got int"),
        ("", "must be an ASCII URL"),
        ("guard.example.org", "must begin with https://"),
        ("ftp://guard.example.org", "got scheme 'ftp'"),
        ("file:///etc/passwd", "got scheme 'file'"),
        ("https://", "must begin with https://"),
        ("https:///path", "must begin with https://"),
        ("https://host:99999/", "cannot be read"),
        ("https://host:x/", "cannot be read"),
        ("https://host:0/", "must begin with https://"),
        ("https://[::1/", "cannot be read"),
        (" https://host/", "without blanks"),
        ("https://host/a b", "without blanks"),
        ("https://host/\n", "without blanks"),
        ("https://h\u00f6st/", "ASCII"),
        ("https://user:hunter2@host/", "holds a user or a password"),
        ("https://hunter2@host/", "holds a user or a password"),
        ("https://host/?code=hunter2", "holds a query or a fragment"),
        ("https://host/?", "holds a query or a fragment"),
        ("https://host/#hunter2", "holds a query or a fragment"),
        ("http://guard.example.org/", "is not encrypted"),
        ("http://10.0.0.1/", "is not encrypted"),
        ("http://localhost.example.org/", "is not encrypted"),
        ("http://127.0.0.1.example.org/", "is not encrypted"),
    ],
)
def test_unusable_addresses(url: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        url_of(url, allow_http=False)
    assert "hunter2" not in str(caught.value)


def test_plain_http_to_another_machine_only_on_request() -> None:
    assert url_of("http://guard.svc:80/v1", allow_http=True) == "http://guard.svc:80/v1"


@pytest.mark.parametrize("value", [0, -1, 101, 1.5, "10", True, None])
def test_limits(value: Any) -> None:
    assert limit_of("timeout_ms", 1, 1, 100) == 1
    assert limit_of("timeout_ms", 100, 1, 100) == 100
    with pytest.raises(ConfigError, match="timeout_ms must be a whole number from 1 to 100, got"):
        limit_of("timeout_ms", value, 1, 100)


def test_header_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARD_AUTH", "Bearer hunter2")
    monkeypatch.setenv("GUARD_TENANT", "blue")
    headers = headers_of({"Authorization": "GUARD_AUTH", "X-Tenant": "GUARD_TENANT"})
    assert headers == {"Authorization": "Bearer hunter2", "X-Tenant": "blue"}
    assert headers_of(None) == headers_of({}) == {}


@pytest.mark.parametrize(
    ("mapping", "value", "message"),
    [
        (["Authorization"], "x", "must map header names"),
        ("Authorization", "x", "must map header names"),
        ({"": "GUARD_AUTH"}, "x", "'' is no header name"),
        ({"X Y": "GUARD_AUTH"}, "x", "'X Y' is no header name"),
        ({"X:": "GUARD_AUTH"}, "x", "is no header name"),
        ({"X\r\nY": "GUARD_AUTH"}, "x", "is no header name"),
        ({7: "GUARD_AUTH"}, "x", "7 is no header name"),
        ({"Host": "GUARD_AUTH"}, "x", "'Host' is set by remit or named twice"),
        ({"content-LENGTH": "GUARD_AUTH"}, "x", "is set by remit or named twice"),
        ({"X-A": "GUARD_AUTH", "x-a": "GUARD_AUTH"}, "x", "'x-a' is set by remit or named twice"),
        ({"X-A": "Bearer hunter2"}, "x", "must name an environment variable"),
        ({"X-A": ""}, "x", "must name an environment variable"),
        ({"X-A": None}, "x", "must name an environment variable"),
        ({"X-A": "GUARD_OTHER"}, "x", "'GUARD_OTHER' for 'X-A' is not set or empty"),
        ({"X-A": "GUARD_AUTH"}, "", "'GUARD_AUTH' for 'X-A' is not set or empty"),
        ({"X-A": "GUARD_AUTH"}, "hunter2\n", "holds blanks around its value, line ends"),
        ({"X-A": "GUARD_AUTH"}, "a\r\nEvil: hunter2", "holds blanks around its value, line ends"),
        ({"X-A": "GUARD_AUTH"}, " hunter2", "holds blanks around its value"),
        ({"X-A": "GUARD_AUTH"}, "hunter2\u00e9", "characters beyond ASCII"),
    ],
)
def test_unusable_headers(monkeypatch: pytest.MonkeyPatch, mapping: Any, value: str, message: str) -> None:
    monkeypatch.setenv("GUARD_AUTH", value)
    monkeypatch.delenv("GUARD_OTHER", raising=False)
    with pytest.raises(ConfigError, match=message) as caught:
        headers_of(mapping)
    assert "hunter2" not in str(caught.value)
