"""The cases, one module per family."""

from __future__ import annotations

from importlib import import_module

NAMES = (
    "shape",
    "decisions",
    "arguments",
    "names",
    "visibility",
    "agreement",
    "purity",
    "waiting",
    "failures",
    "capabilities",
)


def load() -> None:
    """Import every family, which registers its cases."""
    for name in NAMES:
        import_module(f"{__name__}.{name}")
