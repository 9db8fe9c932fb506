"""File patterns: what they match, and that no pattern is slow."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.harness.sandbox.globs import MAX_PATTERN, Glob, escaped


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.py", ["a.py", "ab.py"], ["a.pyc", "d/a.py", ".py", ".a.py"]),
        ("**", ["a", "a/b", "a/b/c"], [".a", "a/.b", ".a/b"]),
        ("**/a", ["a", "b/a", "b/c/a"], ["b", "b/.c/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["b", "a", "ab"]),
        ("a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("**/**/**/a", ["a", "b/a"], ["b"]),
        ("?", ["a", "é"], ["ab", "."]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
        ("[!a-c]x", ["dx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]]", ["]"], ["["]),
        ("[a", ["[a"], ["a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("a{b,c}d", ["abd", "acd"], ["ad", "a{b,c}d"]),
        ("a{b,c{d,e}}", ["ab", "acd", "ace"], ["ac"]),
        ("{a}", ["{a}"], ["a"]),
        ("a{,b}", ["a", "ab"], ["b"]),
        ("{a,b", ["{a,b"], ["a"]),
        ("{src,test}/**/*.{ts,tsx}", ["src/a.ts", "test/b/c.tsx"], ["doc/a.ts", "src/a.js"]),
        ("[{]a,b}", ["{a,b}"], ["a"]),
        (".*", [".env"], ["env"]),
        (".git/**", [".git/config"], [".github/x"]),
        ("./a//b", ["a/b"], ["b"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
    ],
)
def test_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in matching if not glob.matches(path.split("/"))] == []
    assert [path for path in others if glob.matches(path.split("/"))] == []
    for path in matching:
        parts = path.split("/")
        assert all(glob.may_lie_below(parts[:end]) for end in range(1, len(parts)))


@pytest.mark.parametrize(
    "pattern", ["", "..", "a/../b", "{a,..}/b", "x" * (MAX_PATTERN + 1), "{a,b}" * 7, "{" * 90 + ",}" * 90]
)
def test_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="file pattern"):
        Glob(pattern)


def test_folders_that_need_not_be_entered() -> None:
    glob = Glob("src/*.py")
    assert glob.may_lie_below(["src"])
    assert not glob.may_lie_below(["doc"])
    assert not glob.may_lie_below(["src", "deep"])


@pytest.mark.parametrize("pattern", ["*a" * 400 + "b", "**/" * 300 + "b", "*" * 1000, "{a*,b*}" * 6 + "c", "?*" * 500])
def test_no_pattern_is_slow(pattern: str) -> None:
    glob = Glob(pattern)
    began = time.perf_counter()
    assert not glob.matches(["a" * 255] * 60)
    assert time.perf_counter() - began < 1


@given(pattern=st.text("ab*?[]!-.", min_size=1, max_size=8), name=st.text("ab.-]", min_size=1, max_size=8))
def test_one_part_agrees_with_the_standard_library(pattern: str, name: str) -> None:
    if pattern in (".", "..") or name in (".", ".."):
        return
    expected = fnmatch.fnmatchcase(name, pattern) and not (name.startswith(".") and not pattern.startswith("."))
    assert Glob(pattern).matches([name]) is (False if pattern == "**" and name.startswith(".") else expected)


@given(st.text("ab*?[]{},.-", min_size=1, max_size=8))
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    if name in (".", ".."):
        return
    assert Glob(escaped(name)).matches([name])
    assert not Glob(escaped(name)).matches([name + "x"])


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=10), max_size=5))
def test_any_pattern_is_understood_or_refused(pattern: str, parts: list[str]) -> None:
    try:
        glob = Glob(pattern)
    except ValueError:
        return
    glob.matches(parts)
    glob.may_lie_below(parts)
