"""Commands from everyday work, none of which may be a matter of concern."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.middlewares.sandbox_audit import classify

COMMANDS = [
    line.replace("⏎", "\n")
    for line in (Path(__file__).parent / "everyday.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("# ")
]


def test_there_are_enough() -> None:
    assert len(set(COMMANDS)) >= 300


@pytest.mark.parametrize("command", COMMANDS)
def test_it_passes(command: str) -> None:
    found = classify(command)
    assert found.verdict == "pass", found
    assert found.findings == ()
    assert (found.rule_id, found.span, found.message) == (None, None, "")


def test_they_pass_one_after_the_other() -> None:
    """In one script, what one command leaves behind does not harm the next."""
    simple = [
        one
        for one in COMMANDS
        if "\n" not in one and not one.startswith(("set ", "cd ", "exec ", "trap ")) and " & " not in one
    ]
    for start in range(0, len(simple), 40):
        found = classify("\n".join(simple[start : start + 40]))
        assert found.verdict == "pass", found
