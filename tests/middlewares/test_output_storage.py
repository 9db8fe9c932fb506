from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.memory_sandbox import MemorySandbox

from remit.middlewares import output_storage
from remit.middlewares.output_storage import (
    MAX_TOOL_NAME,
    Payload,
    Stored,
    file_stem,
    store_in_sandbox,
    store_on_host,
)

SUBDIR = ".tool-results"
PATH = re.compile(r"/mnt/user-data/outputs/\.tool-results/bash-[0-9a-f]{12}\.log")


def payload(text: str = "content", name: str = "bash", extension: str = "log") -> Payload:
    return Payload.of(name, extension, text)


def store(outputs: Path, text: str = "content") -> Stored | None:
    return store_on_host(str(outputs), SUBDIR, payload(text))


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "user-data" / "outputs"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("bash", "bash"),
        ("../../etc/passwd", "passwd"),
        ("..", "tool"),
        ("/", "tool"),
        ("", "tool"),
        ("a/../..", "tool"),
        ("C:\\x\\run.exe", "run_exe"),
        ("mcp.server:fetch it", "mcp_server_fetch_it"),
        ("zähler\x00\n", "z_hler"),
        ("n" * 500, "n" * MAX_TOOL_NAME),
    ],
)
def test_file_stem(name: str, stem: str) -> None:
    assert file_stem(name) == stem


def test_written_on_the_host(outputs: Path) -> None:
    text = "grüße \ud800\n" * 100
    stored = store(outputs, text)
    assert stored is not None
    assert PATH.fullmatch(stored.path)
    file = outputs / SUBDIR / stored.path.rpartition("/")[2]
    data = text.replace("\ud800", "?").encode()
    assert file.read_bytes() == data
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((outputs / SUBDIR).stat().st_mode) == 0o700
    other = store(outputs, text)
    assert other is not None
    assert other.path != stored.path


def test_the_folder_of_outputs_is_made(tmp_path: Path) -> None:
    assert store(tmp_path / "a" / "user-data" / "outputs") is not None
    assert stat.S_IMODE((tmp_path / "a" / "user-data" / "outputs").stat().st_mode) == 0o700


def _link(place: str) -> Callable[[Path, Path], None]:
    def plant(outputs: Path, elsewhere: Path) -> None:
        spot = outputs / SUBDIR if place == "subdir" else outputs if place == "outputs" else outputs.parent
        if spot.exists():
            spot.rename(spot.with_name("moved"))
        target = elsewhere / "user-data" if place == "user-data" else elsewhere
        (elsewhere / "user-data" / "outputs").mkdir(parents=True)
        spot.symlink_to(target, target_is_directory=True)

    return plant


def _file(outputs: Path, elsewhere: Path) -> None:
    (outputs / SUBDIR).write_text("x")


def _pipe(outputs: Path, elsewhere: Path) -> None:
    os.mkfifo(outputs / SUBDIR)


def _dangling(outputs: Path, elsewhere: Path) -> None:
    (outputs / SUBDIR).symlink_to(elsewhere / "nowhere")


@pytest.mark.parametrize(
    "plant",
    [_link("subdir"), _link("outputs"), _link("user-data"), _file, _pipe, _dangling],
    ids=["link", "link-for-outputs", "link-for-user-data", "file", "pipe", "dangling-link"],
)
def test_a_trap_gets_nothing(
    plant: Callable[[Path, Path], None], outputs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plant(outputs, elsewhere)
    with caplog.at_level(logging.WARNING):
        assert store(outputs) is None
    assert "could not be stored" in caplog.text
    assert not [path for path in elsewhere.rglob("*") if not path.is_dir()]


def test_a_planted_file_is_not_written_through(outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even somebody who guessed the name."""
    target = tmp_path / "target"
    target.write_text("precious")
    (outputs / SUBDIR).mkdir()
    (outputs / SUBDIR / "bash-000000000000.log").symlink_to(target)
    names = iter(["000000000000", "000000000000", "111111111111"])
    monkeypatch.setattr(output_storage.secrets, "token_hex", lambda _: next(names))
    stored = store(outputs)
    assert stored is not None
    assert stored.path.endswith("bash-111111111111.log")
    monkeypatch.setattr(output_storage.secrets, "token_hex", lambda _: "000000000000")
    assert store(outputs) is None
    assert target.read_text() == "precious"


@pytest.mark.parametrize("folder", [None, 5, "", "relative/outputs", "/nul\x00", "/proc/outputs/x"], ids=repr)
def test_no_place_to_write(folder: Any) -> None:
    assert store_on_host(folder, SUBDIR, payload()) is None


def test_a_full_disk_leaves_nothing_behind(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdopen

    def full(descriptor: int, mode: str) -> Any:
        file = real(descriptor, mode)

        class Full:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, data: bytes) -> None:
                file.write(data[:3])
                raise OSError(28, "no space left on device")

        return Full()

    monkeypatch.setattr(output_storage.os, "fdopen", full)
    assert store(outputs) is None
    assert list((outputs / SUBDIR).iterdir()) == []


def age(path: Path, seconds: float) -> None:
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def names(outputs: Path) -> set[str]:
    return {path.name for path in (outputs / SUBDIR).iterdir()}


def test_old_results_are_deleted_and_nothing_else(outputs: Path) -> None:
    folder = outputs / SUBDIR
    folder.mkdir()
    old, young, foreign, link = (
        folder / name
        for name in ("bash-aaaaaaaaaaaa.log", "bash-bbbbbbbbbbbb.log", "notes.log", "bash-cccccccccccc.log")
    )
    for path in (old, young, foreign):
        path.write_text("x")
    link.symlink_to(foreign)
    (folder / "bash-dddddddddddd.log").mkdir()
    age(old, output_storage.MAX_AGE_SECONDS + 60)
    age(foreign, output_storage.MAX_AGE_SECONDS + 60)
    age(young, output_storage.MAX_AGE_SECONDS - 60)
    assert store(outputs) is not None
    assert old.name not in names(outputs)
    assert {young.name, foreign.name, link.name, "bash-dddddddddddd.log"} <= names(outputs)


def test_the_oldest_make_room(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_storage, "MAX_THREAD_BYTES", 100)
    stored = []
    for number in range(5):
        one = store(outputs, "x" * 40)
        assert one is not None
        stored.append(one.path.rpartition("/")[2])
        age(outputs / SUBDIR / stored[-1], 100 - number)
    assert names(outputs) == set(stored[-2:])
    assert store(outputs, "x" * 101) is None
    assert names(outputs) == set(stored[-2:]), "a result that cannot fit costs no other"


def test_the_number_of_files_is_bounded(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_storage, "MAX_THREAD_FILES", 3)
    for _ in range(8):
        assert store(outputs) is not None
    assert len(names(outputs)) == 3


def test_a_folder_filled_on_purpose(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_storage, "MAX_LISTED", 10)
    (outputs / SUBDIR).mkdir()
    for number in range(11):
        (outputs / SUBDIR / str(number)).touch()
    assert store(outputs) is None


def test_many_at_once(outputs: Path) -> None:
    found: list[Stored | None] = []
    threads = [
        threading.Thread(target=lambda n=number: found.append(store(outputs, f"{n}" * 50))) for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in found
    assert len(names(outputs)) == 40


class TestInASandbox:
    def test_written_and_read_back(self) -> None:
        sandbox = MemorySandbox("s")
        stored = store_in_sandbox(sandbox, SUBDIR, payload("grüße"))
        assert stored is not None
        assert PATH.fullmatch(stored.path)
        assert sandbox.files == {stored.path: "grüße".encode()}
        assert stored.sha256 == hashlib.sha256("grüße".encode()).hexdigest()

    @pytest.mark.parametrize("fault", ["write", "read", "empty", "other"])
    def test_a_fault_at_any_step(self, fault: str) -> None:
        class Broken(MemorySandbox):
            def write_file(self, path: str, content: str, *, append: bool = False) -> None:
                if fault == "write":
                    raise RuntimeError("no")
                super().write_file(path, {"empty": "", "other": "x"}.get(fault, content), append=append)

            def read_bytes(self, path: str) -> bytes:
                if fault == "read":
                    raise FileNotFoundError(path)
                return super().read_bytes(path)

        assert store_in_sandbox(Broken("s"), SUBDIR, payload()) is None

    def test_too_much(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(output_storage, "MAX_THREAD_BYTES", 3)
        sandbox = MemorySandbox("s")
        assert store_in_sandbox(sandbox, SUBDIR, payload()) is None
        assert sandbox.files == {}
