"""Who gets which environment: one for each thread of each user, and nobody another's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remit.harness.sandbox import environments
from remit.runtime.sandboxes import SandboxAccess, SandboxUnavailableError


def test_one_environment_for_a_thread(make: Callable[..., Any], kind: str) -> None:
    provider = make(kind)
    mine = provider.acquire("t1", "ada")
    assert provider.acquire("t1", "ada") is mine
    assert provider.get(mine.id, thread_id="t1", user_id="ada") is mine
    others = [provider.acquire("t2", "ada"), provider.acquire("t1", "eve")]
    assert len({mine.id, *(other.id for other in others)}) == 3
    assert len({mine.paths, *(other.paths for other in others)}) == 3
    assert len(mine.id) >= 32


@pytest.mark.parametrize(("thread", "user"), [("t2", "ada"), ("t1", "eve"), ("ada", "t1"), ("", ""), ("t1", "")])
def test_nobody_gets_or_releases_anothers(make: Callable[..., Any], thread: str, user: str) -> None:
    provider = make("local")
    mine = provider.acquire("t1", "ada")
    provider.acquire("t2", "ada")
    provider.acquire("t1", "eve")
    assert provider.get(mine.id, thread_id=thread, user_id=user) is None
    assert provider.release(mine.id, thread_id=thread, user_id=user) is False
    assert provider.get(mine.id, thread_id="t1", user_id="ada") is mine


def test_an_id_that_is_none(make: Callable[..., Any]) -> None:
    provider = make("local")
    for sandbox_id in ("", "t1", "../x", "\x00"):
        assert provider.get(sandbox_id, thread_id="t1", user_id="ada") is None
        assert provider.release(sandbox_id, thread_id="t1", user_id="ada") is False


def test_release_keeps_the_files_and_ends_the_id(make: Callable[..., Any]) -> None:
    provider = make("local")
    first = provider.acquire("t1", "ada")
    first.write_file("a.txt", "x")
    assert provider.release(first.id, thread_id="t1", user_id="ada") is True
    assert provider.release(first.id, thread_id="t1", user_id="ada") is False
    assert provider.get(first.id, thread_id="t1", user_id="ada") is None
    second = provider.acquire("t1", "ada")
    assert second.id != first.id
    assert second.read_file("a.txt") == "x"


def test_close_lets_go_of_all(make: Callable[..., Any]) -> None:
    provider = make("local")
    held = [provider.acquire(f"t{number}", "ada") for number in range(3)]
    folders = [sandbox.scratch() for sandbox in held]
    provider.close()
    assert not any(folder.exists() for folder in folders)
    assert all(provider.get(s.id, thread_id=f"t{n}", user_id="ada") is None for n, s in enumerate(held))


@pytest.mark.parametrize("thread", ["", "..", "a/b", "../t1", "a\x00", "-x", "x" * 200])
def test_a_thread_that_cannot_name_a_folder(make: Callable[..., Any], thread: str, tmp_path: Path) -> None:
    for ids in ((thread, "ada"), ("t1", thread)):
        with pytest.raises(SandboxUnavailableError, match="cannot name a folder"):
            make("local").acquire(*ids)
    assert not (tmp_path / "state").exists()


def test_folders_that_cannot_be_made(make: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxUnavailableError, match="cannot be made") as raised:
        make("local", tmp_path / "file").acquire("t1", "ada")
    assert str(tmp_path) not in str(raised.value)


def test_the_folders_are_open_to_their_owner_alone(make: Callable[..., Any]) -> None:
    sandbox = make("local").acquire("t1", "ada")
    for folder in (sandbox.paths.workspace, sandbox.paths.uploads, sandbox.paths.outputs):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_idlest_is_let_go(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "MAX_ENVIRONMENTS", 2)
    provider = make("local")
    one, two = provider.acquire("t1", "ada"), provider.acquire("t2", "ada")
    provider.get(one.id, thread_id="t1", user_id="ada")
    three = provider.acquire("t3", "ada")
    known = [s for n, s in ((1, one), (2, two), (3, three)) if provider.get(s.id, thread_id=f"t{n}", user_id="ada")]
    assert known == [one, three]


def test_a_busy_one_is_not_let_go(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "MAX_ENVIRONMENTS", 1)
    provider = make("local")
    one = provider.acquire("t1", "ada")
    started = one.paths.workspace / "started"
    result: list[Any] = []
    command = "touch started; while test ! -e go; do sleep 0.01; done; echo done"
    thread = threading.Thread(target=lambda: result.append(one.execute_command(command, timeout=20)))
    thread.start()
    while not started.exists():
        threading.Event().wait(0.005)
    two = provider.acquire("t2", "ada")
    assert provider.get(one.id, thread_id="t1", user_id="ada") is one
    one.write_file("go", "")
    thread.join()
    assert result[0].output == "done\n"
    provider.acquire("t3", "ada")
    assert provider.get(one.id, thread_id="t1", user_id="ada") is None or (
        provider.get(two.id, thread_id="t2", user_id="ada") is None
    )


def test_calls_at_once_get_the_same_one(make: Callable[..., Any]) -> None:
    provider = make("local")
    barrier = threading.Barrier(16)
    found: list[Any] = []

    def acquire(number: int) -> None:
        barrier.wait()
        found.append(provider.acquire(f"t{number % 2}", "ada"))

    threads = [threading.Thread(target=acquire, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({sandbox.id for sandbox in found}) == 2


async def test_behind_the_door_a_foreign_id_in_the_state_gives_ones_own(make: Callable[..., Any]) -> None:
    provider = make("local")
    theirs = provider.acquire("t1", "eve")
    runtime = SimpleNamespace(
        context={"user_id": "ada", "thread_id": "t1"}, state={"sandbox": {"sandbox_id": theirs.id}}
    )
    access = SandboxAccess(provider)
    mine = access.ensure(runtime)
    assert mine is provider.acquire("t1", "ada")
    assert await access.aensure(runtime) is mine
    assert access.release(runtime, theirs.id) is False
    assert provider.get(theirs.id, thread_id="t1", user_id="eve") is theirs
