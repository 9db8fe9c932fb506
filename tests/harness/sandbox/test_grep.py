"""Searching in files: what is found, and that no expression takes for ever."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.support.sandboxes import WORKSPACE

from remit.harness.sandbox import confined, searching
from remit.runtime.sandboxes import GrepMatch, SandboxFileError


@pytest.fixture
def tree(files: Any) -> Any:
    files.write_file("a.py", "import os\nprint('ä')\n")
    files.write_file("b/c.py", "x = 1\r\nimport re")
    files.write_file("b/d.md", "import nothing\n")
    files.write_file(".hidden/e.py", "import secret\n")
    files.write_file("b/.env", "import secret\n")
    files.write_bytes("binary", b"import\x00import\n")
    files.write_bytes("latin", b"import \xff\n")
    return files


def places(found: list[GrepMatch]) -> list[str]:
    return [f"{match.path.removeprefix(WORKSPACE + '/')}:{match.line}" for match in found]


@pytest.mark.parametrize(
    ("pattern", "options", "found"),
    [
        ("import", {}, ["a.py:1", "b/c.py:2", "b/d.md:1", "latin:1"]),
        (r"^import\s+\w+$", {}, ["a.py:1", "b/c.py:2", "b/d.md:1"]),
        ("import", {"include": "*.py"}, ["a.py:1", "b/c.py:2"]),
        (r"imp.rt", {"include": "*.{py,md}"}, ["a.py:1", "b/c.py:2", "b/d.md:1"]),
        ("import", {"include": "b/**/*.py"}, ["b/c.py:2"]),
        ("import", {"path": "b"}, ["b/c.py:2", "b/d.md:1"]),
        ("import", {"path": f"{WORKSPACE}/b/c.py"}, ["b/c.py:2"]),
        ("i.port", {"path": "b/c.py", "include": "*.md"}, ["b/c.py:2"]),
        ("import", {"path": ".hidden"}, [".hidden/e.py:1"]),
        ("import", {"include": ".env"}, ["b/.env:1"]),
        ("import", {"limit": 2}, ["a.py:1", "b/c.py:2"]),
        ("im.ort", {"limit": 2}, ["a.py:1", "b/c.py:2"]),
        ("'ä'", {}, ["a.py:2"]),
        ("[äö]", {}, ["a.py:2"]),
        ("(?i)IMPORT OS", {}, ["a.py:1"]),
        ("nothing here", {}, []),
        ("-e", {}, []),
        ("--", {}, []),
        ("x = 1", {}, ["b/c.py:1"]),
        ("1$", {}, ["b/c.py:1"]),
    ],
)
def test_found(tree: Any, pattern: str, options: dict[str, Any], found: list[str]) -> None:
    assert places(tree.grep(pattern, **options)) == found


def test_a_match_is_one_line_of_bounded_length(files: Any) -> None:
    files.write_file("long", "a" * 100_000 + "needle" + "b" * 100_000 + "\n")
    for pattern in ("needle", "needl[e]"):
        (match,) = files.grep(pattern)
        assert match == GrepMatch(f"{WORKSPACE}/long", 1, "a" * 500)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "is no regular expression: missing \\)"),
        ("a{99999999999999999999}", "is no regular expression"),
        ("*a", "is no regular expression: nothing to repeat"),
        ("", "1 to 2000 characters"),
        ("a" * 2001, "1 to 2000 characters"),
        ("(" * 1000 + ")" * 1000, "is no regular expression|failed"),
    ],
    ids=["open", "huge", "star", "empty", "long", "nested"],
)
def test_no_expression(tree: Any, pattern: str, problem: str) -> None:
    with pytest.raises(SandboxFileError, match=problem):
        tree.grep(pattern)


def test_an_expression_that_never_ends(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_SECONDS", 0.3)
    files.write_file("a", "a" * 50)
    began = time.perf_counter()
    with pytest.raises(SandboxFileError, match=r"took longer than 0.3 s; write a simpler expression"):
        files.grep("(a+)+$b")
    assert time.perf_counter() - began < 3


def test_a_search_in_too_much(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_file("a", "x")
    monkeypatch.setattr(searching, "MAX_SECONDS", -1.0)
    with pytest.raises(SandboxFileError, match="took longer"):
        files.grep("x")


def test_bounds(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        files.write_file(name, "x\n")
    monkeypatch.setattr(confined, "MAX_SEARCHED", 2)
    assert places(files.grep("x")) == ["a:1", "b:1"]
    assert places(files.grep("x+")) == ["a:1", "b:1"]
