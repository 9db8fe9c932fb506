"""Why a request is decided as it is, and what would have to be different: the smallest change that would allow it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from remit.authz.errors import AuthzError
from remit.authz.types import AuthzRequest, Explanation
from remit.providers.casbin.changes import Addition, Change, applied, csv_line, removals
from remit.providers.casbin.checks.policyset import check_set
from remit.providers.casbin.checks.shape import shape_of
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.engine.templates import Refused, Template
from remit.providers.casbin.engine.tracing import written
from remit.providers.casbin.files.csvfile import Sheet, read_csv
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.knownroles import foreign_roles, native_roles
from remit.providers.casbin.native import ROLE, USER
from remit.providers.casbin.rules import Effect, Link, PolicySet, Rule
from remit.providers.casbin.snapshot import PolicySnapshot

Build = Callable[[PolicySet], PolicySnapshot]

MAGIC: Final = frozenset("*?[{\\")
MOST_LINKS: Final = 12
MOST_ROWS: Final = 12
_HOPELESS: Final = frozenset({"authz.invalid_target", "authz.invalid_request", "authz.evaluator_error"})


def explain(
    snapshot: PolicySnapshot,
    request: AuthzRequest,
    build: Build,
    *,
    functions: Collection[str] = (),
    resources: Collection[str] = (),
) -> Explanation:
    """The trace of one decision. Where it is no allow, with at most two changes that together would make it one.

    Args:
        snapshot: The policy in force.
        build: Compiles a candidate policy as the provider does. Every suggestion was decided by such a candidate.
        functions: Names of the deployment's own matcher functions.
        resources: Its own resource types.
    """
    found = snapshot.trace(request)
    if found.decision.allow:
        return found
    if found.decision.code in _HOPELESS:
        note = "no change of the policy would allow it: the request itself is refused"
        return replace(found, notes=(*found.notes, note))
    seen = found
    if found.decision.code == "authz.unknown_role" and request.principal.role is not None:
        # Rows were not looked at. Those that restrict the request matter once the role is known.
        policy_set = snapshot.policy_set
        name = f"{ROLE}{request.principal.role}" if policy_set.model.native else request.principal.role
        seen = build(replace(policy_set, roles=policy_set.roles | {name})).trace(request)
    changes = _Search(snapshot.policy_set, seen, build, functions, resources).smallest()
    if not changes:
        return replace(found, notes=(*found.notes, "no change of one or two rows or role links would allow it"))
    return replace(found, changes=tuple(map(str, changes)))


class _Search:
    """Looks for change sets by size. Tries them on the rows that matter, and the winner on the whole policy."""

    def __init__(
        self,
        policy_set: PolicySet,
        found: Explanation,
        build: Build,
        functions: Collection[str],
        resources: Collection[str],
    ) -> None:
        self.policy_set, self.found, self.build = policy_set, found, build
        self.functions, self.resources = functions, resources
        self.added: list[Change] | None = None
        self.request = found.request
        traced = {(trace.policy_id, trace.text): trace for trace in found.rules}
        self.matching = [rule for rule in policy_set.rules if (rule.policy_id, written(rule)) in traced]
        self.restricting = [
            rule
            for rule in self.matching
            if (trace := traced[rule.policy_id, written(rule)]).effect != "allow" and trace.outcome != "condition-false"
        ]

    def smallest(self) -> tuple[Change, ...]:
        """The first change set that allows the request, or none."""
        roles = self.policy_set.roles | self.granted(self.additions())
        # A rule that does not match is kept, since a policy without any is refused.
        others = [rule for rule in self.policy_set.rules[: len(self.matching) + 1] if rule not in self.matching][:1]
        small = replace(self.policy_set, rules=(*self.matching, *others), roles=roles)
        if self.policy_set.model.native:
            small = replace(small, links=tuple(self.links()))
        for changes in self.candidates():
            if self.allows(applied(small, changes)) and self.allows(self.whole(changes)):
                return changes
        return ()

    def candidates(self) -> Iterator[tuple[Change, ...]]:
        rows = removals(self.restricting, self.policy_set.rules)[:MOST_ROWS]
        links = removals(self.links(), self.policy_set.links)[:MOST_LINKS] if self.restricting else []
        added = self.additions()
        yield from ((change,) for change in (*rows, *links, *added))
        yield from combinations(rows, 2)
        yield from ((row, grant) for row in (*rows, *links) for grant in added)
        yield from ((link, row) for link in links for row in rows)
        yield from combinations(links, 2)

    def links(self) -> list[Link]:
        """Role links by which the subjects of the request come to their roles."""
        subjects = set(self.found.subjects)
        return [link for link in self.policy_set.links if subjects & {*link.values[:2]}]

    def allows(self, policy_set: PolicySet) -> bool:
        # INVARIANT: a suggestion is never printed unless a whole policy built with it answered allow.
        try:
            return self.build(policy_set).authorize(self.request).allow
        except (AuthzError, ValueError):
            return False

    def granted(self, additions: Sequence[Change]) -> frozenset[str]:
        rows = [row for change in additions for row in change.rows]
        return frozenset(row.values[0] for row in rows if row.values[0].startswith(ROLE))

    def whole(self, changes: Sequence[Change]) -> PolicySet:
        """The changed policy as it would be loaded: a role goes with the last row that names it."""
        changed = applied(self.policy_set, changes)
        rest = self.policy_set.roles - self.named(self.policy_set)
        declared = {rule.values[0] for rule in self.policy_set.rules if rule.key.startswith("roles.")}
        return replace(changed, roles=frozenset(rest | declared | self.named(changed)))

    def named(self, policy_set: PolicySet) -> set[str]:
        table = Table(policy_set.model, policy_set.rules)
        if policy_set.model.native:
            members = {link.values[0] for link in policy_set.links if link.values[0].startswith(ROLE)}
            return native_roles(table, policy_set.links, ()) | members
        return foreign_roles(table, policy_set.links, policy_set.request)

    def additions(self) -> list[Change]:
        """The narrowest entry that would grant the request, if the model lets us write one."""
        if self.added is None:
            rules, links = self.policy_set.rules, self.policy_set.links
            files = list(dict.fromkeys([*(rule.file for rule in rules), *(link.file for link in links)]))
            sheet = next((name for name in files if name.endswith(".csv")), None)
            rows = self.row(sheet) if sheet else self.item(files[0]) if files else []
            self.added = [Addition(tuple(rows), self.before())] if rows else []
        return self.added

    def before(self) -> Rule | None:
        """Where order matters: the row that must not be reached."""
        model = self.policy_set.model
        if model.effect not in (Effect.PRIORITY, Effect.SUBJECT_PRIORITY) or "priority" in model.policy:
            return None
        return self.restricting[0] if self.restricting else None

    def row(self, file: str) -> list[Rule]:
        """A row of a CSV file."""
        model, findings = self.policy_set.model, Findings()
        values = self.values()
        if values is None:
            return []
        text = ["cond"] if model.native else shape_of(model.tree).rules
        sheet = read_csv(csv_line("p", values) + "\n", file, model, findings, free_text=text)
        return self.checked(sheet, findings)

    def item(self, file: str) -> list[Rule]:
        """An item of `roles.yaml`, which speaks of roles only."""
        from remit.providers.casbin.files.rolesfile import SECTIONS, read_roles  # YAML is slow to import

        request, findings = self.request, Findings()
        fitting = [key for key, section in SECTIONS.items() if section.resource == request.resource]
        # Under `unlisted: allow` a new key would also take something away.
        wide = any(rule.key == "unlisted" for rule in self.policy_set.rules)
        if not fitting or wide or request.principal.role is None or self.is_pattern():
            return []
        (key,) = fitting
        word = request.action if request.action == SECTIONS[key].extra else "allow"
        grant = True if request.resource == "sandbox" else [request.target]
        sheet = read_roles(json.dumps({"roles": {request.principal.role: {key: {word: grant}}}}), file, findings)
        return self.checked(sheet, findings)

    def is_pattern(self) -> bool:
        """Would a rule read the target as a pattern, and grant more than was asked for?"""
        return self.request.resource != "sandbox" and not MAGIC.isdisjoint(self.request.target)

    def checked(self, sheet: Sheet, findings: Findings) -> list[Rule]:
        """The rules of `sheet`, unless the loader would refuse them."""
        if findings.failed or not sheet.rules:
            return []
        table = Table(self.policy_set.model, sheet.rules)
        check_set(table, [], (), findings, functions=self.functions, resources=self.resources)
        return [] if findings.failed else sheet.rules

    def values(self) -> list[str] | None:
        """The columns of that row; None when some column is no plain value of the request."""
        model, request = self.policy_set.model, self.request
        if model.native:
            if self.is_pattern():
                return None
            principal = request.principal
            user = f"{USER}{principal.user_id}" if principal.user_id else None
            subject = f"{ROLE}{principal.role}" if principal.role else user
            known = {"sub": subject, "res": request.resource, "obj": request.target, "act": request.action, "cond": ""}
        else:
            try:
                template = Template(self.policy_set.request, model.request)
                asked = (request.principal, request.resource, request.action, request.target)
                values = template.values(asked, request.context)
            except (Refused, ValueError):
                return None
            known = dict(zip(model.request, values, strict=True))
        known = {**known, "eft": "allow", "priority": self.first_priority()}
        row = [known.get(column) for column in model.policy]
        return [value for value in row if value is not None] if all(type(value) is str for value in row) else None

    def first_priority(self) -> str | None:
        """A priority before that of every matching row; None when there is none."""
        policy = self.policy_set.model.policy
        if "priority" not in policy:
            return ""
        taken = [rule.values[policy.index("priority")] for rule in self.matching]
        if not all(map(str.isdecimal, taken)):
            return None
        first = min(map(int, taken), default=1)
        return str(first - 1) if first > 0 else None
