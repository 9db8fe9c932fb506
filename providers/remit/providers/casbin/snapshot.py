"""One loaded policy: immutable, complete, and able to answer every question about itself without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from remit.authz.errors import Problem
from remit.authz.types import AuthzDecision, AuthzRequest, Explanation, Principal
from remit.providers.casbin.engine.closures import EvaluationError
from remit.providers.casbin.engine.column_door import ColumnDoor
from remit.providers.casbin.engine.decisions import Condition
from remit.providers.casbin.engine.fallback import refuse_frozen_casbin
from remit.providers.casbin.engine.ordering import fingerprint, in_casbin_order
from remit.providers.casbin.engine.template_door import TemplateDoor
from remit.providers.casbin.engine.templates import Refused
from remit.providers.casbin.engine.tracing import traces
from remit.providers.casbin.pauses import collector_at_rest
from remit.providers.casbin.rules import PolicySet

_REFUSALS: Final = frozenset({"authz.unknown_role", "authz.invalid_target", "authz.invalid_request"})


class PolicySnapshot:
    """A policy set, ready to decide. Safe to share between threads and tasks; nothing in it ever changes visibly.

    Made by `build`.
    """

    __slots__ = ("__weakref__", "_conditions", "_door", "authorize", "policy_set", "problems", "version")

    authorize: Callable[[AuthzRequest], AuthzDecision]
    """Decide one request. Never raises for what a request or a rule may hold: what cannot be decided is denied.

    Reason codes: ``authz.allowed``, ``authz.denied``, ``authz.ask`` (with an obligation ``approval``, ``allow=False``),
    ``authz.no_policy``, ``authz.unknown_role``, ``authz.invalid_target``, ``authz.invalid_request``,
    ``authz.evaluator_error``. Equal answers are one object."""
    policy_set: PolicySet
    """What it was built from."""
    problems: tuple[Problem, ...]
    """Warnings, sorted: what the loader found, and where decisions differ from Casbin's."""
    version: str
    """``sha256:`` and a digest of everything that decides."""

    def __init__(
        self,
        policy_set: PolicySet,
        door: ColumnDoor | TemplateDoor,
        conditions: Mapping[int, Condition],
        problems: Sequence[Problem],
        version: str,
    ) -> None:
        self.policy_set, self.version = policy_set, version
        self.problems = tuple(sorted({*policy_set.problems, *problems}))
        self.authorize = door.opened()
        self._door, self._conditions = door, conditions

    @classmethod
    def build(
        cls,
        policy_set: PolicySet,
        *,
        request: Sequence[str] | None = None,
        allow_slow: bool = False,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Self:
        """Compile a policy set.

        Args:
            policy_set: From the loader.
            request: One template per request column; without it, what the loader resolved.
            allow_slow: Run a matcher that cannot be compiled on pycasbin itself.
            functions: Matcher functions of the deployment's own. Answers are remembered only of those declared `pure`.

        Raises:
            PolicyError: The policy cannot be put in force. Every reason that was found, sorted.
        """
        from remit.providers.casbin.engine.compiling import compile_policy

        refuse_frozen_casbin()
        templates = request if request is not None else policy_set.request or None
        with collector_at_rest():
            rules, version = in_casbin_order(policy_set), fingerprint(policy_set, templates)
            made = compile_policy(
                policy_set, rules, version, templates, allow_slow=allow_slow, functions=functions or {}
            )
            return cls(policy_set, made.door, made.conditions, made.problems, version)

    def filter(self, principal: Principal, resource_type: str, candidates: Sequence[str]) -> list[str]:
        """Which of `candidates` may this principal ever use, with the arguments unknown?

        Returns:
            A new list: order and duplicates kept, nothing added.
        """
        return self._door.filter(principal, resource_type, candidates)

    def trace(self, request: AuthzRequest) -> Explanation:
        """The decision for `request` and how it came about. For operators; not made for speed."""
        decision = self.authorize(request)
        notes = tuple(reason.message for reason in decision.reasons if reason.message)
        rows: list[int] = []
        if decision.code not in _REFUSALS:
            try:
                rows = self._door.matching(request)
            except (Refused, EvaluationError) as error:
                notes = (*dict.fromkeys((*notes, str(error))),)
        return Explanation(
            request=request,
            decision=decision,
            subjects=self._door.subjects(request),
            rules=traces(rows, decision, request, self._door.decisions, self._conditions),
            notes=notes,
        )
