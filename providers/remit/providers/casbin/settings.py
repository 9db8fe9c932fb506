"""The provider's arguments, checked: they come from a configuration file as often as from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from remit.authz.documents import did_you_mean
from remit.authz.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a provider was asked to load, and how."""

    policies: tuple[str | Path, ...]
    model: str | Path | None
    request: tuple[str, ...] | None
    watch: bool
    base_dir: Path
    allow_slow: bool
    functions: Mapping[str, Callable[..., Any]]
    resources: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """Absolute paths of every named file, links not resolved: what a watch must look at."""
        named = (*self.policies, *([] if self.model is None else [self.model]))
        return tuple(Path(os.path.abspath(self.base_dir / name)) for name in named)

    @classmethod
    def checked(cls, **given: Any) -> Self:
        """Settings from keyword arguments.

        Raises:
            ConfigError: One is unknown, or its value has another type. All problems at once.
        """
        known = [field.name for field in fields(cls)]
        problems = [f"unknown key {name!r}; {did_you_mean(name, known)}" for name in given if name not in known]
        check = _Checks(problems)
        settings = cls(
            policies=check.files("policies", given["policies"]),
            model=check.file("model", given["model"]),
            request=None if given["request"] is None else check.texts("request", given["request"]),
            watch=check.flag("watch", given["watch"]),
            base_dir=Path(os.path.abspath(check.file("base_dir", given["base_dir"]) or ".")),
            allow_slow=check.flag("allow_slow", given["allow_slow"]),
            functions=check.functions(given["functions"]),
            resources=check.texts("resources", given["resources"]),
        )
        if problems:
            raise ConfigError("; ".join(problems))
        return settings


class _Checks:
    def __init__(self, problems: list[str]) -> None:
        self.problems = problems

    def flag(self, key: str, value: Any) -> bool:
        if type(value) is not bool:
            self.problems.append(f"{key!r} must be true or false, got {value!r}")
        return value is True

    def file(self, key: str, value: Any) -> str | Path | None:
        if value is None or (isinstance(value, (str, Path)) and str(value)):
            return value
        self.problems.append(f"{key!r} must be a path, got {value!r}")
        return None

    def files(self, key: str, value: Any) -> tuple[str | Path, ...]:
        items = self._list(key, value, "list the policy files, for example [roles.yaml, policy.csv]")
        return tuple(found for item in items if (found := self.file(f"{key}[]", item)) is not None)

    def texts(self, key: str, value: Any) -> tuple[str, ...]:
        items = self._list(key, value, "write a list of texts")
        if wrong := [item for item in items if not isinstance(item, str)]:
            self.problems.append(f"{key!r} must hold texts only, got {wrong[0]!r}")
        return tuple(item for item in items if isinstance(item, str))

    def _list(self, key: str, value: Any, advice: str) -> Sequence[Any]:
        if isinstance(value, (list, tuple)):
            return value
        self.problems.append(f"{key!r} must be a list, got {value!r}; {advice}")
        return ()

    def functions(self, value: Any) -> Mapping[str, Callable[..., Any]]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problems.append(f"'functions' must map names to functions, got {value!r}")
            return {}
        found: dict[str, Callable[..., Any]] = {}
        for name, target in value.items():
            if not isinstance(name, str) or not name.isidentifier():
                self.problems.append(f"'functions' has the name {name!r}, which no matcher can call")
            elif isinstance(target, str):
                self._import(name, target, found)
            elif callable(target):
                found[name] = target
            else:
                self.problems.append(f"'functions.{name}' must be a function or 'module:name', got {target!r}")
        return found

    def _import(self, name: str, path: str, found: dict[str, Callable[..., Any]]) -> None:
        module, _, attribute = path.partition(":")
        try:
            target = getattr(import_module(module), attribute)
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}"
            self.problems.append(f"'functions.{name}': {path!r} cannot be imported ({reason}); write 'module:name'")
            return
        if callable(target):
            found[name] = target
        else:
            self.problems.append(f"'functions.{name}': {path!r} is no function")
