"""remit's own model against a plain scan over all rules: users with roles, patterns, conditions and questions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from casbin.util.builtin_operators import glob_match
from tests.support import casbin_worlds as worlds

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.authz.vocabulary import unsafe_target
from remit.providers.casbin.files.model import shipped_model
from remit.providers.casbin.rules import Link, PolicySet, Rule
from remit.providers.casbin.snapshot import PolicySnapshot

ROLES = ["guest", "user", "ops", "admin", "deep"]
USERS = ["alice", "bob", "admin"]
RESOURCES = ["tool", "model", "*"]
ACTIONS = ["call", "use", "*"]
TARGETS = [
    "bash",
    "mail",
    "mcp_a",
    "mcp_a_b",
    "web/search",
    "web//search",
    "web",
    "web/",
    "w.b",
    ".env",
    "pay",
    "a/../b",
]
PATTERNS = [
    *TARGETS[:5],
    "*",
    "mcp_*",
    "mcp_a*",
    "web/*",
    "web/**",
    "**",
    "[bm]*",
    "{bash,pay}",
    "w?b",
    "*/search",
    "web/search",
]
SMALL, BIG, ODD = {"amount": 3}, {"amount": 30}, {"amount": "3"}
CONDITIONS: dict[str, Callable[[AuthzRequest], bool | None]] = {
    "r.ctx.args.amount < 10": lambda r: _number(r, lambda n: n < 10),
    "r.ctx.args.amount >= 10": lambda r: _number(r, lambda n: n >= 10),
    'r.ctx.principal.attributes.team == "red"': lambda r: (
        None if "team" not in r.principal.attributes else r.principal.attributes["team"] == "red"
    ),
}


def _number(request: AuthzRequest, test: Callable[[int], bool]) -> bool | None:
    value = request.context.get("args", {}).get("amount")
    return test(value) if type(value) is int else None


def _policy(rng: random.Random) -> PolicySet:
    def subject() -> str:
        kind = rng.random()
        return "*" if kind < 0.08 else f"user:{rng.choice(USERS)}" if kind < 0.3 else f"role:{rng.choice(ROLES)}"

    rows = [
        (
            subject(),
            rng.choice(RESOURCES),
            rng.choice(PATTERNS),
            rng.choice(ACTIONS),
            rng.choice(["allow", "allow", "deny", "ask"]),
            rng.choice(["", "", "", *CONDITIONS]),
        )
        for _ in range(rng.randrange(1, 25))
    ]
    names = [*(f"role:{name}" for name in ROLES), *(f"user:{name}" for name in USERS)]
    links = [(rng.choice(names), f"role:{rng.choice(ROLES)}") for _ in range(rng.randrange(0, 8))]
    return PolicySet(
        model=shipped_model(),
        rules=tuple(Rule(row, "policy.csv", line) for line, row in enumerate(rows, 1)),
        links=tuple(Link(link, "links.csv", line) for line, link in enumerate(links, 1)),
        roles=frozenset(f"role:{name}" for name in ROLES[:4]),
    )


def _subjects(policies: PolicySet, principal: Principal) -> set[str]:
    found = {f"role:{principal.role}", "*"} | ({f"user:{principal.user_id}"} if principal.user_id else set())
    while more := {link.values[1] for link in policies.links if link.values[0] in found} - found:
        found |= more
    return found


def _refused(target: str) -> bool:
    return unsafe_target(target) is not None or "//" in target or target.endswith("/")


def _scan(policies: PolicySet, request: AuthzRequest) -> tuple[str, str | None]:
    """(code, rule) by looking at every rule."""
    principal = request.principal
    if principal.role is None or f"role:{principal.role}" not in policies.roles:
        return "authz.unknown_role", None
    if _refused(request.target):
        return "authz.invalid_target", None
    subjects = _subjects(policies, principal)
    applying: dict[str, list[str]] = {"deny": [], "ask": [], "allow": []}
    for rule in policies.rules:
        sub, res, obj, act, eft, cond = rule.values
        if sub not in subjects or res not in ("*", request.resource) or act not in ("*", request.action):
            continue
        if obj == "*" or glob_match(request.target, obj):
            known = CONDITIONS[cond](request) if cond else True
            if known or (known is None and eft != "allow"):
                applying[eft].append(rule.policy_id)
    if applying["deny"]:
        return "authz.denied", applying["deny"][0]
    if applying["ask"]:
        return "authz.ask", applying["ask"][0]
    if applying["allow"]:
        return "authz.allowed", applying["allow"][-1]
    return "authz.no_policy", None


def _requests(rng: random.Random, count: int) -> list[AuthzRequest]:
    return [
        AuthzRequest(
            Principal(
                rng.choice([*USERS, "nobody", None]),
                rng.choice([*ROLES, "stranger", None]) if rng.random() < 0.3 else rng.choice(ROLES[:4]),
                attributes=rng.choice([{}, {"team": "red"}, {"team": "blue"}]),
            ),
            rng.choice(["tool", "model", "skill"]),
            rng.choice(["call", "use", "list"]),
            rng.choice([*TARGETS, f"new{rng.randrange(1000)}"]),
            rng.choice([{}, {"args": SMALL}, {"args": BIG}, {"args": ODD}]),
        )
        for _ in range(count)
    ]


def _told(decision: AuthzDecision) -> tuple[str, str | None]:
    assert decision.allow is (decision.code == "authz.allowed")
    assert decision.asks is (decision.code == "authz.ask")
    return decision.code, decision.policy_id


@pytest.mark.parametrize("seed", range(4))
def test_equals_a_scan(seed: int) -> None:
    rng = random.Random(seed)
    seen: dict[str, int] = {}
    for _ in range(60):
        policies = _policy(rng)
        snapshot = PolicySnapshot.build(policies)
        for request in _requests(rng, 60):
            expected = _scan(policies, request)
            assert _told(snapshot.authorize(request)) == expected, request
            assert _told(snapshot.authorize(request)) == expected, f"remembered wrongly: {request}"
            seen[expected[0]] = seen.get(expected[0], 0) + 1
    assert min(seen[code] for code in ("authz.allowed", "authz.denied", "authz.ask", "authz.no_policy")) > 100
    assert {"authz.unknown_role", "authz.invalid_target"} <= seen.keys()


CONTEXTS: list[dict[str, Any]] = [{}, {"args": SMALL}, {"args": BIG}, {"args": ODD}]


def _shown(policies: PolicySet, who: Principal, resource: str, action: str, target: str) -> bool:
    """The filter's promise, rule by rule: may some arguments let it grant, do all arguments let it deny?"""
    if _refused(target) or f"role:{who.role}" not in policies.roles:
        return False
    granted = False
    subjects = _subjects(policies, who)
    for sub, res, obj, act, eft, cond in (rule.values for rule in policies.rules):
        if sub not in subjects or res not in ("*", resource) or act not in ("*", action):
            continue
        if obj == "*" or glob_match(target, obj):
            asked = [AuthzRequest(who, resource, action, target, context) for context in CONTEXTS]
            answers = {CONDITIONS[cond](request) if cond else True for request in asked}
            if eft == "deny" and False not in answers:
                return False
            granted |= (eft != "deny" and True in answers) or (eft == "ask" and None in answers)
    return granted


@pytest.mark.parametrize("seed", range(3))
def test_the_filter_shows_what_some_arguments_allow(seed: int) -> None:
    rng = random.Random(100 + seed)
    for _ in range(60):
        policies = _policy(rng)
        snapshot = PolicySnapshot.build(policies)
        for who in (request.principal for request in _requests(rng, 8)):
            candidates = [*TARGETS, "new", "bash"]
            for resource, action in (("tool", "call"), ("model", "list")):
                shown = snapshot.filter(who, resource, candidates)
                assert shown == [x for x in candidates if _shown(policies, who, resource, action, x)]
                for target in set(candidates) - set(shown):
                    for context in CONTEXTS:
                        decision = snapshot.authorize(AuthzRequest(who, resource, action, target, context))
                        assert decision.allow is False
                        assert decision.asks is False


@pytest.mark.parametrize("seed", range(2))
def test_equals_casbin_with_ask_written_as_deny(seed: int) -> None:
    """Without conditions, for one subject: Casbin's decision, and its row."""
    worlds.silence()
    rng = random.Random(200 + seed)
    for _ in range(30):
        policies = _policy(rng)
        plain = [(*rule.values[:5], "") for rule in policies.rules]
        made = PolicySet(
            model=policies.model,
            rules=tuple(Rule(row, "policy.csv", line) for line, row in enumerate(plain, 1)),
            links=policies.links,
            roles=policies.roles,
        )
        stock = worlds.enforcer(
            PolicySet(
                model=policies.model,
                rules=tuple(
                    Rule((*row[:4], "deny" if row[4] == "ask" else row[4], ""), "policy.csv", line)
                    for line, row in enumerate(plain, 1)
                ),
                links=policies.links,
            )
        )
        snapshot = PolicySnapshot.build(made)
        for request in _requests(rng, 30):
            decision = snapshot.authorize(AuthzRequest(Principal(None, request.principal.role), *_what(request)))
            if decision.code in ("authz.unknown_role", "authz.invalid_target"):
                continue
            allowed, row = worlds.asked(
                stock, [f"role:{request.principal.role}", *_what(request)[:1], request.target, request.action, {}]
            ) or (None, None)
            assert decision.allow is allowed
            got = worlds.row_of(snapshot, decision)
            if row and got[4:5] == ["deny"]:  # among rows that deny and rows that ask, the first that denies decides
                assert row[4] == "deny"
            else:
                assert got[:4] == (row or [])[:4]


def _what(request: AuthzRequest) -> tuple[str, str, str]:
    return request.resource, request.action, request.target
