"""What a stack of middlewares says of itself: everything in its settings that changes how an agent behaves."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from langchain.agents.middleware.types import AgentMiddleware

from remit.middlewares.fusion import original_class
from remit.runtime.release import canonical_hash, canonical_json

__all__ = ["canonical_hash", "canonical_json", "collect_release_policies", "declaration_of"]

_METHOD: Final = "release_policy_parameters"
_MAX_WRAPPERS: Final = 4


def collect_release_policies(middlewares: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Class name -> declaration, for every middleware that has one, in the order of the stack.

    A second one of a class is ``Name#2``. Wrappers are looked through, up to four of them, along their ``inner``. A
    declaration that fails, or that has no JSON form, is ``{"error": <type of the exception>}``; one that is no mapping
    is ``{"error": "NonMappingDeclaration"}``.

    Args:
        middlewares: A stack, fused or not. A middleware declares with a method ``release_policy_parameters``.
    """
    found: dict[str, dict[str, Any]] = {}
    seen: dict[str, int] = {}
    for middleware in middlewares:
        slot = _unwrapped(middleware)
        if not callable(_attribute(slot, _METHOD)):
            continue
        name = original_class(slot).__name__
        seen[name] = seen.get(name, 0) + 1
        found[name if seen[name] == 1 else f"{name}#{seen[name]}"] = declaration_of(slot)
    return found


def declaration_of(slot: Any) -> dict[str, Any]:
    """What `slot` declares, or what is wrong with it. Never raises."""
    try:
        declared = getattr(slot, _METHOD)()
        if inspect.iscoroutine(declared):
            declared.close()
        if not isinstance(declared, Mapping):
            return {"error": "NonMappingDeclaration"}
        declared = dict(declared)
        canonical_json(declared)
    except Exception as exc:
        return {"error": type(exc).__name__}
    return declared


def _unwrapped(middleware: Any) -> Any:
    for _ in range(_MAX_WRAPPERS):
        inner = _attribute(middleware, "inner")
        if not (isinstance(inner, AgentMiddleware) or callable(_attribute(inner, _METHOD)) or _wraps(inner)):
            break
        middleware = inner
    return middleware


def _wraps(inner: Any) -> bool:
    """Whether `inner` is one more wrapper: a plain value of that name is none."""
    return _attribute(inner, "inner") is not None


def _attribute(value: Any, name: str) -> Any:
    try:
        return cast("Any", getattr(value, name, None))
    except Exception:
        return None
