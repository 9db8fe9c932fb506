"""Wrong usage: one message that says what to do, exit code 2, nothing on stdout."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.support.cli import Cli, process

POLICY = """\
authorization:
  enabled: true
  provider: {use: casbin, config: {policies: [policy.csv]}}
"""


@pytest.fixture
def policy() -> Path:
    folder = Path("policies")
    folder.mkdir()
    (folder / "authz.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "policy.csv").write_text("p, role:guest, tool, read_file, call, allow,\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param("chekc tool:call:bash", "did you mean 'check'?; see `remit --help`", id="command"),
        pytest.param("--verson", "--version", id="option-of-remit"),
        pytest.param("check", "missing argument 'RESOURCE:ACTION:TARGET'; see `remit check --help`", id="no-request"),
        pytest.param("check tool:call:x tool:call:y", "see `remit check --help`", id="two-requests"),
        pytest.param("check tool:call:x --rol guest", "--role", id="option"),
        pytest.param("check tool:call:x --role", "remit check: option '--role' requires an argument", id="no-value"),
        pytest.param("check tool:call:x --format yaml", "'yaml' is not one of 'text', 'json'", id="format"),
        pytest.param("check bash", "'bash' is not of the form RESOURCE:ACTION:TARGET", id="request"),
        pytest.param("check tol:call:bash", "did you mean 'tool'?", id="resource"),
        pytest.param("check tool:use:bash", "known: call", id="action"),
        pytest.param("check tool:call:x --arg path", "--arg 'path' is not of the form NAME=VALUE", id="arg"),
        pytest.param("check tool:call:x --arg a=1 --arg a=2", "--arg 'a' is given twice", id="arg-twice"),
        pytest.param("check tool:call:x --arg a=1e999", "--arg 'a': the number 1e999 is too large", id="arg-number"),
        pytest.param("check tool:call:x --attribute =1", "--attribute '=1' is not of the form", id="attribute"),
        pytest.param("check tool:call:x --role guest\u200b", "holds the invisible character U+200B", id="role"),
        pytest.param("check tool:call:x --user \ud800", "holds the invisible character", id="user-not-text"),
        pytest.param("check tool:call:x -p nope", "there is no policy at 'nope'", id="policy"),
        pytest.param("check tool:call:x -p policies/policy.csv", "is not an authz.yaml; name the folder", id="file"),
        pytest.param("explain bash", "'bash' is not of the form RESOURCE:ACTION:TARGET", id="explain-request"),
        pytest.param("lint nope", "there is no policy at 'nope'", id="lint"),
        pytest.param("lint a b", "see `remit lint --help`", id="lint-two"),
        pytest.param("lint --format xml", "'xml' is not one of", id="lint-format"),
        pytest.param("lint --catalog nope.yaml", "--catalog 'nope.yaml': there is no such file", id="lint-catalog"),
        pytest.param("test nope", "there is no policy at 'nope'", id="test"),
        pytest.param("test", "there are no policy tests in 'policies/tests'", id="no-tests"),
        pytest.param("test --format sarif", "'sarif' is not one of", id="test-format"),
        pytest.param("schema policy.csv", "'policy.csv' is not one of", id="schema"),
        pytest.param("demo now", "see `remit demo --help`", id="demo"),
    ],
)
def test_wrong_usage(cli: Cli, policy: Path, argv: str, words: str) -> None:
    ran = cli(*argv.split())
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert len(ran.lines) == 1


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        pytest.param("REMIT_AUTHZ_FILE", "nope", "REMIT_AUTHZ_FILE: there is no policy at 'nope'", id="location"),
        pytest.param("REMIT_AUTHORIZATION__ENABLED", "maybe", "REMIT_AUTHORIZATION__ENABLED: ", id="value"),
        pytest.param("REMIT_AUTHORIZATION__ENABLD", "true", "did you mean 'REMIT_AUTHORIZATION__ENABLED'?", id="name"),
        pytest.param("REMIT_AUTHORIZATION__PROVIDER", "{", "REMIT_AUTHORIZATION__PROVIDER: ", id="json"),
        pytest.param("REMIT_AUTHORIZATION__DEFAULT_ROLE", "gest", "did you mean 'guest'?", id="role"),
    ],
)
def test_bad_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)
    ran = cli("check", "tool:call:read_file", "--role", "guest")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_environment_names_the_policy(cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy.rename("elsewhere")
    monkeypatch.setenv("REMIT_AUTHZ_FILE", "elsewhere")
    assert cli("check", "tool:call:read_file", "--role", "guest").code == 0


def test_no_command_shows_the_help(cli: Cli) -> None:
    ran = cli()
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: remit [OPTIONS] COMMAND" in ran.err


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["check", "--help"], ["lint", "-h"]])
def test_help(cli: Cli, argv: list[str]) -> None:
    ran = cli(*argv)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: remit")
    assert "..." not in ran.out.replace("[ARGS]...", "")


def test_version(cli: Cli) -> None:
    ran = cli("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"remit {version('remit')}\n", "")


def test_interrupt_ends_quietly(cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("remit.authz.judge.Judge.decide", interrupted)
    ran = cli("check", "tool:call:read_file", "--role", "guest")
    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_fault_of_ours_is_one_line(cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("this should\nnot happen")

    monkeypatch.setattr("remit.authz.judge.Judge.decide", broken)
    ran = cli("check", "tool:call:read_file", "--role", "guest")
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.lines) == 1
    assert "internal error at test_usage.py:" in ran.err
    assert "RuntimeError: this should" in ran.err


def test_process_ends_with_the_same_code_and_streams(tmp_path: Path, policy: Path) -> None:
    for argv, code in (
        (("check", "tool:call:read_file", "--role", "guest"), 0),
        (("check", "tool:call:bash", "--role", "guest"), 3),
        (("check", "bash"), 2),
    ):
        ran = process(*argv, cwd=tmp_path)
        assert ran.code == code
        assert bool(ran.out) == (code != 2)
        assert bool(ran.err) == (code == 2)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_survives_any_encoding(tmp_path: Path, policy: Path, encoding: str) -> None:
    env = os.environ | {"PYTHONIOENCODING": encoding}
    ran = process("check", "tool:call:\u8bfb\u6587\u4ef6", "--role", "guest", cwd=tmp_path, env=env)
    assert (ran.code, ran.err) == (3, "")
    assert "\u8bfb" in ran.out or "\\u8bfb" in ran.out


def test_names_cannot_steer_the_terminal(cli: Cli, policy: Path) -> None:
    ran = cli("check", "tool:call:\x1b[31mred\u202e", "--role", "guest", "--arg", "a=\x1b]0;title\x07")
    assert ran.code == 3
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert "\\x1b[31mred\\u202e" in ran.out


def test_closed_pipe_is_no_traceback(tmp_path: Path, policy: Path) -> None:
    script = Path(sys.executable).with_name("remit")
    with subprocess.Popen([script, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(30) in (0, 2)


def test_shell_completion(tmp_path: Path) -> None:
    words = {"_REMIT_COMPLETE": "complete_bash", "COMP_WORDS": "remit check --ro", "COMP_CWORD": "2"}
    ran = process(cwd=tmp_path, env=os.environ | words)
    assert (ran.code, ran.out.split(), ran.err) == (0, ["--role"], "")
