"""What a result is taken for: the rules, what only counts as a guess, and whose stamp is believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from tests.support.ids import shown

from remit.authz import wire
from remit.middlewares.tool_result_meta import (
    RULES,
    failure,
    kind_of,
    meta_of,
    normalize_tool_result,
    stamped,
    success,
    text_of,
)
from remit.runtime.capabilities import Capabilities


def result(content: Any, **members: Any) -> ToolMessage:
    return ToolMessage(content, tool_call_id="call_1", **members)


def judged(content: Any, tool_name: str = "lookup", **members: Any) -> tuple[Any, ...]:
    meta = meta_of(normalize_tool_result(result(content, **members), tool_name=tool_name))
    assert meta is not None
    return tuple(meta.values())


ERRORS = [
    ("401 Unauthorized", "auth", False, "stop"),
    ("HTTP 403", "auth", False, "stop"),
    ("the server returned 403", "auth", False, "stop"),
    ("authentication failed", "auth", False, "stop"),
    ("Invalid API key given", "auth", False, "stop"),
    ("Rate limit reached", "rate_limited", False, "summarize"),
    ("you are rate limited", "rate_limited", False, "summarize"),
    ("rate_limit", "rate_limited", False, "summarize"),
    ("Connection refused", "transient", False, "try_alternative"),
    ("request timed out", "transient", False, "try_alternative"),
    ("timeout after 30 s", "transient", False, "try_alternative"),
    ("Service temporarily unavailable", "transient", False, "try_alternative"),
    ("search is not configured", "config", False, "stop"),
    ("ripgrep not installed", "config", False, "stop"),
    ("no api key", "config", False, "stop"),
    ("Permission denied", "permission", True, "try_alternative"),
    ("path traversal", "permission", True, "try_alternative"),
    ("Forbidden", "permission", True, "try_alternative"),
    ("No results found", "no_results", True, "rewrite_query"),
    ("file not found", "not_found", True, "rewrite_query"),
    ("status 404", "not_found", True, "rewrite_query"),
    ("the file does not exist", "not_found", True, "rewrite_query"),
    ("500", "internal", False, "stop"),
    ("Unexpected error", "internal", False, "stop"),
    ("something else", "unknown", True, "try_alternative"),
    ("", "unknown", True, "try_alternative"),
]


@pytest.mark.parametrize("prefix", ["", "Error: ", "error:"])
@pytest.mark.parametrize(("text", "kind", "able", "action"), ERRORS, ids=[row[0] or "empty" for row in ERRORS])
def test_error_status_follows_the_rules(prefix: str, text: str, kind: str, able: bool, action: str) -> None:
    """The first rule that matches the text of an error counts."""
    assert judged(prefix + text, status="error") == ("error", kind, able, action, "tool_return")


@pytest.mark.parametrize(
    "text",
    [
        "took 500 ms",
        "line 401 of 403",
        "wrote 500 rows",
        "version 4.01.500",
        "order-403-a",
        "the reconnection handler",
        "disabledness",
    ],
)
def test_numbers_and_parts_of_words_are_no_keywords(text: str) -> None:
    assert kind_of(text) == "unknown"


def test_first_rule_wins() -> None:
    """A text that several rules match: the order of the table decides."""
    assert kind_of("404 not found, then connection reset") == "transient"
    assert [rule.error_type for rule in RULES] == [
        "auth",
        "rate_limited",
        "transient",
        "config",
        "permission",
        "no_results",
        "not_found",
        "internal",
    ]


GUESSES = [
    ("Error: 401 Unauthorized", "lookup", ("error", "auth", True, "try_alternative")),
    ("Error: not configured", "bash", ("error", "config", True, "try_alternative")),
    ("Error: 500", "read_file", ("error", "internal", True, "try_alternative")),
    ('{"error": "403 Forbidden"}', "crm_api", ("error", "auth", True, "try_alternative")),
    ('{"error": {"code": 7, "message": "not configured"}}', "crm_api", ("error", "config", True, "try_alternative")),
    ('{"error": true}', "crm_api", ("error", "unknown", True, "try_alternative")),
    ('{"error": "rate limited"}', "crm_api", ("error", "rate_limited", False, "summarize")),
    ("403 Forbidden\nnginx", "web_fetch", ("error", "auth", True, "try_alternative")),
    ("# 404 Not Found", "web_fetch", ("error", "not_found", True, "rewrite_query")),
    ("Internal Server Error", "web_fetch", ("error", "internal", True, "try_alternative")),
    ("HTTP Error 503 Service Unavailable", "web_fetch", ("error", "transient", False, "try_alternative")),
    ("Error 410", "web_fetch", ("error", "not_found", True, "rewrite_query")),
]


@pytest.mark.parametrize(("text", "tool", "wanted"), GUESSES, ids=[row[0][:30] for row in GUESSES])
def test_what_is_read_out_of_content_never_stops(text: str, tool: str, wanted: tuple[Any, ...]) -> None:
    """An error that only the text of a result speaks of is one, and closes no tool."""
    assert judged(text, tool) == (*wanted, "content_analysis")


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ('{"error": null, "rows": 3}', "crm_api"),
        ('{"error": "none"}', "crm_api"),
        ('{"error": ""}', "crm_api"),
        ('{"error": false}', "crm_api"),
        ('{"error": "OK"}', "crm_api"),
        ('{"error": []}', "crm_api"),
        ('{"error": "403 broken json', "crm_api"),
        ('[{"error": "403"}]', "crm_api"),
        ('{"error": "403"}', "read_file"),
        ("Not Found: a love story", "web_fetch"),
        ("404 Not Found", "lookup"),
        ("how to handle 401 Unauthorized", "web_fetch"),
        ("the text was truncated by the editor in 1930 and never restored", "web_fetch"),
        ("a page\nabout truncated series and\nlimits", "web_fetch"),
        ("first\n[truncated]\nlast", "lookup"),
        ("log\noutput truncated", "bash"),
        ("end\n[truncated]", "read_file"),
        ("", "lookup"),
    ],
)
def test_success_that_only_sounds_like_an_error(text: str, tool: str) -> None:
    assert judged(text, tool) == ("success", None, True, "continue", "tool_return")


@pytest.mark.parametrize(
    "text",
    [
        "No results found for 'x'",
        "Partial results: the index is being built\nrow 1",
        "row 1\nrow 2\n[output truncated]",
        "... truncated to 2000 characters ...\nrow",
        "row\nResults may be incomplete.",
        "[Results truncated after 10 of 200]",
    ],
)
def test_a_marker_line_at_either_end_is_partial(text: str) -> None:
    """A tool says at the start or the end of its result that it did not give everything."""
    assert judged(text) == ("partial_success", None, True, "rewrite_query", "content_analysis")


def test_errors_of_remote_tools_do_not_close_them() -> None:
    """The text of a remote tool's error is remote too: one refused page is no reason to stop."""
    assert judged("401 Unauthorized", "web_fetch", status="error") == (
        "error",
        "auth",
        True,
        "try_alternative",
        "tool_return",
    )
    remote = Capabilities(remote_content=True)
    message = normalize_tool_result(result("500", status="error"), tool_name="any", capabilities=remote)
    assert meta_of(message)["recommended_next_action"] == "try_alternative"


def test_the_arguments_in_a_refused_call_are_not_read() -> None:
    """LangGraph's answer to wrong arguments writes them out."""
    text = "Error invoking tool 'x' with kwargs {'q': '401 unauthorized'} with error:\n q: field required"
    assert judged(text, status="error")[1:4] == ("unknown", True, "try_alternative")
    unknown = "Error: x is not a valid tool, try one of [401, disabled]."
    assert judged(unknown, status="error")[1:4] == ("not_found", True, "rewrite_query")


GOOD = success()
MALFORMED: list[Any] = [
    None,
    "success",
    [],
    {},
    {**GOOD, "extra": 1},
    {key: value for key, value in GOOD.items() if key != "source"},
    {**GOOD, "status": "great"},
    {**GOOD, "status": ["success"]},
    {**GOOD, "status": {}},
    {**GOOD, "recoverable_by_model": "yes"},
    {**GOOD, "recoverable_by_model": 1},
    {**GOOD, "recommended_next_action": "explode"},
    {**GOOD, "source": "me"},
    {**GOOD, "error_type": 7},
    {**GOOD, "error_type": ""},
    {**GOOD, "error_type": "x" * 65},
]


@pytest.mark.parametrize("held", MALFORMED, ids=shown)
def test_malformed_stamps_are_none(held: Any) -> None:
    """A stamp of another shape is read as absent, and replaced."""
    message = result("fine", additional_kwargs={wire.TOOL_META: held})
    assert meta_of(message) is None
    assert meta_of(normalize_tool_result(message)) == success()


def test_a_stamp_is_kept_and_the_message_is_the_same() -> None:
    message = stamped(result("x", status="error"), failure("permission", "progress_middleware"))
    assert normalize_tool_result(message) is message
    assert meta_of(message)["source"] == "progress_middleware"


def test_everything_else_about_a_message_stays() -> None:
    message = result("x", name="n", id="m1", artifact={"a": 1}, additional_kwargs={"k": 1}, status="error")
    new = normalize_tool_result(message)
    assert message.additional_kwargs == {"k": 1}
    assert (new.content, new.name, new.id, new.artifact, new.status) == ("x", "n", "m1", {"a": 1}, "error")
    assert new.additional_kwargs == {"k": 1, wire.TOOL_META: failure("unknown", "tool_return")}


@pytest.mark.parametrize("thing", [None, 3, "text", object(), {"additional_kwargs": {}}], ids=shown)
def test_meta_of_anything(thing: Any) -> None:
    assert meta_of(thing) is None


def test_text_of_blocks() -> None:
    assert text_of(result(["a", {"type": "text", "text": "b"}, {"type": "image"}, {"text": 3}])) == "a\nb"
    assert text_of(result("x").model_copy(update={"content": None})) == ""


contents = st.one_of(
    st.text(),
    st.text(st.characters(codec=None)),
    st.none(),
    st.lists(st.one_of(st.text(), st.dictionaries(st.text(max_size=8), st.text()))),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=12)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


@given(
    contents, st.sampled_from(["success", "error"]), st.sampled_from(["web_fetch", "bash", "read_file", "x"]), anything
)
def test_any_result_gets_a_stamp_and_a_guess_never_stops(content: Any, status: Any, tool: str, held: Any) -> None:
    """For any content and any earlier stamp: the stamp is well-formed, an error stays one, and no guess says stop."""
    message = result("").model_copy(
        update={"content": content, "status": status, "additional_kwargs": {wire.TOOL_META: held}}
    )
    meta = meta_of(normalize_tool_result(message, tool_name=tool))
    assert meta is not None
    assert status == "success" or meta["status"] == "error"
    assert not (meta["source"] == "content_analysis" and meta["recommended_next_action"] == "stop")
