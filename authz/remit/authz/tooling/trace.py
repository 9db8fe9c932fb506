"""The trace of a decision from a provider that may be anybody's code."""

from __future__ import annotations

from collections.abc import Callable

from remit.authz.errors import AuthzError, ProviderError
from remit.authz.types import AuthzRequest, Explanation


def traced(explain: Callable[[AuthzRequest], Explanation], request: AuthzRequest, *, provider: str) -> Explanation:
    """What `explain`, a method of the provider of that name, answers.

    Raises:
        ProviderError: It raised, or answered with something else.
    """
    try:
        answer = explain(request)
    except AuthzError as exc:
        raise ProviderError(f"the provider {provider!r} cannot explain this: {exc}") from exc
    except Exception as exc:
        raise ProviderError(f"the provider {provider!r} cannot explain this: {type(exc).__name__}: {exc}") from exc
    if not isinstance(answer, Explanation):
        raise ProviderError(f"the provider {provider!r} explained with {type(answer).__name__}, not an Explanation")
    return answer
