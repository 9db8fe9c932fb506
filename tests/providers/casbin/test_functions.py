"""The matching functions: Casbin's meaning where they restrict, a narrower one where they grant."""

from __future__ import annotations

import random
from typing import Any

import pytest
from casbin.util import builtin_operators as stock

from remit.providers.casbin.engine.functions import BUILTINS, compile_match, literal_head, time_match
from remit.providers.casbin.engine.globs import collapse

STOCK: dict[str, Any] = {
    "keyMatch": stock.key_match,
    "keyMatch2": stock.key_match2,
    "keyMatch3": stock.key_match3,
    "keyMatch4": stock.key_match4,
    "keyMatch5": stock.key_match5,
    "regexMatch": stock.regex_match,
    "globMatch": stock.glob_match,
}
VALUES = [
    "a",
    "b",
    "/",
    "/",
    "//",
    ".",
    "x1",
    "*",
    "mcp_",
    "-",
    "\n",
    "?",
    "q=1",
    "{",
    "}",
    ":",
    " ",
    "Z",
    "%",
    "+",
    "(",
]
VALUES += [")", "|", "[", "]", "!", "\\", "..", ",", "~", "é"]
PATTERNS = [
    "a",
    "b",
    "/",
    "/",
    "*",
    "**",
    "/*",
    "/*",
    "/**",
    ":id",
    ":x",
    "{id}",
    "{x}",
    "{",
    "}",
    ".",
    "?",
    "[ab]",
    "[!a]",
]
PATTERNS += ["[", "|", "(", ")", "+", "mcp_", "x1", "-", "{a,b}", "^", "$", "\\", "!", ",", "~", "é", "//", "*/", " "]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # some random patterns are doubtful regular expressions
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(STOCK))
def test_own_reading_is_casbins_and_strict_is_narrower(name: str) -> None:
    rng = random.Random(name)
    matched = 0
    for _ in range(1500):
        pattern = "".join(rng.choices(PATTERNS, k=rng.randrange(0, 5)))
        try:
            own, strict = (compile_match(name, pattern, strict=strict) for strict in (False, True))
        except ValueError:
            continue
        for _ in range(6):
            value = "".join(rng.choices(VALUES, k=rng.randrange(0, 5)))
            if rng.random() < 0.4:
                value = pattern.replace("*", rng.choice(["", "x", "x/y"])).replace(":id", "7").replace("{id}", "7")
            expected = STOCK[name](value, pattern)
            assert own(value) is expected, (pattern, value)
            assert not strict(value) or expected, (pattern, value)
            if expected:
                matched += 1
                key = collapse(value) if name == "globMatch" else value
                assert key.startswith(literal_head(name, pattern)), (pattern, value)
    assert matched > 100


STRICT = [
    pytest.param("keyMatch2", "/api/v1.0/users", "/api/v1X0/users", False, id="dot-is-a-dot"),
    pytest.param("keyMatch2", "/api/v1.0/users", "/api/v1.0/users", True, id="itself"),
    pytest.param("keyMatch2", "/api/runs", "/api/runs\n", False, id="newline-at-the-end"),
    pytest.param("keyMatch2", "/files/*", "/files", False, id="star-needs-its-slash"),
    pytest.param("keyMatch2", "/files/*", "/files/", True, id="star-may-be-empty"),
    pytest.param("keyMatch2", "/files/*", "/files/a/b", True, id="star-goes-deep"),
    pytest.param("keyMatch2", "/u/:id/x", "/u/7/x", True, id="colon"),
    pytest.param("keyMatch2", "/u/:id/x", "/u/7/8/x", False, id="colon-is-one-segment"),
    pytest.param("keyMatch2", "*", "anything/at all", True, id="lone-star"),
    pytest.param("keyMatch2", "/api/memos*", "/api/memos", True, id="star-after-a-letter"),
    pytest.param("keyMatch2", "/api/memos*", "/api/memo", False, id="star-is-no-quantifier"),
    pytest.param("keyMatch3", "/u/{id}", "/u/7", True, id="braces"),
    pytest.param("keyMatch3", "/u+/{id}", "/uu/7", False, id="plus-is-a-plus"),
    pytest.param("keyMatch4", "/p/{id}/c/{id}", "/p/1/c/1", True, id="same-twice"),
    pytest.param("keyMatch4", "/p/{id}/c/{id}", "/p/1/c/2", False, id="different-twice"),
    pytest.param("keyMatch5", "/p/{id}", "/p/1?x=2", True, id="query-is-ignored"),
    pytest.param("keyMatch5", "/p.x", "/pax?x=2", False, id="dot-with-query"),
    pytest.param("regexMatch", "GET", "GET", True, id="regex"),
    pytest.param("regexMatch", "GET", "GETALL", False, id="regex-to-the-end"),
    pytest.param("regexMatch", "(GET)|(POST)", "POST", True, id="alternatives"),
    pytest.param("regexMatch", "^GET$", "GET\n", False, id="dollar-before-newline"),
    pytest.param("keyMatch", "mcp_*", "mcp_x", True, id="prefix"),
    pytest.param("keyMatch", "mcp_*", "mcp", False, id="shorter-than-the-prefix"),
    pytest.param("globMatch", "web/*", "web/a", True, id="glob"),
    pytest.param("globMatch", "web/*", "web/a/b", False, id="glob-stops-at-slash"),
    pytest.param("globMatch", "web/**", "web/a/b", True, id="two-stars-do-not"),
    pytest.param("globMatch", "web/**", "web", True, id="two-stars-match-the-folder"),
    pytest.param("globMatch", "*", ".env", False, id="hidden"),
    pytest.param("globMatch", "a", "a\n", False, id="glob-newline"),
    pytest.param("ipMatch", "10.0.0.0/8", "10.1.2.3", True, id="network"),
    pytest.param("ipMatch", "10.0.0.0/8", "11.1.2.3", False, id="other-network"),
    pytest.param("ipMatch", "10.0.0.0/8", "::1", False, id="other-family"),
]


@pytest.mark.parametrize(("name", "pattern", "value", "expected"), STRICT)
def test_strict_reading(name: str, pattern: str, value: str, expected: bool) -> None:
    assert compile_match(name, pattern, strict=True)(value) is expected


@pytest.mark.parametrize(
    ("name", "pattern", "words"),
    [
        pytest.param("regexMatch", "(", "regular expression", id="open-bracket"),
        pytest.param("keyMatch3", "*", "regular expression", id="lone-star-in-keymatch3"),
        pytest.param("keyMatch2", "/a/**", "regular expression", id="two-stars-in-keymatch2"),
        pytest.param("keyMatch4", "/a/(b)/{c}", "brackets", id="brackets-in-keymatch4"),
        pytest.param("globMatch", "{1..5000}", "glob", id="too-many-alternatives"),
        pytest.param("globMatch", "a,b/**", "comma", id="comma-that-becomes-an-alternative"),
        pytest.param("ipMatch", "10.0.0.0/33", "never match", id="no-network"),
        pytest.param("timeMatch", "_", "no pattern", id="not-a-pattern-function"),
    ],
)
def test_patterns_that_cannot_be_read(name: str, pattern: str, words: str) -> None:
    for strict in (True, False):
        with pytest.raises(ValueError, match=words):
            compile_match(name, pattern, strict=strict)


def test_a_value_that_is_no_address_is_an_error() -> None:
    with pytest.raises(ValueError, match="alice"):
        compile_match("ipMatch", "10.0.0.0/8", strict=True)("alice")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param("_", "_", True, id="open"),
        pytest.param("0001-01-01 00:00:00", "9999-12-30 00:00:00", True, id="inside"),
        pytest.param("0001-01-01 00:00:00", "0001-01-02 00:00:00", False, id="over"),
        pytest.param("9999-12-30 00:00:00", "_", False, id="not-yet"),
    ],
)
def test_time_match(start: str, end: str, expected: bool) -> None:
    assert time_match(start, end) is expected
    assert stock.time_match_func(start, end) is expected


def test_time_match_refuses_other_forms() -> None:
    with pytest.raises(ValueError, match="tomorrow"):
        time_match("_", "tomorrow")


def test_every_function_of_casbin_is_known() -> None:
    from casbin.model import FunctionMap

    assert set(FunctionMap.load_function_map().get_functions()) == set(BUILTINS)
