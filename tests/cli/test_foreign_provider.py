"""The command line over somebody else's provider, which may do less than ours, or the wrong thing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli

CONFIG = """\
version: 1
authorization:
  enabled: true
  default_role: guest
  provider:
    use: tests.support.table_provider:{provider}
    config:
      rows:
        - [guest, tool, "read_*", allow]
        - [guest, tool, bash, deny]
        - [guest, tool, send_mail, ask]
      broken: [oops]
"""
TESTS = """\
tests:
  - name: guests
    expect:
      - {request: "tool:call:read_file", decision: allow}
      - {request: "tool:call:bash", decision: deny, rule: "table.txt:2"}
"""


def policy(folder: Path, provider: str = "FromConfig", config: str = CONFIG) -> Path:
    (folder / "tests").mkdir(parents=True)
    (folder / "authz.yaml").write_text(config.replace("{provider}", provider), encoding="utf-8")
    (folder / "tests" / "guests.yaml").write_text(TESTS, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("request_", "code", "word"),
    [
        pytest.param("tool:call:read_file", 0, "allow", id="allow"),
        pytest.param("tool:call:bash", 3, "deny", id="deny"),
        pytest.param("tool:call:send_mail", 4, "ask", id="ask"),
        pytest.param("tool:call:unheard_of", 3, "deny", id="no-rule"),
    ],
)
def test_check_and_explain_end_with_the_decision(cli: Cli, request_: str, code: int, word: str) -> None:
    policy(Path("p"))
    for command in ("check", "explain"):
        ran = cli(command, "-p", "p", request_)
        assert (ran.code, ran.out.split()[:2], ran.err) == (code, [word, request_], "")


def test_failing_provider_is_a_denial_with_one_line_about_it(cli: Cli) -> None:
    policy(Path("p"))
    ran = cli("check", "-p", "p", "tool:call:oops", "--format", "json")
    assert ran.code == 3
    assert (ran.json["decision"], ran.json["failure"]) == ("deny", True)
    assert ran.lines == ["remit: authz.evaluator_error from provider 'table': denied (fail_closed)"]


def test_trace_that_fails_is_one_message(cli: Cli) -> None:
    policy(Path("p"))
    ran = cli("explain", "-p", "p", "tool:call:oops")
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines[-1] == "remit: the provider 'table' cannot explain this: RuntimeError: the table fell over"


def test_trace_that_contradicts_the_decision_is_reported(cli: Cli) -> None:
    policy(Path("p"), "Contradicting")
    ran = cli("explain", "-p", "p", "tool:call:bash")
    assert ran.code == 3
    assert ran.out.startswith("deny tool:call:bash")
    assert "the trace says allow, but the decision is deny" in ran.err


def test_provider_that_cannot_explain(cli: Cli) -> None:
    policy(Path("p"), "PlainFromConfig")
    ran = cli("explain", "-p", "p", "tool:call:bash")
    assert (ran.code, ran.lines) == (2, ["the provider 'table' cannot explain decisions; use `remit check`"])
    ran = cli("test", "p")
    assert (ran.code, ran.out) == (0, "1 test, 2 expectations, 0 failed\n")
    assert cli("lint", "p").code == 0


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        pytest.param("LintRaises", "the provider's lint failed: RuntimeError: no lint today", id="raises"),
        pytest.param("LintTalks", "the provider's lint did not answer with problems", id="answers-with-text"),
        pytest.param("LintFinds", "warning rows overlap; merge them [overlap]", id="finds"),
    ],
)
def test_what_the_providers_lint_does_is_a_finding(cli: Cli, provider: str, words: str) -> None:
    policy(Path("p"), provider)
    ran = cli("lint", "p")
    assert ran.code == 1
    assert words in ran.out


def test_warnings_are_findings_unless_left_out(cli: Cli) -> None:
    policy(Path("p"), "LintFinds")
    assert cli("lint", "p").out.endswith("0 errors, 1 warning\n")
    ran = cli("lint", "p", "--errors-only")
    assert (ran.code, ran.out) == (0, "no findings\n")


def test_coverage_lists_what_no_test_exercises(cli: Cli) -> None:
    policy(Path("p"))
    ran = cli("test", "p")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "rules that no test exercises",
        "  table.txt:3  guest ask tool send_mail",
        "rule coverage 2 of 3 (66 %)",
        "1 test, 2 expectations, 0 failed",
    ]


def test_disabled_authorization_is_said_and_the_policy_is_asked_anyway(cli: Cli) -> None:
    policy(Path("p"), config=CONFIG.replace("enabled: true", "enabled: false"))
    ran = cli("check", "-p", "p", "tool:call:bash")
    assert ran.code == 3
    assert ran.err.startswith("p/authz.yaml: authorization is disabled, so agents are not restricted at all")
    assert cli("lint", "p").code == 0


def test_provider_is_closed_when_the_command_ends(cli: Cli) -> None:
    policy(Path("p"), "Closing")
    ran = cli("check", "-p", "p", "tool:call:read_file")
    assert (ran.code, ran.err) == (0, "table closed\n")


def test_provider_that_cannot_be_closed_changes_nothing(cli: Cli) -> None:
    policy(Path("p"), "CloseRaises")
    ran = cli("check", "-p", "p", "tool:call:read_file")
    assert (ran.code, ran.err) == (0, "remit: the provider could not be closed: OSError: already gone\n")


async def test_command_line_may_be_called_from_a_running_loop(cli: Cli) -> None:
    policy(Path("p"), "Closing")
    ran = cli("check", "-p", "p", "tool:call:read_file")
    assert (ran.code, ran.err) == (0, "table closed\n")


def test_rules_that_cannot_be_listed(cli: Cli) -> None:
    policy(Path("p"), "RulesRaise")
    Path("p/catalog.yaml").write_text("tools: []\n", encoding="utf-8")
    words = "the provider 'table' cannot list its rules: RuntimeError: no rules today"
    ran = cli("test", "p")
    assert (ran.code, ran.out, ran.err) == (2, "", f"remit: {words}\n")
    ran = cli("lint", "p")
    assert ran.code == 1
    assert words in ran.out


def test_coverage_asks_for_the_cheap_trace(cli: Cli) -> None:
    policy(Path("p"), "Tracing")
    ran = cli("test", "p", "-f", "json")
    assert (ran.code, ran.json["coverage"]["exercised"]) == (0, 2)


def test_long_list_of_untested_rules_is_cut_in_text_alone(cli: Cli) -> None:
    rows = "".join(f"        - [guest, tool, t{number}, allow]\n" for number in range(60))
    policy(Path("p"), config=CONFIG.replace("      broken:", rows + "      broken:"))
    lines = cli("test", "p").out.splitlines()
    assert len(lines) == 1 + 50 + 3
    assert lines[51] == "  and 11 more; --format json lists all"
    assert len(cli("test", "p", "-f", "json").json["coverage"]["missing"]) == 61


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        pytest.param("FromConfig", "NoSuch", "p/authz.yaml:6", "cannot be imported: AttributeError", id="class"),
        pytest.param("tests.support", "no_such", "p/authz.yaml:6", "cannot be imported: ModuleNotFound", id="module"),
        pytest.param("rows:", "rws:", "p/authz.yaml:7", "cannot be built: TypeError", id="option"),
        pytest.param("bash, deny", "bash, deny, 1, 2", "p/authz.yaml:7", "cannot be built: TypeError", id="row"),
        pytest.param(":FromConfig", ":ROWS", "p/authz.yaml:6", "not a class", id="no-class"),
        pytest.param("FromConfig", "Row", "p/authz.yaml", "cannot be built", id="no-provider"),
    ],
)
def test_provider_that_cannot_be_built(cli: Cli, old: str, new: str, place: str, words: str) -> None:
    policy(Path("p"), config=CONFIG.replace("{provider}", "FromConfig").replace(old, new))
    ran = cli("check", "-p", "p", "tool:call:bash")
    assert (ran.code, ran.out) == (2, "")
    assert [line for line in ran.lines if line.startswith(place) and words in line], ran.err
    ran = cli("lint", "p")
    assert ran.code == 1
    assert words in ran.out
