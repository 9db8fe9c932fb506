"""Deciding by policy files as they are found in the wild: the answers of every case, through loader and snapshot."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.support.cases import CASES, Case

from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin.files.loader import load_policy_set
from remit.providers.casbin.snapshot import PolicySnapshot

DECIDED = [case for case in CASES if case.asks]


class Asked:
    """A case's policy behind a snapshot. The object column is asked as the target, the others as attributes."""

    def __init__(self, case: Case, folder: Path) -> None:
        case.write(folder)
        line = next(line for line in case.model.splitlines() if line.startswith("r ="))
        self.columns = [column.strip() for column in line.partition("=")[2].split(",")]
        templates = ["{target}" if column == "obj" else f"{{attributes.{column}}}" for column in self.columns]
        policies = load_policy_set(policies=["policy.csv"], model="model.conf", base_dir=folder, request=templates)
        self.snapshot = PolicySnapshot.build(policies)

    def principal(self, values: tuple[str, ...]) -> Principal:
        return Principal("u", "r", attributes=dict(zip(self.columns, values, strict=True)))

    def allowed(self, values: tuple[str, ...]) -> bool:
        target = values[self.columns.index("obj")]
        if not target:
            with pytest.raises(ValueError, match="non-empty"):
                AuthzRequest(self.principal(values), "tool", "call", target)
            return False
        request = AuthzRequest(self.principal(values), "tool", "call", target)
        first, again = self.snapshot.authorize(request), self.snapshot.authorize(request)
        assert first.allow is again.allow
        return first.allow


@pytest.mark.parametrize("case", DECIDED, ids=lambda case: case.id)
def test_answers(case: Case, tmp_path: Path) -> None:
    asked = Asked(case, tmp_path)
    assert {values: asked.allowed(values) for values, _ in case.asks} == dict(case.asks)


@pytest.mark.parametrize("case", DECIDED, ids=lambda case: case.id)
def test_the_filter_agrees(case: Case, tmp_path: Path) -> None:
    asked = Asked(case, tmp_path)
    place = asked.columns.index("obj")
    for values, allowed in case.asks:
        shown = asked.snapshot.filter(asked.principal(values), "tool", [values[place], "no such thing"])
        assert (values[place] in shown) is allowed


def test_both_sides_are_there() -> None:
    answers = [allowed for case in DECIDED for _, allowed in case.asks]
    assert answers.count(True) > 20
    assert answers.count(False) > 20


ROLES = """\
version: 1
roles:
  locked: {tools: {deny: ["*"]}}
  staff: {tools: {allow: "*", deny: ["mcp__db__*"]}}
  open: {tools: {allow: ["*"]}}
  empty: {tools: {allow: []}}
"""


@pytest.mark.parametrize(
    ("role", "tool", "code"),
    [
        pytest.param("locked", "bash", "authz.denied", id="star-in-a-deny-list"),
        pytest.param("staff", "mcp__db__drop_table", "authz.denied", id="pattern-in-a-deny-list"),
        pytest.param("staff", "bash", "authz.allowed", id="beside-the-pattern"),
        pytest.param("open", "bash", "authz.allowed", id="star-in-an-allow-list"),
        pytest.param("empty", "bash", "authz.no_policy", id="empty-allow-list"),
        pytest.param("nobody", "bash", "authz.unknown_role", id="unknown-role"),
    ],
)
def test_roles_file(role: str, tool: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text(ROLES, encoding="utf-8")
    snapshot = PolicySnapshot.build(load_policy_set(policies=["roles.yaml"], model=None, base_dir=tmp_path))
    who = Principal("u", role)
    assert snapshot.authorize(AuthzRequest(who, "tool", "call", tool)).code == code
    assert snapshot.filter(who, "tool", [tool]) == ([tool] if code == "authz.allowed" else [])


@pytest.mark.slow
def test_five_thousand_rules_and_two_hundred_tools(tmp_path: Path) -> None:
    """RLD-05: the visibility filter for one role, then a hundred names that match nothing."""
    rows = [f"p, role:r{n % 50}, tool, srv{n}_*, call, allow," for n in range(5000)]
    (tmp_path / "policy.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    snapshot = PolicySnapshot.build(load_policy_set(policies=["policy.csv"], model=None, base_dir=tmp_path))
    who = Principal("u", "r7")
    started = time.perf_counter()
    shown = snapshot.filter(who, "tool", [f"srv{n}_get" for n in range(200)])
    filtered = time.perf_counter() - started
    assert shown == ["srv7_get", "srv57_get", "srv107_get", "srv157_get"]
    started = time.perf_counter()
    answers = {snapshot.authorize(AuthzRequest(who, "tool", "call", f"nothing{n}")).code for n in range(100)}
    missed = (time.perf_counter() - started) / 100
    assert answers == {"authz.no_policy"}
    assert filtered < 1.0
    assert missed < 0.004
