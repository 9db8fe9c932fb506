"""File operations stay below the thread's folders, whatever the path and whatever lies there."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sandboxes import WORKSPACE

from remit.harness.sandbox import confined
from remit.runtime.sandboxes import SandboxError, SandboxFileError

SECRET = "the secret of somebody else"

OUTSIDE = [
    "/etc/passwd",
    "/",
    "/mnt",
    "/mnt/user-data",
    "/mnt/user-data/",
    "/mnt/user-data/secret",
    "/mnt/user-data/../../etc/passwd",
    f"{WORKSPACE}/../../../etc/passwd",
    f"{WORKSPACE}/../../../../../../etc/passwd",
    f"{WORKSPACE}x/a.txt",
    "/mnt/user-data/workspace\x00/a.txt",
    "a\x00.txt",
    "",
    "../../../../secret.txt",
    "/mnt/user\u2215data/workspace/a.txt",
    "/MNT/user-data/workspace/a.txt",
    "//etc/passwd",
    "/proc/self/environ",
    "C:\\secret.txt/../../x/../../../..",
    WORKSPACE,
    "\ud800.txt",
    "a" * 300,
    "/".join(["a" * 200] * 30),
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: ascii(path)[:40])
def test_a_path_that_leaves(files: Any, path: str) -> None:
    for operation in (
        lambda: files.read_file(path),
        lambda: files.read_bytes(path),
        lambda: files.write_file(path, "x"),
        lambda: files.write_file(path, "x", append=True),
        lambda: files.write_bytes(path, b"x"),
    ):
        with pytest.raises((SandboxFileError, FileNotFoundError)) as raised:
            operation()
        assert str(files.paths.user_data) not in str(raised.value)


@pytest.mark.parametrize("path", ["/etc", "/mnt/user-data/../../etc", "/mnt/\x00", "/mnt/skillsx", "/proc"])
def test_a_folder_that_leaves(files: Any, path: str) -> None:
    for operation in (
        lambda: files.list_dir(path),
        lambda: files.glob("*", path=path),
        lambda: files.glob(f"{path}/*"),
        lambda: files.grep("x", path=path),
    ):
        with pytest.raises(SandboxFileError):
            operation()


@pytest.mark.parametrize(
    "pattern", ["../*", "../../../*", "**/../../*", "{a,../..}/*", "/etc/*", "/mnt/user-data/../../etc/*"]
)
def test_a_pattern_that_leaves(files: Any, pattern: str) -> None:
    with pytest.raises(SandboxFileError):
        files.glob(pattern)


def test_links_are_not_followed(files: Any, secret: Path) -> None:
    space = files.paths.workspace
    (space / "real").mkdir()
    (space / "real" / "a.txt").write_text("mine")
    (space / "file").symlink_to(secret / "secret.txt")
    (space / "folder").symlink_to(secret)
    (space / "inner").symlink_to("real/a.txt")
    (space / "up").symlink_to("../../..")
    (space / "dangling").symlink_to(secret / "new.txt")
    for path in ("file", "folder/secret.txt", "inner", "up/users", "dangling", "folder/new.txt"):
        with pytest.raises((SandboxFileError, FileNotFoundError)):
            files.read_file(path)
        with pytest.raises(SandboxFileError, match="a symbolic link, which is not followed"):
            files.write_file(path, "x")
        with pytest.raises(SandboxFileError):
            files.write_file(path, "x", append=True)
    for path in ("folder", "up"):
        with pytest.raises(SandboxFileError, match="a symbolic link"):
            files.list_dir(path)
        with pytest.raises(SandboxFileError, match="a symbolic link"):
            files.grep("secret", path=path)
    assert files.grep("secret") == []
    assert files.grep("sec.et") == []
    assert files.glob("**") == [f"{WORKSPACE}/real/a.txt"]
    assert files.list_dir(WORKSPACE, depth=5) == sorted(
        [f"{WORKSPACE}/{name}" for name in ("file", "folder", "inner", "up", "dangling", "real/", "real/a.txt")]
    )
    assert [path.name for path in secret.iterdir()] == ["secret.txt"]
    assert (secret / "secret.txt").read_text() == SECRET


def test_an_area_that_became_a_link(files: Any, secret: Path) -> None:
    files.paths.workspace.rmdir()
    files.paths.workspace.symlink_to(secret)
    with pytest.raises(SandboxFileError):
        files.read_file("secret.txt")
    with pytest.raises(SandboxFileError):
        files.write_file("new.txt", "x")
    assert [path.name for path in secret.iterdir()] == ["secret.txt"]


@pytest.mark.slow
def test_a_folder_that_is_swapped_for_a_link_meanwhile(files: Any, secret: Path) -> None:
    """One thread swaps a folder on the way for a link to the outside and back, another reads and writes."""
    space = files.paths.workspace
    (space / "way").mkdir()
    (space / "way" / "secret.txt").write_text("mine")
    (space / "link").symlink_to(secret)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for old, new in (("way", "aside"), ("link", "way"), ("way", "link"), ("aside", "way")):
                while not stop.is_set():
                    try:
                        os.rename(space / old, space / new)
                    except OSError:  # a write has made the folder anew while it was away
                        shutil.rmtree(space / new, ignore_errors=True)
                    else:
                        break

    thread = threading.Thread(target=swap)
    thread.start()
    seen = {"read": 0, "refused": 0}
    try:
        for round_ in range(1000):
            try:
                assert files.read_file("way/secret.txt") == "mine"
                seen["read"] += 1
            except (SandboxFileError, FileNotFoundError):
                seen["refused"] += 1
            with suppress(SandboxFileError, FileNotFoundError):
                files.write_file("way/deeper/new.txt", str(round_))
            with suppress(SandboxFileError, FileNotFoundError):
                assert SECRET not in str(files.grep("secret", path="way"))
            with suppress(SandboxFileError, FileNotFoundError):
                files.write_file("way/appended.txt", "x", append=True)
    finally:
        stop.set()
        thread.join()
    assert seen["read"] > 20
    assert [path.name for path in secret.iterdir()] == ["secret.txt"]
    assert (secret / "secret.txt").read_text() == SECRET


def test_only_regular_files_are_read(files: Any) -> None:
    space = files.paths.workspace
    os.mkfifo(space / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(space, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/socket")
        finally:
            os.close(here)
        for name in ("fifo", "socket"):
            for operation in (
                lambda name=name: files.read_bytes(name),
                lambda name=name: files.write_bytes(name, b"x"),
                lambda name=name: files.write_file(name, "x", append=True),
            ):
                with pytest.raises(SandboxFileError, match="is no regular file"):
                    operation()
        assert files.grep("x") == []
        assert files.grep("x+") == []
        assert files.glob("*") == []


def test_a_folder_is_no_file_and_a_file_no_folder(files: Any) -> None:
    files.write_file("folder/a.txt", "x")
    for operation in (
        lambda: files.read_file("folder"),
        lambda: files.write_file("folder", "x"),
        lambda: files.write_file("folder", "x", append=True),
        lambda: files.list_dir("folder/a.txt"),
        lambda: files.read_file("folder/a.txt/b"),
        lambda: files.write_file("folder/a.txt/b", "x"),
        lambda: files.glob("*", path="folder/a.txt"),
    ):
        with pytest.raises(SandboxFileError, match="is a f"):
            operation()


def test_what_is_not_there(files: Any) -> None:
    for operation in (
        lambda: files.read_file("a/b.txt"),
        lambda: files.list_dir("a"),
        lambda: files.glob("*", path="a"),
        lambda: files.grep("x", path="a/b.txt"),
        lambda: files.read_file("/mnt/skills/x/SKILL.md"),
        lambda: files.list_dir("/mnt/skills"),
    ):
        with pytest.raises(FileNotFoundError, match=r"does not exist$"):
            operation()


@pytest.mark.parametrize("area", ["uploads", "skills"])
def test_what_is_only_read(files: Any, area: str) -> None:
    folder = getattr(files.paths, area)
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("given")
    path = "/mnt/skills/a.txt" if area == "skills" else "/mnt/user-data/uploads/a.txt"
    assert files.read_file(path) == "given"
    assert files.grep("giv", path=path)[0].path == path
    for append in (True, False):
        with pytest.raises(SandboxFileError, match="is read-only"):
            files.write_file(path, "x", append=append)
    assert (folder / "a.txt").read_text() == "given"


def test_writing(files: Any) -> None:
    files.write_file("deep/er/a.txt", "one\n")
    files.write_file("deep/er/a.txt", "two\n", append=True)
    assert files.read_file(f"{WORKSPACE}/deep/./er//a.txt") == "one\ntwo\n"
    script = files.paths.workspace / "deep/er/a.txt"
    assert stat.S_IMODE(script.stat().st_mode) == 0o644
    script.chmod(0o755)
    reader = script.open()
    files.write_file("deep/er/a.txt", "three")
    assert reader.read() == "one\ntwo\n"  # whoever had it open goes on reading the old one
    reader.close()
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    files.write_bytes("raw", b"\xff\x00")
    assert files.read_bytes("raw") == b"\xff\x00"
    assert files.read_file("raw") == "\ufffd\x00"
    assert sorted(path.name for path in files.paths.workspace.rglob("*")) == ["a.txt", "deep", "er", "raw"]


def test_a_failed_write_leaves_nothing(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_file("a.txt", "before")

    def full(*args: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(confined.os, "write", full)
        with pytest.raises(SandboxFileError, match="No space left on device"):
            files.write_file("a.txt", "after")
    assert files.read_file("a.txt") == "before"
    assert [path.name for path in files.paths.workspace.iterdir()] == ["a.txt"]


def test_sizes(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "MAX_READ_BYTES", 10)
    monkeypatch.setattr(confined, "MAX_WRITE_BYTES", 11)
    files.write_bytes("a", b"x" * 10)
    assert files.read_bytes("a") == b"x" * 10
    files.write_bytes("a", b"x" * 11)
    with pytest.raises(SandboxFileError, match="is longer than 10 bytes"):
        files.read_bytes("a")
    with pytest.raises(SandboxFileError, match="12 bytes are more than the limit of 11"):
        files.write_bytes("a", b"x" * 12)
    (files.paths.workspace / "sparse").touch()
    os.truncate(files.paths.workspace / "sparse", 1 << 40)
    with pytest.raises(SandboxFileError, match="is longer than 10 bytes"):
        files.read_bytes("sparse")


def test_listing(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_file("b/c/d.txt", "")
    files.write_file("a.txt", "")
    files.write_file("b.txt", "")
    assert files.list_dir(WORKSPACE, depth=1) == [f"{WORKSPACE}/{n}" for n in ("a.txt", "b.txt", "b/")]
    assert files.list_dir("b", depth=2) == [f"{WORKSPACE}/b/c/", f"{WORKSPACE}/b/c/d.txt"]
    assert files.list_dir("/mnt/user-data") == [f"/mnt/user-data/{n}/" for n in ("outputs", "uploads", "workspace")]
    with pytest.raises(SandboxFileError, match="at least 1"):
        files.list_dir("b", depth=0)
    monkeypatch.setattr(confined, "MAX_LISTED", 3)
    assert len(files.list_dir(WORKSPACE, depth=9)) == 3


def test_a_deep_and_a_wide_tree_end(files: Any) -> None:
    folder = files.paths.workspace
    for _ in range(100):
        folder = folder / "d"
        folder.mkdir()
    (folder / "bottom.txt").touch()
    before = len(os.listdir("/proc/self/fd"))
    assert files.glob("**/bottom.txt") == []  # below the depth that is walked
    assert len(files.list_dir(WORKSPACE, depth=500)) == 64
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["a.py", "b.txt"]),
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "pkg/c.py", "pkg/deep/d.py"]),
        ("pkg/**", ["pkg/c.py", "pkg/deep/d.py", "pkg/deep/e.md"]),
        ("**/*.{py,md}", ["a.py", "pkg/c.py", "pkg/deep/d.py", "pkg/deep/e.md"]),
        ("pkg/*/?.md", ["pkg/deep/e.md"]),
        (".hidden/*", [".hidden/f.py"]),
        (f"{WORKSPACE}/pkg/**/*.md", ["pkg/deep/e.md"]),
        (f"{WORKSPACE}/a.py", ["a.py"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("nothing", []),
        ("pkg", []),
    ],
)
def test_glob(files: Any, pattern: str, found: list[str]) -> None:
    for name in ("a.py", "b.txt", "pkg/c.py", "pkg/deep/d.py", "pkg/deep/e.md", ".hidden/f.py"):
        files.write_file(name, "")
    assert files.glob(pattern) == [f"{WORKSPACE}/{name}" for name in found]


def test_glob_over_all_areas_and_its_limit(files: Any) -> None:
    files.write_file("a.txt", "")
    files.write_file("/mnt/user-data/outputs/b.txt", "")
    assert files.glob("**/*.txt", path="/mnt/user-data") == [
        "/mnt/user-data/outputs/b.txt",
        f"{WORKSPACE}/a.txt",
    ]
    assert files.glob("*.txt", path="/mnt/user-data", limit=1) == ["/mnt/user-data/outputs/b.txt"]
    assert files.glob("/mnt/user-data/*/b.txt") == []  # the areas are no folders of one another


def test_names_that_are_no_text(files: Any) -> None:
    (files.paths.workspace / os.fsdecode(b"caf\xe9.txt")).write_text("x\n")
    (files.paths.workspace / "line\nbreak.txt").write_text("x\n")
    assert len(files.list_dir(WORKSPACE)) == 2
    assert files.read_file(f"{WORKSPACE}/line\nbreak.txt") == "x\n"
    assert files.read_file(files.glob("caf*")[0]) == "x\n"
    assert len(files.grep("x+")) == 2


PIECES = ("/", ".", "..", "a", "mnt", "user-data", "workspace", "\x00", "~", "é", "\u202e", "/../")
PATHS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS | st.text(max_size=20), prefix=st.sampled_from(["", "/", f"{WORKSPACE}/", "/mnt/user-data/"]))
def test_no_path_reaches_outside(make: Callable[..., Any], tmp_path: Path, path: str, prefix: str) -> None:
    sandbox = make("local").acquire("t1", "ada")
    with suppress(SandboxError, FileNotFoundError):
        sandbox.write_file(prefix + path, "x")
        assert sandbox.read_file(prefix + path) == "x"
    user_data = sandbox.paths.user_data
    reached = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(user_data / "workspace" in p.parents or user_data / "outputs" in p.parents for p in reached)
