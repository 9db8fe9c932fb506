"""The installed release."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """Such as ``0.1.0``; ``unknown`` when the code runs without being installed."""
    try:
        return installed("remit")
    except PackageNotFoundError:
        return "unknown"
