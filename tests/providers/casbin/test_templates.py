"""Requests in the terms of somebody else's model: nothing missing, nothing ambiguous, no wildcard from outside."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import casbin_worlds as worlds

from remit.authz.errors import PolicyError
from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.providers.casbin.engine.templates import Template
from remit.providers.casbin.snapshot import PolicySnapshot

DOM = "sub, dom, obj, act"
DOMAIN_MODEL = worlds.model_text(
    DOM, DOM, 'g(r.sub, p.sub, r.dom) && (r.dom == p.dom || p.dom == "*") && r.obj == p.obj && r.act == p.act',
    worlds.ALLOW, ["g = _, _, _"],
)  # fmt: skip


def _snapshot(template: list[str], rows: Any, text: str | None = None, links: Any = ()) -> PolicySnapshot:
    return PolicySnapshot.build(worlds.policy_set(text or worlds.model_text(), rows, links), request=template)


def _ask(snapshot: PolicySnapshot, who: Principal, target: str = "bash", action: str = "call") -> AuthzDecision:
    return snapshot.authorize(AuthzRequest(who, "tool", action, target))


def _tenants() -> PolicySnapshot:
    rows = [("admin", "t1", "bash", "call"), ("admin", "*", "ls", "call")]
    links = [("ann", "admin", "t1"), ("ann", "admin", "*")]
    return _snapshot(["{user_id}", "{attributes.tenant}", "{target}", "{action}"], rows, DOMAIN_MODEL, links)


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        pytest.param({"tenant": "t1"}, "authz.allowed", id="given"),
        pytest.param({"tenant": "t2"}, "authz.no_policy", id="another"),
        pytest.param({}, "authz.invalid_request", id="missing"),
        pytest.param({"tenant": None}, "authz.invalid_request", id="null"),
        pytest.param({"tenant": ""}, "authz.invalid_request", id="empty"),
        pytest.param({"tenant": 1}, "authz.invalid_request", id="number"),
        pytest.param({"tenant": ["t1"]}, "authz.invalid_request", id="list"),
        pytest.param({"tenant": {"t1": 1}}, "authz.invalid_request", id="mapping"),
        pytest.param({"tenant": "*"}, "authz.invalid_request", id="star-is-no-wildcard"),
        pytest.param({"tenant": "t1\n"}, "authz.invalid_request", id="newline"),
        pytest.param({"tenant": " t1"}, "authz.invalid_request", id="blank"),
    ],
)
def test_attributes(attributes: dict[str, Any], code: str) -> None:
    snapshot = _tenants()
    who = Principal("ann", "r", attributes=attributes)
    for _ in range(2):
        assert _ask(snapshot, who).code == code
    assert snapshot.filter(who, "tool", ["bash"]) == (["bash"] if code == "authz.allowed" else [])


@pytest.mark.parametrize(
    ("template", "who", "code"),
    [
        pytest.param("{user_id}", Principal(None, "r"), "authz.invalid_request", id="no-user"),
        pytest.param("{user_id}", Principal("*", "r"), "authz.invalid_request", id="user-star"),
        pytest.param("{role}", Principal("u", None), "authz.unknown_role", id="no-role"),
        pytest.param("{role}", Principal("u", "stranger"), "authz.unknown_role", id="unknown-role"),
        pytest.param("{role}", Principal("u", "*"), "authz.invalid_request", id="role-star"),
        pytest.param("role:{role}", Principal("u", "admin"), "authz.unknown_role", id="prefix-that-nobody-has"),
        pytest.param("{role}", Principal("u", "admin"), "authz.allowed", id="known-role"),
        pytest.param("{role}", Principal("u", "member"), "authz.allowed", id="known-by-a-link"),
        pytest.param("{user_id}", Principal("admin", "stranger"), "authz.allowed", id="role-not-asked-for"),
    ],
)
def test_subjects(template: str, who: Principal, code: str) -> None:
    rows = [("admin", "bash", "call", "allow"), ("*", "bash", "call", "allow")]
    snapshot = _snapshot([template, "{target}", "{action}"], rows, links=[("member", "admin")])
    for _ in range(2):
        assert _ask(snapshot, who).code == code


@pytest.mark.parametrize(
    ("who", "code"),
    [
        pytest.param(Principal("u", "admin"), "authz.allowed", id="known"),
        pytest.param(Principal("u", "root"), "authz.allowed", id="known-to-the-matcher"),
        pytest.param(Principal("u", "member"), "authz.allowed", id="known-by-a-link"),
        pytest.param(Principal("u", "tmp_1"), "authz.allowed", id="known-by-a-pattern"),
        pytest.param(Principal("u", "stranger"), "authz.unknown_role", id="unknown"),
    ],
)
@pytest.mark.parametrize("template", ["{role}", "{attributes.team}/{role}"])
def test_unknown_roles_of_models_beyond_the_common_shape(template: str, who: Principal, code: str) -> None:
    before = "red/" if "/" in template else ""
    rows = [(f"{before}admin", "bash", "call", "allow"), (f"{before}tmp_*", "bash", "call", "allow")]
    matcher = f'(g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && r.obj == p.obj || r.sub == "{before}root"'
    text = worlds.model_text(matcher=matcher)
    snapshot = _snapshot([template, "{target}", "{action}"], rows, text, [(f"{before}member", f"{before}admin")])
    asked = Principal(who.user_id, who.role, attributes={"team": "red"})
    for _ in range(2):
        assert _ask(snapshot, asked).code == code


def test_a_refused_principal_sees_nothing_even_where_everything_is_allowed() -> None:
    text = worlds.model_text(effect=worlds.DENY)
    snapshot = _snapshot(["{role}", "{target}", "{action}"], [("admin", "bash", "call", "deny")], text)
    assert _ask(snapshot, Principal("u", "admin"), "ls").code == "authz.allowed"
    assert snapshot.filter(Principal("u", "admin"), "tool", ["ls", "bash", "../x"]) == ["ls"]
    assert _ask(snapshot, Principal("u", "stranger"), "ls").code == "authz.unknown_role"
    assert snapshot.filter(Principal("u", "stranger"), "tool", ["ls", "bash"]) == []


def test_a_target_may_be_called_star_and_is_no_wildcard() -> None:
    """A sandbox has no other name. Only a rule for everything, or for that name, holds for it."""
    text = worlds.model_text(matcher="g(r.sub, p.sub) && keyMatch(r.obj, p.obj) && r.act == p.act")
    snapshot = _snapshot(
        ["{role}", "{target}", "{action}"], [("a", "*", "call", "allow"), ("b", "mcp_*", "call", "allow")], text
    )
    assert _ask(snapshot, Principal("u", "a"), "*").code == "authz.allowed"
    assert _ask(snapshot, Principal("u", "b"), "*").code == "authz.no_policy"


def test_joined_values_cannot_be_mistaken_for_others() -> None:
    rows = [("red", "team:a/b", "call", "allow")]
    text = worlds.model_text(matcher="r.sub == p.sub && r.obj == p.obj && r.act == p.act", roles=())
    snapshot = _snapshot(["{role}", "team:{attributes.team}/{target}", "{action}"], rows, text)
    assert _ask(snapshot, Principal("u", "red", attributes={"team": "a"}), "b").code == "authz.allowed"
    swapped = snapshot.authorize(AuthzRequest(Principal("u", "red", attributes={"team": "a/b"}), "tool", "call", "c"))
    assert swapped.code == "authz.invalid_request"
    assert "separates" in swapped.reasons[0].message


def test_a_value_may_not_end_in_a_part_of_what_separates_it() -> None:
    rows = [("red", "a:::b", "call", "allow")]
    text = worlds.model_text(matcher="r.sub == p.sub && r.obj == p.obj && r.act == p.act", roles=())
    snapshot = _snapshot(["{role}", "{attributes.team}::{target}", "{action}"], rows, text)
    assert _ask(snapshot, Principal("u", "red", attributes={"team": "a"}), ":b").code == "authz.allowed"
    assert _ask(snapshot, Principal("u", "red", attributes={"team": "a:"}), "b").code == "authz.invalid_request"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        pytest.param(["{role}"], "1 templates for 3 request columns", id="too-few"),
        pytest.param(["{rol}", "{target}", "{action}"], "did you mean {role}", id="misspelt"),
        pytest.param(["{role", "{target}", "{action}"], "bracket", id="open-bracket"),
        pytest.param(["{role}{user_id}", "{target}", "{action}"], "nothing separates", id="no-separator"),
        pytest.param(["x{ctx}", "{target}", "{action}"], "must stand alone", id="ctx-in-text"),
        pytest.param(["", "{target}", "{action}"], "empty template", id="empty"),
        pytest.param(["{attributes.}", "{target}", "{action}"], "unknown placeholder", id="attribute-without-name"),
    ],
)
def test_templates_that_are_refused(texts: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Template(texts, ["sub", "obj", "act"])
    with pytest.raises(PolicyError, match=words):
        _snapshot(texts, [("a", "b", "call", "allow")])


def test_a_model_without_templates_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"set 'request' .* for example \['\{role\}', '\{target\}', '\{action\}'\]"):
        PolicySnapshot.build(worlds.policy_set(worlds.model_text(), [("a", "b", "call", "allow")]))
