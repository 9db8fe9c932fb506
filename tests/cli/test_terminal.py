"""What a person at a terminal sees: colour and tables there, and only there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ESCAPE = "\x1b["
COLOUR = "\x1b[1;31m"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "policies" / "tests").mkdir(parents=True)
    (tmp_path / "policies" / "authz.yaml").write_text(
        "authorization: {enabled: true, provider: {use: casbin, config: {policies: [policy.csv]}}}\n", encoding="utf-8"
    )
    (tmp_path / "policies" / "policy.csv").write_text(
        "p, role:guest, tool, read_file, call, allow,\np, role:guest, tool, '[red]x', call, deny,\n", encoding="utf-8"
    )
    return tmp_path


def on_terminal(folder: Path, *argv: str, **settings: str) -> str:
    """What the console script writes when stdout is a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    env = kept | {"TERM": "xterm-256color", "COLUMNS": "200"} | settings
    script = Path(sys.executable).with_name("remit")
    with subprocess.Popen([script, *argv], cwd=folder, stdout=theirs, stderr=subprocess.PIPE, env=env) as running:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other end is closed: on Linux that is an error
                break
            if not chunk:
                break
            chunks.append(chunk)
        assert running.stderr is not None
        assert running.stderr.read() == b""
    os.close(ours)
    return b"".join(chunks).decode().replace("\r\n", "\n")


DENIED = ("check", "--role", "guest", "tool:call:[red]x")


def test_terminal_shows_colour(policy: Path) -> None:
    assert on_terminal(policy, *DENIED).startswith(f"{COLOUR}deny\x1b[0m tool:call:[red]x\n")


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["no-color", "dumb"])
def test_colour_can_be_switched_off(policy: Path, setting: dict[str, str]) -> None:
    text = on_terminal(policy, *DENIED, **setting)
    assert COLOUR not in text
    assert "deny" in text


def test_terminal_draws_tables(policy: Path) -> None:
    text = on_terminal(policy, "explain", "--role", "guest", "tool:call:read_file", NO_COLOR="1")
    assert "effect" in text
    assert "───" in text


def test_help_is_drawn_on_a_terminal_alone(policy: Path) -> None:
    text = on_terminal(policy, "--help", NO_COLOR="1")
    assert "╭─" in text
    assert "Commands" in text


@pytest.mark.parametrize("style", ["text", "json"])
def test_pipe_gets_neither_colour_nor_tables(policy: Path, style: str) -> None:
    script = Path(sys.executable).with_name("remit")
    for command in ("check", "explain"):
        argv = [script, command, *DENIED[1:], "--format", style]
        done = subprocess.run(argv, cwd=policy, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 3
        assert ESCAPE not in done.stdout
        assert "───" not in done.stdout


def test_json_on_a_terminal_stays_json(policy: Path) -> None:
    assert ESCAPE not in on_terminal(policy, *DENIED, "--format", "json")
