"""The trace of a decision from a provider that may be anybody's code."""

from __future__ import annotations

from remit.authz.errors import AuthzError, ProviderError
from remit.authz.provider import Explains
from remit.authz.types import AuthzRequest, Explanation


def traced(provider: Explains, request: AuthzRequest) -> Explanation:
    """What `provider` explains.

    Raises:
        ProviderError: It raised, or answered with something else.
    """
    name = getattr(provider, "name", type(provider).__name__)
    try:
        answer = provider.explain(request)
    except AuthzError as exc:
        raise ProviderError(f"the provider {name!r} cannot explain this: {exc}") from exc
    except Exception as exc:
        raise ProviderError(f"the provider {name!r} cannot explain this: {type(exc).__name__}: {exc}") from exc
    if not isinstance(answer, Explanation):
        raise ProviderError(f"the provider {name!r} explained with {type(answer).__name__}, not with an Explanation")
    return answer
