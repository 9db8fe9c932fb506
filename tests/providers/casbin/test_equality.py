"""Decisions and explained rules equal Casbin's, over random models, policies and requests.

`REMIT_FUZZ_EXAMPLES=50000` runs the same for longer, with fresh randomness.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import casbin_worlds as worlds

from remit.authz.errors import PolicyError
from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin.engine.functions import pure
from remit.providers.casbin.snapshot import PolicySnapshot

FUZZ = int(os.environ.get("REMIT_FUZZ_EXAMPLES", "0"))
REFUSED = {"authz.invalid_request", "authz.invalid_target", "authz.unknown_role"}


def _settings(share: float) -> Any:
    return settings(
        max_examples=int((FUZZ or 2400) * share),
        deadline=None,
        derandomize=not FUZZ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def _quiet() -> None:
    worlds.silence()


@dataclass(frozen=True)
class Kind:
    """One matcher with the columns it needs."""

    matcher: str
    request: str = "sub, obj, act"
    policy: str = "sub, obj, act"
    roles: tuple[str, ...] = ("g = _, _",)
    objects: str = "plain"
    narrows: bool = False
    negated: bool = False


G = "g(r.sub, p.sub)"
DOM = "sub, dom, obj, act"
KINDS = {
    "equal": Kind("r.sub == p.sub && r.obj == p.obj && r.act == p.act", roles=()),
    "rbac": Kind(worlds.RBAC),
    "rbac-star": Kind(f'({G} || p.sub == "*") && (r.obj == p.obj || p.obj == "*") && (p.act == "*" || r.act == p.act)'),
    "rbac-or-self": Kind(f"({G} || r.sub == p.sub) && r.obj == p.obj && r.act == p.act"),
    "resource-roles": Kind(f"{G} && g2(r.obj, p.obj) && r.act == p.act", roles=("g = _, _", "g2 = _, _")),
    "reversed-roles": Kind(
        'r.sub == p.sub && g(p.act, r.act) && (g2(p.obj, r.obj) || p.obj == "*")', roles=("g = _, _", "g2 = _, _")
    ),
    "domains": Kind(
        "g(r.sub, p.sub, r.dom) && r.dom == p.dom && r.obj == p.obj && r.act == p.act", DOM, DOM, ("g = _, _, _",)
    ),
    "domain-of-the-row": Kind("g(r.sub, p.sub, p.dom) && r.obj == p.obj && r.act == p.act", DOM, DOM, ("g = _, _, _",)),
    "domain-patterns": Kind(
        "g(r.sub, p.sub, r.dom) && keyMatch(r.dom, p.dom) && keyMatch(r.obj, p.obj) && custom(r.act, p.act)",
        DOM,
        DOM,
        ("g = _, _, _",),
        "key",
    ),
    "key": Kind(f"r.act == p.act && keyMatch(r.obj, p.obj) && {G}", objects="key"),
    "key-star": Kind(
        f'{G} && (r.act == p.act || p.act == "*") && (p.obj == "*" || keyMatch(r.obj, p.obj))', objects="key"
    ),
    "three-keys": Kind(f"{G} && keyMatch(r.act, p.act) && keyMatch(r.obj, p.obj)", objects="key"),
    "glob": Kind(f"{G} && globMatch(r.obj, p.obj) && r.act == p.act", objects="glob"),
    "glob-star": Kind(f'{G} && (p.obj == "*" || globMatch(r.obj, p.obj)) && r.act == p.act', objects="glob"),
    "key2": Kind(f"{G} && keyMatch2(r.obj, p.obj) && regexMatch(r.act, p.act)", objects="path", narrows=True),
    "key3": Kind(f"{G} && keyMatch3(r.obj, p.obj) && r.act == p.act", objects="path", narrows=True),
    "key4": Kind(f"{G} && keyMatch4(r.obj, p.obj) && r.act == p.act", objects="path", narrows=True),
    "key5": Kind(f"{G} && keyMatch5(r.obj, p.obj) && r.act == p.act", objects="path", narrows=True),
    "regex": Kind(f"{G} && r.obj == p.obj && regexMatch(r.act, p.act)", narrows=True),
    "regex-constant": Kind(f'{G} && r.obj == p.obj && regexMatch(r.act, "c.*")', narrows=True),
    "not-regex": Kind(f"{G} && r.obj == p.obj && !regexMatch(r.act, p.act)", narrows=True, negated=True),
    "ip": Kind("ipMatch(r.sub, p.sub) && r.obj == p.obj", roles=(), objects="ip"),
    "root": Kind(f'{worlds.RBAC} || r.sub == "root"'),
    "root-inside": Kind(f'(r.sub == "root" || {G}) && r.obj == p.obj && r.act == p.act'),
    "two-branches": Kind(f"{G} && r.obj == p.obj || r.sub == p.sub && r.act == p.act"),
    "not-equal": Kind(f"{G} && !(r.obj == p.obj) && r.act != p.act"),
    "in-list": Kind(f'{G} && r.obj in ["a", "b", p.obj] && r.act == p.act'),
    "two-columns": Kind(f"{G} && (r.obj == p.obj || r.act == p.act)"),
    "custom": Kind("r.obj == p.obj && custom(p.act, r.act) && r.sub in ('s1', 's2', 'r1', p.sub)", roles=()),
    "custom-impure": Kind(f"{G} && impure(r.obj, p.obj)", objects="key"),
    "eval": Kind("eval(p.rule) && r.obj == p.obj && r.act == p.act", policy="rule, obj, act", narrows=True),
    "eval-last": Kind("r.obj == p.obj && (r.act == p.act || eval(p.rule))", policy="rule, obj, act", narrows=True),
}

NAMES = ["s0", "s1", "s2", "r0", "r1", "r2"]
SUBJECTS = [*NAMES, "root"]
DOMAINS = ["d1", "d2", "d_", "d*"]
ACTIONS = ["call", "read", "callx", "CALL"]
TARGETS = [
    "a",
    "b",
    "mcp_x",
    "mcp_x_1",
    "web/search",
    "web",
    "web/",
    "web//search",
    "x.y",
    "xzy",
    "a*",
    "MCP_x",
    "/k/7",
]
TARGETS += ["/k/7/x", "/k", "/k/7?q=1", "/k/7/c/7", "/k/7/c/8", ".env", "ab"]
PATTERNS = {
    "plain": ["a", "b", "*", "x.y", "mcp_x", "a*"],
    "key": ["a", "b", "*", "mcp_*", "mcp_x*", "web/*", "web*", "a*", "/k/*", "x.y"],
    "glob": [
        "a",
        "b",
        "*",
        "**",
        "mcp_*",
        "mcp_x_*",
        "web/*",
        "web/**",
        "w?b",
        "[ab]",
        "{a,b}",
        "*/search",
        "x.y",
        "a*",
        "*b",
    ],
    "path": [
        "a",
        "/k/:id",
        "/k/*",
        "/k/{id}",
        "/k/{id}/c/{id}",
        "/k/:id/c/:x",
        "x.y",
        "/k",
        "web/*",
        "a+",
        "mcp_x*",
        "/k/7/(x)?",
    ],
    "ip": ["10.0.0.0/8", "10.1.2.3", "192.168.0.0/16", "::1"],
}
PATTERNS["path"].remove("/k/7/(x)?")  # keyMatch4 refuses brackets of a pattern's own; tested by itself
PATTERN_ACTIONS = ["call", "read", "*", "c.*", "ca", "(call|read)$", "^call$"]
ROW_ACTIONS = ["call", "read", "*", "callx", "c*"]
RULES = [
    'r.sub == "s0"',
    "r.obj == p.obj",
    'r.sub == "s1" || r.act == "call"',
    'keyMatch(r.obj, "mcp_*") && r.sub != "s2"',
    'regexMatch(r.act, "ca")',
    'r.sub in ("s0", "root")',
    "p.act == r.act && !(r.sub == 's1')",
    "custom(r.sub, p.act)",
]
IPS = ["10.1.2.3", "10.9.9.9", "192.168.7.7", "::1", "8.8.8.8"]

FUNCTIONS: dict[str, Any] = {
    "custom": pure(lambda one, other: one == other or other == "*"),
    "impure": lambda one, other: one.startswith(other.rstrip("*")),
}


@st.composite
def worlds_of(
    draw: Any, kind: Kind, effect: str, with_effect: bool
) -> tuple[str, list[list[str]], dict[str, list[list[str]]]]:
    """The model's text, the rows and the links of one random policy."""
    columns = [c.strip() for c in kind.policy.split(",")]
    if effect == worlds.PRIORITY and draw(st.booleans()):
        columns.insert(0, "priority")
    if with_effect:
        columns.append("eft")
    regex_actions = "regexMatch(r.act, p.act)" in kind.matcher
    choices = {
        "sub": st.sampled_from(PATTERNS["ip"] if kind.objects == "ip" else [*SUBJECTS, "*"]),
        "dom": st.sampled_from(DOMAINS),
        "obj": st.sampled_from(PATTERNS[kind.objects]),
        "act": st.sampled_from(PATTERN_ACTIONS[:2] + PATTERN_ACTIONS[3:] if regex_actions else ROW_ACTIONS),
        "eft": st.sampled_from(["allow", "allow", "deny"]),
        "priority": st.sampled_from(["1", "2", "10"]),
        "rule": st.sampled_from(RULES),
    }
    row = st.tuples(*(choices[column] for column in columns))
    rows = [list(values) for values in draw(st.lists(row, min_size=1, max_size=12))]
    links: dict[str, list[list[str]]] = {}
    ordered = effect == worlds.SUBJECT_PRIORITY  # Casbin refuses cycles there
    for definition in kind.roles:
        gtype, width = definition.partition(" ")[0], definition.count("_")
        member = st.sampled_from(PATTERNS["plain"] + TARGETS[:4] if gtype == "g2" else [*NAMES, *ROW_ACTIONS[:2]])
        role = st.sampled_from(PATTERNS["plain"] if gtype == "g2" else [*NAMES[2:], *ROW_ACTIONS[:2]])
        pairs = draw(st.lists(st.tuples(member, role, st.sampled_from(DOMAINS)), max_size=8))
        links[gtype] = [list(pair[:width]) for pair in pairs if not ordered or pair[0] < pair[1]]
    text = worlds.model_text(kind.request, ", ".join(columns), kind.matcher, effect, kind.roles)
    return text, rows, links


TEMPLATES = {
    "sub": ["{attributes.sub}", "{user_id}", "{role}"],
    "dom": ["{attributes.dom}"],
    "obj": ["{target}"],
    "act": ["{action}"],
}


@_settings(0.95)
@given(st.data())
def test_equals_casbin(data: st.DataObject) -> None:
    """Whatever the model: the same decision, explained by the same row."""
    kind = KINDS[data.draw(st.sampled_from(sorted(KINDS)), label="kind")]
    effects = [worlds.ALLOW, worlds.BOTH, worlds.DENY, worlds.PRIORITY]
    if "g = _, _" in kind.roles and "sub" in kind.policy:
        effects.append(worlds.SUBJECT_PRIORITY)
    effect = data.draw(st.sampled_from(effects), label="effect")
    with_effect = effect != worlds.ALLOW or data.draw(st.booleans(), label="with effect")
    text, rows, links = data.draw(worlds_of(kind, effect, with_effect), label="policy")
    policies = worlds.policy_set(text, rows, links, functions=FUNCTIONS)
    columns = [column.strip() for column in kind.request.split(",")]
    templates = [data.draw(st.sampled_from(TEMPLATES[column])) for column in columns]
    snapshot = PolicySnapshot.build(policies, request=templates, functions=FUNCTIONS)
    stock = worlds.enforcer(policies, FUNCTIONS)
    asked = st.tuples(
        st.sampled_from(IPS if kind.objects == "ip" else SUBJECTS),
        st.sampled_from(DOMAINS[:3]),
        st.sampled_from(TARGETS),
        st.sampled_from(ACTIONS),
    )
    for sub, dom, obj, act in data.draw(st.lists(asked, min_size=6, max_size=14), label="requests"):
        values = {"sub": sub, "dom": dom, "obj": obj, "act": act}
        given_ = [values[column] for column in columns]
        request = worlds.request(sub, obj, act, dom=dom)
        decision = snapshot.authorize(request)
        again = snapshot.authorize(request)
        assert (again.allow, again.policy_id, again.code) == (decision.allow, decision.policy_id, decision.code)
        wide = worlds.asked(stock, given_)
        if decision.code in REFUSED:
            assert decision.allow is False
            continue
        if wide is None:
            continue
        got = decision.allow, worlds.row_of(snapshot, decision)
        if not kind.narrows:
            assert got == wide, (request, decision)
            continue
        assert got == worlds.narrowed(stock, given_, kind.negated), (request, decision)
        assert not (decision.allow and not wide[0]), "a correction widened access"


@_settings(0.05)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(SUBJECTS),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["call"]),
            st.sampled_from(["allow", "deny"]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=6),
)
def test_the_filter_is_what_is_allowed(rows: list[tuple[str, ...]], links: list[tuple[str, ...]]) -> None:
    """Without conditions and questions, a filter keeps exactly what a decision allows."""
    snapshot = PolicySnapshot.build(
        worlds.policy_set(worlds.model_text(), rows, links), request=["{user_id}", "{target}", "{action}"]
    )
    candidates = ["a", "b", "c", "a"]
    for name in SUBJECTS:
        allowed = [x for x in candidates if snapshot.authorize(worlds.request(name, x)).allow]
        assert snapshot.filter(Principal(user_id=name, role="r"), "tool", candidates) == allowed


def test_long_role_chains_are_followed_to_the_end() -> None:
    """A stated correction: Casbin stops after nine links. The load warns."""
    links = [(f"n{i}", f"n{i + 1}") for i in range(14)]
    policies = worlds.policy_set(
        worlds.model_text(), [("n14", "a", "call", "allow"), ("n14", "b", "call", "deny")], links
    )
    snapshot = PolicySnapshot.build(policies, request=["{user_id}", "{target}", "{action}"])
    assert worlds.asked(worlds.enforcer(policies), ["n0", "a", "call"]) == (False, [])
    assert snapshot.authorize(worlds.request("n0", "a")).allow is True
    assert snapshot.authorize(worlds.request("n0", "b")).policy_id == "policy.csv:2"
    assert [(p.code, p.file, p.line) for p in snapshot.problems] == [("long-role-chain", "links.csv", 1)]


@pytest.mark.parametrize(
    ("matcher", "pattern", "value"),
    [
        pytest.param("keyMatch2(r.obj, p.obj)", "/api/v1.0/users", "/api/v1X0/users", id="dot-in-keymatch2"),
        pytest.param("keyMatch3(r.obj, p.obj)", "/api/v1.0/{x}", "/api/v1X0/7", id="dot-in-keymatch3"),
        pytest.param("keyMatch4(r.obj, p.obj)", "/a+/{x}", "/aaa/7", id="plus-in-keymatch4"),
        pytest.param("keyMatch5(r.obj, p.obj)", "/a.b", "/axb", id="dot-in-keymatch5"),
        pytest.param("regexMatch(r.obj, p.obj)", "get", "getall", id="start-only-regex"),
    ],
)
def test_corrections_only_narrow(matcher: str, pattern: str, value: str) -> None:
    """Where Casbin's match is wider than what is written: kept in rows that deny, not in rows that allow."""
    text = worlds.model_text(matcher=f"r.sub == p.sub && {matcher} && r.act == p.act", roles=())
    for effect in ("allow", "deny"):
        policies = worlds.policy_set(text, [("s", pattern, "call", effect), ("s", value, "read", "allow")])
        wide = worlds.asked(worlds.enforcer(policies), ["s", value, "call"])
        assert wide == (effect == "allow", ["s", pattern, "call", effect])
        snapshot = PolicySnapshot.build(policies, request=["{user_id}", "{target}", "{action}"])
        decision = snapshot.authorize(worlds.request("s", value))
        assert decision.allow is False
        assert decision.code == ("authz.no_policy" if effect == "allow" else "authz.denied")


def test_a_policy_on_which_casbin_would_raise_is_refused() -> None:
    text = worlds.model_text(matcher="r.sub == p.sub && regexMatch(r.obj, p.obj)", roles=())
    policies = worlds.policy_set(text, [("s", "a", "call", "allow"), ("t", "(", "call", "allow")])
    with pytest.raises(PolicyError) as refused:
        PolicySnapshot.build(policies, request=["{user_id}", "{target}", "{action}"])
    (problem,) = refused.value.problems
    assert (problem.file, problem.line) == ("policy.csv", 2)


def test_values_of_the_request_are_asked_as_they_are() -> None:
    """The random tests speak through attributes and names alike: the same subject, whichever way it comes."""
    policies = worlds.policy_set(worlds.model_text(), [("s", "a", "call", "allow")])
    for template in ("{user_id}", "{role}", "{attributes.sub}"):
        snapshot = PolicySnapshot.build(policies, request=[template, "{target}", "{action}"])
        assert snapshot.authorize(worlds.request("s", "a")).allow is True
        stranger = AuthzRequest(Principal("x", "x", attributes={"sub": "x"}), "tool", "call", "a")
        assert snapshot.authorize(stranger).allow is False
