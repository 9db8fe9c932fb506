"""Reading files that somebody else put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remit.runtime.regular import read_regular


def test_the_beginning_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular(tmp_path / "a", 3) == b"123"
    assert read_regular(tmp_path / "a", 9) == b"12345"
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert read_regular("a", 9, dir_fd=folder) == b"12345"
    finally:
        os.close(folder)


def plant(kind: str, path: Path) -> None:
    path.with_name("real").write_text("real")
    if kind == "link":
        path.symlink_to("real")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)


@pytest.mark.parametrize("kind", ["nothing", "link", "folder", "pipe"])
def test_anything_else(kind: str, tmp_path: Path) -> None:
    plant(kind, tmp_path / "a")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        with pytest.raises(OSError, match="a"):
            read_regular(tmp_path / "a", 9)
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before, "no descriptor stays open"


def test_a_device() -> None:
    with pytest.raises(OSError, match="no regular file"):
        read_regular("/dev/zero", 9)


def test_no_path() -> None:
    with pytest.raises(ValueError, match="null"):
        read_regular("a\x00b", 9)
