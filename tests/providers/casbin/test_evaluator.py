"""Models beyond the common shape: attributes, texts of rules, functions of the deployment, and what errors do."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support import casbin_worlds as worlds

from remit.authz.errors import PolicyError
from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin.engine import functions
from remit.providers.casbin.engine.functions import pure
from remit.providers.casbin.engine.templates import context_fields
from remit.providers.casbin.snapshot import PolicySnapshot

PLAIN = ["{user_id}", "{target}", "{action}"]
ABAC = ["{ctx}", "{target}", "{action}"]
EVAL = worlds.model_text(
    policy="rule, obj, act, eft", matcher="eval(p.rule) && r.obj == p.obj && r.act == p.act", roles=()
)

TIMED = worlds.model_text(
    policy="sub, obj, start, end",
    matcher="r.sub == p.sub && r.obj == p.obj && timeMatch(p.start, p.end)",
    roles=(),
    effect=worlds.ALLOW,
)


def _build(text: str, rows: Any, template: list[str] = PLAIN, links: Any = (), **own: Any) -> PolicySnapshot:
    policies = worlds.policy_set(text, rows, links, functions=own)
    return PolicySnapshot.build(policies, request=template, functions=own)


def _person(age: object = None, **args: Any) -> AuthzRequest:
    attributes = {} if age is None else {"age": age}
    return AuthzRequest(
        Principal("u", "r", attributes=attributes), "tool", "call", "pay", {"args": args} if args else {}
    )


class TestTextsOfRules:
    """`eval(p.rule)`: each text compiled once, over attributes of the request."""

    ROWS = (
        ("r.sub.principal.attributes.age >= 18 && r.sub.args.amount < 100", "pay", "call", "allow"),
        ("r.sub.args.amount > 50 && r.sub.principal.attributes.age < 21", "pay", "call", "deny"),
        ('r.sub.args.path == "x"', "read", "call", "allow"),
    )

    @pytest.mark.parametrize(
        ("request_", "code", "rule"),
        [
            pytest.param(_person(30, amount=60), "authz.allowed", "policy.csv:1", id="allowed"),
            pytest.param(_person(19, amount=60), "authz.denied", "policy.csv:2", id="denied"),
            pytest.param(_person(19, amount=20), "authz.allowed", "policy.csv:1", id="no-denial-applies"),
            pytest.param(_person(17, amount=20), "authz.no_policy", None, id="too-young"),
            pytest.param(_person(None, amount=20), "authz.evaluator_error", None, id="no-age"),
            pytest.param(_person("30", amount=20), "authz.evaluator_error", None, id="age-is-text"),
            pytest.param(_person(30), "authz.evaluator_error", None, id="no-arguments"),
        ],
    )
    def test_decisions(self, request_: AuthzRequest, code: str, rule: str | None) -> None:
        snapshot = _build(EVAL, self.ROWS, ABAC)
        for _ in range(2):
            decision = snapshot.authorize(request_)
            assert (decision.code, decision.policy_id, decision.allow) == (code, rule, code == "authz.allowed")

    def test_casbin_agrees_where_it_answers(self) -> None:
        policies = worlds.policy_set(EVAL, self.ROWS[:2])
        snapshot, stock = PolicySnapshot.build(policies, request=ABAC), worlds.enforcer(policies)
        answered = 0
        for age in (None, 17, 19, 30, "30"):
            for amount in (20, 60, 200):
                request = _person(age, amount=amount)
                attributes = request.principal.attributes
                expected = worlds.asked(
                    stock, [{"principal": {"attributes": attributes}, "args": {"amount": amount}}, "pay", "call"]
                )
                decision = snapshot.authorize(request)
                if expected is None:
                    assert decision.allow is False
                else:
                    answered += 1
                    assert (decision.allow, worlds.row_of(snapshot, decision)) == expected
        assert answered == 9

    def test_the_filter_asks_for_some_arguments(self) -> None:
        snapshot = _build(EVAL, self.ROWS, ABAC)
        names = ["pay", "read", "other"]
        assert snapshot.filter(Principal("u", "r", attributes={"age": 30}), "tool", names) == ["pay", "read"]
        assert snapshot.filter(Principal("u", "r", attributes={"age": 17}), "tool", names) == ["read"]
        assert snapshot.filter(Principal("u", "r"), "tool", ["pay"]) == []

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("1 == 1) || (1 == 2", id="out-of-its-brackets"),
            pytest.param("r.obj == p.obj # always", id="comment"),
            pytest.param("r.obj", id="no-condition"),
            pytest.param("r.obj == p.obj; 1 == 1", id="two-statements"),
            pytest.param("eval(p.rule)", id="itself"),
            pytest.param("open('x') == 1", id="unknown-function"),
            pytest.param("r.sub.__class__ == 1", id="private-attribute"),
            pytest.param('"p.obj" == r.obj', id="text-that-casbin-rewrites"),
            pytest.param("(lambda: 1)() == 1", id="lambda"),
            pytest.param("[x for x in r.obj] == 1", id="comprehension"),
            pytest.param("regexMatch(r.obj, '(')", id="bad-pattern"),
            pytest.param("r.missing == 1", id="unknown-column"),
            pytest.param("", id="empty"),
        ],
    )
    def test_texts_that_are_refused(self, text: str) -> None:
        rows = [("1 == 1", "pay", "call", "allow"), (text, "secret", "call", "allow")]
        with pytest.raises(PolicyError) as refused:
            _build(EVAL, rows, ABAC)
        assert {problem.line for problem in refused.value.problems} <= {2, 0, 8}

    def test_attributes_need_an_object(self) -> None:
        with pytest.raises(PolicyError, match=r"r\.sub holds text under this template"):
            _build(EVAL, self.ROWS[2:], PLAIN)


class TestExpressions:
    """Everything that a matcher may say about objects: as Casbin says it, or refused, never an allow by mistake."""

    MATCHERS = (
        "r.sub.args.path == p.obj",
        'r.sub.args["path"] == p.obj',
        'r.sub.principal.user_id == "u" && r.obj == p.obj',
        'r.sub.args.path in ["a", p.obj]',
        'r.sub.args.path not in ("a", "b")',
        "r.sub.args.amount + 1 > 5 && r.obj == p.obj",
        "r.sub.args.amount * 2 - 1 <= 9 && r.obj == p.obj",
        "r.sub.args.amount / 2 == 2.5 || r.sub.args.amount % 2 == 1",
        "1 < r.sub.args.amount < 10 && r.obj == p.obj",
        "-r.sub.args.amount < +3 && r.obj == p.obj",
        'r.sub.args.path + "/x" == p.obj + "/x"',
        "r.sub.args.flag == True && r.obj == p.obj",
        "r.sub.args.flag && r.obj == p.obj",
        "!r.sub.args.flag && r.obj == p.obj",
        "(r.obj == p.obj) == r.sub.args.flag",
        'r.obj == p.obj && (keyMatch(r.sub.args.path, "a*") == r.sub.args.flag)',
        "keyMatch(r.sub.args.path, p.obj)",
        "regexMatch(r.sub.args.path, p.obj) && r.act == p.act",
        "g(r.sub.args.path, p.obj)",
        "g(p.obj, r.sub.args.path)",
        'g(r.sub.args.path, "b")',
        "r.sub.args.missing == p.obj",
        "r.sub.args.amount == p.obj",
        "r.sub.args.tags == p.obj",
        '"red" in r.sub.args.tags && r.obj == p.obj',
        "r.sub.args.nested.deep == p.obj",
        "r.sub.args.amount > 3 && r.sub.args.missing > 3",
        "r.sub.args.path != p.obj && r.act == p.act",
        '(r.sub.args.path == "a" || g(r.obj, p.obj)) && r.act == p.act',
    )
    ROWS = (("a", "call", "allow"), ("b", "call", "deny"), ("b", "read", "allow"), ("5", "call", "allow"))
    LINKS = (("a", "b"),)
    ARGS = (
        {"path": "a", "amount": 5, "flag": True, "tags": ["red"], "nested": {"deep": "a"}},
        {"path": "b", "amount": 2, "flag": False, "tags": [], "nested": {"deep": "b"}},
        {"path": 5, "amount": "5", "flag": "yes", "tags": "red", "nested": "a"},
        {"path": ["a"], "amount": None, "flag": 1, "tags": {"red": 1}, "nested": {}},
        {},
    )

    @pytest.mark.parametrize("matcher", MATCHERS)
    def test_as_casbin_or_denied(self, matcher: str) -> None:
        text = worlds.model_text(policy="obj, act, eft", matcher=matcher)
        policies = worlds.policy_set(text, self.ROWS, self.LINKS)
        snapshot, stock = PolicySnapshot.build(policies, request=ABAC), worlds.enforcer(policies)
        who, answered = Principal("u", "r"), 0
        for args in self.ARGS:
            for target in ("a", "b", "c"):
                for action in ("call", "read"):
                    context = {"args": args}
                    decision = snapshot.authorize(AuthzRequest(who, "tool", action, target, context))
                    expected = worlds.asked(stock, [context_fields(who, context), target, action])
                    if expected is None or decision.code == "authz.evaluator_error":
                        assert decision.allow is False
                    else:
                        answered += 1
                        assert (decision.allow, worlds.row_of(snapshot, decision)) == expected, (args, target, action)
        assert answered or "missing" in matcher

    @pytest.mark.parametrize("matcher", MATCHERS)
    def test_the_filter_never_hides_what_some_arguments_allow(self, matcher: str) -> None:
        text = worlds.model_text(policy="obj, act, eft", matcher=matcher)
        snapshot = PolicySnapshot.build(worlds.policy_set(text, self.ROWS, self.LINKS), request=ABAC)
        who, names = Principal("u", "r"), ["a", "b", "c"]
        possible = {
            name
            for name in names
            for args in self.ARGS
            if snapshot.authorize(AuthzRequest(who, "tool", "call", name, {"args": args})).allow
        }
        assert possible <= set(snapshot.filter(who, "tool", names))

    def test_the_filter_shows_no_more_than_rules_speak_of(self) -> None:
        """A name that no rule mentions stays hidden, whatever the arguments could be."""
        text = worlds.model_text(policy="obj, act, eft", matcher="r.obj == p.obj && r.sub.args.path == p.act")
        snapshot = PolicySnapshot.build(worlds.policy_set(text, self.ROWS), request=ABAC)
        assert snapshot.filter(Principal("u", "r"), "tool", ["a", "b", "c", "5"]) == ["a", "b", "5"]
        guarded = worlds.model_text(policy="obj, act, eft", matcher='r.sub.args.path == "x" && r.obj == p.obj')
        snapshot = PolicySnapshot.build(worlds.policy_set(guarded, self.ROWS), request=ABAC)
        assert snapshot.filter(Principal("u", "r"), "tool", ["a", "b", "c"]) == ["a", "b"]

    def test_text_cannot_be_multiplied(self) -> None:
        text = worlds.model_text(policy="obj, act, eft", matcher="r.sub.args.path * r.sub.args.amount == p.obj")
        snapshot = PolicySnapshot.build(worlds.policy_set(text, self.ROWS), request=ABAC)
        for path in ("x", ["x"]):
            context = {"args": {"path": path, "amount": 10**12}}
            decision = snapshot.authorize(AuthzRequest(Principal("u", "r"), "tool", "call", "a", context))
            assert decision.code == "authz.evaluator_error"

    @pytest.mark.parametrize(
        ("matcher", "words"),
        [
            pytest.param(
                "(regexMatch(r.obj, p.obj) == True) && r.act == p.act", "used as a value", id="compared-match"
            ),
            pytest.param("!eval(p.obj) && r.act == p.act", "under a negation", id="negated-eval"),
            pytest.param("(eval(p.obj) == True) && r.act == p.act", "used as a value", id="compared-eval"),
        ],
    )
    def test_not_compilable(self, matcher: str, words: str) -> None:
        text = worlds.model_text(policy="obj, act, eft", matcher=matcher)
        with pytest.raises(PolicyError, match=f"cannot be compiled: .*{words}"):
            _build(text, [('r.obj == "a"', "call", "allow")])


class TestFunctions:
    """What the deployment adds to the matcher."""

    TEXT = worlds.model_text(matcher="g(r.sub, p.sub) && near(r.obj, p.obj) && r.act == p.act")

    def test_only_pure_functions_are_remembered(self) -> None:
        calls: list[str] = []

        def near(value: str, pattern: str) -> bool:
            calls.append(value)
            return value.startswith(pattern)

        @pure
        def near_and_pure(value: str, pattern: str) -> bool:
            return near(value, pattern)

        for function, again in ((near, 1), (near_and_pure, 0)):
            snapshot = _build(self.TEXT, [("a", "x", "call", "allow")], near=function)
            assert snapshot.authorize(worlds.request("a", "xy")).allow is True
            before = len(calls)
            assert snapshot.authorize(worlds.request("a", "xy")).allow is True
            assert len(calls) - before == again

    def test_the_world_may_change_under_an_impure_function(self) -> None:
        state = {"open": True}
        snapshot = _build(self.TEXT, [("a", "x", "call", "allow")], near=lambda *_: state["open"])
        assert snapshot.authorize(worlds.request("a", "x")).allow is True
        state["open"] = False
        assert snapshot.authorize(worlds.request("a", "x")).allow is False

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(1, id="one"),
            pytest.param("yes", id="text"),
            pytest.param(None, id="none"),
            pytest.param([], id="list"),
        ],
    )
    @pytest.mark.parametrize("mark", [pytest.param(pure, id="pure"), pytest.param(lambda f: f, id="impure")])
    def test_only_true_and_false_are_answers(self, answer: Any, mark: Any) -> None:
        snapshot = _build(self.TEXT, [("a", "x", "call", "allow")], near=mark(lambda *_: answer))
        decision = snapshot.authorize(worlds.request("a", "x"))
        assert (decision.allow, decision.code) == (False, "authz.evaluator_error")

    @pytest.mark.parametrize("mark", [pytest.param(pure, id="pure"), pytest.param(lambda f: f, id="impure")])
    def test_an_error_denies_and_spares_other_rules(self, mark: Any) -> None:
        def near(value: str, pattern: str) -> bool:
            return int(value) <= int(pattern)

        rows = [("a", "7", "call", "allow"), ("b", "many", "call", "allow"), ("b", "9", "read", "allow")]
        snapshot = _build(self.TEXT, rows, near=mark(near))
        assert snapshot.authorize(worlds.request("a", "5")).policy_id == "policy.csv:1"
        assert snapshot.authorize(worlds.request("b", "5")).code == "authz.evaluator_error"
        assert snapshot.authorize(worlds.request("b", "5", "read")).policy_id == "policy.csv:3"

    def test_a_builtin_cannot_be_replaced(self) -> None:
        policies = worlds.policy_set(worlds.model_text(), [("a", "x", "call", "allow")])
        with pytest.raises(PolicyError, match="'keyMatch' would replace one of Casbin's own"):
            PolicySnapshot.build(policies, request=PLAIN, functions={"keyMatch": lambda *_: True})


def test_time_is_asked_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        at = datetime(2031, 5, 1, 12, 0, 0)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.at

    monkeypatch.setattr(functions, "datetime", Clock)
    rows = [
        ("a", "soon", "_", "2031-05-01 12:00:30"),
        ("a", "open", "_", "_"),
        ("a", "later", "2031-05-01 12:00:30", "_"),
    ]
    snapshot = _build(TIMED, rows)
    names = ["soon", "open", "later"]
    assert [snapshot.authorize(worlds.request("a", name)).allow for name in names] == [True, True, False]
    Clock.at += timedelta(minutes=1)
    assert [snapshot.authorize(worlds.request("a", name)).allow for name in names] == [False, True, True]
    assert snapshot.filter(Principal("a", "r"), "tool", names) == ["open", "later"]


@pytest.mark.parametrize("start", ["yesterday", "2001-01-01"])
def test_a_row_that_would_always_raise_is_refused(start: str) -> None:
    with pytest.raises(PolicyError) as refused:
        _build(TIMED, [("a", "x", "_", "_"), ("a", "x", start, "_")])
    assert [(p.file, p.line) for p in refused.value.problems] == [("policy.csv", 2)]


def test_an_address_that_is_none_denies() -> None:
    text = worlds.model_text(matcher="ipMatch(r.sub, p.sub) && r.obj == p.obj", roles=())
    snapshot = _build(text, [("10.0.0.0/8", "x", "call", "allow")])
    assert snapshot.authorize(worlds.request("10.1.1.1", "x")).allow is True
    assert snapshot.authorize(worlds.request("ann", "x")).code == "authz.evaluator_error"


def test_a_branch_without_rules_grants_as_casbin_does() -> None:
    """``|| r.sub == "root"`` consults no row; Casbin then names the first row that allows."""
    text = worlds.model_text(matcher=f'{worlds.RBAC} || r.sub == "root"', effect=worlds.ALLOW)
    rows = [("a", "x", "call", "deny"), ("a", "y", "call", "allow"), ("a", "z", "call", "allow")]
    for template in (PLAIN, ["{role}", "{target}", "{action}"]):
        snapshot = _build(text, rows, template)
        assert snapshot.authorize(worlds.request("root", "anything")).policy_id == "policy.csv:2"
        assert snapshot.authorize(worlds.request("Root", "z")).allow is False


def test_cost_does_not_grow_with_the_rules() -> None:
    """First sight of a request in a policy of 20,000 rules, four columns, with domains and path patterns."""
    dom = "sub, dom, obj, act"
    text = worlds.model_text(
        dom,
        dom,
        "g(r.sub, p.sub, r.dom) && r.dom == p.dom && keyMatch2(r.obj, p.obj) && r.act == p.act",
        worlds.ALLOW,
        ["g = _, _, _"],
    )
    rows = [(f"role{n % 50}", f"d{n % 40}", f"/svc{n}/:id", "call") for n in range(20_000)]
    links = [(f"u{n}", f"role{n % 50}", f"d{n % 40}") for n in range(1000)]
    template = ["{user_id}", "{attributes.dom}", "{target}", "{action}"]
    snapshot = _build(text, rows, template, links)
    spent = []
    for n in range(300):
        request = worlds.request(f"u{n}", f"/svc{n}/7", dom=f"d{n % 40}")
        started = time.perf_counter()
        assert snapshot.authorize(request).policy_id == f"policy.csv:{n + 1}"
        spent.append(time.perf_counter() - started)
    assert sorted(spent)[150] < 0.002


def test_no_rules_at_all_is_refused() -> None:
    """Casbin would evaluate the matcher once with empty columns, which can allow."""
    with pytest.raises(PolicyError, match="there are no rules"):
        _build(worlds.model_text(), [])


class TestPriority:
    TEXT = worlds.model_text(policy="priority, sub, obj, act, eft", effect=worlds.PRIORITY)

    def test_numbers_not_texts(self) -> None:
        rows = [("10", "a", "x", "call", "deny"), ("9", "a", "x", "call", "allow")]
        assert _build(self.TEXT, rows).authorize(worlds.request("a", "x")).policy_id == "policy.csv:2"

    @pytest.mark.parametrize("odd", ["high", "-1", "1.5", "²"])
    def test_what_cannot_be_sorted_is_refused(self, odd: str) -> None:
        rows = [("1", "a", "x", "call", "deny"), ("2", "a", "y", "call", "deny"), (odd, "a", "x", "call", "allow")]
        with pytest.raises(PolicyError) as refused:
            _build(self.TEXT, rows)
        assert [(p.line, p.code) for p in refused.value.problems] == [(3, "priority")]

    def test_a_cycle_has_no_hierarchy(self) -> None:
        text = worlds.model_text(effect=worlds.SUBJECT_PRIORITY)
        with pytest.raises(PolicyError, match="cycle"):
            _build(text, [("a", "x", "call", "allow")], links=[("a", "b"), ("b", "a")])
