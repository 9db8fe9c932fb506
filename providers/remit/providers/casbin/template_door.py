"""Requests under any other model: put into the model's terms by templates, and remembered by what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.authz.vocabulary import unsafe_target, visibility_action
from remit.providers.casbin.closures import EvaluationError
from remit.providers.casbin.columns import Column
from remit.providers.casbin.decisions import Cell, Choice, Decisions
from remit.providers.casbin.index import Index
from remit.providers.casbin.memory import LONGEST, Memory
from remit.providers.casbin.templates import Asked, Refused, Template

Values = Sequence[Any]


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
        """The numbers of the rules that match, in policy order."""
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
        remember: Answers depend on the template's values alone, so that they may be kept.
    """

    def __init__(self, engine: Engine, template: Template, *, remember: bool) -> None:
        self._engine, self._template, self._decisions = engine, template, engine.decisions
        self._remember = remember and not template.objects
        self._known: dict[Any, Any] = {}
        self._memory = Memory(self._forget)
        self._roles = template.fields_of.get("role", ())
        self._by_user = "user_id" in template.uses

    def opened(self) -> Callable[[AuthzRequest], AuthzDecision]:
        """The decision function. Where answers may be kept, its usual path is nothing but look-ups."""
        if not self._remember:
            return self._unremembered()
        if self._template.attributes:
            return self._by_attributes()
        known, first_sight, decided = self._known, self._first_sight, AuthzDecision

        def authorize(request: AuthzRequest) -> AuthzDecision:
            try:
                cell: Cell = known[request.principal.role][request.resource][request.action][request.target]
            except KeyError:
                cell = first_sight(request)
            if type(cell) is decided:
                return cell
            return cell(request)  # type: ignore[operator]  # not a decision, so a choice

        def authorize_user(request: AuthzRequest) -> AuthzDecision:
            principal = request.principal
            try:
                cell: Cell = known[principal.user_id][principal.role][request.resource][request.action][request.target]
            except KeyError:
                cell = first_sight(request)
            if type(cell) is decided:
                return cell
            return cell(request)  # type: ignore[operator]

        return authorize_user if self._by_user else authorize

    def _unremembered(self) -> Callable[[AuthzRequest], AuthzDecision]:
        decide = self._decide

        def authorize(request: AuthzRequest) -> AuthzDecision:
            cell, _ = decide(_asked(request), request.context)
            return cell(request) if isinstance(cell, Choice) else cell

        return authorize

    def _by_attributes(self) -> Callable[[AuthzRequest], AuthzDecision]:
        known, first_sight, path = self._known, self._first_sight, self._path

        def authorize(request: AuthzRequest) -> AuthzDecision:
            node: Any = known
            try:
                for step in path(request):
                    node = node[step]
            except (KeyError, TypeError):  # TypeError: an attribute that is no text, and refused there
                node = first_sight(request)
            return node(request) if isinstance(node, Choice) else node  # type: ignore[no-any-return]

        return authorize

    def _path(self, request: AuthzRequest) -> tuple[Any, ...]:
        """What the answer may depend on, the target last."""
        principal = request.principal
        head: tuple[Any, ...] = (principal.role, request.resource, request.action, request.target)
        if self._by_user:
            head = (principal.user_id, *head)
        attributes = principal.attributes
        return (*[attributes.get(name) for name in self._template.attributes], *head)

    def _first_sight(self, request: AuthzRequest) -> Cell:
        cell, keep = self._decide(_asked(request), request.context)
        if keep:
            *steps, target = self._path(request)
            if len(target) <= LONGEST:
                node = self._known
                for step in steps:
                    node = node.setdefault(step, {})
                node[target] = cell
        self._memory.spend()
        return cell

    def _decide(self, asked: Asked, context: Mapping[str, Any] | None) -> tuple[Cell, bool]:
        """The answer, and whether it may be kept."""
        try:
            values = self._values(asked, context)
            return self._engine.cell(values), True
        except Refused as refused:
            return self._decisions.refusal(refused.code, refused.message), False
        except EvaluationError as error:
            return self._decisions.refusal("authz.evaluator_error", str(error)), False

    def _values(self, asked: Asked, context: Mapping[str, Any] | None) -> list[Any]:
        values = self._template.values(asked, context)
        for field in self._roles:
            if not self._engine.knows(field, values[field]):
                raise Refused("authz.unknown_role", f"the policy knows no role {asked[0].role!r}")
        if (reason := unsafe_target(asked[3])) is not None:
            raise Refused("authz.invalid_target", f"the target {reason}")
        return values

    def _forget(self) -> None:
        self._known.clear()
        self._engine.forget()

    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """Those of `candidates` that `principal` may ever use; order and duplicates kept."""
        if not candidates:
            return []
        if resource != "route" and (column := self._column(principal, resource, candidates)) is not None:
            return column.kept(candidates, principal, self._learn)
        shown = {name: self._shows(principal, resource, name) for name in set(candidates)}
        return [name for name in candidates if shown[name]]

    def _column(self, principal: Principal, resource: str, candidates: Sequence[str]) -> Column | None:
        """The one column that holds all candidates, or None when there is no such thing."""
        engine, template = self._engine, self._template
        if not isinstance(engine, Index) or template.fields_of.get("target") != (engine.shape.target.field,):
            return None
        if template.sole.get("target") != engine.shape.target.field or not engine.takes_text(template.objects):
            return None
        try:
            # Any clean name will do: the column is the same for all of them.
            values = self._values((principal, resource, visibility_action(resource, candidates[0]), "-"), None)
        except Refused:
            return Column([], engine.scales)
        self._memory.spend()
        return engine.locate(values)[0]

    def _learn(self, column: Column, target: str) -> Cell:
        if (reason := unsafe_target(target)) is not None:
            return self._decisions.refusal("authz.invalid_target", f"the target {reason}")
        cell = column.cell(target)
        if len(target) <= LONGEST:
            column.memo[target] = cell
            self._memory.spend()
        return cell

    def _shows(self, principal: Principal, resource: str, name: str) -> bool:
        asked = (principal, resource, visibility_action(resource, name), name)
        if self._template.objects and not isinstance(self._engine, Index):
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

    def values(self, request: AuthzRequest) -> list[Any]:
        """The request in the model's terms.

        Raises:
            Refused: That is not possible.
        """
        return self._template.values(_asked(request), request.context)


def _asked(request: AuthzRequest) -> Asked:
    return request.principal, request.resource, request.action, request.target
