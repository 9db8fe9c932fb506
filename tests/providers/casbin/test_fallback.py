"""pycasbin itself, where a matcher cannot be compiled: only on request, only small, and without its side effects."""

from __future__ import annotations

import logging
import threading
from importlib import metadata
from typing import Any

import pytest
from tests.support import casbin_worlds as worlds

from remit.authz.errors import PolicyError
from remit.authz.types import Principal
from remit.providers.casbin.engine import fallback
from remit.providers.casbin.snapshot import PolicySnapshot

TEMPLATE = ["{user_id}", "{target}", "{action}"]
# Used as a value, the answer of a matching function cannot be narrowed where it grants: that is not compiled.
MATCHER = "g(r.sub, p.sub) && (regexMatch(r.obj, p.obj) == True) && r.act == p.act"
ROWS = [("admin", "data.*", "call", "allow"), ("admin", "data9", "call", "deny"), ("ann", "x", "call", "allow")]


def _slow(rows: Any = ROWS, links: Any = (("bob", "admin"),), matcher: str = MATCHER, **more: Any) -> PolicySnapshot:
    policies = worlds.policy_set(worlds.model_text(matcher=matcher), rows, links)
    return PolicySnapshot.build(policies, request=TEMPLATE, allow_slow=True, **more)


def test_refused_unless_asked_for() -> None:
    policies = worlds.policy_set(worlds.model_text(matcher=MATCHER), ROWS, [("bob", "admin")])
    with pytest.raises(PolicyError, match=r"cannot be compiled.*allow_slow: true") as refused:
        PolicySnapshot.build(policies, request=TEMPLATE)
    assert refused.value.problems[0].line == 10


def test_decides_as_casbin_and_says_that_it_is_slow() -> None:
    snapshot = _slow()
    assert [p.code for p in snapshot.problems] == ["slow-engine"]
    for user, target, allow, rule in [
        ("bob", "data", True, "policy.csv:1"),
        ("bob", "data9", False, "policy.csv:2"),
        ("ann", "x", True, "policy.csv:3"),
        ("ann", "data", False, None),
    ]:
        decision = snapshot.authorize(worlds.request(user, target))
        assert (decision.allow, decision.policy_id) == (allow, rule)
        assert decision.policy_version == snapshot.version
    assert snapshot.filter(Principal("bob", "r"), "tool", ["data", "x", "data9", "data"]) == ["data", "data"]


def test_it_may_only_narrow() -> None:
    """Casbin's regexMatch stops where the pattern does: in a row that allows, the rest of the value counts."""
    snapshot = _slow(rows=[("ann", "get", "call", "allow")], links=())
    assert snapshot.authorize(worlds.request("ann", "get")).allow is True
    assert snapshot.authorize(worlds.request("ann", "getall")).allow is False
    denying = _slow(rows=[("ann", "get", "call", "deny"), ("ann", ".*", "call", "allow")], links=())
    assert denying.authorize(worlds.request("ann", "getall")).policy_id == "policy.csv:1"


def test_bounded_in_rows() -> None:
    rows = [("ann", f"x{n}", "call", "allow") for n in range(fallback.MOST_ROWS)]
    assert _slow(rows=rows, links=()).authorize(worlds.request("ann", "x7")).allow is True
    with pytest.raises(PolicyError, match="1001 rows on the slow engine, which takes at most 1000"):
        _slow(rows=rows)


def test_an_error_in_casbin_denies() -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("no answer")

    matcher = f"{MATCHER} && fails(r.obj, p.obj)"
    policies = worlds.policy_set(
        worlds.model_text(matcher=matcher), [("ann", "x", "call", "allow")], functions=["fails"]
    )
    snapshot = PolicySnapshot.build(policies, request=TEMPLATE, allow_slow=True, functions={"fails": fails})
    decision = snapshot.authorize(worlds.request("ann", "x"))
    assert (decision.allow, decision.code) == (False, "authz.evaluator_error")
    assert "no answer" in decision.reasons[0].message


def test_loggers_of_the_process_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    names = ["casbin", "casbin.policy", "casbin.enforcer", "casbin.role"]
    for name in names:
        logging.getLogger(name).disabled = False
    try:
        with caplog.at_level(logging.DEBUG):
            snapshot = _slow()
            snapshot.authorize(worlds.request("nobody", "secret-target"))
        assert [logging.getLogger(name).disabled for name in names] == [False] * 4
        assert caplog.records == []
    finally:
        worlds.silence()


def test_strangers_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Casbin keeps every name that it was asked about; here the graph is built anew when there are too many."""
    monkeypatch.setattr(fallback, "_MOST_NAMES", 50)
    snapshot = _slow()
    for n in range(400):
        snapshot.authorize(worlds.request(f"stranger{n}", "data"))
    engine = snapshot._door._engine  # type: ignore[union-attr]
    assert len(engine._enforcer.rm_map["g"].all_roles) <= 60  # type: ignore[attr-defined]
    assert snapshot.authorize(worlds.request("bob", "datax")).allow is True


def test_threads() -> None:
    snapshot = _slow()
    wrong: list[str] = []

    def ask(user: str, target: str, allow: bool) -> None:
        for n in range(60):
            if snapshot.authorize(worlds.request(user, f"{target}{n}")).allow is not allow:
                wrong.append(f"{user} {target}{n}")

    threads = [
        threading.Thread(target=ask, args=args)
        for args in [("bob", "data1", True), ("ann", "data", False), ("bob", "y", False), ("eve", "data", False)]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_frozen_distribution_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        assert name == "casbin"
        return "1.43.0"

    monkeypatch.setattr(metadata, "version", version)
    fallback.refuse_frozen_casbin.cache_clear()
    try:
        with pytest.raises(PolicyError, match=r"'casbin' 1\.43\.0 is installed beside 'pycasbin'"):
            PolicySnapshot.build(worlds.policy_set(worlds.model_text(), ROWS), request=TEMPLATE)
    finally:
        fallback.refuse_frozen_casbin.cache_clear()
