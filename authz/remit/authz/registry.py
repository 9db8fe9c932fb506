"""From a name in the configuration to an instance: entry points and class paths, and nothing is imported too early."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from remit.authz.config import AuthorizationConfig, ProviderConfig
from remit.authz.documents import did_you_mean
from remit.authz.errors import ConfigError, Problem
from remit.authz.provider import AuthorizationProvider, GuardrailProvider, ValidatesRole

PROVIDERS: Final = "remit.providers"
"""Entry-point group of authorization providers."""
GUARDRAILS: Final = "remit.guardrails"
"""Entry-point group of explicit guardrails."""

_shared: WeakKeyDictionary[AuthorizationConfig, AuthorizationProvider] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def resolve_authorization_provider(config: AuthorizationConfig) -> AuthorizationProvider | None:
    """Build the provider that `config` names: a new instance on every call.

    Returns:
        None when authorization is disabled; the provider's module is then never imported.

    Raises:
        ConfigError: It cannot be found, built, is no `AuthorizationProvider`, or does not know `default_role`.
    """
    if config.enabled is not True:
        return None
    if config.provider is None:
        raise ConfigError(
            Problem(config.source, 0, "names no provider", "add one", "missing", "authorization.provider")
        )
    builder = _Builder(PROVIDERS, config.source, config.base_dir)
    provider = builder.build(config.provider, "authorization.provider")
    _require(provider, AuthorizationProvider, config.provider.use, config.source, "authorization.provider")
    if config.default_role is not None and isinstance(provider, ValidatesRole):
        provider.validate_role(config.default_role, field="authorization.default_role")
    checked: AuthorizationProvider = provider
    return checked


def shared_provider(config: AuthorizationConfig) -> AuthorizationProvider | None:
    """The one provider instance that serves this configuration object, built at the first call.

    Raises:
        ConfigError: As `resolve_authorization_provider`; a failure is not remembered.
    """
    if config.enabled is not True:
        return None
    found = _shared.get(config)
    if found is None:
        with _shared_lock:
            found = _shared.get(config)
            if found is None:
                found = resolve_authorization_provider(config)
                assert found is not None  # noqa: S101 - an enabled configuration resolves or raises
                _shared[config] = found
    return found


def resolve_guardrail_provider(config: AuthorizationConfig) -> GuardrailProvider | None:
    """Build the explicit guardrail of `config.guardrails`; None when guardrails are disabled.

    Raises:
        ConfigError: It cannot be found, built, or is no `GuardrailProvider`.
    """
    section = config.guardrails
    if section.enabled is not True or section.provider is None:
        return None
    builder = _Builder(GUARDRAILS, config.source, config.base_dir)
    provider = builder.build(section.provider, "guardrails.provider")
    _require(provider, GuardrailProvider, section.provider.use, config.source, "guardrails.provider")
    checked: GuardrailProvider = provider
    return checked


def _require(provider: Any, protocol: type, use: str, source: str, key: str) -> None:
    """Refuse what does not have the members of `protocol`, by name: a missing method must not surface at a decision."""
    methods = [name for name in vars(protocol) if not name.startswith("_") and callable(getattr(protocol, name))]
    missing = [name for name in methods if not callable(getattr(provider, name, None))]
    if not isinstance(getattr(provider, "name", None), str):
        missing.insert(0, "name")
    if missing:
        what = (
            f"{use!r} gave a {type(provider).__name__}, which is no {protocol.__name__}: it lacks {', '.join(missing)}"
        )
        advice = "implement them; remit.authz.testing checks the rest"
        raise ConfigError(Problem(source, 0, what, advice, "not-a-provider", f"{key}.use"))


class _Builder:
    def __init__(self, group: str, source: str, base_dir: Path) -> None:
        self.group, self.source, self.base_dir = group, source, base_dir

    def build(self, spec: ProviderConfig, key: str) -> Any:
        target = self._target(spec.use, f"{key}.use")
        if not isinstance(target, type):
            raise self._problem(
                f"{key}.use", f"{spec.use!r} is a {type(target).__name__}, not a class", "name the class"
            )
        options = {name: self._nested(value, f"{key}.config.{name}") for name, value in spec.config.items()}
        from_config = getattr(target, "from_config", None)
        try:
            if callable(from_config):
                return from_config(options, base_dir=self.base_dir)
            return target(**options)
        except ConfigError as exc:
            if exc.problems:
                raise ConfigError(exc.problems) from exc
            raise self._problem(f"{key}.config", f"{spec.use!r} cannot be built: {exc}", "correct its config") from exc
        except Exception as exc:
            raise self._problem(
                f"{key}.config", f"{spec.use!r} cannot be built: {type(exc).__name__}: {exc}", "correct its config"
            ) from exc

    def _nested(self, value: Any, key: str) -> Any:
        if isinstance(value, Mapping) and "use" in value and set(value) <= {"use", "config"}:
            use, config = value["use"], value.get("config", {})
            if not isinstance(use, str) or not isinstance(config, Mapping):
                raise self._problem(key, "must be {use: name, config: {...}}", "correct it")
            return self.build(ProviderConfig(use=use, config=dict(config)), key)
        if isinstance(value, list):
            return [self._nested(item, f"{key}[{index}]") for index, item in enumerate(value)]
        return value

    def _target(self, use: str, key: str) -> Any:
        if ":" in use:
            return self._class_path(use, key)
        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            found.setdefault(entry.name, []).append(entry)
        candidates = {entry.value: entry for entry in found.get(use, [])}
        if not candidates:
            advice = did_you_mean(use, found) + " (or a class path, module:Class)"
            raise self._problem(key, f"no installed distribution registers {use!r} in {self.group!r}", advice)
        if len(candidates) > 1:
            raise self._problem(
                key, f"{use!r} is registered more than once: {', '.join(sorted(candidates))}", "uninstall all but one"
            )
        (entry,) = candidates.values()
        try:
            return entry.load()
        except Exception as exc:
            raise self._problem(key, f"{use!r} ({entry.value}) cannot be imported: {exc}", self._extra(exc)) from exc

    def _class_path(self, use: str, key: str) -> Any:
        module, _, attribute = use.partition(":")
        try:
            target: Any = import_module(module)
            for part in attribute.split("."):
                target = getattr(target, part)
        except Exception as exc:
            raise self._problem(
                key, f"{use!r} cannot be imported: {type(exc).__name__}: {exc}", "write it as package.module:Class"
            ) from exc
        return target

    @staticmethod
    def _extra(exc: Exception) -> str:
        if isinstance(exc, ModuleNotFoundError) and (exc.name or "").split(".")[0] in _EXTRAS:
            extra = _EXTRAS[(exc.name or "").split(".")[0]]
            return f"install the extra: remit[{extra}]"
        return "install the distribution that provides it"

    def _problem(self, key: str, message: str, advice: str) -> ConfigError:
        return ConfigError(Problem(self.source, 0, message, advice, "provider", key))


_EXTRAS: Final = {"httpx2": "remote", "langchain": "agent", "langchain_core": "agent", "langgraph": "agent"}
