"""Requests whose targets are all looked up in one column: found once per subject and action, then by name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.authz.vocabulary import EVERYTHING, unsafe_target, visibility_action
from remit.providers.casbin.engine.columns import Column
from remit.providers.casbin.engine.decisions import Cell, Choice
from remit.providers.casbin.engine.globs import collapse
from remit.providers.casbin.engine.index import Index
from remit.providers.casbin.engine.memory import LONGEST, Memory
from remit.providers.casbin.engine.templates import Refused, Template
from remit.providers.casbin.native import ROLE, USER

Table = dict[str, dict[str, dict[str, Cell]]]
"""Resource -> action -> target -> what is remembered."""

_NOBODY: Final[dict[str | None, Table]] = {}
"""Stands for users that did not ask yet. Never written to."""
_ANYBODY: Final = object()
"""Stands for all users that are not told apart."""
_COLUMN: Final = 8
"""What a column costs of the memory, in names."""


class ColumnDoor:
    """Answers requests from an index. What it learns is bounded, and forgotten whole when there is too much of it.

    Args:
        index: The rules.
        users: Users that are told apart. All others are judged by their role alone.
    """

    def __init__(self, index: Index, users: Iterable[str | None]) -> None:
        self.index, self.decisions = index, index.decisions
        self._tables: dict[str | None, Table] = {}
        """Role -> table, for users that are not told apart."""
        self._users: dict[str | None, dict[str | None, Table]] = dict.fromkeys(users, _NOBODY)
        self._columns: dict[tuple[object, str | None, str, str], Column] = {}
        self._memory = Memory()

    def opened(self) -> Callable[[AuthzRequest], AuthzDecision]:
        """The decision function. Its usual path is nothing but look-ups."""
        tables, users, first_sight, decided = self._tables, self._users, self._first_sight, AuthzDecision

        def authorize(request: AuthzRequest) -> AuthzDecision:
            principal = request.principal
            try:
                names = users.get(principal.user_id, tables)[principal.role][request.resource][request.action]
                cell = names.get(request.target)
            except KeyError:
                cell = None
            if type(cell) is decided:
                return cell
            return first_sight(request) if cell is None else cell(request)  # type: ignore[operator]

        def authorize_role(request: AuthzRequest) -> AuthzDecision:
            try:
                cell = tables[request.principal.role][request.resource][request.action].get(request.target)
            except KeyError:
                cell = None
            if type(cell) is decided:
                return cell
            return first_sight(request) if cell is None else cell(request)  # type: ignore[operator]

        return authorize if users else authorize_role

    def _first_sight(self, request: AuthzRequest) -> AuthzDecision:
        try:
            column = self._column(request.principal, request.resource, request.action)
        except Refused as refused:
            return self.decisions.refusal(refused.code, refused.message)
        cell = self._learn(column, request.target)
        return cell(request) if isinstance(cell, Choice) else cell

    def _column(self, principal: Principal, resource: str, action: str) -> Column:
        told_apart = principal.user_id in self._users
        key = principal.user_id if told_apart else _ANYBODY, principal.role, resource, action
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._find(principal, resource, action)
            tables = self._users[principal.user_id] if told_apart else self._tables
            if tables is _NOBODY:
                self._users[principal.user_id] = {principal.role: {resource: {action: column.memo}}}
            else:
                tables.setdefault(principal.role, {}).setdefault(resource, {})[action] = column.memo
            memory = self._memory
            memory.left -= _COLUMN
            if memory.left < 0 and memory.full(0):
                self._forget()
        return column

    def _find(self, principal: Principal, resource: str, action: str) -> Column:
        """The column that `principal` is judged by.

        Raises:
            Refused: There is none for such a principal.
        """
        raise NotImplementedError

    def _learn(self, column: Column, target: str) -> Cell:
        if (reason := unsafe_target(target)) is not None:
            return self.decisions.refusal("authz.invalid_target", f"the target {reason}")
        cell = column.cell(target)
        if len(target) <= LONGEST:
            column.memo[target] = cell
            if self._memory.full():
                self._forget()
        return cell

    def _forget(self) -> None:
        self._tables.clear()
        self._columns.clear()
        self._users.update(dict.fromkeys(self._users, _NOBODY))
        self.index.forget()

    def filter(self, principal: Principal, resource: str, candidates: Sequence[str]) -> list[str]:
        """Those of `candidates` that `principal` may ever use; order and duplicates kept."""
        if not candidates:
            return []
        try:
            if resource != "route":
                column = self._column(principal, resource, visibility_action(resource, candidates[0]))
                return column.kept(candidates, principal, self._learn)
            out = []
            for name in candidates:
                column = self._column(principal, resource, visibility_action(resource, name))
                out += column.kept((name,), principal, self._learn)
            return out
        except Refused:
            return []

    def matching(self, request: AuthzRequest) -> list[int]:
        """The numbers of the rules that match, conditions left aside, in policy order.

        Raises:
            Refused: The principal cannot be judged.
        """
        return self._find(request.principal, request.resource, request.action).rows(request.target)

    def subjects(self, request: AuthzRequest) -> tuple[str, ...]:
        """Everybody in whose name rules are looked up, whether there are any or not."""
        raise NotImplementedError


class NativeDoor(ColumnDoor):
    """Requests under remit's own model: the user and the role are asked together.

    Args:
        index: Its subjects are namespaced.
        roles: Every known role, namespaced.
    """

    def __init__(self, index: Index, roles: frozenset[str]) -> None:
        named = (name for name in (*index.subjects, *index.links.up) if name.startswith(USER))
        super().__init__(index, (name.removeprefix(USER) for name in named))
        self._roles = frozenset(name.removeprefix(ROLE) for name in roles if name.startswith(ROLE))

    def _find(self, principal: Principal, resource: str, action: str) -> Column:
        role = principal.role
        if role not in self._roles:
            what = "the principal has no role" if role is None else f"the policy knows no role {role!r}"
            raise Refused("authz.unknown_role", what)
        index, subjects = self.index, self.index.effective(f"{ROLE}{role}")
        if principal.user_id not in self._users:
            return index.column(subjects, (resource, action))
        user = f"{USER}{principal.user_id}"
        inherited = index.inherited(user)
        if inherited is not subjects and not inherited <= subjects:
            subjects |= inherited
        return index.column(subjects, (resource, action), user)

    def _learn(self, column: Column, target: str) -> Cell:
        if collapse(target) != target:  # globMatch cannot tell such a name from the one that the policy means
            return self.decisions.refusal("authz.invalid_target", "the target has a '/' too many")
        return super()._learn(column, target)

    def subjects(self, request: AuthzRequest) -> tuple[str, ...]:
        principal, above = request.principal, self.index.links.above
        names: list[str] = []
        if principal.user_id is not None:
            names += above(f"{USER}{principal.user_id}")
        if principal.role is not None:
            names += above(f"{ROLE}{principal.role}")
        return (*dict.fromkeys(names), "*")


class SoleTargetDoor(ColumnDoor):
    """Requests under a template in which the target is one whole column, and no attribute is read.

    Args:
        index: Of a model that compares no object.
        template: How a request is put into the model's terms.
        roles: Known to the policy, beside those that the index knows.
    """

    def __init__(self, index: Index, template: Template, roles: frozenset[str]) -> None:
        super().__init__(index, self._known_users(index, template))
        self._template, self._roles = template, roles

    @staticmethod
    def _known_users(index: Index, template: Template) -> Iterable[str | None]:
        """The users that the policy knows, and those that every request is refused for."""
        around = template.around("user_id")
        if around is None:
            return ()
        _, before, after = around
        names = {*index.subjects, *index.links.up, *index.links.down}
        inner = (name[len(before) : len(name) - len(after)] for name in names)
        known = {user for user in inner if f"{before}{user}{after}" in names}
        return {None, EVERYTHING, *known}

    @staticmethod
    def fits(index: Index, template: Template) -> bool:
        """Can `template` be served so?"""
        target, subject = index.shape.target.field, index.shape.subject.field
        if template.fields_of.get("target") != (target,) or template.sole.get("target") != target:
            return False
        around = template.around("user_id")
        by_user = "user_id" not in template.uses or (around is not None and around[0] == subject)
        return by_user and not template.attributes

    def _find(self, principal: Principal, resource: str, action: str) -> Column:
        # Any target will do: the column is the same for all of them.
        values = self._template.values((principal, resource, action, "-"), {})
        self._template.check_roles(principal, values, self._roles, self.index.knows)
        return self.index.locate(values)[0]

    def subjects(self, request: AuthzRequest) -> tuple[str, ...]:
        try:
            values = self._template.values((request.principal, request.resource, request.action, "-"), {})
        except Refused:
            return ()
        subject = values[self.index.shape.subject.field]
        return self.index.links.above(subject) if self.index.shape.role else (subject,)
