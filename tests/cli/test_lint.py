"""`remit lint`: findings as text, JSON and SARIF, and the comparison with a catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli

CONFIG = """\
version: 1
authorization:
  enabled: true
  provider: {use: casbin, config: {policies: [roles.yaml, policy.csv]}}
"""
ROLES = """\
roles:
  guest: {tools: {allow: [read_file, "mcp__db__*"]}}
"""
POLICY = """\
p, role:guest, tool, web_search, call, allow,
p, role:guest, tool, web_search, call, allow,
"""
CATALOG = "tools: [read_file, web_serch, mcp__db__query]\n"


@pytest.fixture
def policy() -> Path:
    folder = Path("p")
    folder.mkdir()
    for name, text in (("authz.yaml", CONFIG), ("roles.yaml", ROLES), ("policy.csv", POLICY)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_text(cli: Cli, policy: Path) -> None:
    ran = cli("lint", "p")
    assert (ran.code, ran.err) == (1, "")
    finding, summary = ran.out.splitlines()
    assert finding.startswith("p/policy.csv:2: warning ")
    assert summary == "0 errors, 1 warning"


def test_json(cli: Cli, policy: Path) -> None:
    (policy / "catalog.yaml").write_text(CATALOG, encoding="utf-8")
    ran = cli("lint", "p", "--format", "json")
    assert (ran.code, ran.err) == (1, "")
    document = ran.json
    assert (document["version"], document["errors"], document["warnings"]) == (1, 2, 1)
    found = [(item["file"], item["line"], item["severity"]) for item in document["findings"]]
    assert found == [("p/policy.csv", 1, "error"), ("p/policy.csv", 2, "error"), ("p/policy.csv", 2, "warning")]
    assert document["findings"][0]["code"] == "not-in-catalog"
    assert document["findings"][0]["advice"] == "did you mean 'web_serch'?"


def test_sarif_points_from_the_working_directory(cli: Cli, policy: Path) -> None:
    ran = cli("lint", policy.resolve(), "--format", "sarif")
    assert (ran.code, ran.err) == (1, "")
    assert ran.json["version"] == "2.1.0"
    (result,) = ran.json["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": "p/policy.csv"}, "region": {"startLine": 2}}
    assert result["level"] == "warning"


@pytest.mark.parametrize("style", ["json", "sarif"])
def test_clean_policy_is_an_empty_document(cli: Cli, policy: Path, style: str) -> None:
    (policy / "policy.csv").write_text(POLICY.splitlines()[0] + "\n", encoding="utf-8")
    ran = cli("lint", "p", "-f", style)
    assert ran.code == 0
    assert (ran.json["findings"] if style == "json" else ran.json["runs"][0]["results"]) == []


@pytest.mark.parametrize(
    ("catalog", "outside"),
    [
        pytest.param("tools: [read_file, web_search, mcp__db__query]\n", [], id="all-known"),
        pytest.param("models: [small]\n", [], id="tools-not-catalogued"),
        pytest.param("tools: [read_file, mcp__db__query]\n", ["web_search"], id="name-outside"),
        pytest.param("tools: [read_file, web_search]\n", ["mcp__db__*"], id="pattern-covers-nothing"),
        pytest.param("tools: []\n", ["mcp__db__*", "read_file", "web_search"], id="no-tools"),
    ],
)
def test_names_outside_the_catalogue_are_errors(cli: Cli, policy: Path, catalog: str, outside: list[str]) -> None:
    Path("names.yaml").write_text(catalog, encoding="utf-8")
    ran = cli("lint", "p", "--catalog", "names.yaml", "--errors-only", "--format", "json")
    assert ran.code == (1 if outside else 0)
    named = {name for name in outside for item in ran.json["findings"] if repr(name) in item["message"]}
    assert named == set(outside)
    assert {item["code"] for item in ran.json["findings"]} <= {"not-in-catalog"}


def test_named_catalogue_wins_over_the_one_beside(cli: Cli, policy: Path) -> None:
    (policy / "catalog.yaml").write_text("tools: []\n", encoding="utf-8")
    Path("names.yaml").write_text("models: []\n", encoding="utf-8")
    assert cli("lint", "p", "--errors-only").code == 1
    assert cli("lint", "p", "--errors-only", "--catalog", "names.yaml").code == 0


def test_warnings_count_unless_left_out(cli: Cli, policy: Path) -> None:
    assert cli("lint", "p").code == 1
    ran = cli("lint", "p", "--errors-only")
    assert (ran.code, ran.out) == (0, "no findings\n")


def test_configuration_of_guardrails_is_checked(cli: Cli, policy: Path) -> None:
    with (policy / "authz.yaml").open("a", encoding="utf-8") as out:
        out.write("guardrails: {enabled: true, provider: {use: allowlst}}\n")
    ran = cli("lint", "p", "--errors-only")
    assert ran.code == 1
    assert ran.out.startswith("p/authz.yaml:5: error guardrails.provider.use: ")
    assert "did you mean 'allowlist'?" in ran.out


def test_own_resource_types_are_known_to_the_tests(cli: Cli, policy: Path) -> None:
    (policy / "tests").mkdir()
    (policy / "tests" / "t.yaml").write_text(
        "tests: [{name: t, expect: [{request: 'dataset:export:sales', decision: deny}]}]\n", encoding="utf-8"
    )
    assert "'dataset'" in cli("lint", "p", "--errors-only").out
    with (policy / "authz.yaml").open("a", encoding="utf-8") as out:
        out.write("  vocabulary: {resources: [dataset]}\n")
    assert cli("lint", "p", "--errors-only").code == 0
