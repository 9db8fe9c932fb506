"""Requests under remit's own model: user and role are asked together, and the answer is remembered by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.authz.vocabulary import unsafe_target, visibility_action
from remit.providers.casbin.columns import Column, View
from remit.providers.casbin.decisions import Cell
from remit.providers.casbin.index import Index
from remit.providers.casbin.memory import LONGEST, Memory
from remit.providers.casbin.native import ROLE, USER

Table = dict[str, dict[str, dict[str, Cell]]]
"""Resource -> action -> target -> what is remembered."""

_NOBODY: Final[dict[str, Table]] = {}
"""For users that the policy names and that did not ask yet. Never written to."""


class NativeDoor:
    """Answers requests from an index over remit's own model.

    Args:
        index: Its subjects are namespaced.
        roles: Every known role, namespaced.
    """

    def __init__(self, index: Index, roles: frozenset[str]) -> None:
        self._index, self._decisions = index, index.decisions
        self._roles = frozenset(name.removeprefix(ROLE) for name in roles if name.startswith(ROLE))
        users = (name for name in (*index.subjects, *index.links.up) if name.startswith(USER))
        self._users: dict[str | None, dict[str, Table]] = dict.fromkeys(
            (name.removeprefix(USER) for name in users), _NOBODY
        )
        self._tables: dict[str, Table] = {}
        self._memory = Memory(self._forget)

    def opened(self) -> Callable[[AuthzRequest], AuthzDecision]:
        """The decision function. Its usual path is nothing but look-ups."""
        tables, users, first_sight = self._tables, self._users, self._first_sight
        decided = AuthzDecision

        def authorize(request: AuthzRequest) -> AuthzDecision:
            principal = request.principal
            try:
                cell: Cell = users.get(principal.user_id, tables)[principal.role][request.resource][request.action][  # type: ignore[index]
                    request.target
                ]
            except KeyError:
                cell = first_sight(request)
            if type(cell) is decided:
                return cell
            return cell(request)  # type: ignore[operator]  # not a decision, so a choice

        def authorize_roles(request: AuthzRequest) -> AuthzDecision:
            try:
                cell: Cell = tables[request.principal.role][request.resource][request.action][request.target]  # type: ignore[index]
            except KeyError:
                cell = first_sight(request)
            if type(cell) is decided:
                return cell
            return cell(request)  # type: ignore[operator]

        return authorize if users else authorize_roles

    def _first_sight(self, request: AuthzRequest) -> Cell:
        principal = request.principal
        if (refusal := self._stranger(principal)) is not None:
            return refusal
        return self._learn(self._column(principal, request.resource, request.action), request.target)

    def _stranger(self, principal: Principal) -> AuthzDecision | None:
        if principal.role in self._roles:
            return None
        what = "the principal has no role" if principal.role is None else f"the policy knows no role {principal.role!r}"
        return self._decisions.refusal("authz.unknown_role", what)

    def _view(self, principal: Principal) -> View:
        role = f"{ROLE}{principal.role}"
        if principal.user_id in self._users:
            return self._index.view(f"{USER}{principal.user_id}", role)
        return self._index.view(role)

    def _column(self, principal: Principal, resource: str, action: str) -> Column:
        view, role = self._view(principal), principal.role or ""
        table: Table
        if principal.user_id in self._users:
            tables = self._users[principal.user_id]
            if tables is _NOBODY:
                tables = self._users[principal.user_id] = {}
        else:
            tables = self._tables
        table = tables.setdefault(role, {})
        column = self._index.column(view, (resource, action))
        table.setdefault(resource, {})[action] = column.memo
        self._memory.spend()
        return column

    def _learn(self, column: Column, target: str) -> Cell:
        if (reason := unsafe_target(target)) is not None:
            return self._decisions.refusal("authz.invalid_target", f"the target {reason}")
        cell = column.cell(target)
        if len(target) <= LONGEST:
            column.memo[target] = cell
            self._memory.spend()
        return cell

    def _forget(self) -> None:
        self._tables.clear()
        self._users.update(dict.fromkeys(self._users, _NOBODY))
        self._index.forget()

    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """Those of `candidates` that `principal` may ever use; order and duplicates kept."""
        if not candidates or self._stranger(principal) is not None:
            return []
        actions = {visibility_action(resource, name) for name in candidates} if resource == "route" else None
        if actions is None:
            column = self._column(principal, resource, visibility_action(resource, candidates[0]))
            return column.kept(candidates, principal, self._learn)
        columns = {action: self._column(principal, resource, action) for action in actions}
        return [
            name
            for name in candidates
            if columns[visibility_action(resource, name)].kept((name,), principal, self._learn)
        ]

    def matching(self, request: AuthzRequest) -> list[int]:
        """The numbers of the rules that match, conditions left aside, in policy order."""
        view = self._view(request.principal)
        return self._index.column(view, (request.resource, request.action)).rows(request.target)

    def subjects(self, request: AuthzRequest) -> tuple[str, ...]:
        """Everybody in whose name rules are looked up, rules or not."""
        principal, above = request.principal, self._index.links.above
        names = [] if principal.user_id is None else [*above(f"{USER}{principal.user_id}")]
        names += () if principal.role is None else above(f"{ROLE}{principal.role}")
        return (*dict.fromkeys(names), "*")
