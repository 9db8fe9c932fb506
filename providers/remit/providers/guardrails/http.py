"""A guardrail behind a webhook: one JSON question by POST, one strict JSON answer.

The question holds every member of `GuardrailRequest` except the tool object:

```json
{"version": 1,
 "tool_name": "send_mail", "tool_input": {"to": "x@example.org"}, "tool_call_id": "call-1",
 "agent_id": null, "thread_id": "t-1", "run_id": "r-1", "is_subagent": false,
 "timestamp": "2026-01-01T00:00:00+00:00",
 "user_id": "u-1", "user_role": "user", "oauth_provider": null, "oauth_id": null,
 "channel_user_id": null, "is_internal": false, "authz_attributes": {}}
```

The answer is status 200, ``application/json`` and an object with these members and no other; only `allow` is required:

```json
{"allow": false,
 "reasons": [{"code": "dlp.address", "message": "not an address of ours"}],
 "policy_id": "dlp:7", "policy_version": "2026-01-01"}
```

Whatever else comes back, or does not come back in time, is a failure and no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2

from remit.authz.errors import ConfigError, ProviderError
from remit.authz.provider import GuardrailDecision, GuardrailRequest
from remit.providers.background import Background, BackgroundError
from remit.providers.guardrails.webhook import answer_of, headers_of, limit_of, question_of, url_of

MAX_CONNECTIONS: Final = 64


class GuardrailTimeout(ProviderError, TimeoutError):
    """The webhook did not answer within the deadline."""


class HttpGuardrailProvider:
    """Asks a webhook about every tool call. Safe to share between threads and event loops.

    There are no retries, no redirects, no cookies, no proxies from the environment and no credentials from ``.netrc``.

    Args:
        url: Where to ask, ``https``; ``http`` only on this machine. No user, query or fragment: an URL ends up in logs.
        timeout_ms: For the whole exchange: connecting, sending, waiting and reading. Keep it below
            ``authorization.deadline_ms``.
        headers_env: Header name -> name of the environment variable that holds its value, for example
            ``{Authorization: GUARD_AUTH}`` with ``GUARD_AUTH="Bearer …"``. Values are read once, when this is built.
        allow_http: Permit ``http`` to other machines, where the network itself encrypts and authenticates.
        max_response_bytes: A larger answer is a failure.

    Raises:
        ConfigError: An argument is unusable or an environment variable is not set.
    """

    name = "http"

    def __init__(
        self,
        url: str,
        *,
        timeout_ms: int = 1500,
        headers_env: Mapping[str, str] | None = None,
        allow_http: bool = False,
        max_response_bytes: int = 65_536,
    ) -> None:
        if allow_http is not True and allow_http is not False:
            raise ConfigError(f"allow_http must be true or false, got {allow_http!r}")
        self.url = url_of(url, allow_http=allow_http)
        _read_alike(self.url)
        self._seconds = limit_of("timeout_ms", timeout_ms, 1, 60_000) / 1000
        self._limit = limit_of("max_response_bytes", max_response_bytes, 64, 16 * 1024 * 1024)
        self._headers = headers_of(headers_env)
        self._pool = Background(_open, _close, name="remit-guardrail-http")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """Ask, and wait in this thread.

        Raises:
            GuardrailTimeout: No answer in time.
            ProviderError: No answer, or one that is none. The text holds no header value and no argument of the call.
        """
        body = question_of(request)
        try:
            return self._pool.run(lambda transport: self._ask(transport, body))
        except BackgroundError as exc:
            raise self._failure(str(exc)) from None

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """The same answer as `evaluate`; the event loop goes on. Cancelling it abandons the exchange."""
        body = question_of(request)
        try:
            return await self._pool.arun(lambda transport: self._ask(transport, body))
        except BackgroundError as exc:
            raise self._failure(str(exc)) from None

    async def aclose(self) -> None:
        """Wait for the exchanges under way and close the connections. Safe to call twice; asking afterwards fails."""
        await self._pool.aclose()

    async def _ask(self, transport: httpx2.AsyncBaseTransport, body: bytes) -> GuardrailDecision:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._exchange(transport, body)
        except (TimeoutError, httpx2.TimeoutException):
            late = f"no answer from {self.url} within {self._seconds * 1000:.0f} ms"
            raise GuardrailTimeout(late) from None
        except ProviderError:
            raise
        except Exception as exc:
            # only what failed before anything was sent is quoted: later errors may repeat what was sent or received
            detail = f": {exc}" if isinstance(exc, httpx2.ConnectError) else ""
            raise self._failure(f"{type(exc).__name__}{detail}") from None

    async def _exchange(self, transport: httpx2.AsyncBaseTransport, body: bytes) -> GuardrailDecision:
        timeout = httpx2.Timeout(self._seconds).as_dict()
        headers = {**self._headers, "Content-Type": "application/json"}
        headers |= {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "remit"}
        request = httpx2.Request("POST", self.url, headers=headers, content=body, extensions={"timeout": timeout})
        response = await transport.handle_async_request(request)
        try:
            self._check_head(response)
            received = await self._received(response)
        finally:
            await response.aclose()
        try:
            return answer_of(received)
        except ValueError as exc:
            raise self._failure(f"its answer {exc}") from None

    def _check_head(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status != 200:
            what = "; redirects are not followed" if 300 <= status < 400 else ""
            raise self._failure(f"it answered with status {status}{what}")
        kind = response.headers.get("content-type", "")
        media, _, parameters = kind.partition(";")
        charset = parameters.replace(" ", "").replace('"', "").lower()
        if media.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
            raise self._failure(f"it answered with content type {kind[:80]!r}, not 'application/json'")
        if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
            raise self._failure(f"it answered with content encoding {encoding[:40]!r}, which was not asked for")

    async def _received(self, response: httpx2.Response) -> bytes:
        received = bytearray()
        async for chunk in response.aiter_raw():
            received += chunk
            if len(received) > self._limit:
                raise self._failure(f"its answer is larger than {self._limit} bytes")
        return bytes(received)

    def _failure(self, what: str) -> ProviderError:
        return ProviderError(f"the guardrail at {self.url} gave no answer: {what}")


def _read_alike(url: str) -> None:
    """Refuse an address that the client would read differently from us."""
    try:
        seen = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ConfigError("url cannot be read; write https://host/path") from None
    parts = urlsplit(url)
    if (seen.scheme, seen.host) != (parts.scheme, parts.hostname):
        raise ConfigError(f"url can be read in two ways, as host {seen.host!r} or {parts.hostname!r}; write it plainly")


def _open() -> httpx2.AsyncBaseTransport:
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
    return httpx2.AsyncHTTPTransport(limits=limits, trust_env=False)


async def _close(transport: httpx2.AsyncBaseTransport) -> None:
    await transport.aclose()
