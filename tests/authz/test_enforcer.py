"""The facade: sync and async give one answer, failures become decisions, and what cannot be recorded is denied."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from remit.authz import AuthzDecision, AuthzRequest, ConfigError, Enforcer, Principal, load_config
from remit.authz.errors import TicketRefused
from remit.authz.provider import ProviderBase

USER = Principal("u1", "user")


class Search(ProviderBase):
    """Everybody may search; an admin may do everything."""

    name = "search-only"
    blocking = False
    policy_version = "v7"

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        if request.target == "broken":
            raise OSError("down")
        allowed = request.target == "search" or request.principal.role == "admin"
        return AuthzDecision(allowed, policy_id="search.py:1", policy_version="v7")


def asks(target: str, principal: Principal = USER) -> AuthzRequest:
    return AuthzRequest(principal, "tool", "call", target, {"args": {"q": "secret words"}, "tool_call_id": "c1"})


@pytest.mark.parametrize(
    ("target", "fail_closed", "allow", "code"),
    [
        ("search", True, True, "authz.allowed"),
        ("bash", True, False, "authz.denied"),
        ("broken", True, False, "authz.evaluator_error"),
        ("broken", False, True, "authz.evaluator_error"),
    ],
)
def test_one_decision_sync_and_async(target: str, fail_closed: bool, allow: bool, code: str) -> None:
    enforcer = Enforcer(Search(), default_role="user", fail_closed=fail_closed)
    decision = enforcer.decide(asks(target))
    assert asyncio.run(enforcer.adecide(asks(target))) == decision
    assert (decision.allow, decision.code) == (allow, code)


def test_filter_sync_and_async() -> None:
    enforcer = Enforcer(Search(), default_role="user")
    assert enforcer.filter(USER, "tool", ["bash", "search", "search"]) == ["search", "search"]
    assert asyncio.run(enforcer.afilter(USER, "tool", ["bash", "search"])) == ["search"]
    assert enforcer.policy_version == "v7"


def test_disabled_means_absent() -> None:
    enforcer = Enforcer.from_config(load_config({"authorization": {"enabled": False}}))
    plain = tool(search)
    before = type(plain)
    assert not enforcer.enabled
    assert enforcer.decide(asks("bash")).allow is True
    assert asyncio.run(enforcer.adecide(asks("bash"))).allow is True
    assert enforcer.filter(USER, "tool", ["b", "a"]) == ["b", "a"]
    assert enforcer.visible_tools([plain], {"user_role": "user"}) == [plain]
    assert type(plain) is before
    assert plain.invoke({"q": "x"}) == "found x"


def search(q: str) -> str:
    """Search."""
    return f"found {q}"


def bash(command: str) -> str:
    """Never runs anything."""
    return f"would run {command}"


def test_visible_tools_are_armed_and_filtered() -> None:
    enforcer = Enforcer(Search(), default_role="user")
    tools = [tool(search), tool(bash)]
    assert [t.name for t in enforcer.visible_tools(tools, {"user_role": "user"})] == ["search"]
    assert [t.name for t in enforcer.visible_tools(tools, {"user_role": "admin"})] == ["search", "bash"]
    assert [t.name for t in enforcer.visible_tools(tools)] == ["search", "bash"]
    assert enforcer.visible_tools(tools, {"authz_attributes": "admin"}) == []
    for item in tools:  # armed: outside a guarded run no body is reached
        with pytest.raises(TicketRefused):
            item.invoke({"q": "x", "command": "x"})


def test_duplicate_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="search"):
        Enforcer(Search(), default_role="user").visible_tools([tool(search), tool(search)])


def test_acting_decides_every_direct_call() -> None:
    enforcer = Enforcer(Search(), default_role="user")
    tools = {t.name: t for t in enforcer.visible_tools([tool(search), tool(bash)])}
    with enforcer.acting({"user_id": "u1", "user_role": "user"}):
        assert tools["search"].invoke({"q": "x"}) == "found x"
        with pytest.raises(TicketRefused):
            tools["bash"].invoke({"command": "x"})
    with pytest.raises(TicketRefused):
        tools["search"].invoke({"q": "x"})
    with pytest.raises(ValueError, match="white space"), enforcer.acting({"user_role": "user "}):
        pytest.fail("a malformed identity must not open a scope")


def settings(tmp_path: Path, **ledger: Any) -> Any:
    folder = tmp_path / "policies"
    folder.mkdir(exist_ok=True)
    section = {"enabled": True, "provider": {"use": "tests.authz.test_enforcer:Search"}}
    (folder / "authz.yaml").write_text(json.dumps({"authorization": section, "ledger": ledger}))
    return load_config(folder / "authz.yaml")


def test_decisions_are_recorded_without_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    enforcer = Enforcer.from_config(settings(tmp_path, sink="file"))
    enforcer.decide(asks("search"))
    asyncio.run(enforcer.adecide(asks("bash")))
    assert enforcer.ledger is not None
    enforcer.ledger.close()
    text = (tmp_path / "state" / "decisions.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    assert [(r["target"], r["decision"], r["policy_id"], r["user_id"]) for r in records] == [
        ("search", "allow", "search.py:1", "u1"),
        ("bash", "deny", "search.py:1", "u1"),
    ]
    assert "secret words" not in text


def test_what_must_be_recorded_and_cannot_be_is_denied() -> None:
    class Full:
        """A log whose disk is full and whose records are required."""

        def record(self, *args: object, **more: object) -> bool:
            return False

    enforcer = Enforcer(Search(), default_role="user", ledger=Full())  # type: ignore[arg-type]
    for decision in (enforcer.decide(asks("search")), asyncio.run(enforcer.adecide(asks("search")))):
        assert decision.allow is False
        assert decision.code == "authz.unrecorded"


def test_what_a_condition_read_is_recorded_and_the_rest_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policy.csv").write_text("p, role:user, tool, pay, call, allow, r.ctx.args.amount <= 100\n")
    provider = {"use": "casbin", "config": {"policies": ["policy.csv"]}}
    section = {"enabled": True, "provider": provider}
    (folder / "authz.yaml").write_text(json.dumps({"authorization": section, "ledger": {"sink": "file"}}))
    enforcer = Enforcer.from_config(load_config(folder / "authz.yaml"))
    args = {"amount": 7, "note": "private words"}
    assert enforcer.decide(AuthzRequest(USER, "tool", "call", "pay", {"args": args})).allow is True
    assert enforcer.ledger is not None
    enforcer.ledger.close()
    text = (tmp_path / "state" / "decisions.jsonl").read_text()
    record = json.loads(text)
    assert (record["policy_id"], record["values"]) == ("policy.csv:1", {"args.amount": 7})
    assert "private words" not in text
