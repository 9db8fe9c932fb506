"""Requests under any other model: put into the model's terms by templates, and remembered by what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.authz.vocabulary import unsafe_target, visibility_action
from remit.providers.casbin.engine.closures import EvaluationError
from remit.providers.casbin.engine.decisions import Cell, Choice, Decisions
from remit.providers.casbin.engine.memory import LONGEST, Memory
from remit.providers.casbin.engine.templates import Asked, Refused, Template

Values = Sequence[Any]
_LEVELS: Final = 4
"""What a remembered answer costs of the memory: it may bring a dict for each level."""


class Engine(Protocol):
    """What decides once a request is in the model's terms."""

    decisions: Decisions

    def cell(self, values: Values) -> Cell:
        """The decision.

        Raises:
            EvaluationError: There is none for these values.
        """
        ...

    def matching(self, values: Values) -> list[int]:
        """The numbers of the rules that match, in policy order.

        Raises:
            EvaluationError: The matcher has no answer for these values.
        """
        ...

    def knows(self, field: int, value: str) -> bool:
        """Does the policy speak of `value` of request column `field`?"""
        ...

    def ever(self, values: Values) -> bool:
        """Is it allowed for some arguments, when `values` hold none?"""
        ...

    def forget(self) -> None:
        """Drop what was learnt."""
        ...


class TemplateDoor:
    """Answers requests from an engine over somebody else's model.

    Args:
        engine: What decides.
        template: How a request is put into the model's terms.
        roles: Known to the policy, beside those that the engine knows.
        pure: Answers depend on the model's request alone.
        reads_call: The matcher reads a request column that holds an object, so no two requests are alike.
    """

    def __init__(
        self, engine: Engine, template: Template, roles: frozenset[str], *, pure: bool, reads_call: bool
    ) -> None:
        self._engine, self._template, self.decisions = engine, template, engine.decisions
        self._remember, self._reads_call = pure and not reads_call, reads_call
        self._roles = roles
        self._by_user = "user_id" in template.uses
        self._known: dict[Any, Any] = {}
        self._memory = Memory()

    def opened(self) -> Callable[[AuthzRequest], AuthzDecision]:
        """The decision function. Where answers may be kept, its usual path is nothing but look-ups."""
        if not self._remember:
            return self._anew
        if self._template.attributes or self._by_user:
            return self._by_path()
        known, first_sight, decided = self._known, self._first_sight, AuthzDecision

        def authorize(request: AuthzRequest) -> AuthzDecision:
            try:
                cell = known[request.principal.role][request.resource][request.action].get(request.target)
            except KeyError:
                cell = None
            if type(cell) is decided:
                return cell
            return first_sight(request) if cell is None else cell(request)

        return authorize

    def _anew(self, request: AuthzRequest) -> AuthzDecision:
        cell, _ = self._decide(_asked(request), request.context)
        return cell(request) if isinstance(cell, Choice) else cell

    def _by_path(self) -> Callable[[AuthzRequest], AuthzDecision]:
        known, first_sight = self._known, self._first_sight
        names, by_user = self._template.attributes, self._by_user

        def authorize(request: AuthzRequest) -> AuthzDecision:
            principal = request.principal
            node: Any = known
            try:
                if names:
                    attributes = principal.attributes
                    for name in names:
                        node = node[attributes[name]]
                if by_user:
                    node = node[principal.user_id]
                node = node[principal.role][request.resource][request.action][request.target]
            except (KeyError, TypeError):  # TypeError: an attribute that is no text, to be refused
                return first_sight(request)
            return node(request) if isinstance(node, Choice) else node

        return authorize

    def _first_sight(self, request: AuthzRequest) -> AuthzDecision:
        cell, keep = self._decide(_asked(request), request.context)
        if keep and len(request.target) <= LONGEST:
            principal = request.principal
            steps: list[Any] = [principal.attributes[name] for name in self._template.attributes]
            if self._by_user:
                steps.append(principal.user_id)
            node = self._known
            for step in (*steps, principal.role, request.resource, request.action):
                node = node.setdefault(step, {})
            node[request.target] = cell
        if self._memory.full(len(self._template.attributes) + _LEVELS):
            self._forget()
        return cell(request) if isinstance(cell, Choice) else cell

    def _decide(self, asked: Asked, context: Mapping[str, Any] | None) -> tuple[Cell, bool]:
        """The answer, and whether it may be kept."""
        try:
            return self._engine.cell(self._values(asked, context)), True
        except Refused as refused:
            return self.decisions.refusal(refused.code, refused.message), False
        except EvaluationError as error:
            return self.decisions.refusal("authz.evaluator_error", str(error)), False

    def _values(self, asked: Asked, context: Mapping[str, Any] | None) -> list[Any]:
        values = self._template.values(asked, context)
        self._template.check_roles(asked[0], values, self._roles, self._engine.knows)
        if (reason := unsafe_target(asked[3])) is not None:
            raise Refused("authz.invalid_target", f"the target {reason}")
        return values

    def _forget(self) -> None:
        self._known.clear()
        self._engine.forget()

    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """Those of `candidates` that `principal` may ever use; order and duplicates kept."""
        shown = {name: self._shows(principal, resource, name) for name in set(candidates)}
        return [name for name in candidates if shown[name]]

    def _shows(self, principal: Principal, resource: str, name: str) -> bool:
        asked = (principal, resource, visibility_action(resource, name), name)
        if self._reads_call:
            try:
                return self._engine.ever(self._values(asked, None))
            except Refused:
                return False
        cell, _ = self._decide(asked, {})
        return cell.visible(principal) if isinstance(cell, Choice) else cell.allow or cell.asks

    def matching(self, request: AuthzRequest) -> list[int]:
        """The numbers of the rules that match, conditions left aside, in policy order.

        Raises:
            Refused: The request cannot be put into the model's terms.
            EvaluationError: The matcher has no answer for it.
        """
        return self._engine.matching(self._values(_asked(request), request.context))

    def subjects(self, request: AuthzRequest) -> tuple[str, ...]:
        """In whose name rules are looked up: what the model's first column says."""
        try:
            first, *_ = self._template.values(_asked(request), request.context)
        except Refused:
            return ()
        return (first,) if isinstance(first, str) else ()


def _asked(request: AuthzRequest) -> Asked:
    return request.principal, request.resource, request.action, request.target
