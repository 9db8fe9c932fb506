"""From `sandbox.use` to a provider. What was asked for is built, or nothing is."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, Final

from remit.authz.documents import did_you_mean
from remit.authz.errors import ConfigError
from remit.runtime.config import AppConfig
from remit.runtime.sandboxes import SandboxProvider, SandboxUnavailableError

BUILT_IN: Final = ("bubblewrap", "local")
_METHODS: Final = ("acquire", "get", "release", "close")
_LOG: Final = logging.getLogger("remit.harness")


def build_sandbox_provider(config: AppConfig) -> SandboxProvider:
    """Build the provider that `config.sandbox` names.

    Raises:
        ConfigError: There is none of that name, it cannot be built, or bubblewrap cannot run on this machine. Another
            one is never taken instead.
    """
    use, options = config.sandbox.use, config.sandbox.config
    if ":" in use:
        return _from_class_path(config, use)
    if use not in BUILT_IN:
        advice = did_you_mean(use, BUILT_IN) + " (or a class path, package.module:Class)"
        raise _problem(config, f"there is no sandbox {use!r}", advice, code="unknown-sandbox")
    if options:
        names = ", ".join(map(repr, sorted(options)))
        what = f"the sandbox {use!r} takes no keys of its own, got {names}"
        raise _problem(config, what, "its settings stand beside `use`", at="config")
    if use == "local":
        from remit.harness.sandbox.local import LocalSandboxProvider

        _LOG.warning("the sandbox 'local' does not isolate: commands can do whatever this user can")
        return LocalSandboxProvider(config.sandbox)
    from remit.harness.sandbox.bubblewrap import BubblewrapSandboxProvider

    try:
        return BubblewrapSandboxProvider(config.sandbox)
    except SandboxUnavailableError as exc:
        advice = "or choose `local`, which does not isolate"
        raise _problem(config, str(exc), advice, code="sandbox-unavailable") from exc


def _from_class_path(config: AppConfig, use: str) -> SandboxProvider:
    module, _, attribute = use.partition(":")
    try:
        target: Any = import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except Exception as exc:
        what = f"{use!r} cannot be imported: {type(exc).__name__}: {exc}"
        raise _problem(config, what, "write it as package.module:Class") from exc
    if not isinstance(target, type):
        raise _problem(config, f"{use!r} is a {type(target).__name__}, not a class", "name the class")
    try:
        made: Any = target(**config.sandbox.config)
    except Exception as exc:
        what = f"{use!r} cannot be built: {type(exc).__name__}: {exc}"
        raise _problem(config, what, "correct its config", at="config") from exc
    missing = [name for name in _METHODS if not callable(getattr(made, name, None))]
    if not isinstance(getattr(made, "uses_thread_data_mounts", None), bool):
        missing.append("uses_thread_data_mounts")
    if missing:
        what = f"{use!r} gave a {type(made).__name__}, which is no sandbox provider: it lacks {', '.join(missing)}"
        raise _problem(config, what, "implement them")
    provider: SandboxProvider = made
    return provider


def _problem(config: AppConfig, what: str, advice: str, *, at: str = "use", code: str = "sandbox") -> ConfigError:
    return ConfigError(config.problem(("sandbox", at), what, advice, code=code))
