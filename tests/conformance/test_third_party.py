"""A third party's provider under the kit: by class, in all the ways a provider may wait."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.support.world_provider import WorldProvider

from remit.authz.errors import ConfigError, ProviderError
from remit.authz.provider import AuthorizationProvider
from remit.authz.testing import ProviderContract, World, check_provider
from remit.authz.types import AuthzDecision, AuthzRequest, Explanation


class TestComputing(ProviderContract):
    @pytest.fixture
    def provider(self) -> WorldProvider:
        return WorldProvider(self.world.rules)


class TestWithoutConditionsAndAsks(ProviderContract):
    world = World(conditions=False, asks=False, resources=("tool",))

    @pytest.fixture
    def provider(self) -> WorldProvider:
        return WorldProvider(self.world.rules)


class Blocking(WorldProvider):
    """Waits in the calling thread, as a synchronous client does."""

    blocking = True
    _never = threading.Event()

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        self._never.wait(0.0005)
        return super().authorize(request)


class TestBlocking(ProviderContract):
    @pytest.fixture
    def provider(self) -> WorldProvider:
        return Blocking(self.world.rules)


class Full(WorldProvider):
    """Waits on the event loop, offers every capability, and can break."""

    blocking = True
    policy_version = "v1"
    broken = False

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        if self.broken:
            raise ProviderError("the engine is gone")
        answer = super().authorize(request)
        return AuthzDecision(
            answer.allow, answer.reasons, policy_version=self.policy_version, obligations=answer.obligations
        )

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        for _ in range(3):
            await asyncio.sleep(0)
        return self.authorize(request)

    def filter_resources(self, principal: object, resource_type: str, candidates: list[str]) -> list[str]:
        if self.broken:
            raise ProviderError("the engine is gone")
        return super().filter_resources(principal, resource_type, candidates)  # type: ignore[arg-type]

    def validate_role(self, role: str, *, field: str) -> None:
        if role not in {key[0] for key in self.rules}:
            raise ConfigError(f"{field}: unknown role {role!r}")

    def explain(self, request: AuthzRequest) -> Explanation:
        return Explanation(request=request, decision=self.authorize(request))

    async def aclose(self) -> None:
        await asyncio.sleep(0)


class TestFull(ProviderContract):
    @pytest.fixture
    def provider(self) -> Full:
        return Full(self.world.rules)

    def sabotage(self, provider: AuthorizationProvider) -> None:
        assert isinstance(provider, Full)
        provider.broken = True


def test_nothing_is_left_out_for_a_provider_that_offers_everything() -> None:
    report = check_provider(lambda: Full(World().rules), sabotage=lambda provider: setattr(provider, "broken", True))
    assert [result.case.id for result in report.left_out] == ["waiting/claims-not-to-block"]  # it does not claim that
    assert report.failed == ()
    assert report.ok
