"""The format of policy tests: what is read, and what is refused with a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.authz.errors import ConfigError
from remit.authz.tooling.policytests import load_policy_tests
from remit.authz.tooling.request import Asked

GOOD = """\
version: 1
tests:
  - name: guests look
    given: {role: guest, user: alice, attributes: {team: red, level: 3}}
    expect:
      - {request: "tool:call:read_file", decision: allow}
      - request: tool:call:bash
        args: {command: ls, depth: 2, deep: {list: [true, null]}}
        decision: deny
        rule: policy.csv:3
        reason: authz.denied
  - name: nobody in particular
    expect: [{request: "sandbox:execute:*", decision: ask}]
"""


def write(tmp_path: Path, text: str, name: str = "a.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_policy_tests([path])
    return [str(problem).removeprefix(str(tmp_path) + "/") for problem in caught.value.problems]


def test_everything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    first, second = load_policy_tests([path])
    assert (first.name, first.file, first.line) == ("guests look", str(path), 3)
    assert (first.role, first.user, first.attributes) == ("guest", "alice", {"team": "red", "level": 3})
    look, shell = first.expect
    assert (look.asked, look.args, look.decision) == (Asked("tool", "call", "read_file"), {}, "allow")
    assert (look.rule, look.reason, look.line) == (None, None, 6)
    assert shell.args == {"command": "ls", "depth": 2, "deep": {"list": [True, None]}}
    assert (shell.decision, shell.rule, shell.reason, shell.line) == ("deny", "policy.csv:3", "authz.denied", 7)
    assert (second.role, second.user, second.attributes) == (None, None, {})


def test_files_are_read_in_order_and_names_may_repeat_between_them(tmp_path: Path) -> None:
    files = [write(tmp_path, GOOD, name) for name in ("b.yaml", "a.yaml")]
    assert [Path(test.file).name for test in load_policy_tests(files)] == ["b.yaml", "b.yaml", "a.yaml", "a.yaml"]


def one(expectation: str) -> str:
    return f"tests:\n  - name: t\n    expect:\n      - {expectation}\n"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        pytest.param("", "a.yaml", "must be a mapping, got nothing", id="empty-file"),
        pytest.param("- a\n", "a.yaml:1", "must be a mapping, got list", id="list-at-the-top"),
        pytest.param("version: 1\n", "a.yaml:1", "the key 'tests' is missing", id="no-tests"),
        pytest.param("tests: []\n", "a.yaml:1", "tests: must be a list with at least one item", id="empty-tests"),
        pytest.param("version: 2\n" + GOOD[11:], "a.yaml:1", "unknown version 2", id="version"),
        pytest.param("version: true\n" + GOOD[11:], "a.yaml:1", "unknown version True", id="version-true"),
        pytest.param(GOOD.replace("tests:", "test:"), "a.yaml:2", "did you mean 'tests'?", id="key-at-the-top"),
        pytest.param(GOOD.replace("given:", "gven:"), "a.yaml:4", "did you mean 'given'?", id="key-of-a-test"),
        pytest.param(GOOD.replace("role:", "roles:"), "a.yaml:4", "did you mean 'role'?", id="key-of-given"),
        pytest.param(GOOD.replace("decision: deny", "decison: deny"), "a.yaml:9", "did you mean 'decision'?", id="key"),
        pytest.param(GOOD.replace("decision: deny", "decision: dney"), "a.yaml:9", "did you mean 'deny'?", id="word"),
        pytest.param(GOOD.replace("decision: deny", "decision: no"), "a.yaml:9", "unknown decision 'no'", id="no"),
        pytest.param(
            GOOD.replace("decision: deny", "decision: false"), "a.yaml:9", "unknown decision False", id="bool"
        ),
        pytest.param(GOOD.replace("tool:call:bash", "tol:call:bash"), "a.yaml:7", "did you mean 'tool'?", id="request"),
        pytest.param(GOOD.replace("tool:call:bash", "bash"), "a.yaml:7", "RESOURCE:ACTION:TARGET", id="short-request"),
        pytest.param(GOOD.replace("role: guest", "role: 7"), "a.yaml:4", "must be a text, got int 7", id="number-role"),
        pytest.param(GOOD.replace("role: guest", "role: "), "a.yaml:4", "leave the key out", id="null-role"),
        pytest.param(GOOD.replace("role: guest", 'role: "guest "'), "a.yaml:4", "white space around it", id="unclean"),
        pytest.param(GOOD.replace("{team: red, level: 3}", "[red]"), "a.yaml:4", "mapping of names", id="attributes"),
        pytest.param(GOOD.replace("nobody in particular", "guests look"), "a.yaml:12", "taken in line 3", id="twice"),
        pytest.param(one("{decision: allow}"), "a.yaml:4", "the key 'request' is missing", id="no-request"),
        pytest.param(one("{request: 'tool:call:x'}"), "a.yaml:4", "the key 'decision' is missing", id="no-decision"),
        pytest.param(one("tool:call:x"), "a.yaml:4", "must be a mapping, got str", id="request-alone"),
        pytest.param(one("{request: 'tool:call:x', decision: deny, rule: 3}"), "a.yaml:4", "in quotes", id="rule"),
        pytest.param("tests:\n  - expect: []\n", "a.yaml:2", "the key 'name' is missing", id="no-name"),
        pytest.param("tests:\n  - name: t\n", "a.yaml:2", "the key 'expect' is missing", id="no-expect"),
        pytest.param("tests:\n  - name: t\n    expect: []\n", "a.yaml:3", "got an empty list", id="empty-expect"),
        pytest.param("tests: [\n", "a.yaml:2", "is not valid YAML", id="yaml"),
        pytest.param("tests: 1\ntests: 2\n", "a.yaml:2", "stands here twice", id="duplicate-key"),
        pytest.param(GOOD.replace("ls", "2024-01-01"), "a.yaml:8", "would be read as timestamp", id="date"),
    ],
)
def test_mistake_is_refused_with_its_place(tmp_path: Path, text: str, place: str, words: str) -> None:
    found = problems(tmp_path, text)
    hits = [line for line in found if line.startswith(place + ":") and words in line]
    assert hits, found


def test_all_mistakes_of_all_files_come_at_once(tmp_path: Path) -> None:
    files = [
        write(tmp_path, GOOD.replace("decision: deny", "decision: dney").replace("role:", "roles:"), "a.yaml"),
        write(tmp_path, "tests: []\n", "b.yaml"),
        tmp_path / "missing.yaml",
    ]
    with pytest.raises(ConfigError) as caught:
        load_policy_tests(files)
    places = [(Path(problem.file).name, problem.line) for problem in caught.value.problems]
    assert places == [("a.yaml", 4), ("a.yaml", 9), ("b.yaml", 1), ("missing.yaml", 0)]
