from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.policies import Policy, Row


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., Policy]:
    """Make a policy of rows: ``policy(allow("guest", "search"))``."""

    def make(*rows: Row, **options: Any) -> Policy:
        return Policy(tmp_path, rows, **options)

    return make
