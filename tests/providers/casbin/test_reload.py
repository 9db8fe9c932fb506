"""Policy files that change while the provider runs: real files, real notifications, real threads."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.blocking import no_blocking_calls
from tests.support.waiting import always, eventually, watching_threads

from remit.authz.errors import PolicyError
from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin import CasbinAuthorizationProvider

LOGGER = "remit.providers.casbin"
EVERYONE = "p, *, tool, bash, call, allow,\n"
FULL = EVERYONE + "p, role:contractor, tool, bash, call, deny,\np, role:staff, tool, ls, call, allow,\n"
AT_ONCE = 0.5
IN_PLACE = 1.5
"""Seconds, generous for a machine that does other things too."""


def may(provider: CasbinAuthorizationProvider, role: str, tool: str = "bash") -> bool:
    return provider.authorize(AuthzRequest(Principal("u", role), "tool", "call", tool)).allow


def replace(path: Path, text: str) -> None:
    fresh = path.with_name(".fresh")
    fresh.write_text(text)
    fresh.replace(path)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    gc.collect()
    eventually(lambda: not watching_threads())


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.csv"
    path.write_text(FULL)
    return path


@pytest.fixture
def provider(policy: Path) -> Iterator[CasbinAuthorizationProvider]:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent, watch=True)
    assert (may(provider, "contractor"), may(provider, "staff")) == (False, True)
    yield provider
    provider.close()


def test_a_replaced_file_is_in_force_at_once(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    for round_ in range(3):
        version = provider.policy_version
        replace(policy, FULL + f"p, role:staff, tool, t{round_}, call, allow,\n")
        assert eventually(lambda n=round_: may(provider, "staff", f"t{n}")) < AT_ONCE
        assert provider.policy_version != version
    assert (provider.reloads.accepted, provider.reloads.refused, provider.last_reload_error) == (3, 0, None)


def test_a_file_written_in_place_is_in_force_when_it_is_quiet(
    provider: CasbinAuthorizationProvider, policy: Path
) -> None:
    policy.write_text(FULL.replace("deny", "allow"))
    always(lambda: not may(provider, "contractor"), 0.4)
    assert eventually(lambda: may(provider, "contractor")) < IN_PLACE


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(b"", id="empty"),
        pytest.param(EVERYONE.encode(), id="first-line-only"),
        pytest.param(EVERYONE.encode() + b"p, role:contractor, ba", id="second-line-cut"),
        pytest.param(EVERYONE.encode() + b"\xff\xfe\n", id="invalid-utf-8"),
    ],
)
def test_a_half_written_file_is_never_in_force(
    provider: CasbinAuthorizationProvider, policy: Path, seen: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """RLD-01: the rest comes half a second later."""
    caplog.set_level(logging.ERROR, LOGGER)
    policy.write_bytes(seen)
    always(lambda: not may(provider, "contractor") and may(provider, "staff"), 0.45)
    policy.write_text(FULL + "p, role:staff, tool, new, call, allow,\n")
    eventually(lambda: not may(provider, "contractor") and may(provider, "staff", "new"), IN_PLACE)
    assert provider.last_reload_error is None
    assert not caplog.records


def test_a_half_written_file_that_stays_is_recorded_once(
    provider: CasbinAuthorizationProvider, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, LOGGER)
    version = provider.policy_version
    policy.write_text(EVERYONE + "p, role:contractor, ba")
    eventually(lambda: provider.last_reload_error is not None, IN_PLACE)
    eventually(lambda: provider.reloads.refused >= 2, 5)  # tried again, and not said again
    (record,) = caplog.records
    assert record.name == LOGGER
    assert "policy.csv:2" in record.getMessage()
    assert version in record.getMessage()
    assert provider.policy_version == version
    assert not may(provider, "contractor")
    (problem,) = provider.last_reload_error.problems
    assert (problem.file, problem.line) == ("policy.csv", 2)
    replace(policy, FULL)
    eventually(lambda: provider.last_reload_error is None)
    policy.write_text(EVERYONE + "p, role:contractor, ba")
    eventually(lambda: len(caplog.records) == 2, IN_PLACE)  # after a recovery it is news again


def test_same_size_edit_within_one_second(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    """RLD-03, 1."""
    before = policy.stat()
    policy.write_text(FULL.replace("deny, ", "allow,").replace("deny", "ask ", 1))
    assert policy.stat().st_size == before.st_size
    os.utime(policy, ns=(before.st_atime_ns, before.st_mtime_ns))
    eventually(lambda: provider.reloads.accepted == 1, IN_PLACE)


def test_an_older_copy_with_its_old_time(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    """RLD-03, 2."""
    old = policy.with_name("backup.csv")
    old.write_text(FULL.replace("deny", "allow"))
    os.utime(old, (1_000_000_000, 1_000_000_000))
    shutil.copy2(old, policy)
    assert policy.stat().st_mtime == 1_000_000_000
    eventually(lambda: may(provider, "contractor"), IN_PLACE)
    os.utime(old, (900_000_000, 900_000_000))
    old.write_text(FULL)
    os.utime(old, (900_000_000, 900_000_000))
    old.replace(policy)
    assert eventually(lambda: not may(provider, "contractor")) < AT_ONCE


def test_a_mounted_configuration_is_swapped(tmp_path: Path) -> None:
    """RLD-03, 3: as a container platform mounts it."""
    mount = tmp_path / "mount"
    for name, text in (("..v1", FULL), ("..v2", FULL.replace("deny", "allow"))):
        (mount / name).mkdir(parents=True)
        (mount / name / "policy.csv").write_text(text)
    (mount / "..data").symlink_to("..v1")
    (mount / "policy.csv").symlink_to("..data/policy.csv")
    provider = CasbinAuthorizationProvider(policies=[mount / "policy.csv"], watch=True)
    try:
        for name, allowed in (("..v2", True), ("..v1", False), ("..v2", True)):
            (mount / "..new").symlink_to(name)
            (mount / "..new").replace(mount / "..data")
            assert eventually(lambda want=allowed: may(provider, "contractor") is want) < AT_ONCE
    finally:
        provider.close()


def test_the_folder_is_a_link_that_is_swapped(tmp_path: Path) -> None:
    for name, text in (("r1", FULL), ("r2", FULL.replace("deny", "allow"))):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "policy.csv").write_text(text)
    current = tmp_path / "current"
    current.symlink_to("releases/r1")
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=current, watch=True)
    try:
        (tmp_path / "next").symlink_to("releases/r2")
        (tmp_path / "next").replace(current)
        assert eventually(lambda: may(provider, "contractor")) < AT_ONCE
        # the folder behind the link is followed now
        replace(tmp_path / "releases" / "r2" / "policy.csv", FULL)
        assert eventually(lambda: not may(provider, "contractor")) < AT_ONCE
    finally:
        provider.close()


def test_a_deleted_file(provider: CasbinAuthorizationProvider, policy: Path, caplog: pytest.LogCaptureFixture) -> None:
    """RLD-03, 4: the last good policy stays, and everybody can see why."""
    caplog.set_level(logging.ERROR, LOGGER)
    policy.unlink()
    eventually(lambda: provider.last_reload_error is not None, IN_PLACE)
    assert "policy.csv: does not exist" in str(provider.last_reload_error)
    assert len(caplog.records) == 1
    assert (may(provider, "contractor"), may(provider, "staff")) == (False, True)
    replace(policy, FULL.replace("deny", "allow"))
    assert eventually(lambda: may(provider, "contractor")) < AT_ONCE
    assert provider.last_reload_error is None


def test_a_deleted_file_that_comes_back_as_it_was(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    aside = policy.with_name("aside")
    policy.rename(aside)
    eventually(lambda: provider.last_reload_error is not None, IN_PLACE)
    aside.rename(policy)
    eventually(lambda: provider.last_reload_error is None)


def test_a_file_replaced_by_a_folder(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    policy.unlink()
    policy.mkdir()
    eventually(lambda: "is a directory" in str(provider.last_reload_error), IN_PLACE)
    assert not may(provider, "contractor")
    policy.rmdir()
    policy.write_text(FULL.replace("deny", "allow"))
    eventually(lambda: may(provider, "contractor"), IN_PLACE)


def test_the_whole_folder_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policy.csv").write_text(FULL)
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder, watch=True)
    try:
        folder.rename(tmp_path / "old")
        eventually(lambda: "does not exist" in str(provider.last_reload_error), IN_PLACE)
        folder.mkdir()
        (folder / "policy.csv").write_text(FULL.replace("deny", "allow"))
        eventually(lambda: may(provider, "contractor"), IN_PLACE)
        replace(folder / "policy.csv", FULL)
        eventually(lambda: not may(provider, "contractor"))
    finally:
        provider.close()


FORBIDDEN = """
    import os, sys, time
    from remit.providers.casbin import CasbinAuthorizationProvider
    def started():
        return CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=sys.argv[1], watch=True)
    started().close()  # everything is imported now, which may need the rights given up next
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    provider = started()
    def until(known):
        end = time.monotonic() + 5
        while (provider.last_reload_error is None) is known and time.monotonic() < end:
            time.sleep(0.01)
        print(provider.last_reload_error, flush=True)
        sys.stdin.readline()
    print("ready", flush=True)
    until(True)
    until(False)
"""


def test_permission_denied() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        policy = folder / "policy.csv"
        policy.write_text(FULL)
        policy.chmod(0o644)
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(FORBIDDEN), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            policy.chmod(0)
            assert "policy.csv: may not be read by this process" in child.stdout.readline()
            policy.chmod(0o644)
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.communicate("\n", timeout=10)[0] == "None\n"
        finally:
            child.kill()
            child.wait()


def test_only_named_files_matter(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    for n in range(20):
        (policy.parent / f"other{n}.csv").write_text("nonsense")
        replace(policy.parent / "roles.yaml", "roles: [nonsense")
    always(lambda: provider.reloads == (0, 0), 1.0)


def test_every_named_file_matters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(FULL)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.csv").write_text("p, role:staff, tool, b, call, allow,\n")
    provider = CasbinAuthorizationProvider(policies=["a.csv", "sub/b.csv"], base_dir=tmp_path, watch=True)
    try:
        replace(tmp_path / "sub" / "b.csv", "p, role:staff, tool, c, call, allow,\n")
        assert eventually(lambda: may(provider, "staff", "c") and not may(provider, "staff", "b")) < AT_ONCE
    finally:
        provider.close()


def test_a_model_file_matters(tmp_path: Path) -> None:
    text = (
        "[request_definition]\nr = sub, obj\n[policy_definition]\np = sub, obj\n"
        "[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = r.sub == p.sub && r.obj == p.obj\n"
    )
    (tmp_path / "model.conf").write_text(text)
    (tmp_path / "policy.csv").write_text("p, staff, b\n")
    provider = CasbinAuthorizationProvider(
        policies=["policy.csv"], model="model.conf", request=["{role}", "{target}"], base_dir=tmp_path, watch=True
    )
    try:
        assert not may(provider, "staff")
        replace(tmp_path / "model.conf", text.replace("r.obj == p.obj", "keyMatch(r.obj, 'b*')"))
        eventually(lambda: provider.reloads.accepted + provider.reloads.refused == 1)
        assert provider.last_reload_error is None
        assert may(provider, "staff")
    finally:
        provider.close()


def test_a_change_during_the_first_load_is_seen(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import remit.providers.casbin.provider as module

    load = module.load_policy_set

    def slow(**options: Any) -> Any:
        found = load(**options)
        monkeypatch.undo()
        replace(policy, FULL.replace("deny", "allow"))
        return found

    monkeypatch.setattr(module, "load_policy_set", slow)
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent, watch=True)
    try:
        eventually(lambda: may(provider, "contractor"), IN_PLACE)
    finally:
        provider.close()


def test_looking_is_enough_without_notifications(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import watchfiles

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("no space left on device (os error 28)")

    monkeypatch.setattr(watchfiles, "watch", refuse)
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent, watch=True)
    try:
        policy.write_text(FULL.replace("deny", "allow"))
        assert eventually(lambda: may(provider, "contractor")) < IN_PLACE
    finally:
        provider.close()


def test_a_revocation_takes_less_than_a_second(tmp_path: Path) -> None:
    """10,000 rules, written in place: from the end of the write to the denied call."""
    rows = [f"p, role:r{n % 100}, tool, t{n}, call, allow,\n" for n in range(10_000)]
    policy = tmp_path / "policy.csv"
    policy.write_text("".join(rows))
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=tmp_path, watch=True)
    try:
        taken = []
        for n in range(3):
            assert may(provider, f"r{n}", f"t{n}")
            rows[n] = f"p, role:r{n}, tool, t{n}, call, deny,\n"
            policy.write_text("".join(rows))
            taken.append(eventually(lambda n=n: not may(provider, f"r{n}", f"t{n}")))
        assert min(taken) < 1.0
    finally:
        provider.close()


def test_reload_by_hand(policy: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, LOGGER)
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent)
    loaded, version = provider.loaded_at, provider.policy_version
    policy.write_text("p, role:contractor, tool, bash, call, Allow,\n")
    for _ in range(3):
        with pytest.raises(PolicyError) as caught:
            provider.reload()
        assert provider.last_reload_error is caught.value
    assert (provider.policy_version, provider.loaded_at) == (version, loaded)
    assert len(caplog.records) == 1
    policy.write_text(FULL.replace("deny", "allow"))
    assert provider.reload().version == provider.policy_version != version
    assert provider.last_reload_error is None
    assert provider.reloads == (1, 3)
    assert provider.loaded_at > loaded


def test_a_load_that_fails_for_another_reason_keeps_the_policy(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent)

    def fail(**_: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr("remit.providers.casbin.provider.load_policy_set", fail)
    with pytest.raises(PolicyError, match="cannot be loaded: MemoryError: no room"):
        provider.reload()
    assert may(provider, "staff")
    assert isinstance(provider.last_reload_error, PolicyError)


def test_a_reload_by_hand_is_not_repeated_by_the_watch(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    policy.write_text(FULL.replace("deny", "allow"))
    provider.reload()
    assert may(provider, "contractor")
    always(lambda: provider.reloads == (1, 0), 1.0)


async def test_reload_from_the_event_loop(policy: Path) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent, watch=True)
    replace(policy, FULL.replace("deny", "allow"))
    with no_blocking_calls():
        await provider.areload()
        assert may(provider, "contractor")
        await provider.aclose()
    assert not watching_threads()


def test_closing_ends_the_thread(provider: CasbinAuthorizationProvider, policy: Path) -> None:
    assert len(watching_threads()) == 1
    provider.close()
    assert not watching_threads()
    provider.close()
    policy.write_text(FULL.replace("deny", "allow"))
    always(lambda: not may(provider, "contractor"), 0.9)
    provider.reload()
    assert may(provider, "contractor")


def test_a_forgotten_provider_stops_watching(policy: Path) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent, watch=True)
    gone = weakref.ref(provider)
    del provider
    gc.collect()
    assert gone() is None
    eventually(lambda: not watching_threads())


def test_an_old_snapshot_is_freed_without_the_collector(policy: Path) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=policy.parent)
    may(provider, "staff")
    old = weakref.ref(provider.snapshot)
    gc.disable()
    try:
        provider.reload()
        assert old() is None
    finally:
        gc.enable()


def test_watching_makes_no_difference_to_a_provider_that_fails_to_start(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        CasbinAuthorizationProvider(policies=["none.csv"], base_dir=tmp_path, watch=True)
    assert not watching_threads()


ENDS = """
    import atexit, sys, threading
    atexit.register(lambda: print([t.name for t in threading.enumerate()]))  # runs last
    from remit.providers.casbin import CasbinAuthorizationProvider
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=sys.argv[1], watch=True)
    print(provider.policy_version[:7])
"""
FORKS = """
    import os, sys, time
    from pathlib import Path
    from remit.authz.types import AuthzRequest, Principal
    from remit.providers.casbin import CasbinAuthorizationProvider
    folder = Path(sys.argv[1])
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder, watch=True)
    request = AuthzRequest(Principal("u", "contractor"), "tool", "call", "bash")
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    (folder / "policy.csv").write_text((folder / "policy.csv").read_text().replace("deny", "allow"))
    end = time.monotonic() + 5
    while not provider.authorize(request).allow and time.monotonic() < end:
        time.sleep(0.01)
    sys.exit(0 if provider.authorize(request).allow else 7)
"""


def test_a_process_ends_cleanly_without_closing(policy: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ENDS), str(policy.parent)],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "sha256:\n['MainThread']\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_watches_too(policy: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORKS), str(policy.parent)],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
