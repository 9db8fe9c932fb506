"""Finding a policy, and naming its files for people and for other machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remit.authz.errors import ConfigError, Problem
from remit.authz.tooling.location import PolicyLocation, find_test_files, locate


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REMIT_AUTHZ_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    for folder in ("policies", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "authz.yaml").touch()
        (tmp_path / folder / "policy.csv").touch()
    (tmp_path / "empty").mkdir()


@pytest.mark.parametrize(
    ("named", "variable", "file"),
    [
        pytest.param(None, None, "policies/authz.yaml", id="default"),
        pytest.param(None, "", "policies/authz.yaml", id="empty-variable-is-unset"),
        pytest.param(None, "other", "other/authz.yaml", id="variable"),
        pytest.param("policies", "other", "policies/authz.yaml", id="argument-before-variable"),
        pytest.param("other/authz.yaml", None, "other/authz.yaml", id="file"),
        pytest.param("other/", None, "other/authz.yaml", id="folder-with-slash"),
    ],
)
def test_policy_is_found(monkeypatch: pytest.MonkeyPatch, named: str | None, variable: str | None, file: str) -> None:
    if variable is not None:
        monkeypatch.setenv("REMIT_AUTHZ_FILE", variable)
    assert locate(named) == PolicyLocation(Path(file))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        pytest.param("nope", "there is no policy at 'nope'", id="missing"),
        pytest.param("nope/authz.yaml", "there is no policy at", id="missing-file"),
        pytest.param("", "the folder '' has no authz.yaml", id="empty"),
        pytest.param("empty", "the folder 'empty' has no authz.yaml; `remit init` writes one", id="folder-without"),
        pytest.param("other/policy.csv", "is not an authz.yaml; name the folder", id="another-file"),
        pytest.param("x" * 5000, "cannot read", id="name-too-long"),
        pytest.param("a\0b", "there is no policy at 'a\\x00b'", id="null-byte"),
    ],
)
def test_what_is_no_policy_is_refused(named: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        locate(named)
    assert words in str(caught.value)


def test_message_names_the_variable_that_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_AUTHZ_FILE", "nope")
    with pytest.raises(ConfigError, match=r"^REMIT_AUTHZ_FILE: there is no policy at 'nope'"):
        locate(None)


def test_problems_are_shown_with_paths_that_can_be_opened_from_here() -> None:
    problems = [
        Problem("policy.csv", 2, "b"),
        Problem("policy.csv", 1, "a"),
        Problem("policy.csv", 1, "a"),
        Problem("nope.csv", 0, "does not exist"),
        Problem("REMIT_LEDGER__SINK", 0, "no such thing"),
    ]
    shown = PolicyLocation(Path("other/authz.yaml")).shown(problems)
    assert [str(problem) for problem in shown] == [
        "REMIT_LEDGER__SINK: no such thing",
        "other/nope.csv: does not exist",
        "other/policy.csv:1: a",
        "other/policy.csv:2: b",
    ]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        pytest.param("policy.csv", "other/policy.csv", id="as-configured"),
        pytest.param("other/policy.csv", "other/policy.csv", id="as-shown"),
        pytest.param("{cwd}/other/policy.csv", "other/policy.csv", id="absolute"),
        pytest.param("../policies/policy.csv", "policies/policy.csv", id="beside-the-folder"),
        pytest.param("nope.csv", "other/nope.csv", id="not-there"),
        pytest.param("x" * 5000, "x" * 5000, id="no-possible-name"),
        pytest.param("/etc/remit/policy.csv", "policy.csv", id="outside-of-everything"),
    ],
)
def test_uris_are_relative_to_the_working_directory(tmp_path: Path, file: str, uri: str) -> None:
    assert PolicyLocation(Path("other/authz.yaml")).uri_of(file.replace("{cwd}", str(tmp_path))) == uri


def test_policy_outside_of_the_working_directory_is_named_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "empty")
    location = PolicyLocation(Path(os.pardir, "other", "authz.yaml"))
    assert location.uri_of("policy.csv") == "policy.csv"
    assert location.uri_of("../other/authz.yaml") == "authz.yaml"


def test_tests_are_the_yaml_files_below_their_folder() -> None:
    tests = Path("other/tests")
    (tests / "deep").mkdir(parents=True)
    for name in ("b.yaml", "a.yml", "deep/c.yaml", "README.md", "notes.txt"):
        (tests / name).touch()
    (tests / "folder.yaml").mkdir()
    found = find_test_files(locate("other"))
    assert [path.relative_to(tests).as_posix() for path in found] == ["a.yml", "b.yaml", "deep/c.yaml"]
    assert find_test_files(locate("policies")) == []
