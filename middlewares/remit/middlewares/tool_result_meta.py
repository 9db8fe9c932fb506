"""What became of a tool call, in five fields that programs can act on: the stamp `wire.TOOL_META`.

The rules are data (`RULES`). What an error is taken for depends on how it is known: an exception or the error status
of a result is the tool's own word; everything that is only read out of the text of a result is a guess
(``content_analysis``), and a guess never stops anything, since that text may come from a stranger.

A first-party tool that knows better hands back a `ToolOutcome` instead of leaving it to the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal, NamedTuple, TypedDict, cast, get_args

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import TOOL_INVOCATION_ERROR_TEMPLATE

from remit.authz import wire
from remit.middlewares.results import lists_tools
from remit.runtime.capabilities import BUILT_IN, Capabilities

Status = Literal["success", "error", "partial_success"]
Action = Literal["continue", "rewrite_query", "try_alternative", "summarize", "stop"]
Source = Literal["exception", "tool_return", "content_analysis", "progress_middleware"]

_STATUSES: Final = frozenset(get_args(Status))
_ACTIONS: Final = frozenset(get_args(Action))
_SOURCES: Final = frozenset(get_args(Source))
_SCANNED: Final = 2_000
"""Characters of an error text that are looked at."""
_PARSED: Final = 200_000
"""Characters of the longest result that is read as JSON."""


class ToolMeta(TypedDict):
    """The stamp."""

    status: Status
    error_type: str | None
    """A kind of `RULES`, ``blocked_by_progress_guard``, or a tool's own; None where nothing went wrong."""
    recoverable_by_model: bool
    """Whether another call of the same tool, written differently, may succeed."""
    recommended_next_action: Action
    source: Source


class ToolOutcome(ToolMessage):
    """A result whose tool says itself what became of the call. Only code of this process can make one."""

    meta: Any = None
    """A `ToolMeta`; anything else is left to the rules."""


class Rule(NamedTuple):
    """A kind of error, and how it is told from its text in lower case."""

    error_type: str
    pattern: re.Pattern[str]
    recoverable: bool
    action: Action


def _words(*phrases: str) -> str:
    return r"(?<![\w-])(?:" + "|".join(phrases) + r")(?![\w-])"


def _status(*codes: str) -> str:
    """A status code where a status code would stand: not any number of that value."""
    either = "|".join(codes)
    return (
        rf"(?:^|(?<![\w-])(?:https?(?:/[\d.]+)?|status|code|error|returned|response|got|with)\W{{0,3}})(?:{either})"
        r"(?![\w.-]*\w)"
    )


def _rule(error_type: str, pattern: str, action: Action, *, recoverable: bool) -> Rule:
    return Rule(error_type, re.compile(pattern), recoverable, action)


RULES: Final[tuple[Rule, ...]] = (
    _rule(
        "auth",
        _status("401", "403") + "|" + _words("unauthorized", "authentication", "invalid api key"),
        "stop",
        recoverable=False,
    ),
    _rule("rate_limited", _status("429") + "|" + _words("rate[ _-]?limit(?:ed)?"), "summarize", recoverable=False),
    _rule(
        "transient",
        _words("time-?out", "timed out", "connection", "network error", "temporarily unavailable"),
        "try_alternative",
        recoverable=False,
    ),
    _rule(
        "config",
        _words("not configured", "not installed", "missing required", "disabled", "no api key"),
        "stop",
        recoverable=False,
    ),
    _rule(
        "permission",
        _words("permission denied", "access denied", "path traversal", "forbidden"),
        "try_alternative",
        recoverable=True,
    ),
    _rule(
        "no_results",
        _words("no results(?: found)?", "no content found", "no images found"),
        "rewrite_query",
        recoverable=True,
    ),
    _rule(
        "not_found",
        _status("404") + "|" + _words("not found", "no such file", "does not exist"),
        "rewrite_query",
        recoverable=True,
    ),
    _rule("internal", _status("500") + "|" + _words("unexpected error", "internal error"), "stop", recoverable=False),
)
"""Ordered: the first that matches counts."""
_UNKNOWN: Final = Rule("unknown", re.compile(""), True, "try_alternative")
_BY_KIND: Final = {rule.error_type: rule for rule in (*RULES, _UNKNOWN)}

_ERROR_PREFIX: Final = "error:"
_NO_ERROR: Final = frozenset({"", "none", "null", "false", "no", "ok", "success", "n/a", "0"})
_MISUSED: Final = TOOL_INVOCATION_ERROR_TEMPLATE.partition("{")[0]
_PARTIAL: Final = re.compile(
    r"[^\w\n]{0,8}(?:"
    r"(?:partial|limited) results|results may be incomplete|no (?:results|content|images) found"
    r"|(?:(?:the )?(?:search )?(?:output|results?|response|contents?|list|file|text|page|data) "
    r"(?:(?:was|were|is|has been) )?)?"
    r"truncated(?: (?:at|after|to|because|due|\()[^\n]*)?[^\w\n]*$"
    r")",
    re.IGNORECASE,
)
"""A line in which a tool says that it did not give everything."""
_MARKER_LINE: Final = 200
"""Characters of the longest line that is taken for such a statement."""
_HTTP_NOISE: Final = re.compile(r"\b(?:an?|the|http|https|error|status|code|page|response)\b|[^a-z0-9]+")
_HTTP_NUMBER: Final = re.compile(r"(?:[^a-z0-9]*(?:https?(?:/[\d.]+)?|error|status|code)\b)*[^a-z0-9]*([45]\d\d)\b")


def _bare(phrase: str) -> str:
    return _HTTP_NOISE.sub(" ", phrase.lower()).strip()


_PHRASES: Final = {_bare(status.phrase): status.value for status in HTTPStatus if status >= 400}
_HTTP_KINDS: Final[Mapping[int, str]] = {
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "transient",
    410: "not_found",
    429: "rate_limited",
    500: "internal",
    501: "internal",
    502: "transient",
    503: "transient",
    504: "transient",
}


def meta_of(message: Any) -> ToolMeta | None:
    """The stamp of a message; None when it has none, or one that is not well-formed."""
    kwargs = getattr(message, "additional_kwargs", None)
    return well_formed(kwargs.get(wire.TOOL_META)) if isinstance(kwargs, Mapping) else None


def well_formed(held: Any) -> ToolMeta | None:
    """`held` as a stamp of exactly five fields, or None. Never raises."""
    if not isinstance(held, Mapping) or len(held) != 5:
        return None
    kind, able = held.get("error_type", ""), held.get("recoverable_by_model")
    named = (held.get("status"), held.get("recommended_next_action"), held.get("source"))
    if not all(isinstance(value, str) for value in named):
        return None
    status, action, source = named
    if status not in _STATUSES or action not in _ACTIONS or source not in _SOURCES:
        return None
    if not isinstance(able, bool) or not (kind is None or (isinstance(kind, str) and 0 < len(kind) <= 64)):
        return None
    return ToolMeta(
        status=cast("Status", status),
        error_type=kind,
        recoverable_by_model=able,
        recommended_next_action=cast("Action", action),
        source=cast("Source", source),
    )


def stamped(message: ToolMessage, meta: ToolMeta) -> ToolMessage:
    """A copy of `message` with the stamp `meta` in place of the one it has."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, wire.TOOL_META: meta}})


def normalize_tool_result(
    message: ToolMessage, *, tool_name: str = "", capabilities: Capabilities | None = None
) -> ToolMessage:
    """`message` with a stamp: its own when that is well-formed, else what the rules make of it. Never raises.

    What a tool body hands back goes through `ToolErrorHandlingMiddleware` first, which takes every stamp off that the
    server did not make. Where there is none, a stamp is believed as it stands.

    Args:
        message: A result. It is not changed.
        tool_name: Name of the tool; that of the message when empty.
        capabilities: What the tool declares; those of the built-in tool of that name when None.
    """
    if meta_of(message) is not None:
        return message
    name = tool_name or message.name or ""
    return stamped(message, _judged(message, name, capabilities or BUILT_IN.get(name) or Capabilities()))


def success(source: Source = "tool_return") -> ToolMeta:
    """The stamp of a call that did what it should."""
    return _meta("success", None, True, "continue", source)


def failure(error_type: str, source: Source, *, sure: bool = True) -> ToolMeta:
    """The stamp of an error of a kind of `RULES`.

    Args:
        error_type: The kind.
        source: How it is known. A look at the content is never sure.
        sure: Whether the kind may be relied on. Where it may not, the stamp never says ``stop``.
    """
    rule = _BY_KIND.get(error_type, _UNKNOWN)
    if rule.action == "stop" and (source == "content_analysis" or not sure):
        return _meta("error", rule.error_type, True, "try_alternative", source)
    return _meta("error", rule.error_type, rule.recoverable, rule.action, source)


def kind_of(text: str) -> str:
    """The kind of error that `text` speaks of; ``unknown`` when no rule matches."""
    scanned = text[:_SCANNED].strip().lower()
    return next((rule.error_type for rule in RULES if rule.pattern.search(scanned)), "unknown")


def text_of(message: ToolMessage) -> str:
    """The text of a result: of its string, or of its text blocks, line by line. Never raises."""
    content: Any = message.content
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    parts = [
        block if isinstance(block, str) else block.get("text") if isinstance(block, Mapping) else None
        for block in content
    ]
    return "\n".join(part for part in parts if isinstance(part, str))


def _meta(status: Status, error_type: str | None, able: bool, action: Action, source: Source) -> ToolMeta:
    return ToolMeta(
        status=status,
        error_type=error_type,
        recoverable_by_model=able,
        recommended_next_action=action,
        source=source,
    )


def _judged(message: ToolMessage, name: str, can: Capabilities) -> ToolMeta:
    text = text_of(message).strip()
    prefixed = text[: len(_ERROR_PREFIX)].lower() == _ERROR_PREFIX
    if message.status == "error":
        return _failed(message, text, prefixed, can)
    if prefixed:
        return failure(kind_of(text[len(_ERROR_PREFIX) :]), "content_analysis")
    if can.reads_file:  # a file says what it says
        return success()
    if field := _json_error(text):
        return failure(kind_of(field), "content_analysis")
    if can.executes_command:
        return success()
    if (can.remote_content or name == "web_fetch") and (code := _http_page(text)):
        return failure(_HTTP_KINDS.get(code, "unknown"), "content_analysis")
    if _says_partial(text):
        return _meta("partial_success", None, True, "rewrite_query", "content_analysis")
    return success()


def _failed(message: ToolMessage, text: str, prefixed: bool, can: Capabilities) -> ToolMeta:
    if lists_tools(message):
        return failure("not_found", "content_analysis")
    if text.startswith(_MISUSED):  # the rest of that text is the arguments, written out
        return failure("unknown", "tool_return")
    if not prefixed and (field := _json_error(text)) is not None:
        return failure(kind_of(field) if field else "unknown", "content_analysis")
    kind = kind_of(text[len(_ERROR_PREFIX) :] if prefixed else text)
    # The text of a remote tool's error is remote as well: one refused page does not close the tool.
    return failure(kind, "tool_return", sure=not can.remote_content)


def _json_error(text: str) -> str | None:
    """The ``error`` field of a JSON object as text, empty when it says that there is none; None for other text."""
    if not text.startswith("{") or len(text) > _PARSED:
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    field = parsed.get("error")
    if not field:
        return ""
    said = field if isinstance(field, str) else json.dumps(field)
    return "" if said.strip().lower() in _NO_ERROR else said


def _http_page(text: str) -> int | None:
    """The status of a page that is nothing but the report of one, told from its first line."""
    line = text.partition("\n")[0].strip()[: _MARKER_LINE + 1].lower()
    if not line or len(line) > _MARKER_LINE:
        return None
    number = _HTTP_NUMBER.match(line)
    rest = _bare(line[number.end() :] if number else line)
    if rest in _PHRASES:
        return _PHRASES[rest]
    return int(number[1]) if number and not rest else None


def _says_partial(text: str) -> bool:
    first, last = text[: _MARKER_LINE + 1].partition("\n"), text[-_MARKER_LINE - 1 :].rpartition("\n")
    lines = [first[0]] if first[1] or len(text) <= _MARKER_LINE else []
    if last[1]:
        lines.append(last[2])
    return any(_PARTIAL.match(line.strip()) for line in lines)
