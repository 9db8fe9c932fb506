"""The operator's own tools, by class path."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from langchain_core.tools import BaseTool

from remit.authz.errors import ConfigError
from remit.runtime.config import AppConfig


def load_tools(config: AppConfig) -> list[Any]:
    """The tools that the section `tools` names, in its order.

    An entry names a tool, a list of tools, or a function without parameters that returns either.

    Raises:
        ConfigError: One cannot be imported, or is no tool; with file, line and what it is instead.
    """
    out: list[Any] = []
    for index, entry in enumerate(config.tools):
        try:
            found = _resolved(entry.use)
        except Exception as exc:
            raise ConfigError(
                config.problem(
                    ("tools", index, "use"),
                    f"{entry.use!r} cannot be loaded: {type(exc).__name__}: {exc}",
                    "install its package, or correct the path `module:name`",
                    code="tool-path",
                )
            ) from exc
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        for tool in listed:
            if not isinstance(tool, (BaseTool, dict)):
                raise ConfigError(
                    config.problem(
                        ("tools", index, "use"),
                        f"{entry.use!r} is no tool but a {type(tool).__qualname__}",
                        "name a LangChain tool, a list of them, or a function that returns them",
                        code="tool-path",
                    )
                )
        out += listed
    return out


def _resolved(path: str) -> Any:
    module, _, name = path.partition(":")
    found = getattr(import_module(module), name)
    if callable(found) and not isinstance(found, (BaseTool, type)):
        return found()
    return found
