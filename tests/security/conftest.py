from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.leads import Deployment
from tests.support.policies import Policy, Row


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., Policy]:
    """Make a policy of rows: ``policy(allow("guest", "search"))``."""

    def make(*rows: Row, **options: Any) -> Policy:
        return Policy(tmp_path, rows, **options)

    return make


@pytest.fixture
def deploy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Deployment]]:
    """Make a deployment of lead agents: ``deploy(roles_yaml, rows=csv)``."""
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    made: list[Deployment] = []

    def make(*args: Any, **options: Any) -> Deployment:
        made.append(Deployment(tmp_path, *args, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
