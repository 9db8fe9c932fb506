"""Layer 2's bridge: an authorization provider in the shape of a guardrail provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from remit.authz import wire
from remit.authz.judge import MalformedAnswer
from remit.authz.principal import build_principal_from_context
from remit.authz.provider import AuthorizationProvider, GuardrailDecision, GuardrailReason, GuardrailRequest
from remit.authz.types import AuthzDecision, AuthzRequest, FrozenDict

INFRASTRUCTURE: Final = GuardrailDecision(
    True, (GuardrailReason("authz.infrastructure_tool"),), policy_id="authz:infrastructure"
)


class GuardrailAuthorizationAdapter:
    """Asks an `AuthorizationProvider` about a tool call that arrives as a `GuardrailRequest`.

    What the provider raises passes through: whoever calls this adapter judges failures, once and for all providers.
    What the *caller's* side got wrong (an identity that is not clean, attributes that are no mapping, a call without
    a tool name) is no failure of the provider: such a call is denied unasked, whatever ``fail_closed`` says.

    Args:
        provider: The brain that also filtered the tools of this build.
        default_role: The role of a caller without one; None leaves the role open, for the provider to judge.
        resource_type: Resource of the question.
        action: Action of the question.
        infrastructure_tools: Tool *objects* that this build generated from a catalogue that was filtered already. A
            call to one of these very objects is allowed without asking the provider; a tool of the same name is not.

    Raises:
        TypeError: A name or None where a tool object is needed.
    """

    name = "authorization"

    def __init__(
        self,
        provider: AuthorizationProvider,
        *,
        default_role: str | None,
        resource_type: str = "tool",
        action: str = "call",
        infrastructure_tools: Iterable[object] = (),
    ) -> None:
        tools = (infrastructure_tools,) if isinstance(infrastructure_tools, str) else tuple(infrastructure_tools)
        for tool in tools:
            if tool is None or isinstance(tool, (str, bytes)):
                raise TypeError(
                    f"infrastructure_tools must hold tool objects, got {type(tool).__name__} {tool!r}; "
                    "a name would exempt every tool that carries it"
                )
        self.provider = provider
        self.default_role = default_role
        self.resource_type = resource_type
        self.action = action
        self.infrastructure_tools = tools

    @property
    def blocking(self) -> bool:
        """Whether calls may wait: as the provider says of itself."""
        return getattr(self.provider, "blocking", True) is not False

    @property
    def policy_version(self) -> str | None:
        """The version the provider has in force, or None when it does not say."""
        version = getattr(self.provider, "policy_version", None)
        return version if isinstance(version, str) else None

    def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """Decide one call.

        Raises:
            MalformedAnswer: The provider answered with something that is no `AuthzDecision`.
            Exception: Whatever the provider raises.
        """
        question = self._question(request)
        if isinstance(question, GuardrailDecision):
            return question
        return self._answer(self.provider.authorize(question))

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        """The same answer as `evaluate`, through the provider's asynchronous form."""
        question = self._question(request)
        if isinstance(question, GuardrailDecision):
            return question
        return self._answer(await self.provider.aauthorize(question))

    def _question(self, request: GuardrailRequest) -> AuthzRequest | GuardrailDecision:
        """What to ask the provider, or the answer when it must not be asked."""
        try:
            principal = build_principal_from_context(request, default_role=self.default_role)
        except (TypeError, ValueError) as exc:
            return _refused("authz.malformed_identity", exc)
        if any(request.tool is tool for tool in self.infrastructure_tools):
            return INFRASTRUCTURE
        context = FrozenDict(
            {
                wire.CTX_ARGS: request.tool_input,
                wire.CTX_TOOL_CALL_ID: request.tool_call_id,
                wire.THREAD_ID: request.thread_id,
                wire.RUN_ID: request.run_id,
                wire.IS_SUBAGENT: request.is_subagent,
                wire.CTX_AGENT_ID: request.agent_id,
                wire.CTX_TIMESTAMP: request.timestamp,
            }
        )
        try:
            return AuthzRequest(principal, self.resource_type, self.action, request.tool_name, context)
        except (TypeError, ValueError) as exc:
            return _refused("authz.invalid_request", exc)

    @staticmethod
    def _answer(decision: Any) -> GuardrailDecision:
        if type(decision) is not AuthzDecision:
            raise MalformedAnswer(f"the provider answered with {type(decision).__name__}, not with an AuthzDecision")
        return GuardrailDecision(
            decision.allow,
            tuple(GuardrailReason(reason.code, reason.message) for reason in decision.reasons),
            policy_id=decision.policy_id,
            policy_version=decision.policy_version,
            obligations=decision.obligations,
            metadata=decision.metadata,
        )


def _refused(code: str, exc: Exception) -> GuardrailDecision:
    return GuardrailDecision(False, (GuardrailReason(code, str(exc)),))
