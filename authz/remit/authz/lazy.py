"""Names of a package that are imported at first use, so that importing the package costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Args:
        package: Its own ``__name__``.
        homes: Name -> module that defines it, relative to the package (``".module"``) or absolute.
    """
    space = vars(sys.modules[package])

    def resolved(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = space[name] = getattr(import_module(home, package), name)
        return value

    def names() -> list[str]:
        return sorted({*space, *homes})

    return resolved, names
