"""Every requirement sentence that we claim has a test, and the test is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from remit.authz.documents import read_document

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = read_document(ROOT / "tests" / "requirements.yaml").data["requirements"]


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test"))


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["id"] for entry in ENTRIES])
def test_the_sentence_is_tested(entry: dict[str, object]) -> None:
    assert set(entry) == {"id", "says", "tests"}
    named = entry["tests"]
    assert isinstance(named, list)
    assert named, "a requirement without a test"
    for test in named:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), f"{file} is not there"
        assert name in names_in(file), f"{file} has no test {name!r}"


def test_ids_are_unique() -> None:
    ids = [entry["id"] for entry in ENTRIES]
    assert len(ids) == len(set(ids))
