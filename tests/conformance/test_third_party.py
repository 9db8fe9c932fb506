from __future__ import annotations

import pytest
from tests.support.world_provider import WorldProvider

from remit.authz.testing import ProviderContract, World


class TestWorldProvider(ProviderContract):
    @pytest.fixture
    def provider(self) -> WorldProvider:
        return WorldProvider(self.world.rules)


class TestWorldProviderWithoutConditionsAndAsks(ProviderContract):
    world = World(conditions=False, asks=False, resources=("tool",))

    @pytest.fixture
    def provider(self) -> WorldProvider:
        return WorldProvider(self.world.rules)
