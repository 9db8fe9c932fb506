"""The webhook guardrail against a mocked transport, for every way to fail, and against a real server."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import httpcore2
import httpx
import pytest
import respx
import tests.support.httpcore2  # noqa: F401 - registers the mocker
from blockbuster import blockbuster_ctx
from tests.support.guardrails import BOTH, Ask, call
from tests.support.webhook import Webhook, answers, cuts, drips_body, drips_head, hangs, resets, webhook

from remit.authz.config import load_config
from remit.authz.errors import ConfigError, ProviderError
from remit.authz.judge import Judge
from remit.authz.provider import Closes, GuardrailProvider
from remit.authz.registry import resolve_guardrail_provider
from remit.providers.guardrails.http import GuardrailTimeout, HttpGuardrailProvider

URL = "https://guard.example.org/v1/decide"
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def router() -> Iterator[respx.MockRouter]:
    with respx.mock(using="httpcore2", assert_all_called=False) as router:
        yield router


@pytest.fixture
def guard() -> Iterator[HttpGuardrailProvider]:
    provider = HttpGuardrailProvider(URL, timeout_ms=5_000)
    yield provider
    asyncio.run(provider.aclose())


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize("allow", [True, False])
def test_an_answer(router: respx.MockRouter, guard: HttpGuardrailProvider, ask: Ask, allow: bool) -> None:
    route = router.post(URL).respond(
        json={"allow": allow, "reasons": [{"code": "dlp.x", "message": "m"}], "policy_id": "p:1", "policy_version": "2"}
    )
    answer = ask(guard, call("send_mail", {"to": "x"}))
    assert answer.allow is allow
    assert [(reason.code, reason.message) for reason in answer.reasons] == [("dlp.x", "m")]
    assert (answer.policy_id, answer.policy_version) == ("p:1", "2")
    sent = route.calls.last.request
    assert json.loads(sent.content)["tool_input"] == {"to": "x"}
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept"] == "application/json"
    assert sent.headers["accept-encoding"] == "identity"


GOOD = b'{"allow": true}'
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        pytest.param(httpx.Response(201, headers=JSON, content=GOOD), "status 201", id="created"),
        pytest.param(httpx.Response(202, headers=JSON, content=GOOD), "status 202", id="accepted"),
        pytest.param(httpx.Response(204), "status 204", id="no-content"),
        pytest.param(
            httpx.Response(302, headers={**JSON, "location": "https://evil.example.org/"}, content=GOOD),
            "status 302; redirects are not followed",
            id="redirect",
        ),
        pytest.param(
            httpx.Response(307, headers={"location": URL}), "status 307; redirects are not followed", id="redirect-307"
        ),
        pytest.param(httpx.Response(304, headers=JSON, content=GOOD), "status 304", id="not-modified"),
        pytest.param(httpx.Response(400, headers=JSON, content=GOOD), "status 400", id="bad-request"),
        pytest.param(httpx.Response(401, headers=JSON, content=GOOD), "status 401", id="unauthorized"),
        pytest.param(httpx.Response(403, headers=JSON, content=b'{"allow": false}'), "status 403", id="forbidden"),
        pytest.param(httpx.Response(404, headers=JSON, content=GOOD), "status 404", id="not-found"),
        pytest.param(
            httpx.Response(429, headers={**JSON, "retry-after": "0"}, content=GOOD), "status 429", id="too-many"
        ),
        pytest.param(httpx.Response(500, headers=JSON, content=GOOD), "status 500", id="server-error"),
        pytest.param(httpx.Response(503, headers=JSON, content=GOOD), "status 503", id="unavailable"),
        pytest.param(httpx.Response(200, content=GOOD), "content type ''", id="no-content-type"),
        pytest.param(
            httpx.Response(200, headers={"content-type": "text/html"}, content=b"<form>Sign in</form>"),
            "content type 'text/html'",
            id="login-page",
        ),
        pytest.param(
            httpx.Response(200, headers={"content-type": "text/plain"}, content=GOOD), "content type 'text/plain'",
            id="plain-text",
        ),
        pytest.param(
            httpx.Response(200, headers={"content-type": "application/jsonp"}, content=GOOD), "content type",
            id="almost-json",
        ),
        pytest.param(
            httpx.Response(200, headers={"content-type": "application/json; charset=latin-1"}, content=GOOD),
            "content type",
            id="other-charset",
        ),
        pytest.param(
            httpx.Response(200, headers={**JSON, "content-encoding": "gzip"}, content=gzip.compress(GOOD)),
            "content encoding 'gzip', which was not asked for",
            id="compressed",
        ),
        pytest.param(httpx.Response(200, headers=JSON, content=b'{"allow": tr'), "is not JSON", id="half-an-answer"),
        pytest.param(httpx.Response(200, headers=JSON, content=b""), "is not JSON", id="empty-body"),
        pytest.param(httpx.Response(200, headers=JSON, content=b"{}"), "has no member 'allow'", id="empty-object"),
        pytest.param(httpx.Response(200, headers=JSON, content=b'{"allow": 1}'), "'allow' as int", id="truthy"),
        pytest.param(
            httpx.Response(200, headers=JSON, content=b'{"allow": true, "x": 1}'), "unknown member 'x'", id="extra"
        ),
        pytest.param(
            httpx.Response(200, headers=JSON, content=b'{"allow": true, "policy_id": "' + b"x" * 70_000 + b'"}'),
            "larger than 65536 bytes",
            id="huge",
        ),
    ],
)  # fmt: skip
def test_what_is_no_answer_raises(
    router: respx.MockRouter, guard: HttpGuardrailProvider, ask: Ask, reply: httpx.Response, why: str
) -> None:
    route = router.post(URL).mock(return_value=reply)
    elsewhere = router.route(host="evil.example.org").respond(json={"allow": True})
    with pytest.raises(ProviderError, match=why) as caught:
        ask(guard, call())
    assert not isinstance(caught.value, TimeoutError)
    assert route.call_count == 1  # no retry
    assert elsewhere.call_count == 0


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    ("error", "kind", "why"),
    [
        (httpcore2.ConnectError("All connection attempts failed"), ProviderError, "All connection attempts failed"),
        (httpcore2.ConnectError("[Errno -2] Name or service not known"), ProviderError, "Name or service not known"),
        (httpcore2.ReadError("reset, hunter2"), ProviderError, "ReadError$"),
        (httpcore2.WriteError("hunter2"), ProviderError, "WriteError$"),
        (httpcore2.RemoteProtocolError("hunter2"), ProviderError, "RemoteProtocolError$"),
        (httpcore2.LocalProtocolError("hunter2"), ProviderError, "LocalProtocolError$"),
        (httpcore2.ProxyError("hunter2"), ProviderError, "ProxyError$"),
        (httpcore2.UnsupportedProtocol("hunter2"), ProviderError, "UnsupportedProtocol$"),
        (ValueError("hunter2"), ProviderError, "ValueError$"),
        (RuntimeError("hunter2"), ProviderError, "RuntimeError$"),
        (httpcore2.ConnectTimeout("hunter2"), GuardrailTimeout, "within 5000 ms"),
        (httpcore2.ReadTimeout("hunter2"), GuardrailTimeout, "within 5000 ms"),
        (httpcore2.WriteTimeout("hunter2"), GuardrailTimeout, "within 5000 ms"),
        (httpcore2.PoolTimeout("hunter2"), GuardrailTimeout, "within 5000 ms"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_breaks_raises(
    router: respx.MockRouter, guard: HttpGuardrailProvider, ask: Ask, error: Exception, kind: type, why: str
) -> None:
    route = router.post(URL).mock(side_effect=error)
    with pytest.raises(kind, match=why) as caught:
        ask(guard, call())
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert route.call_count == 1


@pytest.mark.parametrize("ask", BOTH)
def test_after_a_failure_the_next_answer_counts(
    router: respx.MockRouter, guard: HttpGuardrailProvider, ask: Ask
) -> None:
    router.post(URL).mock(side_effect=[httpx.Response(503), httpx.Response(200, headers=JSON, content=GOOD)])
    with pytest.raises(ProviderError):
        ask(guard, call())
    assert ask(guard, call()).allow is True


@pytest.mark.parametrize("fail_closed", [True, False])
def test_a_failure_is_judged_by_fail_closed(
    router: respx.MockRouter, guard: HttpGuardrailProvider, fail_closed: bool
) -> None:
    router.post(URL).mock(side_effect=[httpx.Response(503), httpcore2.ReadTimeout("late")])
    judge = Judge(fail_closed=fail_closed, deadline=10)
    for code in ("authz.evaluator_error", "authz.timeout"):
        answer = judge.evaluate(guard, call())
        assert answer.allow is not fail_closed
        assert answer.reasons[0].code == code
        assert answer.metadata["failure"] is True


@pytest.mark.parametrize("ask", BOTH)
def test_secrets_stay_out_of_errors_logs_and_repr(
    router: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ask: Ask
) -> None:
    monkeypatch.setenv("GUARD_AUTH", "Bearer hunter2")
    guard = HttpGuardrailProvider(URL, headers_env={"Authorization": "GUARD_AUTH"})
    router.post(URL).respond(500, json={"detail": "token hunter2 for hunter3 is wrong"})
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(ProviderError) as caught:
            ask(guard, call("send_mail", {"password": "hunter3"}))
        Judge().evaluate(guard, call("send_mail", {"password": "hunter3"}))
    assert router.calls.last.request.headers["authorization"] == "Bearer hunter2"
    told = f"{caught.value!r} {caplog.text} {guard!r} {vars(guard.__class__)}"
    assert "hunter2" not in told
    assert "hunter3" not in told
    asyncio.run(guard.aclose())


def test_environment_changes_after_building_change_nothing(
    router: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARD_AUTH", "first")
    guard = HttpGuardrailProvider(URL, headers_env={"Authorization": "GUARD_AUTH"})
    monkeypatch.setenv("GUARD_AUTH", "second")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    router.post(URL).respond(json={"allow": True})
    assert guard.evaluate(call()).allow is True
    assert router.calls.last.request.headers["authorization"] == "first"
    asyncio.run(guard.aclose())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://guard.example.org/"}, "is not encrypted"),
        ({"url": URL, "timeout_ms": 0}, "timeout_ms must be a whole number from 1 to 60000"),
        ({"url": URL, "timeout_ms": True}, "timeout_ms must be"),
        ({"url": URL, "max_response_bytes": 10}, "max_response_bytes must be"),
        ({"url": URL, "allow_http": "yes"}, "allow_http must be true or false"),
        ({"url": URL, "headers_env": {"Authorization": "REMIT_NO_SUCH_VARIABLE"}}, "is not set or empty"),
        ({"url": "https://good.example.org\\@evil.example.org/"}, "url"),
        ({}, "url"),
        ({"url": URL, "headers": {"Authorization": "Bearer x"}}, "headers"),
    ],
)
def test_unusable_configuration_is_refused_at_start(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_configuration(options)


def from_configuration(options: dict[str, Any]) -> GuardrailProvider:
    settings = load_config({"guardrails": {"enabled": True, "provider": {"use": "http", "config": options}}})
    provider = resolve_guardrail_provider(settings)
    assert provider is not None
    return provider


def test_built_from_the_configuration(router: respx.MockRouter) -> None:
    router.post(URL).respond(json={"allow": False})
    guard = from_configuration({"url": URL, "timeout_ms": 700})
    assert isinstance(guard, HttpGuardrailProvider)
    assert isinstance(guard, Closes)
    assert guard.evaluate(call()).allow is False
    asyncio.run(guard.aclose())


# A real server from here on.


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook(answers({"allow": True, "reasons": [{"code": "hook.fine"}]})) as hook:
        yield hook


@pytest.mark.parametrize("ask", BOTH)
def test_over_a_real_connection(hook: Webhook, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARD_AUTH", "Bearer x")
    guard = HttpGuardrailProvider(hook.url, headers_env={"Authorization": "GUARD_AUTH"}, timeout_ms=10_000)
    assert ask(guard, call("send_mail", {"to": "\u00e9\U0001f600\ud800"})).allow is True
    hook.reply = answers({"allow": False})
    assert ask(guard, call("send_mail")).allow is False
    headers, body = hook.seen[0]
    assert headers["Authorization"] == "Bearer x"
    assert "Cookie" not in headers
    assert (body["tool_name"], body["tool_input"], body["user_role"]) == (
        "send_mail", {"to": "\u00e9\U0001f600\ud800"}, "reader",
    )  # fmt: skip
    assert hook.connections == 1  # pooled, across event loops too
    asyncio.run(guard.aclose())


def test_cookies_are_not_kept(hook: Webhook) -> None:
    hook.reply = answers({"allow": True}, Set_Cookie="a=b; Path=/")
    guard = HttpGuardrailProvider(hook.url, timeout_ms=10_000)
    for _ in range(2):
        guard.evaluate(call())
    assert all("Cookie" not in headers for headers, _ in hook.seen)
    asyncio.run(guard.aclose())


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        pytest.param(hangs, GuardrailTimeout, id="silence"),
        pytest.param(drips_head, GuardrailTimeout, id="headers-without-end"),
        pytest.param(drips_body, GuardrailTimeout, id="body-without-end"),
        pytest.param(resets, ProviderError, id="reset"),
        pytest.param(cuts, ProviderError, id="cut-short"),
        pytest.param(answers(b'{"allow": true', kind="application/json"), ProviderError, id="truncated-json"),
        pytest.param(answers(b" " * 10_000_000 + b'{"allow": true}'), ProviderError, id="ten-megabytes"),
    ],
)
def test_a_real_server_that_misbehaves(hook: Webhook, ask: Ask, reply: Any, kind: type[Exception]) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=300 if kind is GuardrailTimeout else 20_000)
    hook.reply = reply
    with pytest.raises(kind) as caught:
        ask(guard, call())
    assert isinstance(caught.value, GuardrailTimeout) is (kind is GuardrailTimeout)
    hook.reply = answers({"allow": True})
    hook.released.set()
    assert _until_allowed(guard, ask)
    assert len([body for _, body in hook.seen]) >= 2
    asyncio.run(guard.aclose())


def _until_allowed(guard: HttpGuardrailProvider, ask: Ask) -> bool:
    """The guard works on after a failure; a slow machine may need a few attempts within the short deadline."""
    for _ in range(50):
        try:
            return ask(guard, call()).allow
        except GuardrailTimeout:
            continue
    return False


def test_nobody_listens() -> None:
    with webhook(answers({"allow": True})) as gone:
        url = gone.url
    guard = HttpGuardrailProvider(url, timeout_ms=20_000)
    with pytest.raises(ProviderError, match="ConnectError"):
        guard.evaluate(call())
    asyncio.run(guard.aclose())


async def test_the_event_loop_goes_on_while_it_waits(hook: Webhook) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=20_000)
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()

    def reply(handler: Any) -> None:
        loop.call_soon_threadsafe(arrived.set)
        hook.released.wait(30)
        answers({"allow": True})(handler)

    hook.reply = reply
    with blockbuster_ctx(scanned_modules=["remit"]):
        waiting = asyncio.ensure_future(guard.aevaluate(call()))
        await arrived.wait()  # the loop turns while the exchange is under way
        assert not waiting.done()
        hook.released.set()
        assert (await waiting).allow is True
        await guard.aclose()


async def test_many_at_once_share_the_pool(hook: Webhook) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=30_000)
    answered = await asyncio.gather(*(guard.aevaluate(call(f"tool_{number}")) for number in range(200)))
    assert {answer.allow for answer in answered} == {True}
    assert sorted(body["tool_name"] for _, body in hook.seen) == sorted(f"tool_{number}" for number in range(200))
    assert hook.connections <= 64
    await guard.aclose()


async def test_cancelling_abandons_the_exchange(hook: Webhook) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=30_000)
    arrived = threading.Event()

    def reply(handler: Any) -> None:
        arrived.set()
        hangs(handler)

    hook.reply = reply
    waiting = asyncio.ensure_future(guard.aevaluate(call()))
    await asyncio.to_thread(arrived.wait, 20)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    hook.reply = answers({"allow": True})
    assert (await guard.aevaluate(call())).allow is True
    await guard.aclose()


@pytest.mark.parametrize("ask", BOTH)
def test_closed_twice_and_asked_afterwards(hook: Webhook, ask: Ask) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=20_000)
    assert ask(guard, call()).allow is True
    asyncio.run(guard.aclose())
    asyncio.run(guard.aclose())
    with pytest.raises(ProviderError, match="it is closed"):
        ask(guard, call())
    assert len(hook.seen) == 1


async def test_closing_waits_for_the_exchange_under_way(hook: Webhook) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=20_000)
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()

    def reply(handler: Any) -> None:
        loop.call_soon_threadsafe(arrived.set)
        hook.released.wait(30)
        answers({"allow": True})(handler)

    hook.reply = reply
    asking = asyncio.ensure_future(guard.aevaluate(call()))
    await arrived.wait()
    closing = asyncio.ensure_future(guard.aclose())
    done, _ = await asyncio.wait({closing}, timeout=0.1)
    assert not done
    with pytest.raises(ProviderError, match="it is closed"):
        await guard.aevaluate(call())
    hook.released.set()
    await closing
    assert (await asking).allow is True


def test_a_forgotten_guard_ends_its_thread(hook: Webhook) -> None:
    guard = HttpGuardrailProvider(hook.url, timeout_ms=20_000)
    assert guard.evaluate(call()).allow is True
    (thread,) = [one for one in threading.enumerate() if one.name == "remit-guardrail-http"]
    del guard
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
