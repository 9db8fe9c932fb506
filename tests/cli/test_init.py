"""`remit init`: what it writes works as it stands, and nothing is ever overwritten."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from tests.support.cli import Cli, process

FILES = {"authz.yaml", "model.conf", "policy.csv", "roles.yaml", "catalog.yaml", "tests/roles.yaml"}


def written(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_starter_is_complete_and_commented(cli: Cli) -> None:
    ran = cli("init", "p")
    assert (ran.code, ran.err) == (0, "")
    assert written(Path("p")) == FILES
    for name in FILES:
        assert (Path("p") / name).read_text(encoding="utf-8").startswith("# ")
        assert f"wrote p/{name}" in ran.out


def test_starter_states_its_version(cli: Cli) -> None:
    cli("init", "p")
    for name in FILES:
        if name.endswith(".yaml"):
            assert "\nversion: 1\n" in (Path("p") / name).read_text(encoding="utf-8")


def test_folder_is_policies_by_default_and_then_every_command_finds_it(cli: Cli) -> None:
    assert cli("init").code == 0
    assert written(Path("policies")) == FILES
    assert cli("lint").out == "no findings\n"
    assert cli("test").code == 0
    assert cli("check", "tool:call:web_search").code == 0


@pytest.mark.parametrize("folder", ["p", "deep/er/p", "it's a policy"])
def test_next_steps_work(cli: Cli, folder: str) -> None:
    ran = cli("init", folder)
    steps = [shlex.split(line, comments=True) for line in ran.out.splitlines() if line.startswith("  remit ")]
    assert [step[1] for step in steps] == ["lint", "test", "check", "explain"]
    ran_steps = {step[1]: cli(*step[1:]) for step in steps}
    codes = {name: step.code for name, step in ran_steps.items()}
    assert codes == {"lint": 0, "test": 0, "check": 3, "explain": 3}, ran_steps


def test_nothing_is_overwritten(cli: Cli) -> None:
    folder = Path("p")
    (folder / "tests").mkdir(parents=True)
    (folder / "roles.yaml").write_text("mine", encoding="utf-8")
    (folder / "tests" / "roles.yaml").write_text("mine, too", encoding="utf-8")
    ran = cli("init", "p")
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines == ["already there: p/roles.yaml, p/tests/roles.yaml; nothing was written, choose another folder"]
    assert written(folder) == {"roles.yaml", "tests/roles.yaml"}
    assert (folder / "roles.yaml").read_text(encoding="utf-8") == "mine"


def test_other_files_in_the_folder_do_no_harm(cli: Cli) -> None:
    Path("p").mkdir()
    Path("p/README.md").touch()
    assert cli("init", "p").code == 0
    assert written(Path("p")) == FILES | {"README.md"}


def test_dangling_link_is_there_already(cli: Cli) -> None:
    Path("p").mkdir()
    os.symlink("/nowhere/authz.yaml", "p/authz.yaml")
    ran = cli("init", "p")
    assert (ran.code, ran.out) == (2, "")
    assert "p/authz.yaml" in ran.err


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        pytest.param("file", "cannot write to 'file'", id="a-file"),
        pytest.param("file/below", "cannot write to 'file/below'", id="below-a-file"),
        pytest.param("x" * 300, "file name too long", id="name-too-long"),
        pytest.param("a\0b", "cannot write to 'a\\x00b'", id="null-byte"),
    ],
)
def test_folder_that_cannot_be_written(cli: Cli, folder: str, words: str) -> None:
    Path("file").touch()
    ran = cli("init", folder)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert written(Path()) == {"file"}


def test_nothing_stays_behind_when_a_file_cannot_be_written(cli: Cli) -> None:
    Path("p").mkdir()
    Path("p/tests").touch()  # where a folder must be
    ran = cli("init", "p")
    assert (ran.code, ran.out) == (2, "")
    assert "nothing was written" in ran.err
    assert written(Path("p")) == {"tests"}


def test_process_works_from_an_empty_folder(tmp_path: Path) -> None:
    assert process("init", cwd=tmp_path).code == 0
    ran = process("check", "--role", "user", "tool:call:bash", cwd=tmp_path)
    assert (ran.code, ran.err) == (4, "")
    assert ran.out.startswith("ask tool:call:bash\n  who      role user\n  rule     policy.csv:")
