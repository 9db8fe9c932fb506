"""Commands and the verdicts they must get. The commands are data: they go to the classifier and to nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.middlewares.sandbox_audit import classify

HERE = Path(__file__).parent


def rows(name: str) -> list[tuple[str, str]]:
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [(line[:5].strip(), line[7:].replace("⏎", "\n")) for line in lines if line and not line.startswith("# ")]


@pytest.mark.parametrize(("verdict", "command"), rows("verdict_table.txt"))
def test_the_table(verdict: str, command: str) -> None:
    found = classify(command)
    assert found.verdict == verdict, found


def test_the_table_is_whole() -> None:
    assert len(rows("verdict_table.txt")) == 149


@pytest.mark.parametrize(("verdict", "command"), rows("reported.txt"))
def test_what_was_reported(verdict: str, command: str) -> None:
    found = classify(command)
    assert found.verdict == verdict, found


@pytest.mark.parametrize(("verdict", "command"), rows("attacks.txt"))
def test_attacks(verdict: str, command: str) -> None:
    found = classify(command)
    assert found.verdict == verdict, found
