"""What tooling needs from a provider beyond the shared protocols. Providers fulfil these by shape, not by import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from remit.authz.errors import ProviderError
from remit.authz.provider import AuthorizationProvider
from remit.authz.types import AuthzRequest, Explanation


class ListedRule(Protocol):
    """One rule of the loaded policy, as far as tools can talk about it without knowing the policy language."""

    @property
    def policy_id(self) -> str:
        """As decisions name it: ``policy.csv:42``."""
        ...

    @property
    def text(self) -> str:
        """The rule as the operator wrote it; what an `Explanation` shows for the same rule."""
        ...

    @property
    def effect(self) -> Literal["allow", "deny", "ask"]: ...

    @property
    def resource(self) -> str | None:
        """The resource type that the rule is about; None when it is about several, or the model knows no such thing."""
        ...

    @property
    def target(self) -> str | None:
        """The name or pattern that the rule is about, or None when it is about everything."""
        ...

    def matches(self, name: str) -> bool:
        """Whether `target` covers the name of one thing."""
        ...


@runtime_checkable
class Traces(Protocol):
    """Can say quickly which rules took part in a decision, without looking for changes that would alter it."""

    def trace(self, request: AuthzRequest) -> Explanation: ...


@runtime_checkable
class ListsRules(Protocol):
    """Can enumerate its rules: what rule coverage and the comparison with a catalogue need."""

    def rules(self) -> Sequence[ListedRule]: ...


def listed_rules(provider: AuthorizationProvider) -> Sequence[ListedRule] | None:
    """The rules of `provider`; None when it cannot list them.

    Raises:
        ProviderError: It should, but raised.
    """
    if not isinstance(provider, ListsRules):
        return None
    try:
        return provider.rules()
    except Exception as exc:
        what = f"the provider {provider.name!r} cannot list its rules: {type(exc).__name__}: {exc}"
        raise ProviderError(what) from exc
