"""What every test of the command line starts from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.cli import Cli


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, without settings from the environment of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("REMIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
