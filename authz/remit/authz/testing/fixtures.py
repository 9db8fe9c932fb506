"""Fixtures for tests of tools: put ``pytest_plugins = ["remit.authz.testing.fixtures"]`` into the top conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def disarm() -> Iterator[Callable[..., None]]:
    """``disarm(tool, …)`` lets tools run without any decision, for the rest of this test.

    A tool that was handed to a guard refuses to run outside of a guarded run, everywhere in the process. A unit test of
    its body calls this first. Tools that refused before refuse again afterwards.
    """
    from remit.authz.gates import arming

    refused_before: list[Any] = []

    def release(*tools: Any) -> None:
        refused_before.extend(tool for tool in tools if arming.is_armed(tool))
        arming.disarm(tools)

    yield release
    arming.arm(refused_before)
