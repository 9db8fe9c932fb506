"""Everything that can be said about a policy without asking it anything: one list of problems, sorted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from remit.authz.config import AuthorizationConfig, load_config
from remit.authz.errors import ConfigError, Problem, ProviderError
from remit.authz.provider import PolicyTools
from remit.authz.registry import resolve_guardrail_provider
from remit.authz.tooling.capabilities import listed_rules
from remit.authz.tooling.catalog import CATALOG_FILE, Catalog, load_catalog, names_outside
from remit.authz.tooling.location import PolicyLocation, find_test_files
from remit.authz.tooling.opening import opened
from remit.authz.tooling.policytests import load_policy_tests

T = TypeVar("T")
_REPORT: Final = "report this to its authors"


def lint(location: PolicyLocation, *, catalog: Path | None = None) -> list[Problem]:
    """Check configuration, policy, catalogue and policy tests. What depends on something broken is left out.

    Args:
        location: Which policy.
        catalog: The names that exist; None: the `catalog.yaml` beside the policy, if there is one.

    Returns:
        Problems of every severity, sorted, with file names that lead from the working directory to the files.
    """
    found = _Findings(str(location.file))
    config = found.of(lambda: load_config(location.file))
    path = catalog or location.folder / CATALOG_FILE
    known = found.of(lambda: load_catalog(path)) if catalog is not None or path.exists() else None
    if config is not None:
        if config.enabled or config.provider is not None:
            found.problems += found.of(lambda: _policy(config, known, str(location.file))) or []
        found.of(lambda: resolve_guardrail_provider(config))
        found.of(lambda: load_policy_tests(find_test_files(location), resources=config.vocabulary.resources))
    return location.shown(found.problems)


class _Findings:
    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def of(self, read: Callable[[], T]) -> T | None:
        """What `read` returns; None when it refuses, with its problems noted."""
        try:
            return read()
        except ConfigError as exc:
            self.problems += exc.problems or [Problem(self.file, 0, str(exc))]
            return None


def _policy(config: AuthorizationConfig, known: Catalog | None, file: str) -> list[Problem]:
    """What the provider says about its policy, and what the catalogue says about it."""
    with opened(config) as provider:
        problems = _linted(provider, file) if isinstance(provider, PolicyTools) else []
        try:
            rules = None if known is None else listed_rules(provider)
        except ProviderError as exc:
            return [*problems, Problem(file, 0, str(exc), _REPORT, "lint-failed")]
        return problems if known is None or rules is None else [*problems, *names_outside(known, rules)]


def _linted(provider: PolicyTools, file: str) -> list[Problem]:
    """What the provider's own lint says. It may be anybody's code: what it does wrong is a problem, too."""
    try:
        answer = provider.lint()
    except Exception as exc:
        message = f"the provider's lint failed: {type(exc).__name__}: {exc}"
        return [Problem(file, 0, message, _REPORT, "lint-failed")]
    if isinstance(answer, list) and all(isinstance(item, Problem) for item in answer):
        return answer
    return [Problem(file, 0, "the provider's lint did not answer with problems", _REPORT, "lint-failed")]
