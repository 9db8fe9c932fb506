"""A loaded policy as a whole: version, explanations, threads, and that nothing of an old one stays behind."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest
from tests.support import casbin_worlds as worlds

from remit.authz.errors import PolicyError
from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin.files.model import shipped_model
from remit.providers.casbin.rules import Link, PolicySet, Rule
from remit.providers.casbin.snapshot import PolicySnapshot

ROWS = (
    ("role:guest", "tool", "search", "call", "allow", ""),
    ("role:admin", "tool", "*", "call", "allow", ""),
    ("role:admin", "tool", "pay", "call", "ask", "r.ctx.args.amount > 10"),
    ("role:admin", "tool", "pay", "call", "deny", 'r.ctx.args.to == "evil"'),
    ("user:bob", "tool", "pay", "call", "allow", 'r.ctx.principal.attributes.vip == "yes"'),
)
LINKS = (("role:admin", "role:guest"),)


def _set(rows: Any = ROWS, links: Any = LINKS, **changes: Any) -> PolicySet:
    made = PolicySet(
        model=shipped_model(),
        rules=tuple(Rule(row, "policy.csv", line) for line, row in enumerate(rows, 1)),
        links=tuple(Link(link, "policy.csv", 90 + line) for line, link in enumerate(links, 1)),
        roles=frozenset({"role:admin", "role:guest"}),
    )
    return replace(made, **changes)


def _request(user: str = "bob", role: str = "admin", target: str = "pay", **args: Any) -> AuthzRequest:
    return AuthzRequest(Principal(user, role), "tool", "call", target, {"args": args} if args else {})


class TestVersion:
    def test_is_a_digest_of_what_decides(self) -> None:
        version = PolicySnapshot.build(_set()).version
        assert version.startswith("sha256:")
        assert len(version) == 7 + 64
        assert PolicySnapshot.build(_set()).version == version
        moved = tuple(rule._replace(line=rule.line + 40, file="other.csv") for rule in _set().rules)
        assert PolicySnapshot.build(_set(rules=moved)).version == version, "a comment above changes no decision"

    @pytest.mark.parametrize(
        "changed",
        [
            pytest.param(_set(rows=ROWS[:-1]), id="a-rule-less"),
            pytest.param(_set(rows=(*ROWS[1:], ROWS[0])), id="another-order"),
            pytest.param(_set(rows=((*ROWS[0][:2], "searc", "hcall", "allow", ""), *ROWS[1:])), id="a-moved-boundary"),
            pytest.param(_set(links=()), id="a-link-less"),
            pytest.param(_set(roles=frozenset({"role:admin", "role:guest", "role:new"})), id="a-role-more"),
        ],
    )
    def test_changes_with_what_decides(self, changed: PolicySet) -> None:
        assert PolicySnapshot.build(changed).version != PolicySnapshot.build(_set()).version

    def test_templates_and_model_are_part_of_it(self) -> None:
        rows = [("a", "x", "call", "allow")]
        versions = {
            PolicySnapshot.build(worlds.policy_set(worlds.model_text(effect=effect), rows), request=template).version
            for effect in (worlds.ALLOW, worlds.BOTH)
            for template in (["{role}", "{target}", "{action}"], ["{user_id}", "{target}", "{action}"])
        }
        assert len(versions) == 4

    def test_stands_on_every_decision(self) -> None:
        snapshot = PolicySnapshot.build(_set())
        for request in (_request(), _request(role="stranger"), _request(target="a/../b"), _request(target="search")):
            assert snapshot.authorize(request).policy_version == snapshot.version


class TestTrace:
    def _outcomes(self, request: AuthzRequest) -> list[tuple[str, str]]:
        return [(rule.policy_id, rule.outcome) for rule in PolicySnapshot.build(_set()).trace(request).rules]

    def test_what_won_and_what_lost(self) -> None:
        assert self._outcomes(_request(amount=20, to="shop")) == [
            ("policy.csv:2", "overridden"),
            ("policy.csv:3", "decides"),
            ("policy.csv:4", "condition-false"),
            ("policy.csv:5", "condition-unknown"),
        ]
        assert self._outcomes(_request(amount=5, to="shop")) == [
            ("policy.csv:2", "decides"),
            ("policy.csv:3", "condition-false"),
            ("policy.csv:4", "condition-false"),
            ("policy.csv:5", "condition-unknown"),
        ]
        assert self._outcomes(_request(amount=20)) == [
            ("policy.csv:2", "overridden"),
            ("policy.csv:3", "overridden"),
            ("policy.csv:4", "decides"),
            ("policy.csv:5", "condition-unknown"),
        ]

    def test_says_who_and_why(self) -> None:
        explained = PolicySnapshot.build(_set()).trace(_request(amount=20))
        assert explained.subjects == ("user:bob", "role:admin", "role:guest", "*")
        assert explained.decision.code == "authz.denied"
        decider = next(rule for rule in explained.rules if rule.outcome == "decides")
        assert decider.text == 'p, role:admin, tool, pay, call, deny, r.ctx.args.to == "evil"'
        assert decider.effect == "deny"
        assert "args.to is missing" in decider.note
        assert "so it restricts" in decider.note

    def test_rules_of_equal_effect(self) -> None:
        rows = [("role:guest", "tool", "search", "call", "allow", "")] * 2
        explained = PolicySnapshot.build(_set(rows=rows)).trace(_request(role="guest", target="search"))
        assert [rule.outcome for rule in explained.rules] == ["applies", "decides"]

    def test_a_rule_of_roles_yaml_names_its_place(self) -> None:
        rule = Rule(ROWS[0], "roles.yaml", 4, key="roles.guest.tools.allow")
        explained = PolicySnapshot.build(_set(rules=(rule,))).trace(_request(role="guest", target="search"))
        assert explained.rules[0].text == "roles.guest.tools.allow: p, role:guest, tool, search, call, allow"
        assert explained.rules[0].policy_id == "roles.yaml:4"

    @pytest.mark.parametrize(
        ("request_", "note"),
        [
            pytest.param(_request(role="stranger"), "knows no role 'stranger'", id="unknown-role"),
            pytest.param(_request(target="a/../b"), "'..'", id="unsafe-target"),
            pytest.param(_request(role="guest", target="zzz"), "no rule matches", id="no-rule"),
        ],
    )
    def test_refusals_say_why(self, request_: AuthzRequest, note: str) -> None:
        explained = PolicySnapshot.build(_set()).trace(request_)
        assert explained.rules == ()
        assert note in explained.notes[0]

    def test_other_models(self) -> None:
        text = worlds.model_text(matcher=f'{worlds.RBAC} || r.sub == "root"', effect=worlds.PRIORITY)
        rows = [("b", "x", "call", "deny"), ("a", "x", "call", "allow"), ("b", "x", "call", "allow")]
        snapshot = PolicySnapshot.build(
            worlds.policy_set(text, rows, [("a", "b")]), request=["{user_id}", "{target}", "{action}"]
        )
        explained = snapshot.trace(worlds.request("a", "x"))
        assert [(r.policy_id, r.outcome) for r in explained.rules] == [
            ("policy.csv:1", "decides"),
            ("policy.csv:2", "overridden"),
            ("policy.csv:3", "overridden"),
        ]
        assert explained.subjects == ("a",)


def test_problems_are_those_of_the_loader_too() -> None:
    from remit.authz.errors import Problem

    warning = Problem("policy.csv", 3, "odd", severity="warning")
    assert PolicySnapshot.build(_set(problems=(warning,))).problems == (warning,)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        pytest.param(("role:guest", "tool", "x", "call", "Deny", ""), "unknown effect 'Deny'", id="effect"),
        pytest.param(("role:guest", "tool", "x", "call", "deny"), "5 fields for 6 columns", id="short"),
        pytest.param(("role:guest", "tool", "x", "call", "deny", "", ""), "7 fields for 6 columns", id="long"),
    ],
)
def test_rows_of_another_form_are_refused_whoever_made_them(row: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words) as refused:
        PolicySnapshot.build(_set(rows=(*ROWS, row)))
    assert [(p.file, p.line) for p in refused.value.problems] == [("policy.csv", 6)]


def test_other_models_know_no_ask() -> None:
    policies = worlds.policy_set(worlds.model_text(), [("a", "x", "call", "ask")])
    with pytest.raises(PolicyError, match="unknown effect 'ask'"):
        PolicySnapshot.build(policies, request=["{role}", "{target}", "{action}"])


@pytest.mark.parametrize("used", [False, True])
def test_an_old_snapshot_is_freed_at_once(used: bool) -> None:
    """No reference cycle keeps a hundred thousand rules alive until the next collection."""
    other = worlds.policy_set(
        worlds.model_text(matcher=f"{worlds.RBAC} || r.sub == 'root'"), [("a", "x", "call", "allow")]
    )
    common = worlds.policy_set(worlds.model_text(), [("a", "x", "call", "allow")])
    for policies, template in (
        (_set(), None),
        (common, ["{user_id}", "{target}", "{action}"]),
        (other, ["{user_id}", "{target}", "{action}"]),
        (other, ["{attributes.sub}", "{target}", "{action}"]),
    ):
        snapshot = PolicySnapshot.build(policies, request=template)
        if used:
            snapshot.authorize(worlds.request("a", "x"))
            snapshot.authorize(_request(amount=5))
            snapshot.filter(Principal("a", "admin"), "tool", ["x", "pay"])
            snapshot.trace(_request())
        gone = weakref.ref(snapshot)
        engine = weakref.ref(snapshot._door)
        enabled = gc.isenabled()
        gc.disable()
        try:
            del snapshot
            assert gone() is None
            assert engine() is None
        finally:
            if enabled:
                gc.enable()


def test_the_collector_is_on_again_after_a_build() -> None:
    from remit.providers.casbin.pauses import collector_at_rest

    assert gc.isenabled()
    PolicySnapshot.build(_set())
    assert gc.isenabled()
    with collector_at_rest():
        PolicySnapshot.build(_set())
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    try:
        PolicySnapshot.build(_set())
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()


def test_many_builds_leave_the_garbage_of_others_to_the_collector() -> None:
    """Building small policies all day (explanations do) must not keep cyclic garbage from being found."""

    class Cycle:
        def __init__(self) -> None:
            self.me = self

    gc.collect()
    alive = []
    for _ in range(3000):
        alive.append(weakref.ref(Cycle()))
        PolicySnapshot.build(_set())
    assert sum(cycle() is not None for cycle in alive) < 2500


def test_threads_see_one_policy_or_the_other() -> None:
    """Readers of a shared reference while snapshots are swapped: rule and version always belong together."""
    first = PolicySnapshot.build(_set(rows=[("role:guest", "tool", "t*", "call", "allow", "")]))
    second = PolicySnapshot.build(
        _set(
            rows=[("role:guest", "tool", "zzz", "call", "allow", ""), ("role:guest", "tool", "t*", "call", "deny", "")]
        )
    )
    expected = {first.version: (True, "policy.csv:1"), second.version: (False, "policy.csv:2")}
    live = [first]
    stop = threading.Event()
    wrong: list[object] = []
    counts = [0] * 8

    def decide(worker: int) -> None:
        n = 0
        while not stop.is_set():
            n += 1
            decision = live[0].authorize(_request(user=f"u{n}", role="guest", target=f"t{n % 50}"))
            if expected[decision.policy_version or ""] != (decision.allow, decision.policy_id):
                wrong.append(decision)
        counts[worker] = n

    threads = [threading.Thread(target=decide, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for n in range(200):
        live[0] = (first, second)[n % 2]
        PolicySnapshot.build(_set())
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert min(counts) > 0


def test_threads_that_meet_a_policy_at_once_all_see_its_patterns() -> None:
    """What is prepared at first sight is either whole or not there yet."""
    rows = [("role:guest", "tool", "t*", "call", "allow", ""), ("role:admin", "tool", "x*", "call", "allow", "")]
    rows += [("role:guest", "tool", f"t{n}*", "call", "deny", "") for n in range(40)]
    wrong: list[object] = []
    for _ in range(60):
        snapshot = PolicySnapshot.build(_set(rows=rows))
        barrier = threading.Barrier(8)

        def decide(worker: int, snapshot: PolicySnapshot = snapshot, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            for n in range(20):
                decision = snapshot.authorize(_request(role="admin", target=f"t{n}_{worker}"))
                if decision.code != "authz.denied":
                    wrong.append((n, decision))

        threads = [threading.Thread(target=decide, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
