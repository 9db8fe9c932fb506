"""The rules of a policy as tools see them: what each is about, under remit's own model and under others."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.providers.casbin.listing import ListedRule
from remit.providers.casbin.provider import CasbinAuthorizationProvider

ROLES = """\
roles:
  guest: {tools: {allow: [read_file, "mcp__db__*"], ask: [bash]}, models: {allow: "*"}, routes: {allow: ["threads:*"]}}
"""
POLICY = """\
p, *, *, *, *, deny, r.ctx.principal.attributes.locked == True
p, role:guest, tool, bash, call, deny,
"""


def rules(tmp_path: Path, files: dict[str, str], **options: object) -> list[ListedRule]:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    policies = [name for name in files if not name.endswith(".conf")]
    provider = CasbinAuthorizationProvider(policies=policies, base_dir=tmp_path, **options)  # type: ignore[arg-type]
    return list(provider.rules())


def test_rules_come_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    listed = rules(tmp_path, {"roles.yaml": ROLES, "policy.csv": POLICY})
    told = [(rule.policy_id, rule.effect, rule.resource, rule.target) for rule in listed]
    assert sorted(told[:-2], key=str) == sorted(
        [
            ("roles.yaml:2", "allow", "tool", "read_file"),
            ("roles.yaml:2", "allow", "tool", "mcp__db__*"),
            ("roles.yaml:2", "ask", "tool", "bash"),
            ("roles.yaml:2", "allow", "model", None),
            ("roles.yaml:2", "allow", "model", None),
            ("roles.yaml:2", "allow", "route", "threads:*"),
        ],
        key=str,
    )
    assert told[-2:] == [("policy.csv:1", "deny", None, None), ("policy.csv:2", "deny", "tool", "bash")]


def test_text_is_that_of_the_trace(tmp_path: Path) -> None:
    from remit.authz.types import AuthzRequest, Principal

    listed = {rule.text for rule in rules(tmp_path, {"roles.yaml": ROLES, "policy.csv": POLICY})}
    provider = CasbinAuthorizationProvider(policies=["roles.yaml", "policy.csv"], base_dir=tmp_path)
    for tool in ("read_file", "bash", "mcp__db__query"):
        request = AuthzRequest(Principal(role="guest"), "tool", "call", tool)
        traced = {rule.text for rule in provider.trace(request).rules}
        assert traced
        assert traced <= listed


@pytest.mark.parametrize(
    ("target", "name", "covers"),
    [
        pytest.param("read_file", "read_file", True, id="name"),
        pytest.param("read_file", "read_files", False, id="other-name"),
        pytest.param("mcp__db__*", "mcp__db__query", True, id="pattern"),
        pytest.param("mcp__db__*", "mcp__hr__query", False, id="pattern-of-another"),
        pytest.param("*", "anything", True, id="everything"),
    ],
)
def test_patterns_cover_what_the_policy_would_match(tmp_path: Path, target: str, name: str, covers: bool) -> None:
    (rule,) = rules(tmp_path, {"policy.csv": f"p, role:guest, tool, {target}, call, allow,\n"})
    assert rule.matches(name) is covers


FOREIGN = """\
[request_definition]
r = sub, kind, obj, act
[policy_definition]
p = sub, kind, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && r.kind == p.kind && {matcher} && r.act == p.act
"""


@pytest.mark.parametrize(
    ("matcher", "target", "function"),
    [
        pytest.param("r.obj == p.obj", "/a/*", None, id="equality"),
        pytest.param("keyMatch2(r.obj, p.obj)", "/a/:id", "keyMatch2", id="keyMatch2"),
        pytest.param("regexMatch(r.obj, p.obj)", "^/a/[0-9]+$", "regexMatch", id="regexMatch"),
    ],
)
def test_model_of_the_operator(tmp_path: Path, matcher: str, target: str, function: str | None) -> None:
    files = {"model.conf": FOREIGN.replace("{matcher}", matcher), "policy.csv": f'p, guest, tool, "{target}", call\n'}
    request = ["{role}", "{resource}", "{target}", "{action}"]
    (rule,) = rules(tmp_path, files, model="model.conf", request=request)
    assert (rule.resource, rule.target, rule.effect, rule.function) == ("tool", target, "allow", function)
    assert rule.matches("/a/7") is (function is not None)
    assert not rule.matches("/b/7")


def test_columns_that_hold_more_than_a_name_are_not_guessed_at(tmp_path: Path) -> None:
    model = FOREIGN.replace("{matcher}", "r.obj == p.obj").replace("kind, ", "").replace("r.kind == p.kind && ", "")
    files = {"model.conf": model, "policy.csv": "p, guest, tool/bash, call\n"}
    (rule,) = rules(tmp_path, files, model="model.conf", request=["{role}", "{resource}/{target}", "{action}"])
    assert (rule.resource, rule.target) == (None, None)
