"""Running policy tests: what passes, what fails and why, and which rules count as exercised."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support.table_provider import Explaining, Listing, Plain, Row

from remit.authz.judge import Judge
from remit.authz.tooling.junit import junit
from remit.authz.tooling.policytests import load_policy_tests
from remit.authz.tooling.report import run_json
from remit.authz.tooling.testrun import RunReport, run_policy_tests

ROWS = (
    Row("guest", "tool", "read_*", "allow", 1),
    Row("guest", "tool", "send_mail", "ask", 2),
    Row("guest", "tool", None, "deny", 3),
    Row("admin", None, None, "allow", 4),
    Row("admin", "tool", "bash", "allow", 4),
)


def run(tmp_path: Path, tests: str, provider: Plain, default_role: str | None = None) -> RunReport:
    path = tmp_path / "t.yaml"
    path.write_text("tests:\n" + tests, encoding="utf-8")
    judge = Judge()
    return run_policy_tests(
        load_policy_tests([path]),
        provider=provider,
        decide=lambda request: judge.decide(provider, request),
        default_role=default_role,
    )


def case(role: str | None, *expect: str, name: str = "t") -> str:
    given = "" if role is None else f"    given: {{role: {role}}}\n"
    return f"  - name: {name}\n{given}    expect:\n" + "".join(f"      - {{{item}}}\n" for item in expect)


@pytest.mark.parametrize(
    ("role", "expectation", "failure"),
    [
        pytest.param("guest", "request: 'tool:call:read_file', decision: allow", None, id="allow"),
        pytest.param("guest", "request: 'tool:call:bash', decision: deny", None, id="deny"),
        pytest.param("guest", "request: 'tool:call:send_mail', decision: ask", None, id="ask"),
        pytest.param(
            "guest", "request: 'tool:call:bash', decision: deny, rule: 'table.txt:3'", None, id="deny-by-that-rule"
        ),
        pytest.param(
            "guest", "request: 'model:use:x', decision: deny, reason: authz.no_policy", None, id="deny-for-that-reason"
        ),
        pytest.param(None, "request: 'model:use:x', decision: allow", None, id="default-role"),
        pytest.param(
            "nobody",
            "request: 'tool:call:x', decision: deny, reason: authz.unknown_role",
            None,
            id="unknown-role-meant",
        ),
        pytest.param(
            "guest",
            "request: 'tool:call:bash', decision: allow",
            "expected allow, got deny by table.txt:3 (authz.denied)",
            id="deny-for-allow",
        ),
        pytest.param(
            "guest",
            "request: 'tool:call:send_mail', decision: deny",
            "expected deny, got ask by table.txt:2 (authz.ask)",
            id="ask-is-no-deny",
        ),
        pytest.param(
            "guest",
            "request: 'model:use:x', decision: allow",
            "expected allow, got deny (authz.no_policy)",
            id="no-rule",
        ),
        pytest.param(
            "guest",
            "request: 'tool:call:bash', decision: deny, rule: 'table.txt:1'",
            "expected deny by table.txt:1, got it by table.txt:3 (authz.denied)",
            id="other-rule",
        ),
        pytest.param(
            "guest",
            "request: 'model:use:x', decision: deny, rule: 'table.txt:1'",
            "expected deny by table.txt:1, got it by no rule (authz.no_policy)",
            id="no-rule-at-all",
        ),
        pytest.param(
            "guest",
            "request: 'tool:call:bash', decision: deny, reason: authz.no_policy",
            "expected deny for the reason authz.no_policy, got it by table.txt:3 for authz.denied",
            id="other-reason",
        ),
        pytest.param(
            "gest",
            "request: 'tool:call:bash', decision: deny",
            "given.role: unknown role 'gest'; did you mean 'guest'?; "
            "if that is what you test, add `reason: authz.unknown_role`",
            id="typo-in-the-role-is-no-denial",
        ),
        pytest.param(
            "guest",
            "request: 'tool:call:broken', decision: deny",
            "the provider failed (authz.evaluator_error): the provider raised RuntimeError",
            id="failure-is-no-denial",
        ),
    ],
)
def test_expectation(tmp_path: Path, role: str | None, expectation: str, failure: str | None) -> None:
    provider = Listing(ROWS, broken=["broken"])
    (outcome,) = run(tmp_path, case(role, expectation), provider, default_role="admin").outcomes
    assert outcome.failure == failure


def test_caller_without_any_role_is_told_so(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, case(None, "request: 'tool:call:x', decision: deny"), Plain(ROWS)).outcomes
    assert outcome.failure is not None
    assert "has no role and authorization.default_role is not set" in outcome.failure


TWO = case("guest", "request: 'tool:call:read_file', decision: allow", name="one") + case(
    "admin", "request: 'tool:call:bash', decision: allow", "request: 'tool:call:x', decision: ask", name="two"
)


def test_coverage_tells_rules_of_one_line_apart_when_the_provider_explains(tmp_path: Path) -> None:
    coverage = run(tmp_path, TWO, Explaining(ROWS)).coverage
    assert coverage is not None
    assert (coverage.total, coverage.exercised) == (5, 2)
    assert [row.text for row in coverage.missing] == [
        "guest ask tool send_mail",
        "guest deny tool None",
        "admin allow tool bash",
    ]


def test_coverage_goes_by_policy_id_when_the_provider_does_not_explain(tmp_path: Path) -> None:
    coverage = run(tmp_path, TWO, Listing(ROWS)).coverage
    assert coverage is not None
    assert [row.policy_id for row in coverage.missing] == ["table.txt:2", "table.txt:3"]


def test_there_is_no_coverage_without_a_list_of_rules(tmp_path: Path) -> None:
    report = run(tmp_path, TWO, Plain(ROWS))
    assert report.coverage is None
    assert run_json(report)["coverage"] is None


def test_json_report(tmp_path: Path) -> None:
    document = run_json(run(tmp_path, TWO, Explaining(ROWS)))
    assert {key: document[key] for key in ("version", "expectations", "failures")} == {
        "version": 1,
        "expectations": 3,
        "failures": 1,
    }
    assert document["outcomes"][2] == {
        "test": "two",
        "file": str(tmp_path / "t.yaml"),
        "line": 10,
        "request": "tool:call:x",
        "expected": "ask",
        "decision": "allow",
        "rule": "table.txt:4",
        "failure": "expected ask, got allow by table.txt:4 (authz.allowed)",
    }
    assert document["coverage"]["missing"][0] == {"rule": "table.txt:2", "text": "guest ask tool send_mail"}


def test_junit_has_a_case_per_test_and_names_every_unmet_expectation(tmp_path: Path) -> None:
    unmet = case("guest", "request: 'tool:call:a', decision: allow", "request: 'tool:call:b', decision: ask", name="u")
    root = ElementTree.fromstring(junit(run(tmp_path, TWO + unmet, Explaining(ROWS))))  # noqa: S314  # our own output
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "3", "2")
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    names = [(c.get("name"), c.get("line"), c.find("failure") is not None) for c in suite]
    assert names == [("one", "2", False), ("two", "6", True), ("u", "11", True)]
    text = suite[2].findtext("failure") or ""
    assert [line.partition(": ")[0] for line in text.splitlines()] == [f"{tmp_path}/t.yaml:{n}" for n in (14, 15)]


def test_junit_stays_well_formed_whatever_the_names_hold(tmp_path: Path) -> None:
    odd = case("guest", "request: 'tool:call:read_x', decision: deny", name='"<&\\u0001\\u001b[31m ]]> \\ud83d"')
    root = ElementTree.fromstring(junit(run(tmp_path, odd, Explaining(ROWS))))  # noqa: S314  # our own output
    assert root[0][0].get("name") == "<&\\u0001\\u001b[31m ]]> \\ud83d"
