"""From a name in the configuration to an instance: entry points and class paths, and nothing is imported too early."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import Any, Final

from remit.authz.config import AuthorizationConfig, OncePerConfig, ProviderConfig
from remit.authz.documents import did_you_mean
from remit.authz.errors import ConfigError
from remit.authz.provider import AuthorizationProvider, GuardrailProvider, ValidatesRole

PROVIDERS: Final = "remit.providers"
"""Entry-point group of authorization providers."""
GUARDRAILS: Final = "remit.guardrails"
"""Entry-point group of explicit guardrails."""

_Path = tuple[str | int, ...]


def resolve_authorization_provider(config: AuthorizationConfig) -> AuthorizationProvider | None:
    """Build the provider that `config` names: a new instance on every call.

    Returns:
        None when authorization is disabled; the provider's module is then never imported.

    Raises:
        ConfigError: It cannot be found, built, is no `AuthorizationProvider`, or does not know `default_role`.
    """
    if config.enabled is not True:
        return None
    at = ("authorization", "provider")
    if config.provider is None:
        raise ConfigError(config.problem(at, "names no provider", "add one", code="missing"))
    provider: AuthorizationProvider = _Builder(PROVIDERS, config).build(config.provider, at)
    _require(provider, AuthorizationProvider, config, config.provider.use, at)
    if config.default_role is not None and isinstance(provider, ValidatesRole):
        field = "authorization.default_role"
        try:
            provider.validate_role(config.default_role, field=field)
        except ConfigError as exc:
            what = str(exc).removeprefix(f"{field}: ")
            raise ConfigError(config.problem(tuple(field.split(".")), what, code="unknown-role")) from exc
    return provider


def shared_provider(config: AuthorizationConfig) -> AuthorizationProvider | None:
    """The one provider instance that serves this configuration object, built at the first call.

    Raises:
        ConfigError: As `resolve_authorization_provider`; a failure is not remembered.
    """
    if config.enabled is not True:
        return None
    return _build_once(config)


_build_once = OncePerConfig(resolve_authorization_provider)


def resolve_guardrail_provider(config: AuthorizationConfig) -> GuardrailProvider | None:
    """Build the explicit guardrail of `config.guardrails`; None when guardrails are disabled.

    Raises:
        ConfigError: It cannot be found, built, or is no `GuardrailProvider`.
    """
    section = config.guardrails
    if section.enabled is not True or section.provider is None:
        return None
    at = ("guardrails", "provider")
    provider: GuardrailProvider = _Builder(GUARDRAILS, config).build(section.provider, at)
    _require(provider, GuardrailProvider, config, section.provider.use, at)
    return provider


def _require(provider: Any, protocol: type, config: AuthorizationConfig, use: str, at: _Path) -> None:
    """Refuse what does not have the members of `protocol`, by name: a missing method must not surface at a decision."""
    methods = [name for name in vars(protocol) if not name.startswith("_") and callable(getattr(protocol, name))]
    missing = [name for name in methods if not callable(getattr(provider, name, None))]
    if not isinstance(getattr(provider, "name", None), str):
        missing.insert(0, "name")
    if missing:
        lacks = ", ".join(missing)
        what = f"{use!r} gave a {type(provider).__name__}, which is no {protocol.__name__}: it lacks {lacks}"
        advice = "implement them; remit.authz.testing checks the rest"
        raise ConfigError(config.problem((*at, "use"), what, advice, code="not-a-provider"))


class _Builder:
    def __init__(self, group: str, config: AuthorizationConfig) -> None:
        self.group, self.config = group, config

    def build(self, spec: ProviderConfig, at: _Path) -> Any:
        target = self._target(spec.use, (*at, "use"))
        if not isinstance(target, type):
            what = f"{spec.use!r} is a {type(target).__name__}, not a class"
            raise self._problem((*at, "use"), what, "name the class")
        options = {name: self._nested(value, (*at, "config", name)) for name, value in spec.config.items()}
        from_config = getattr(target, "from_config", None)
        try:
            if callable(from_config):
                return from_config(options, **self._surroundings(from_config))
            return target(**options)
        except ConfigError as exc:
            if exc.problems:
                raise ConfigError(exc.problems) from exc
            raise self._problem((*at, "config"), f"{spec.use!r} cannot be built: {exc}", "") from exc
        except Exception as exc:
            what = f"{spec.use!r} cannot be built: {type(exc).__name__}: {exc}"
            raise self._problem((*at, "config"), what, "correct its config") from exc

    def _surroundings(self, from_config: Callable[..., Any]) -> dict[str, Any]:
        """The folder of the configuration, and the extra resource types for who has a parameter for them."""
        around: dict[str, Any] = {"base_dir": self.config.base_dir}
        if "resources" in signature(from_config).parameters:
            around["resources"] = self.config.vocabulary.resources
        return around

    def _nested(self, value: Any, at: _Path) -> Any:
        if isinstance(value, Mapping) and "use" in value and set(value) <= {"use", "config"}:
            use, config = value["use"], value.get("config", {})
            if not isinstance(use, str) or not isinstance(config, Mapping):
                raise self._problem(at, "must be {use: name, config: {...}}", "correct it")
            return self.build(ProviderConfig(use=use, config=dict(config)), at)
        if isinstance(value, list):
            return [self._nested(item, (*at, index)) for index, item in enumerate(value)]
        return value

    def _target(self, use: str, at: _Path) -> Any:
        if ":" in use:
            return self._class_path(use, at)
        found: dict[str, dict[str, EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            found.setdefault(entry.name, {})[entry.value] = entry
        candidates = found.get(use, {})
        if not candidates:
            advice = did_you_mean(use, sorted(found)) + " (or a class path, package.module:Class)"
            raise self._problem(at, f"no installed distribution registers {use!r} in {self.group!r}", advice)
        if len(candidates) > 1:
            what = f"{use!r} is registered more than once: {', '.join(sorted(candidates))}"
            raise self._problem(at, what, "uninstall all but one; nobody may guess which one decides access")
        ((value, entry),) = candidates.items()
        try:
            return entry.load()
        except Exception as exc:
            what = f"{use!r} ({value}) cannot be imported: {type(exc).__name__}: {exc}"
            raise self._problem(at, what, _missing_extra(exc)) from exc

    def _class_path(self, use: str, at: _Path) -> Any:
        module, _, attribute = use.partition(":")
        try:
            target: Any = import_module(module)
            for part in attribute.split("."):
                target = getattr(target, part)
        except Exception as exc:
            what = f"{use!r} cannot be imported: {type(exc).__name__}: {exc}"
            raise self._problem(at, what, "write it as package.module:Class") from exc
        return target

    def _problem(self, at: _Path, message: str, advice: str) -> ConfigError:
        return ConfigError(self.config.problem(at, message, advice, code="provider"))


def _missing_extra(exc: Exception) -> str:
    package = (exc.name or "").partition(".")[0] if isinstance(exc, ModuleNotFoundError) else ""
    extra = {"httpx2": "remote", "langchain": "agent", "langchain_core": "agent", "langgraph": "agent"}.get(package)
    return f"install the extra: remit[{extra}]" if extra else "install the distribution that provides it"
