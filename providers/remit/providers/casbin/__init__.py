"""Casbin policies as the policy brain: files read strictly, compiled into an index, replaced whole when they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.providers.casbin.engine.functions import pure
    from remit.providers.casbin.provider import CasbinAuthorizationProvider

__all__ = ["CasbinAuthorizationProvider", "pure"]


def __getattr__(name: str) -> Any:
    if name == "CasbinAuthorizationProvider":
        from remit.providers.casbin.provider import CasbinAuthorizationProvider

        return CasbinAuthorizationProvider
    if name == "pure":
        from remit.providers.casbin.engine.functions import pure

        return pure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
