"""Explanations: the trace says what happened, and every suggested change really allows the request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.authz.errors import PolicyError
from remit.authz.types import AuthzRequest, Explanation, Principal
from remit.providers.casbin import CasbinAuthorizationProvider

Provider = CasbinAuthorizationProvider


def provider(folder: Path, **options: Any) -> Provider:
    return Provider(**{"policies": ["policy.csv"], "base_dir": folder, **options})


def asked(user: str | None = None, role: str | None = None, target: str = "bash", **more: Any) -> AuthzRequest:
    principal = Principal(user, role, attributes=more.pop("attributes", {}))
    resource, action = more.pop("resource", "tool"), more.pop("action", "call")
    return AuthzRequest(principal, resource, action, target, {"args": more} if more else {})


def apply_changes(folder: Path, changes: Sequence[str]) -> None:
    """Do to the files what an operator would do who follows the suggestions."""
    gone: dict[str, set[int]] = {}
    added: list[tuple[str, int | None, str]] = []
    for change in changes:
        if found := re.fullmatch(r"remove (\S+):(\d+): .*", change):
            gone.setdefault(found[1], set()).add(int(found[2]))
        else:
            found = re.fullmatch(r"add to ([^\s:]+)(?::(\d+), before that line)?: (.*)", change)
            assert found, change
            added.append((found[1], int(found[2]) if found[2] else None, found[3]))
    for name in {*gone, *(file for file, _, _ in added)}:
        lines: dict[float, str] = dict(enumerate((folder / name).read_text("utf-8").splitlines(), 1))
        for number in gone.get(name, ()):
            del lines[number]
        for file, before, line in added:
            if file == name:
                lines[max(lines, default=0) + 1 if before is None else before - 0.5] = line
        (folder / name).write_text("".join(f"{lines[at]}\n" for at in sorted(lines)), "utf-8")


def check_changes(folder: Path, found: Explanation, **options: Any) -> None:
    assert not found.decision.allow
    apply_changes(folder, found.changes)
    assert provider(folder, **options).authorize(found.request).allow


NATIVE = """\
# who may what
p, role:user, tool, bash, call, allow,
p, role:low, tool, bash, call, deny,
p, role:low, tool, b*, call, ask,
p, role:poor, tool, bash, call, deny,
g, user:ann, role:low
g, role:poor, role:low
p, role:payer, tool, pay, call, allow, r.ctx.args.amount <= 100
p, role:sender, tool, send, call, ask,
p, role:sender, tool, "a, b", call, deny,
p, *, tool, wipe, call, deny,
g, user:eve, role:poor
"""


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        pytest.param(
            asked("bob", "user", "ls"), ("add to policy.csv: p, role:user, tool, ls, call, allow,",), id="no-rule"
        ),
        pytest.param(
            asked("bob", "new", "ls"), ("add to policy.csv: p, role:new, tool, ls, call, allow,",), id="unknown-role"
        ),
        pytest.param(asked("ann", "user"), ("remove policy.csv:6: g, user:ann, role:low",), id="one-link-for-two-rows"),
        pytest.param(
            asked("eve", "user"), ("remove policy.csv:12: g, user:eve, role:poor",), id="one-link-for-three-rows"
        ),
        pytest.param(
            asked("bob", "sender", "send"),
            (
                "remove policy.csv:9: p, role:sender, tool, send, call, ask,",
                "add to policy.csv: p, role:sender, tool, send, call, allow,",
            ),
            id="ask",
        ),
        pytest.param(
            asked("bob", "sender", "a, b"),
            (
                'remove policy.csv:10: p,role:sender,tool,"a, b",call,deny,',
                'add to policy.csv: p,role:sender,tool,"a, b",call,allow,',
            ),
            id="a-name-that-needs-quotes",
        ),
        pytest.param(
            asked("bob", "payer", "pay", amount=5000),
            ("add to policy.csv: p, role:payer, tool, pay, call, allow,",),
            id="condition-false",
        ),
        pytest.param(
            asked("bob", "payer", "wipe"),
            (
                "remove policy.csv:11: p, *, tool, wipe, call, deny,",
                "add to policy.csv: p, role:payer, tool, wipe, call, allow,",
            ),
            id="denied-to-everyone",
        ),
        pytest.param(
            asked("bob", "user", "*", resource="sandbox", action="execute"),
            ("add to policy.csv: p, role:user, sandbox, *, execute, allow,",),
            id="sandbox",
        ),
    ],
)
def test_smallest_change(tmp_path: Path, request_: AuthzRequest, changes: tuple[str, ...]) -> None:
    (tmp_path / "policy.csv").write_text(NATIVE)
    found = provider(tmp_path).explain(request_)
    assert found.changes == changes
    check_changes(tmp_path, found)


@pytest.mark.parametrize(
    ("request_", "note"),
    [
        pytest.param(asked("ann", "low"), "no change of one or two", id="too-many-rows"),
        pytest.param(asked("bob", "user", "../x"), "the request itself is refused", id="unsafe-target"),
        pytest.param(asked("bob", "user", "l*"), "no change of one or two", id="a-target-that-is-a-pattern"),
        pytest.param(asked("bob", None, "ls"), "no change of one or two", id="no-role"),
    ],
)
def test_no_small_change(tmp_path: Path, request_: AuthzRequest, note: str) -> None:
    (tmp_path / "policy.csv").write_text(NATIVE)
    found = provider(tmp_path).explain(request_)
    assert found.changes == ()
    assert note in found.notes[-1]


def test_allowed_request_needs_no_change(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text(NATIVE)
    found = provider(tmp_path).explain(asked("bob", "user"))
    assert found.decision.allow
    assert (found.changes, found.notes) == ((), ())
    assert [(rule.policy_id, rule.outcome) for rule in found.rules] == [("policy.csv:2", "decides")]


def test_trace_names_what_matched_and_lost(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text(NATIVE)
    found = provider(tmp_path).explain(asked("ann", "user"))
    assert {"user:ann", "role:user", "role:low"} <= set(found.subjects)
    assert [(rule.policy_id, rule.effect, rule.outcome) for rule in found.rules] == [
        ("policy.csv:2", "allow", "overridden"),
        ("policy.csv:3", "deny", "decides"),
        ("policy.csv:4", "ask", "overridden"),
    ]


def test_trace_says_what_a_condition_read(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text(NATIVE)
    (rule,) = provider(tmp_path).explain(asked("bob", "payer", "pay", amount="5")).rules
    assert (rule.outcome, rule.note) == ("condition-unknown", "args.amount is '5' (str)")


def test_removing_the_last_row_of_a_role_is_no_way_in(tmp_path: Path) -> None:
    """The role would be unknown afterwards, so the suggestion must keep it known."""
    (tmp_path / "policy.csv").write_text("p, role:only, tool, bash, call, deny,\np, *, tool, bash, call, allow,\n")
    found = provider(tmp_path).explain(asked("bob", "only"))
    assert len(found.changes) == 2
    check_changes(tmp_path, found)


ROLES = """\
roles:
  guest:
    tools:
      allow: [read]
      deny: [bash]
  user:
    inherits: [guest]
    models:
      deny: [big]
  admin:
    sandbox: {allow: false}
"""


@pytest.mark.parametrize(
    ("request_", "changes", "edits"),
    [
        pytest.param(
            asked("bob", "user"),
            ("remove roles.yaml:5: roles.guest.tools.deny: bash", "add to roles.yaml: roles.user.tools.allow: bash"),
            [("deny: [bash]", "deny: []"), ("    models:", "    tools: {allow: [bash]}\n    models:")],
            id="deny-inherited",
        ),
        pytest.param(
            asked("bob", "user", "big", resource="model", action="use"),
            ("remove roles.yaml:9: roles.user.models.deny: big", "add to roles.yaml: roles.user.models.allow: big"),
            [("deny: [big]", "allow: [big]")],
            id="one-item-stands-for-several-rows",
        ),
        pytest.param(
            asked("bob", "admin", "*", resource="sandbox", action="execute"),
            ("add to roles.yaml: roles.admin.sandbox.allow: *",),
            [("allow: false", 'allow: "*"')],
            id="sandbox",
        ),
        pytest.param(
            asked("bob", "guest", "notes", resource="memory", action="write"),
            ("add to roles.yaml: roles.guest.memory.write: notes",),
            [("    tools:", "    memory: {write: [notes]}\n    tools:")],
            id="write",
        ),
    ],
)
def test_smallest_change_of_roles(
    tmp_path: Path, request_: AuthzRequest, changes: tuple[str, ...], edits: list[tuple[str, str]]
) -> None:
    (tmp_path / "roles.yaml").write_text(ROLES)
    found = provider(tmp_path, policies=["roles.yaml"]).explain(request_)
    assert found.changes == changes
    text = ROLES
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "roles.yaml").write_text(text)
    assert provider(tmp_path, policies=["roles.yaml"]).authorize(request_).allow


def test_with_both_files_a_grant_goes_into_the_rows(tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text(ROLES)
    (tmp_path / "policy.csv").write_text("p, role:user, tool, ls, call, allow,\n")
    found = provider(tmp_path, policies=["roles.yaml", "policy.csv"]).explain(asked("bob", "user", "cat"))
    assert found.changes == ("add to policy.csv: p, role:user, tool, cat, call, allow,",)


def model(effect: str, matcher: str, columns: str = "sub, obj, act, eft", roles: str = "g = _, _") -> str:
    return (
        "[request_definition]\nr = sub, obj, act\n[policy_definition]\n"
        f"p = {columns}\n[role_definition]\n{roles}\n[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}\n"
    )


EQUAL = "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act"
TEMPLATES = ["{role}", "{target}", "{action}"]


@pytest.mark.parametrize(
    ("text", "rows", "changes"),
    [
        pytest.param(
            model("some(where (p.eft == allow))", EQUAL, "sub, obj, act"),
            "p, user, ls, call\n",
            ("add to policy.csv: p, user, bash, call",),
            id="allow-override",
        ),
        pytest.param(
            model("some(where (p.eft == allow)) && !some(where (p.eft == deny))", EQUAL),
            "p, user, bash, call, allow\np, low, bash, call, deny\ng, user, low\n",
            ("remove policy.csv:2: p, low, bash, call, deny",),
            id="allow-and-deny",
        ),
        pytest.param(
            model("!some(where (p.eft == deny))", EQUAL),
            "p, user, bash, call, deny\np, user, ls, call, deny\n",
            ("remove policy.csv:1: p, user, bash, call, deny",),
            id="deny-override",
        ),
        pytest.param(
            model("priority(p.eft) || deny", EQUAL),
            "p, user, ls, call, allow\np, user, bash, call, deny\np, user, bash, call, deny\n",
            ("add to policy.csv:2, before that line: p, user, bash, call, allow",),
            id="priority-by-place",
        ),
        pytest.param(
            model("priority(p.eft) || deny", EQUAL, "priority, sub, obj, act, eft"),
            "p, 10, user, bash, call, deny\np, 20, user, bash, call, deny\n",
            ("add to policy.csv: p, 9, user, bash, call, allow",),
            id="priority-by-number",
        ),
    ],
)
def test_smallest_change_under_other_models(tmp_path: Path, text: str, rows: str, changes: tuple[str, ...]) -> None:
    (tmp_path / "model.conf").write_text(text)
    (tmp_path / "policy.csv").write_text(rows)
    options = {"model": "model.conf", "request": TEMPLATES}
    found = provider(tmp_path, **options).explain(asked("bob", "user"))
    assert found.changes == changes
    check_changes(tmp_path, found, **options)


SUBJECTS = ["role:a", "role:b", "role:c", "user:ann", "*"]
RULES = st.tuples(
    st.sampled_from(SUBJECTS),
    st.sampled_from(["tool", "*"]),
    st.sampled_from(["x", "y", "x*", "*"]),
    st.sampled_from(["call", "*"]),
    st.sampled_from(["allow", "deny", "ask"]),
    st.sampled_from(["", "", "", "r.ctx.args.n < 5", "r.ctx.principal.attributes.t == 'k'"]),
)
LINKS = st.tuples(st.sampled_from(["user:ann", "role:a", "role:b"]), st.sampled_from(["role:b", "role:c"]))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(RULES, min_size=1, max_size=7, unique=True),
    st.lists(LINKS, max_size=3, unique=True),
    st.sampled_from(["a", "b", "z"]),
    st.sampled_from(["x", "y", "xy"]),
    st.sampled_from([{}, {"n": 1}, {"n": 9}]),
)
def test_every_suggestion_works_and_none_is_larger_than_needed(
    tmp_path_factory: pytest.TempPathFactory,
    rules: list[tuple[str, ...]],
    links: list[tuple[str, str]],
    role: str,
    target: str,
    args: dict[str, int],
) -> None:
    folder = tmp_path_factory.mktemp("p")
    lines = [", ".join(("p", *rule)) for rule in rules] + [", ".join(("g", *link)) for link in links]
    request = asked("ann", role, target, **args)
    (folder / "policy.csv").write_text("\n".join(lines) + "\n")
    try:
        found = provider(folder).explain(request)
    except PolicyError:  # a cycle of roles, a link to a role that nothing mentions
        return
    if found.decision.allow:
        assert not found.changes
        return
    if found.changes:
        check_changes(folder, found)
    single = [f"p, role:{role}, tool, {target}, call, allow,"]
    for size in range(1, 3 if not found.changes else len(found.changes)):
        for gone in combinations(range(len(lines)), size):
            assert not allows(folder, [line for at, line in enumerate(lines) if at not in gone], request)
        for gone in combinations(range(len(lines)), size - 1):
            assert not allows(folder, [line for at, line in enumerate(lines) if at not in gone] + single, request)


def allows(folder: Path, lines: list[str], request: AuthzRequest) -> bool:
    (folder / "policy.csv").write_text("\n".join(lines) + "\n")
    try:
        return provider(folder).authorize(request).allow
    except PolicyError:
        return False
