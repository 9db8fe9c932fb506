"""Where the data of threads lies, and the one spelling of a virtual path."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.runtime.paths import AREAS, normal_virtual_path, thread_paths


def test_folders_of_a_thread(tmp_path: Path) -> None:
    paths = thread_paths("u1", "t1", base=tmp_path)
    root = tmp_path / "users" / "u1" / "threads" / "t1"
    assert [paths.workspace, paths.uploads, paths.outputs] == [root / "user-data" / area for area in AREAS]
    assert paths.skills == root / "skills"
    assert paths.as_state() == {
        "workspace_path": str(root / "user-data" / "workspace"),
        "uploads_path": str(root / "user-data" / "uploads"),
        "outputs_path": str(root / "user-data" / "outputs"),
    }
    assert not root.exists(), "computing makes nothing"


def test_the_state_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    assert thread_paths("u", "t").user_data.is_relative_to(tmp_path / "state" / "users")
    monkeypatch.delenv("REMIT_STATE_DIR")
    monkeypatch.chdir(tmp_path)
    assert thread_paths("u", "t").user_data.is_relative_to(tmp_path / ".remit")


def test_made_for_the_owner_alone_and_kept(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        paths = thread_paths("u", "t", base=tmp_path)
        paths.create()
        (paths.workspace / "kept.txt").write_text("kept")
        paths.create()
    finally:
        os.umask(old)
    assert (paths.workspace / "kept.txt").read_text() == "kept"
    for folder in (paths.workspace, paths.uploads, paths.outputs, *list(paths.workspace.parents)[:5]):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    paths = thread_paths("u", "t", base=tmp_path)
    paths.user_data.mkdir(parents=True)
    paths.uploads.write_text("x")
    with pytest.raises(FileExistsError):
        paths.create()


@pytest.mark.parametrize(("user", "thread"), [("..", "t"), ("u", "../../x"), ("", "t"), ("u", ""), ("a/b", "t")])
def test_ids_that_lead_elsewhere(user: str, thread: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot name a folder"):
        thread_paths(user, thread, base=tmp_path)


SPELLINGS = [
    ("/mnt/user-data/workspace/a.txt", "/mnt/user-data/workspace/a.txt"),
    ("a.txt", "/mnt/user-data/workspace/a.txt"),
    ("./a.txt", "/mnt/user-data/workspace/a.txt"),
    ("../outputs/a.txt", "/mnt/user-data/outputs/a.txt"),
    ("//mnt//user-data///workspace/./b/../a.txt", "/mnt/user-data/workspace/a.txt"),
    ("/mnt/user-data/workspace/", "/mnt/user-data/workspace"),
    ("/", "/"),
    ("//", "/"),
    ("/mnt/user-data/workspace/../../../etc/passwd", "/etc/passwd"),
    ("/mnt/user-data/workspace/...", "/mnt/user-data/workspace/..."),
    ("/mnt/user-data/workspace/a\nb", "/mnt/user-data/workspace/a\nb"),
]


@pytest.mark.parametrize(("path", "wanted"), SPELLINGS, ids=[repr(path) for path, _ in SPELLINGS])
def test_spelling(path: str, wanted: str) -> None:
    assert normal_virtual_path(path) == wanted


@pytest.mark.parametrize("path", ["", "\x00", "a\x00b", "/..", "/a/../..", "../../../../x"], ids=repr)
def test_refused(path: str) -> None:
    with pytest.raises(ValueError, match="the path"):
        normal_virtual_path(path)


@given(st.lists(st.sampled_from(["a", "b", ".", "..", "", "mnt", "user-data"]), max_size=10), st.booleans())
def test_one_spelling(parts: list[str], absolute: bool) -> None:
    try:
        normal = normal_virtual_path("/" * absolute + "/".join(parts))
    except ValueError:
        return
    assert normal_virtual_path(normal) == normal
    assert normal.startswith("/")
    assert "//" not in normal
    assert not {".", ".."} & set(PurePosixPath(normal).parts)
