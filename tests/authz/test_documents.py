"""YAML is read strictly: what would surprise an operator is refused with its line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.authz.documents import DocumentError, did_you_mean, parse_document, read_document


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("a: yes\nb: on\nc: 12:30\n", {"a": "yes", "b": "on", "c": "12:30"}, id="yaml-1.2-words"),
        pytest.param(
            "a: true\nb: 7\nc: 1.5\nd: ~\ne: ''\n", {"a": True, "b": 7, "c": 1.5, "d": None, "e": ""}, id="types"
        ),
        pytest.param("a: [x, {b: c}]\n", {"a": ["x", {"b": "c"}]}, id="nested"),
        pytest.param("", None, id="empty"),
        pytest.param("# nothing\n", None, id="only-a-comment"),
        pytest.param("\ufeffa: b\n", {"a": "b"}, id="byte-order-mark"),
        pytest.param("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}, id="crlf"),
    ],
)
def test_reads(text: str, data: object, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode())
    assert read_document(path).data == data


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        pytest.param("a: 1\na: 2\n", 2, "stands here twice", id="duplicate-key"),
        pytest.param("a: &x 1\n", 1, "anchor", id="anchor"),
        pytest.param("a: &x [1]\nb: *x\n", 1, "alias", id="alias"),
        pytest.param("1: a\n", 1, "the key '1' is not text", id="number-as-key"),
        pytest.param("a: 1\ntrue: b\n", 2, "the key 'true' is not text", id="bool-as-key"),
        pytest.param("a: 2024-01-01\n", 1, "would be read as timestamp", id="date"),
        pytest.param("a: !!python/object:os.system x\n", 1, "would be read as", id="tag"),
        pytest.param("a: b\nc: [d\n", 3, "not valid YAML", id="unclosed"),
        pytest.param("a: b\n\tc: d\n", 2, "not valid YAML", id="tab"),
        pytest.param("a: b\n--- \nc: d\n", 2, "not valid YAML", id="two-documents"),
        pytest.param("[" * 100 + "]" * 100, 1, "maximum depth", id="too-deep"),
    ],
)
def test_refuses_with_the_line(text: str, line: int, says: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document(text, file="x.yaml")
    joined = str(caught.value)
    assert says in joined
    assert f"x.yaml:{line}:" in joined


def test_positions_and_quoting() -> None:
    document = parse_document("a:\n  - x\n  - 'y'\nb: {c: yes}\n", file="x.yaml")
    assert document.line(("a", 1)) == 3
    assert document.line(("b", "c", "deeper", 0)) == 4
    assert ("b", "c") in document.unquoted
    assert ("a", 1) not in document.unquoted


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(lambda p: None, "no such file", id="missing"),
        pytest.param(lambda p: p.mkdir(), "is a directory", id="folder"),
        pytest.param(lambda p: p.write_bytes(b"a: b\nc: \xff\n"), "x.yaml:2: is not UTF-8", id="not-utf-8"),
    ],
)
def test_unreadable_files(make: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    make(path)  # type: ignore[operator]
    with pytest.raises(DocumentError, match=says):
        read_document(path, file="x.yaml")


@given(st.text(max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(DocumentError):
        parse_document(text, file="x")


@pytest.mark.parametrize(
    ("name", "known", "want"),
    [
        ("fail_closd", ["fail_closed", "enabled"], "did you mean 'fail_closed'?"),
        ("ENABLED", ["fail_closed", "enabled"], "did you mean 'enabled'?"),
        ("zzz", ["b", "a"], "known: b, a"),
        ("zzz", [], ""),
    ],
)
def test_did_you_mean(name: str, known: list[str], want: str) -> None:
    assert did_you_mean(name, known) == want
