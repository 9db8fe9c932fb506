"""What a run did to a thread's files, and whether what it made was delivered."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remit.harness import workspace
from remit.harness.workspace import Changes, Snapshot, changes, missing, scan, undelivered
from remit.runtime.paths import TOOL_RESULTS_DIRNAME, ThreadPaths, thread_paths


@pytest.fixture
def paths(tmp_path: Path) -> ThreadPaths:
    found = thread_paths("u1", "t1", base=tmp_path / "state")
    found.create()
    return found


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_thread_without_folders(tmp_path: Path) -> None:
    assert scan(thread_paths("u", "none", base=tmp_path)) == Snapshot({})


def test_every_file_by_its_virtual_path(paths: ThreadPaths) -> None:
    write(paths.workspace / "a.txt")
    write(paths.workspace / "deep" / "er" / "b.txt")
    write(paths.uploads / "c.pdf")
    write(paths.outputs / "d.png", "12345")
    found = scan(paths)
    assert list(found.files) == [
        "/mnt/user-data/workspace/a.txt",
        "/mnt/user-data/workspace/deep/er/b.txt",
        "/mnt/user-data/uploads/c.pdf",
        "/mnt/user-data/outputs/d.png",
    ]
    assert found.files["/mnt/user-data/outputs/d.png"].size == 5
    assert found.complete


def touch_back(path: Path) -> None:
    """Other content of the same length, under the old time."""
    old = path.stat()
    path.write_text("y" * old.st_size)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def replaced(path: Path) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text("z")
    os.utime(fresh, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    fresh.replace(path)


DEEDS: list[tuple[str, Callable[[ThreadPaths], Any], Changes]] = [
    ("nothing", lambda paths: None, Changes()),
    (
        "made",
        lambda paths: write(paths.outputs / "new.txt"),
        Changes(created=("/mnt/user-data/outputs/new.txt",)),
    ),
    (
        "grown",
        lambda paths: write(paths.workspace / "a.txt", "xx"),
        Changes(changed=("/mnt/user-data/workspace/a.txt",)),
    ),
    (
        "other content under the old time",
        lambda paths: touch_back(paths.workspace / "a.txt"),
        Changes(changed=("/mnt/user-data/workspace/a.txt",)),
    ),
    (
        "another file in its place",
        lambda paths: replaced(paths.workspace / "a.txt"),
        Changes(changed=("/mnt/user-data/workspace/a.txt",)),
    ),
    (
        "gone",
        lambda paths: (paths.workspace / "a.txt").unlink(),
        Changes(deleted=("/mnt/user-data/workspace/a.txt",)),
    ),
    (
        "moved",
        lambda paths: (paths.workspace / "a.txt").rename(paths.outputs / "a.txt"),
        Changes(created=("/mnt/user-data/outputs/a.txt",), deleted=("/mnt/user-data/workspace/a.txt",)),
    ),
    (
        "a link in its place",
        lambda paths: ((paths.workspace / "a.txt").unlink(), (paths.workspace / "a.txt").symlink_to("/etc/passwd")),
        Changes(deleted=("/mnt/user-data/workspace/a.txt",)),
    ),
    ("an empty folder", lambda paths: (paths.outputs / "empty").mkdir(), Changes()),
    ("a stored tool result", lambda paths: write(paths.outputs / TOOL_RESULTS_DIRNAME / "r.txt"), Changes()),
    ("machinery", lambda paths: write(paths.workspace / "repo" / ".git" / "objects" / "x"), Changes()),
    (
        "a folder of that name elsewhere",
        lambda paths: write(paths.workspace / TOOL_RESULTS_DIRNAME / "r.txt"),
        Changes(created=(f"/mnt/user-data/workspace/{TOOL_RESULTS_DIRNAME}/r.txt",)),
    ),
]


@pytest.mark.parametrize(("deed", "wanted"), [d[1:] for d in DEEDS], ids=[d[0] for d in DEEDS])
def test_changes(paths: ThreadPaths, deed: Callable[[ThreadPaths], Any], wanted: Changes) -> None:
    write(paths.workspace / "a.txt")
    before = scan(paths)
    deed(paths)
    found = changes(before, scan(paths))
    assert found == wanted
    assert bool(found) is (wanted != Changes())


def test_another_folder_for_tool_results(paths: ThreadPaths) -> None:
    before = scan(paths, exclude="kept-apart")
    write(paths.outputs / "kept-apart" / "r.txt")
    write(paths.outputs / TOOL_RESULTS_DIRNAME / "r.txt")
    found = changes(before, scan(paths, exclude="kept-apart"))
    assert found.created == (f"/mnt/user-data/outputs/{TOOL_RESULTS_DIRNAME}/r.txt",)


LINKS = ("a folder", "a file", "the outputs", "the user data")


@pytest.mark.parametrize("what", LINKS)
def test_no_link_is_followed(paths: ThreadPaths, tmp_path: Path, what: str) -> None:
    theirs = thread_paths("u2", "t2", base=tmp_path / "state")
    theirs.create()
    secret = write(theirs.outputs / "secret.txt")
    if what == "a folder":
        (paths.outputs / "link").symlink_to(theirs.outputs)
    elif what == "a file":
        (paths.outputs / "link.txt").symlink_to(secret)
    elif what == "the outputs":
        paths.outputs.rmdir()
        paths.outputs.symlink_to(theirs.outputs)
    else:
        paths.user_data.rename(paths.user_data.with_name("moved"))
        paths.user_data.symlink_to(theirs.user_data)
    assert scan(paths).files == {}
    names = ["link/secret.txt", "link.txt", "secret.txt"]
    artifacts = [f"/mnt/user-data/outputs/{name}" for name in names]
    assert missing(paths, artifacts) == tuple(artifacts)


def test_special_files(paths: ThreadPaths) -> None:
    os.mkfifo(paths.outputs / "pipe")
    assert scan(paths).files == {}
    assert missing(paths, ["/mnt/user-data/outputs/pipe"]) == ("/mnt/user-data/outputs/pipe",)


def test_names_that_are_no_text(paths: ThreadPaths) -> None:
    with open(os.fsencode(paths.outputs) + b"/\xff\n.txt", "wb"):
        pass
    assert list(scan(paths).files) == ["/mnt/user-data/outputs/\udcff\n.txt"]


def test_too_many_files(paths: ThreadPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_ENTRIES", 5)
    write(paths.workspace / "a.txt")
    few = scan(paths)
    for n in range(10):
        write(paths.outputs / f"{n}.txt")
    many = scan(paths)
    assert (few.complete, many.complete) == (True, False)
    assert list(many.files) == ["/mnt/user-data/workspace/a.txt"]
    assert changes(few, many).complete is False
    (paths.workspace / "a.txt").unlink()
    assert changes(few, scan(paths)).deleted == (), "it may be among those that were not looked at"
    monkeypatch.setattr(workspace, "MAX_ENTRIES", 100)
    everything = scan(paths)
    assert len(everything.files) == 10
    assert changes(many, everything).created == (), "they may have been there"
    assert len(changes(few, everything).created) == 10


def test_many_empty_folders(paths: ThreadPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MAX_ENTRIES", 20)
    for n in range(30):
        (paths.workspace / f"{n}" / "x").mkdir(parents=True)
    assert scan(paths).complete is False


def test_too_deep(paths: ThreadPaths) -> None:
    deep = paths.workspace.joinpath(*["d"] * (workspace.MAX_DEPTH + 1))
    write(deep / "deep.txt")
    write(deep.parent / "last.txt")
    write(paths.outputs / "seen.txt")
    found = scan(paths)
    assert not found.complete
    assert [path.rpartition("/")[2] for path in found.files] == ["last.txt", "seen.txt"]


OUT = "/mnt/user-data/outputs"
DELIVERED: list[tuple[str, Changes, list[Any], tuple[str, ...]]] = [
    ("everything", Changes(created=(f"{OUT}/a",)), [f"{OUT}/a"], ()),
    ("nothing", Changes(created=(f"{OUT}/a",), changed=(f"{OUT}/b",)), [], (f"{OUT}/a", f"{OUT}/b")),
    ("another spelling", Changes(created=(f"{OUT}/a",)), [f"{OUT}/./x/../a", "../outputs/a"], ()),
    ("work in the workspace is none", Changes(created=("/mnt/user-data/workspace/a",)), [], ()),
    ("what is gone is none", Changes(deleted=(f"{OUT}/a",)), [], ()),
    ("a stored tool result is none", Changes(created=(f"{OUT}/{TOOL_RESULTS_DIRNAME}/r",)), [], ()),
    (
        "presenting one delivers none",
        Changes(created=(f"{OUT}/a",)),
        [f"{OUT}/{TOOL_RESULTS_DIRNAME}/r"],
        (f"{OUT}/a",),
    ),
    ("junk delivers none", Changes(created=(f"{OUT}/a",)), [None, 5, "", "/..", f"{OUT}"], (f"{OUT}/a",)),
]


@pytest.mark.parametrize(("found", "artifacts", "wanted"), [d[1:] for d in DELIVERED], ids=[d[0] for d in DELIVERED])
def test_undelivered(found: Changes, artifacts: list[Any], wanted: tuple[str, ...]) -> None:
    assert undelivered(found, artifacts) == wanted


def test_missing(paths: ThreadPaths) -> None:
    write(paths.outputs / "a.txt")
    write(paths.outputs / "deep" / "b.txt")
    write(paths.outputs / TOOL_RESULTS_DIRNAME / "r.txt")
    write(paths.outputs / "kept-apart" / "r.txt")
    write(paths.workspace / "w.txt")
    artifacts: list[Any] = [
        f"{OUT}/a.txt",
        f"{OUT}/deep/b.txt",
        f"{OUT}/deep",
        f"{OUT}/c.txt",
        f"{OUT}/a.txt/x",
        f"{OUT}/{TOOL_RESULTS_DIRNAME}/r.txt",
        f"{OUT}/kept-apart/r.txt",
        "/mnt/user-data/workspace/w.txt",
        "/etc/passwd",
        f"{OUT}/../../../etc/passwd",
        "",
        f"{OUT}/a\x00",
        f"{OUT}/{'x' * 300}",
        7,
    ]
    there = {f"{OUT}/a.txt", f"{OUT}/deep/b.txt"}
    assert missing(paths, artifacts, exclude="kept-apart") == tuple(
        artifact for artifact in artifacts if artifact not in there | {f"{OUT}/{TOOL_RESULTS_DIRNAME}/r.txt"}
    )
    assert missing(paths, artifacts) == tuple(
        artifact for artifact in artifacts if artifact not in there | {f"{OUT}/kept-apart/r.txt"}
    )
