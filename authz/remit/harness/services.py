"""What the agents of one deployment share: policy brain, sandboxes, explicit guardrail, projection of skills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from remit.authz.config import AuthorizationConfig, state_dir
from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError
from remit.authz.gates.sandbox import aauthorize_sandbox_execution, authorize_sandbox_execution
from remit.authz.provider import GuardrailProvider
from remit.authz.registry import resolve_guardrail_provider
from remit.harness.sandbox import build_sandbox_provider
from remit.harness.skills_projection import SkillsProjection
from remit.runtime.config import AppConfig
from remit.runtime.sandboxes import SandboxAccess, SandboxProvider


@dataclass(frozen=True)
class Services:
    """Made once per configuration and shared by every agent built from it."""

    config: AppConfig
    enforcer: Enforcer
    access: SandboxAccess
    guardrail: GuardrailProvider | None
    projection: SkillsProjection | None

    @classmethod
    def from_config(cls, config: AppConfig, *, sandboxes: SandboxProvider | None = None) -> Services:
        """Build everything that `config` names.

        Args:
            config: The settings.
            sandboxes: Instead of the provider that `config.sandbox` names.

        Raises:
            ConfigError: Something cannot be built, or the policy lies where an agent could write it.
        """
        refuse_writable_policy(config)
        enforcer = Enforcer.from_config(config.authz)
        provider = sandboxes if sandboxes is not None else build_sandbox_provider(config)
        return cls(
            config,
            enforcer,
            guarded_access(provider, config.authz, enforcer),
            resolve_guardrail_provider(config.authz),
            _projection(config),
        )


def guarded_access(provider: SandboxProvider, authz: AuthorizationConfig, enforcer: Enforcer) -> SandboxAccess:
    """The door to `provider` behind the sandbox gate, which asks the very instance that decides tool calls."""
    if not enforcer.enabled:
        return SandboxAccess(provider)
    return SandboxAccess(
        provider,
        gate=partial(authorize_sandbox_execution, config=authz, provider=enforcer.provider),
        agate=partial(aauthorize_sandbox_execution, config=authz, provider=enforcer.provider),
    )


def refuse_writable_policy(config: AppConfig) -> None:
    """Policy, settings and records must be out of the reach of what they restrain and record.

    Raises:
        ConfigError: One of them lies inside of the folders that threads and sandboxes write.
    """
    if not config.authz.enabled:
        return
    threads = (state_dir() / "users").resolve()
    for place, what in _trusted_places(config):
        resolved = place.resolve()
        if resolved == threads or threads in resolved.parents:
            raise ConfigError(
                config.problem(
                    ("authz_file",),
                    f"{what} {str(place)!r} lies where agents can write ({str(threads)!r})",
                    "move it, or set REMIT_STATE_DIR to a folder elsewhere",
                    code="policy-in-reach",
                )
            )


def _trusted_places(config: AppConfig) -> Iterator[tuple[Path, str]]:
    authz = config.authz
    yield authz.base_dir, "the policy folder"
    yield config.base_dir, "the settings folder"
    yield state_dir() / authz.ledger.path, "the decision log"
    for section in (authz.provider, authz.guardrails.provider):
        for text in _texts(section.config if section is not None else ()):
            if (named := authz.base_dir / text).exists():
                yield named, "the policy file"


def _texts(value: Any) -> Iterator[str]:
    """Every string in nested settings: a provider's own keys may name files anywhere."""
    if isinstance(value, str):
        if value and len(value) < 1024 and "\x00" not in value:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _projection(config: AppConfig) -> SkillsProjection | None:
    if config.skills.path is None:
        return None
    return SkillsProjection(config.base_dir / config.skills.path)
