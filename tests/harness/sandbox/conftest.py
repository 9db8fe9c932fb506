from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandboxes import PROVIDERS, provider_of


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make a provider whose threads lie below `tmp_path`: ``make("local", network=True)``."""
    made: list[Any] = []

    def build(name: str, base_dir: Path | None = None, **settings: Any) -> Any:
        made.append(provider_of(name, base_dir or tmp_path / "state", **settings))
        return made[-1]

    yield build
    for one in made:
        one.close()


@pytest.fixture(params=PROVIDERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sandbox(make: Callable[..., Any], kind: str) -> Any:
    """The environment of a thread, of each provider in turn."""
    return make(kind).acquire("t1", "ada")


@pytest.fixture
def files(make: Callable[..., Any]) -> Any:
    """An environment for tests of its files, which are the same code in every provider."""
    return make("local").acquire("t1", "ada")
