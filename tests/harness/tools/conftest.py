from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandboxes import provider_of
from tests.support.tool_worlds import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def build(kind: str = "local", **settings: Any) -> World:
        made.append(World(tmp_path, provider_of(kind, tmp_path / "state", **settings), **settings))
        return made[-1]

    yield build
    for one in made:
        one.provider.close()
