"""Which model a chat model object is: provider, endpoint and name."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from langchain_core.runnables import Runnable

from remit.middlewares.llm_errors.classification import attribute

_NAMES: Final = ("model_name", "model", "model_id", "deployment_name", "azure_deployment")
_ENDPOINTS: Final = ("openai_api_base", "anthropic_api_url", "base_url", "azure_endpoint", "endpoint_url", "endpoint")
_MAX_WRAPPERS: Final = 8


class ModelIdentity(NamedTuple):
    """What tells one model from another. Two endpoints with one kind of interface are two providers."""

    provider: str
    endpoint: str
    """May hold credentials: for comparison alone."""
    name: str


def identity_of(model: Any) -> ModelIdentity:
    """The identity of a model object; of the model inside of it when parameters were bound to it."""
    held = attribute(model, "__dict__") or {}  # looking an absent attribute up on a pydantic object is slow
    for _ in range(_MAX_WRAPPERS):
        inner = held.get("bound")
        if not isinstance(inner, Runnable):
            break
        model, held = inner, inner.__dict__
    provider = attribute(model, "_llm_type")
    return ModelIdentity(
        provider if isinstance(provider, str) else type(model).__name__,
        _first(held, _ENDPOINTS),
        _first(held, _NAMES) or type(model).__name__,
    )


def _first(held: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((str(value) for name in names if isinstance(value := held.get(name), str) and value), "")
