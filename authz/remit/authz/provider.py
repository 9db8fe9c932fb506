"""What a policy brain promises (`AuthorizationProvider`), what it may promise on top, and the guardrail sibling.

Implementations live elsewhere: in `remit.providers` or in anybody's own package, found by class path or entry point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from remit.authz.types import (
    EMPTY,
    AuthzDecision,
    AuthzRequest,
    Explanation,
    Obligation,
    Principal,
    _frozen_mapping,
    _tuple_of,
)
from remit.authz.vocabulary import visibility_action

__all__ = [
    "AuthorizationProvider",
    "Closes",
    "Explains",
    "GuardrailDecision",
    "GuardrailProvider",
    "GuardrailReason",
    "GuardrailRequest",
    "PolicyTools",
    "ProviderBase",
    "SupportsAsyncFilter",
    "SupportsBatch",
    "ValidatesRole",
    "Versioned",
]


@runtime_checkable
class AuthorizationProvider(Protocol):
    """The policy brain. One instance serves every enforcement point of a process, from many threads and tasks at once.

    A provider may carry the attribute ``blocking`` (default True). True: sync calls are made in a bounded thread pool
    under the deadline. False: calls are made in place, without a deadline, because they only compute.
    """

    name: str

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        """Decide one request.

        Raises:
            ProviderError: The policy cannot be consulted now. Any other exception is treated alike: as a failure.
        """
        ...

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        """The same answer as `authorize`. Must not block the event loop."""
        ...

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        """Which of `candidates` may this principal *ever* use, with the arguments unknown?

        A name is kept when an allow or ask rule applies for some arguments and no unconditional deny applies.
        Conditions on arguments count as satisfiable in allow and ask rules and as not applicable in deny rules;
        conditions on the principal are evaluated.

        Returns:
            A new list: a subset of `candidates`, order and duplicates kept, nothing added.
        """
        ...


@runtime_checkable
class SupportsBatch(Protocol):
    """Many decisions in one call; answers in the order of the requests, one each."""

    def authorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]: ...
    async def aauthorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]: ...


@runtime_checkable
class SupportsAsyncFilter(Protocol):
    """`filter_resources` without blocking the event loop."""

    async def afilter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]: ...


@runtime_checkable
class Versioned(Protocol):
    """Knows which policy is in force now."""

    @property
    def policy_version(self) -> str: ...


@runtime_checkable
class ValidatesRole(Protocol):
    """Knows which roles exist."""

    def validate_role(self, role: str, *, field: str) -> None:
        """Accept a role that the policy knows.

        Args:
            role: The name to check.
            field: Where the name came from, for the message (``authorization.default_role``).

        Raises:
            ConfigError: The policy does not know the role.
        """
        ...


@runtime_checkable
class Explains(Protocol):
    """Can say why."""

    def explain(self, request: AuthzRequest) -> Explanation: ...


@runtime_checkable
class PolicyTools(Explains, Protocol):
    """Operator's tools that know the policy language. Results are what `remit lint` and its siblings print."""

    def lint(self) -> list[Any]:
        """Every `remit.authz.errors.Problem` of the loaded policy, warnings included, sorted."""
        ...


@runtime_checkable
class Closes(Protocol):
    """Holds connections, threads or watches that must be released."""

    async def aclose(self) -> None: ...


class ProviderBase:
    """Convenience base: implement `authorize` and get the rest.

    `aauthorize` runs `authorize` in a worker thread (in place when ``blocking`` is False), `filter_resources` asks
    `authorize` about each distinct candidate with the visibility action of the type and keeps what is allowed or
    asked, `authorize_many` is a loop. Override what your engine can do better.
    """

    name: str = "unnamed"
    blocking: bool = True

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        raise NotImplementedError(f"{type(self).__name__} must implement authorize(request) -> AuthzDecision")

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        if self.blocking:
            return await asyncio.to_thread(self.authorize, request)
        return self.authorize(request)

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        shown: dict[str, bool] = {}
        for name in candidates:
            if name not in shown:
                action = visibility_action(resource_type, name)
                decision = self.authorize(AuthzRequest(principal, resource_type, action, name))
                shown[name] = decision.allow is True or decision.asks
        return [name for name in candidates if shown[name]]

    async def afilter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        if self.blocking:
            return await asyncio.to_thread(self.filter_resources, principal, resource_type, candidates)
        return self.filter_resources(principal, resource_type, candidates)

    def authorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]:
        return [self.authorize(request) for request in requests]

    async def aauthorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]:
        return [await self.aauthorize(request) for request in requests]


@dataclass(frozen=True, slots=True)
class GuardrailReason:
    """Why a guardrail answered as it did."""

    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class GuardrailDecision:
    """A guardrail's answer. Like `AuthzDecision` it has no truth value and takes only True or False for `allow`."""

    allow: bool
    reasons: tuple[GuardrailReason, ...] = ()
    policy_id: str | None = None
    policy_version: str | None = None
    obligations: tuple[Obligation, ...] = ()
    metadata: Mapping[str, Any] = field(default=EMPTY)

    def __post_init__(self) -> None:
        if self.allow is not True and self.allow is not False:
            raise TypeError(f"allow must be True or False, got {type(self.allow).__name__} {self.allow!r}")
        object.__setattr__(self, "reasons", _tuple_of(GuardrailReason, "reasons", self.reasons))
        object.__setattr__(self, "obligations", _tuple_of(Obligation, "obligations", self.obligations))
        object.__setattr__(self, "metadata", _frozen_mapping("metadata", self.metadata))
        if self.allow and self.asks:
            raise ValueError("a decision that requires approval must have allow=False")

    def __bool__(self) -> bool:
        raise TypeError("a decision has no truth value; use `decision.allow is True`")

    @property
    def asks(self) -> bool:
        """True when a human must approve."""
        return any(o.type == "approval" for o in self.obligations)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailRequest:
    """One tool call on its way to the tool. Everything about the caller comes from the run context, nothing else."""

    tool_name: str
    tool_input: Mapping[str, Any]
    tool_call_id: str | None = None
    agent_id: str | None = None
    """The operator's passport for this agent (``guardrails.passport``)."""
    thread_id: str | None = None
    run_id: str | None = None
    is_subagent: bool = False
    timestamp: str = ""
    """ISO 8601, UTC."""
    user_id: str | None = None
    user_role: str | None = None
    oauth_provider: str | None = None
    oauth_id: str | None = None
    channel_user_id: str | None = None
    is_internal: bool = False
    authz_attributes: Any = None
    """As found in the context: whoever builds a `Principal` from it refuses what is not a Mapping."""
    tool: object = field(default=None, repr=False, compare=False)
    """The tool object, for identity checks in this process. Never serialised."""


@runtime_checkable
class GuardrailProvider(Protocol):
    """An explicit gate beside the policy, asked after it for every tool call."""

    name: str

    def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """Decide one call.

        Raises:
            Exception: Anything raised is a failure, judged by the operator's ``fail_closed``.
        """
        ...

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """The same answer as `evaluate`. Must not block the event loop."""
        ...
