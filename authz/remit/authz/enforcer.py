"""The facade: one provider, one judge, one decision log, for every enforcement point of a process."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from remit.authz.judge import Judge
from remit.authz.principal import build_principal_from_context
from remit.authz.provider import AuthorizationProvider
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Principal

if TYPE_CHECKING:
    from remit.authz.config import AuthorizationConfig
    from remit.authz.ledger import DecisionLog

log = logging.getLogger("remit.authz")

_DISABLED: Final = AuthzDecision(True, (AuthzReason("authz.disabled", "authorization is disabled"),))
_UNRECORDED: Final = AuthzDecision(
    False, (AuthzReason("authz.unrecorded", "the decision could not be recorded and ledger.required is set"),)
)


class Enforcer:
    """Decides for every enforcement point. Safe to share between threads and tasks.

    Never raises for a provider's failure: that becomes a decision (`fail_closed`). Signals of the agent runtime and
    cancellation pass through.

    Args:
        provider: The policy brain; None means that authorization is disabled and everything is allowed.
        default_role: Role of a caller who has none.
        fail_closed: Whether a failing provider denies.
        deadline: Seconds that a blocking or remote provider may take for one answer.
        ledger: Where decisions are recorded; None records nothing.
    """

    def __init__(
        self,
        provider: AuthorizationProvider | None,
        *,
        default_role: str | None,
        fail_closed: bool = True,
        deadline: float = 2.0,
        ledger: DecisionLog | None = None,
    ) -> None:
        self.provider = provider
        self.default_role = default_role
        self.fail_closed = fail_closed
        self.deadline = deadline
        self.ledger = ledger
        self.judge = Judge(fail_closed=fail_closed, deadline=deadline)

    @classmethod
    def from_config(cls, config: AuthorizationConfig) -> Enforcer:
        """Build provider and decision log from a loaded configuration.

        Raises:
            ConfigError: The provider or the log cannot be built.
        """
        from remit.authz.registry import shared_provider

        provider = shared_provider(config)
        ledger = None
        if provider is not None and config.ledger.sink != "none":
            from remit.authz.ledger.log import shared_log

            ledger = shared_log(config)
        return cls(
            provider,
            default_role=config.default_role,
            fail_closed=config.fail_closed,
            deadline=config.deadline_ms / 1000,
            ledger=ledger,
        )

    @property
    def enabled(self) -> bool:
        """Whether there is a policy brain to ask."""
        return self.provider is not None

    @property
    def policy_version(self) -> str:
        """The version of the policy in force now; ``"unknown"`` when the provider does not say."""
        version = getattr(self.provider, "policy_version", None)
        return version if isinstance(version, str) else "unknown"

    def principal(self, context: Any) -> Principal:
        """Who runs, by the one builder.

        Raises:
            TypeError: The identity in `context` is malformed.
            ValueError: As before; gates turn both into a denial of that call.
        """
        return build_principal_from_context(context, default_role=self.default_role)

    def decide(self, request: AuthzRequest) -> AuthzDecision:
        """One judged, recorded decision."""
        if self.provider is None:
            return _DISABLED
        if self.ledger is None:
            return self.judge.decide(self.provider, request)
        started = time.perf_counter_ns()
        decision = self.judge.decide(self.provider, request)
        return self._recorded(request, decision, started)

    async def adecide(self, request: AuthzRequest) -> AuthzDecision:
        """`decide` for the event loop."""
        if self.provider is None:
            return _DISABLED
        started = time.perf_counter_ns()
        decision = await self.judge.adecide(self.provider, request)
        return decision if self.ledger is None else self._recorded(request, decision, started)

    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """What `principal` may ever use of `candidates`, in their order."""
        if self.provider is None:
            return list(candidates)
        return self.judge.filter(self.provider, principal, resource, candidates)

    async def afilter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """`filter` for the event loop."""
        if self.provider is None:
            return list(candidates)
        return await self.judge.afilter(self.provider, principal, resource, candidates)

    def visible_tools(self, tools: Sequence[Any], context: Any = None) -> list[Any]:
        """Prepare `tools` for an agent: armed in place, duplicates refused, filtered for the caller in `context`.

        Without a context all tools are returned: the guard then filters at every model call. Needs the extra ``agent``.

        Raises:
            ConfigError: Two tools share a name.
        """
        if self.provider is None:
            return list(tools)
        from remit.authz.gates.arming import arm, refuse_duplicates
        from remit.authz.gates.tools import tool_name

        refuse_duplicates(tools)
        arm(tools)
        if context is None:
            return list(tools)
        try:
            principal = self.principal(context)
        except (TypeError, ValueError) as exc:
            log.warning("authz.malformed_identity: no tool is shown: %s", exc)
            return []
        names = [tool_name(tool) for tool in tools]
        shown = set(self.filter(principal, "tool", [name for name in names if name]))
        return [tool for tool, name in zip(tools, names, strict=True) if name in shown]

    def acting(self, context: Any) -> AbstractContextManager[None]:
        """A scope in which the host's own code may call armed tools directly; every call in it is decided.

        Raises:
            TypeError: The identity in `context` is malformed.
            ValueError: As before.
        """
        from remit.authz.gates.arming import acting_frame

        return acting_frame(self, context)

    def _recorded(self, request: AuthzRequest, decision: AuthzDecision, started: int) -> AuthzDecision:
        assert self.ledger is not None  # noqa: S101 - callers have looked
        kept = self.ledger.record(request, decision, latency_ns=time.perf_counter_ns() - started)
        return decision if kept else _UNRECORDED
