"""What goes over the wire to a guardrail webhook and back, and what its configuration may say. No I/O."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from remit.authz.errors import ConfigError, ProviderError
from remit.authz.provider import GuardrailDecision, GuardrailReason, GuardrailRequest
from remit.authz.vocabulary import flaw

VERSION: Final = 1
POLICY_ID: Final = "guardrail:http"
MEMBERS: Final = (
    "tool_name",
    "tool_input",
    "tool_call_id",
    "agent_id",
    "thread_id",
    "run_id",
    "is_subagent",
    "timestamp",
    "user_id",
    "user_role",
    "oauth_provider",
    "oauth_id",
    "channel_user_id",
    "is_internal",
    "authz_attributes",
)
"""Members of `GuardrailRequest` that are sent."""
_ANSWER: Final = frozenset({"allow", "reasons", "policy_id", "policy_version"})
_MAX_REASONS: Final = 32

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)


def question_of(request: GuardrailRequest) -> bytes:
    """The body of the question.

    Raises:
        ProviderError: A value is no JSON. Nothing is guessed: the webhook must not judge another call than the one that
            runs.
    """
    payload = {"version": VERSION, **{name: getattr(request, name) for name in MEMBERS}}
    try:
        return json.dumps(payload, allow_nan=False, default=_plain).encode("ascii")
    except (TypeError, ValueError, RecursionError) as exc:
        raise ProviderError(f"the call cannot be written as JSON ({type(exc).__name__})") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def answer_of(body: bytes) -> GuardrailDecision:
    """The decision that `body` holds.

    Raises:
        ValueError: It holds none. The text completes the sentence "its answer …" and quotes nothing of the body but
            names of members.
    """
    try:
        answer = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except _NotAnAnswer:
        raise
    except (ValueError, RecursionError) as exc:  # not UTF-8, cut short, or nested without end
        raise _NotAnAnswer(f"is not JSON ({type(exc).__name__})") from None
    if type(answer) is not dict:
        raise _NotAnAnswer("is not a JSON object")
    if unknown := sorted(set(answer) - _ANSWER):
        raise _NotAnAnswer(f"has the unknown member {unknown[0][:40]!r}")
    if "allow" not in answer:
        raise _NotAnAnswer("has no member 'allow'")
    allow = answer["allow"]
    if allow is not True and allow is not False:
        raise _NotAnAnswer(f"has 'allow' as {_kind(allow)}, not as true or false")
    policy_id = _text(answer, "policy_id")
    return GuardrailDecision(
        allow, _reasons(answer.get("reasons")), policy_id or POLICY_ID, _text(answer, "policy_version")
    )


class _NotAnAnswer(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotAnAnswer("has a member twice")
    return found


def _refuse_constant(_: str) -> object:
    raise _NotAnAnswer("holds a number that JSON does not know")


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _text(answer: Mapping[str, Any], member: str) -> str | None:
    value = answer.get(member)
    if value is not None and (type(value) is not str or flaw(value)):
        raise _NotAnAnswer(f"has no clean text in {member!r}")
    return value


def _reasons(value: object) -> tuple[GuardrailReason, ...]:
    if value is None:
        return ()
    if type(value) is not list or len(value) > _MAX_REASONS:
        raise _NotAnAnswer(f"has no list of at most {_MAX_REASONS} in 'reasons'")
    found = []
    for item in value:
        if type(item) is not dict or set(item) - {"code", "message"} or "code" not in item:
            raise _NotAnAnswer("has a reason that is no object of 'code' and 'message'")
        message = item.get("message", "")
        if type(message) is not str:
            raise _NotAnAnswer("has a reason whose message is no text")
        if type(item["code"]) is not str or flaw(item["code"]):
            raise _NotAnAnswer("has a reason without a clean code")
        found.append(GuardrailReason(item["code"], message))
    return tuple(found)


def url_of(value: object, *, allow_http: bool) -> str:
    """`value` when it is a usable address.

    Raises:
        ConfigError: It is not. The text never quotes a password.
    """
    if not isinstance(value, str) or flaw(value) or not value.isascii() or " " in value:
        raise ConfigError(f"url must be an ASCII URL without blanks, got {_kind(value)}; write https://host/path")
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("url cannot be read; write https://host/path") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ConfigError(f"url must begin with https:// and name a host, got scheme {parts.scheme!r}")
    if "@" in parts.netloc:
        raise ConfigError("url holds a user or a password; put credentials into headers_env")
    if "?" in value or "#" in value:
        raise ConfigError("url holds a query or a fragment; put credentials into headers_env, the rest into the path")
    if parts.scheme == "http" and not allow_http and not _on_this_machine(host):
        raise ConfigError(
            f"url is not encrypted ({parts.scheme}://{host}); use https, or allow_http: true where the network encrypts"
        )
    return value


def _on_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def limit_of(key: str, value: object, least: int, most: int) -> int:
    """`value` when it is an int within bounds, both included.

    Raises:
        ConfigError: It is not.
    """
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{key} must be a whole number from {least} to {most}, got {value!r}")
    return value


def headers_of(value: object) -> dict[str, str]:
    """Header values from the environment variables that `value` names.

    Raises:
        ConfigError: A name is unusable, a variable not set, or its content no header value; that is never quoted.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"headers_env must map header names to names of environment variables, got {_kind(value)}")
    found: dict[str, str] = {}
    for header, variable in value.items():
        if not isinstance(header, str) or not _HEADER.fullmatch(header):
            raise ConfigError(f"headers_env: {header!r} is no header name")
        if header.lower() in _OURS or header.lower() in map(str.lower, found):
            raise ConfigError(f"headers_env: header {header!r} is set by remit or named twice; leave it out")
        if not isinstance(variable, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise ConfigError(
                f"headers_env: {header!r} must name an environment variable; the value itself never stands in a file"
            )
        text = os.environ.get(variable, "")
        if not text:
            raise ConfigError(f"headers_env: environment variable {variable!r} for {header!r} is not set or empty")
        if not text.isascii() or not text.isprintable() or text != text.strip():
            raise ConfigError(
                f"headers_env: environment variable {variable!r} holds blanks around its value, line ends or "
                "characters beyond ASCII"
            )
        found[header] = text
    return found
