"""`remit demo` shows what happens, exits with 0 only when that is what the policy says, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.readme import block

from remit.cli import main

REMIT = Path(sys.executable).with_name("remit")


def play(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REMIT, "demo"], cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], float, Path]:
    """The demo played in an empty folder: how it ended, how many seconds it took, the folder."""
    folder = tmp_path_factory.mktemp("demo")
    started = time.monotonic()
    return play(folder), time.monotonic() - started, folder


@pytest.mark.slow
def test_demo_is_what_the_readme_shows(played: tuple[subprocess.CompletedProcess[str], float, Path]) -> None:
    ended, seconds, folder = played
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    assert ended.stdout == block("text", "One agent, one policy")
    assert seconds < 15
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_demo_fits_a_screen_and_shows_every_kind_of_answer(
    played: tuple[subprocess.CompletedProcess[str], float, Path],
) -> None:
    lines = played[0].stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if "the model sees" in line] == ["guest", "user", "admin"]
    calls = [line.split() for line in lines if line.startswith("  ") and line.split()[0] in TOOLS]
    assert [call[0] for call in calls] == [*TOOLS, *TOOLS, *TOOLS, "bash", "bash"]
    assert {call[1].rstrip(",") for call in calls} == {"allowed", "asked", "denied"}
    assert [call[1] for call in calls[-2:]] == ["allowed", "denied"]
    assert any(".csv:" in word or ".yaml:" in word for word in calls[0])


TOOLS = ("web_search", "write_file", "bash", "send_email")


@pytest.mark.slow
def test_settings_of_the_surroundings_do_not_reach_the_demo(tmp_path: Path) -> None:
    state = tmp_path / "state"
    played = play(tmp_path, REMIT_AUTHORIZATION__ENABLED="false", REMIT_STATE_DIR=str(state))
    assert played.returncode == 0, played.stderr
    assert played.stdout == block("text", "One agent, one policy")
    assert not state.exists()


def test_demo_of_an_unguarded_agent_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("remit.cli._demo_agent.guard", lambda enforcer: [])
    monkeypatch.setattr("remit.authz.enforcer.Enforcer.visible_tools", lambda self, tools, context=None: list(tools))
    assert main(["demo"]) == 1
    said = capsys.readouterr()
    assert "What happened differs from what the policy says." in said.out
    assert "demo: guest: shown" in said.err
    assert "demo: guest: bash" in said.err
