"""`remit check`, `explain`, `test` and `export` over real policy files."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import casbin
import jsonschema
import pytest
from ruamel.yaml import YAML
from tests.support.cli import Cli

CONFIG = """\
version: 1
authorization:
  enabled: true
  default_role: guest
  provider: {use: casbin, config: {policies: [policy.csv]}}
"""
POLICY = """\
p, role:guest, tool, read_file, call, allow,
p, role:guest, tool, send_mail, call, ask, not endswith(r.ctx.args.to, '@example.org')
p, role:guest, tool, send_mail, call, allow, endswith(r.ctx.args.to, '@example.org')
p, role:guest, tool, resize, call, allow, r.ctx.args.size <= 10
p, role:guest, tool, deploy, call, allow, r.ctx.principal.attributes.team == 'ops'
p, user:alice, tool, read_file, call, deny,
p, role:admin, tool, *, call, allow,
g, role:admin, role:guest
"""


@pytest.fixture(autouse=True)
def policy() -> Path:
    folder = Path("p")
    (folder / "tests").mkdir(parents=True)
    (folder / "authz.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "policy.csv").write_text(POLICY, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("argv", "code", "rule"),
    [
        pytest.param("tool:call:read_file", 0, "policy.csv:1", id="default-role"),
        pytest.param("tool:call:read_file -r guest", 0, "policy.csv:1", id="role"),
        pytest.param("tool:call:read_file -r guest -u alice", 3, "policy.csv:6", id="user-denied"),
        pytest.param("tool:call:read_file -r guest -u bob", 0, "policy.csv:1", id="other-user"),
        pytest.param("tool:call:send_mail --arg to=a@example.org", 0, "policy.csv:3", id="argument"),
        pytest.param("tool:call:send_mail --arg to=a@example.com", 4, "policy.csv:2", id="argument-asks"),
        pytest.param("tool:call:send_mail", 4, "policy.csv:2", id="argument-missing-restricts"),
        pytest.param("tool:call:send_mail --arg to=5", 4, "policy.csv:2", id="argument-of-another-type-restricts"),
        pytest.param("tool:call:resize --arg size=10", 0, "policy.csv:4", id="number"),
        pytest.param("tool:call:resize --arg size=11", 3, None, id="number-too-large"),
        pytest.param('tool:call:resize --arg size="10"', 3, None, id="text-is-no-number"),
        pytest.param("tool:call:resize", 3, None, id="number-missing-does-not-allow"),
        pytest.param("tool:call:deploy --attribute team=ops", 0, "policy.csv:5", id="attribute"),
        pytest.param("tool:call:deploy --attribute team=dev", 3, None, id="other-attribute"),
        pytest.param("tool:call:deploy", 3, None, id="no-attribute"),
        pytest.param("tool:call:anything -r admin", 0, "policy.csv:7", id="inherits"),
        pytest.param("tool:call:anything", 3, None, id="no-rule"),
        pytest.param("tool:call:read_file -r nobody", 3, None, id="unknown-role"),
        pytest.param("model:use:read_file", 3, None, id="other-resource"),
    ],
)
def test_check(cli: Cli, argv: str, code: int, rule: str | None) -> None:
    ran = cli("check", "-p", "p", *argv.split())
    assert (ran.code, ran.err) == (code, "")
    word = {0: "allow", 3: "deny", 4: "ask"}[code]
    assert ran.out.splitlines()[0] == f"{word} {argv.split()[0]}"
    assert f"  rule     {rule or 'none'}\n" in ran.out
    ran = cli("check", "-p", "p", *argv.split(), "--format", "json")
    assert (ran.code, ran.json["decision"], ran.json["rule"]) == (code, word, rule)


def test_check_json(cli: Cli) -> None:
    argv = "--role guest --user bob --attribute level=3 --arg to=a@example.com --arg copies=[1,2] -f json"
    document: dict[str, Any] = cli("check", "-p", "p", "tool:call:send_mail", *argv.split()).json
    assert document.pop("policy_version").startswith("sha256:")
    assert document == {
        "version": 1,
        "request": "tool:call:send_mail",
        "principal": {"user": "bob", "role": "guest", "attributes": {"level": 3}},
        "args": {"to": "a@example.com", "copies": [1, 2]},
        "decision": "ask",
        "rule": "policy.csv:2",
        "reasons": [{"code": "authz.ask", "message": ""}],
        "failure": False,
    }


def test_policy_may_be_the_file_itself(cli: Cli) -> None:
    assert cli("check", "--policy", "p/authz.yaml", "tool:call:read_file").code == 0


def test_nothing_is_recorded(cli: Cli, policy: Path) -> None:
    with (policy / "authz.yaml").open("a", encoding="utf-8") as out:
        out.write("ledger: {sink: file, path: decisions.jsonl}\n")
    before = sorted(Path().rglob("*"))
    assert cli("check", "-p", "p", "tool:call:read_file").code == 0
    assert sorted(Path().rglob("*")) == before


def test_explain_names_subjects_rules_and_the_smallest_change(cli: Cli) -> None:
    ran = cli("explain", "-p", "p", "tool:call:read_file", "-u", "alice")
    assert (ran.code, ran.err) == (3, "")
    lines = ran.out.splitlines()
    assert lines[0] == "deny tool:call:read_file"
    assert any(line.startswith("  asked as ") and "user:alice" in line and "role:guest" in line for line in lines)
    rules = lines[lines.index("rules") + 1 : lines.index("it would be allowed with")]
    assert [line.split()[:3] for line in rules] == [
        ["policy.csv:1", "allow", "overridden"],
        ["policy.csv:6", "deny", "decides"],
    ]
    assert "policy.csv:6" in lines[lines.index("it would be allowed with") + 1]


def test_change_that_explain_names_does_what_it_says(cli: Cli, policy: Path) -> None:
    document = cli("explain", "-p", "p", "tool:call:anything", "-f", "json").json
    assert (document["decision"], document["rules"]) == ("deny", [])
    (change,) = document["changes"]
    row = change.removeprefix("add to policy.csv: ")
    with (policy / "policy.csv").open("a", encoding="utf-8") as out:
        out.write(row.strip() + "\n")
    assert cli("check", "-p", "p", "tool:call:anything").code == 0


def test_explain_json(cli: Cli) -> None:
    ran = cli("explain", "-p", "p", "tool:call:read_file", "-r", "admin", "--format", "json")
    assert ran.code == 0
    document = ran.json
    assert (document["version"], document["decision"]) == (1, "allow")
    assert {"role:admin", "role:guest"} <= set(document["subjects"])
    assert [(rule["rule"], rule["effect"]) for rule in document["rules"]] == [
        ("policy.csv:1", "allow"),
        ("policy.csv:7", "allow"),
    ]
    assert document["changes"] == []


TESTS = """\
version: 1
tests:
  - name: guests
    expect:
      - {request: "tool:call:read_file", decision: allow, rule: "policy.csv:1"}
      - {request: "tool:call:send_mail", args: {to: a@example.com}, decision: ask}
      - {request: "tool:call:resize", args: {size: 11}, decision: deny, reason: authz.no_policy}
  - name: alice
    given: {role: guest, user: alice}
    expect:
      - {request: "tool:call:read_file", decision: deny}
  - name: operators
    given: {attributes: {team: ops}}
    expect:
      - {request: "tool:call:deploy", decision: allow}
"""


@pytest.fixture
def tests_of(policy: Path) -> Path:
    path = policy / "tests" / "t.yaml"
    path.write_text(TESTS, encoding="utf-8")
    return path


def test_policy_tests_that_hold(cli: Cli, tests_of: Path) -> None:
    ran = cli("test", "p")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "rules that no test exercises",
        "  policy.csv:3  p, role:guest, tool, send_mail, call, allow, endswith(r.ctx.args.to, '@example.org')",
        "  policy.csv:4  p, role:guest, tool, resize, call, allow, r.ctx.args.size <= 10",
        "  policy.csv:7  p, role:admin, tool, *, call, allow",
        "rule coverage 4 of 7 (57 %)",
        "3 tests, 5 expectations, 0 failed",
    ]


def test_policy_test_that_fails(cli: Cli, tests_of: Path, policy: Path) -> None:
    (policy / "policy.csv").write_text(POLICY.replace("read_file, call, deny", "read_file, call, allow"), "utf-8")
    ran = cli("test", "p")
    assert ran.code == 1
    assert ran.out.startswith("p/tests/t.yaml:11: failed alice: tool:call:read_file: expected deny, got allow by ")
    assert ran.out.endswith("3 tests, 5 expectations, 1 failed\n")
    ran = cli("test", "p", "--format", "json")
    assert (ran.code, ran.json["version"], ran.json["expectations"], ran.json["failures"]) == (1, 1, 5, 1)
    ran = cli("test", "p", "--format", "junit")
    assert ran.code == 1
    root = ElementTree.fromstring(ran.out)  # noqa: S314  # our own output
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    assert [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None] == ["alice"]


def test_export_for_casbin(cli: Cli, policy: Path) -> None:
    ran = cli("export", "--casbin", "-p", "p")
    assert (ran.code, ran.out) == (2, "")
    assert [line.split(": ")[0] for line in ran.lines] == [f"p/policy.csv:{line}" for line in (2, 3, 4, 5)]
    rows = [row for row in POLICY.splitlines() if row[-1] not in "')0s"]
    rows.append("p, role:guest, tool, send_mail, call, ask,")
    (policy / "policy.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert cli("export", "--casbin", "-p", "p", "--output", "out").code == 0
    enforcer = casbin.Enforcer("out/model.conf", "out/policy.csv")
    for subject, tool in (("role:guest", "read_file"), ("role:guest", "send_mail"), ("role:admin", "x"), ("u", "x")):
        role = subject.removeprefix("role:")
        allowed = cli("check", "-p", "p", "-r", role, f"tool:call:{tool}").code == 0
        assert enforcer.enforce(subject, "tool", tool, "call", {}) is allowed
    assert cli("export", "--casbin", "-p", "p").out == Path("out/policy.csv").read_text(encoding="utf-8")


def test_export_overwrites_nothing_and_wants_a_format(cli: Cli, policy: Path) -> None:
    (policy / "policy.csv").write_text(POLICY.splitlines()[0] + "\n", encoding="utf-8")
    assert cli("export", "--casbin", "-p", "p", "-o", "out").code == 0
    ran = cli("export", "--casbin", "-p", "p", "-o", "out")
    assert (ran.code, ran.out) == (2, "")
    assert "already there: out/model.conf, out/policy.csv" in ran.err
    assert cli("export", "-p", "p").lines == ["say what to export to: `remit export --casbin`"]


@pytest.mark.parametrize("name", ["authz", "roles"])
def test_schema_accepts_the_starter_and_refuses_a_typo(cli: Cli, name: str) -> None:
    assert cli("init", "starter").code == 0
    schema = cli("schema", name).json
    data = YAML(typ="safe", pure=True).load(Path(f"starter/{name}.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data | {"authorisation": {}}, schema)


def test_schema_is_that_of_the_configuration_by_default(cli: Cli) -> None:
    assert cli("schema").out == cli("schema", "authz").out
