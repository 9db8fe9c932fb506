"""The kit for pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from remit.authz.provider import AuthorizationProvider
from remit.authz.testing.cases import Case, all_cases
from remit.authz.testing.runner import run_case
from remit.authz.testing.world import World


class ProviderContract:
    """Subclass this, name the class ``Test…`` and override `provider`: every case becomes a test.

    Set `world` when the provider cannot know all of it; the cases that need the rest are then not collected. Override
    `sabotage` when its engine can break.

    Example:
        ```python
        class TestAcme(ProviderContract):
            world = World(asks=False)

            @pytest.fixture
            def provider(self, tmp_path):
                return AcmeProvider(rules=write_rules(tmp_path, self.world.rules))
        ```
    """

    world: ClassVar[World] = World()

    @pytest.fixture
    def provider(self) -> AuthorizationProvider:
        """A fresh provider that knows the rules of `world` and no other. The kit closes it."""
        raise NotImplementedError(
            f"{type(self).__name__} must override the fixture `provider`; its world is:\n{self.world}"
        )

    def sabotage(self, provider: AuthorizationProvider) -> None:
        """Break the engine of `provider`, so that every question to it must raise."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each case that applies in `world`."""
        if "case" in metafunc.fixturenames:
            applying = [case for case in all_cases() if case.missing(self.world) is None]
            metafunc.parametrize("case", applying, ids=[case.id for case in applying])

    def test_conforms(
        self, case: Case, provider: AuthorizationProvider, record_property: Callable[[str, object], None]
    ) -> None:
        """The provider keeps the promise of one case."""
        overridden = type(self).sabotage is not ProviderContract.sabotage
        result = run_case(case, provider, self.world, self.sabotage if overridden else None)
        if result.status == "left out":  # an optional capability that is not offered breaks no promise
            record_property("left_out", "; ".join(result.complaints))
        elif result.status == "failed":
            pytest.fail(str(result), pytrace=False)
