"""Requests and values as operators type them."""

from __future__ import annotations

from typing import Any

import pytest

from remit.authz.tooling.request import Asked, build_request, parse_asked, parse_pairs, parse_value
from remit.authz.types import Principal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("tool:call:bash", Asked("tool", "call", "bash"), id="tool"),
        pytest.param("route:read:threads:read", Asked("route", "read", "threads:read"), id="colon-in-target"),
        pytest.param("route:purge:threads:purge", Asked("route", "purge", "threads:purge"), id="any-route-verb"),
        pytest.param("sandbox:execute:*", Asked("sandbox", "execute", "*"), id="star"),
        pytest.param("tool:call: bash", Asked("tool", "call", " bash"), id="target-is-not-repaired"),
        pytest.param("dataset:export:sales", Asked("dataset", "export", "sales"), id="type-of-the-deployment"),
    ],
)
def test_request_is_read(text: str, expected: Asked) -> None:
    assert parse_asked(text, resources=("dataset",)) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", ["''", "RESOURCE:ACTION:TARGET", "tool:call:bash"], id="empty"),
        pytest.param("bash", ["'bash'", "tool:call:bash"], id="name-only"),
        pytest.param("model:use", ["model:list:NAME"], id="no-target"),
        pytest.param("sandbox:execute", ["sandbox:execute:*"], id="no-target-sandbox"),
        pytest.param("tool::bash", ["RESOURCE:ACTION:TARGET"], id="no-action"),
        pytest.param("tool:call:", ["RESOURCE:ACTION:TARGET"], id="empty-target"),
        pytest.param("tol:call:bash", ["'tol'", "did you mean 'tool'?"], id="typo-in-type"),
        pytest.param("Tool:call:bash", ["'Tool'", "did you mean 'tool'?"], id="case-of-type"),
        pytest.param("tool:use:bash", ["'tool'", "known: call"], id="unknown-action"),
        pytest.param("skill:activte:x", ["did you mean 'activate'?"], id="typo-in-action"),
        pytest.param("dataset:export:sales", ["unknown resource type 'dataset'"], id="foreign-type"),
    ],
)
def test_request_that_nothing_asks_for_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(ValueError, match="the request") as caught:
        parse_asked(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("5", 5, id="int"),
        pytest.param("-0.5", -0.5, id="float"),
        pytest.param("true", True, id="true"),
        pytest.param("null", None, id="null"),
        pytest.param('"5"', "5", id="quoted-number"),
        pytest.param("[1, 2]", [1, 2], id="list"),
        pytest.param('{"a": {"b": []}}', {"a": {"b": []}}, id="object"),
        pytest.param("", "", id="empty"),
        pytest.param("True", "True", id="python-spelling"),
        pytest.param("007", "007", id="leading-zero"),
        pytest.param("NaN", "NaN", id="nan"),
        pytest.param("-Infinity", "-Infinity", id="infinity"),
        pytest.param("/tmp/a=b", "/tmp/a=b", id="path"),
        pytest.param("9" * 5000, "9" * 5000, id="more-digits-than-python-reads"),
        pytest.param("[" * 100_000, "[" * 100_000, id="deep-nesting"),
    ],
)
def test_value_is_json_where_it_parses(text: str, value: Any) -> None:
    got = parse_value(text)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize("text", ["1e999", "[1e999]", '{"a": 1, "a": 2}'])
def test_json_without_a_usable_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"too large|twice"):
        parse_value(text)


def test_pairs_keep_their_order_and_split_at_the_first_equals_sign() -> None:
    assert parse_pairs(["b=1", "a=x=y", "empty="], option="--arg") == {"b": 1, "a": "x=y", "empty": ""}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        pytest.param(["path"], "--arg 'path' is not of the form NAME=VALUE", id="no-equals-sign"),
        pytest.param(["=x"], "--arg '=x' is not of the form NAME=VALUE", id="no-name"),
        pytest.param(["a=1", "a=2"], "--arg 'a' is given twice", id="twice"),
        pytest.param(["a=1e999"], "--arg 'a': the number 1e999 is too large", id="not-finite"),
    ],
)
def test_bad_pairs_are_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=r"^--arg") as caught:
        parse_pairs(pairs, option="--arg")
    assert message in str(caught.value)


def test_only_tool_calls_carry_empty_arguments() -> None:
    who = Principal(role="guest")
    assert build_request(who, Asked("tool", "call", "bash")).context == {"args": {}}
    assert build_request(who, Asked("model", "use", "large")).context == {}
    assert build_request(who, Asked("model", "use", "large"), {"n": 1}).context == {"args": {"n": 1}}
