"""What a command in bubblewrap cannot reach. None of the commands here would do harm if it got through."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandboxes import WORKSPACE

from remit.harness.sandbox import bubblewrap
from remit.runtime.sandboxes import SandboxCommandError, SandboxUnavailableError


@pytest.fixture
def inside(make: Callable[..., Any]) -> Any:
    return make("bubblewrap").acquire("t1", "ada")


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_no_network(make: Callable[..., Any], inside: Any, port: int) -> None:
    connect = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected || echo refused"
    assert inside.execute_command(connect).output == "refused\n"
    assert inside.execute_command("cat /proc/net/route | wc -l").output.strip() == "1"
    assert make("bubblewrap", network=True).acquire("t1", "eve").execute_command(connect).output == "connected\n"
    assert make("local").acquire("t1", "eve").execute_command(connect).output == "connected\n"


@pytest.mark.parametrize(
    "path", ["/usr/x", "/etc/x", "/x", "/mnt/x", "/mnt/user-data/x", "/dev/x", "/proc/x", "/bin/x"]
)
def test_the_system_is_read_only(inside: Any, path: str) -> None:
    result = inside.execute_command(f"touch {path}")
    assert result.exit_code == 1
    assert not os.path.lexists(path)


@pytest.mark.parametrize("area", ["uploads", "skills"])
def test_what_is_given_is_read_only(inside: Any, area: str) -> None:
    folder = getattr(inside.paths, area)
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("given")
    where = "/mnt/skills" if area == "skills" else "/mnt/user-data/uploads"
    assert inside.execute_command(f"cat {where}/a.txt").output == "given"
    for command in (f"echo x > {where}/a.txt", f"touch {where}/b", f"rm {where}/a.txt", f"mv {where} /mnt/other"):
        assert inside.execute_command(command).exit_code != 0
    assert (folder / "a.txt").read_text() == "given"
    assert len(list(folder.iterdir())) == 1


def test_nothing_of_the_host_is_there(inside: Any, tmp_path: Path) -> None:
    marker = tmp_path / "secret.txt"
    marker.write_text("secret")
    for path in (
        marker,
        Path.home(),
        "/root",
        "/home",
        "/etc/shadow",
        "/var",
        "/run",
        "/sys",
        "/opt",
        inside.paths.user_data,
    ):
        assert inside.execute_command(f"test -e '{path}'").exit_code == 1, path
    assert set(inside.execute_command("ls -A /").output.split()) <= {
        *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "mnt", "proc", "sbin", "tmp", "usr"),
    }
    assert inside.execute_command("ls /mnt /mnt/user-data").output.split() == [
        *("/mnt:", "user-data", "/mnt/user-data:", "outputs", "uploads", "workspace")
    ]


def test_the_temporary_folder_is_private(inside: Any, tmp_path: Path) -> None:
    assert inside.execute_command("ls -A /tmp /dev/shm").output == "/dev/shm:\n\n/tmp:\n"
    inside.execute_command("touch /tmp/remit-test-private")
    assert not Path("/tmp/remit-test-private").exists()


def test_processes_of_the_host_are_not_there(inside: Any) -> None:
    numbers = inside.execute_command("ls /proc | grep -E '^[0-9]+$' | wc -l").output
    assert int(numbers) <= 5
    assert inside.execute_command(f"kill -0 {os.getpid()}").exit_code == 1


def test_another_threads_files_are_not_there(make: Callable[..., Any]) -> None:
    provider = make("bubblewrap")
    other = provider.acquire("t2", "eve")
    other.write_file("theirs.txt", "x")
    mine = provider.acquire("t1", "ada")
    found = mine.execute_command("find /mnt /tmp /dev -name theirs.txt 2>/dev/null")
    assert found.output == ""


def test_names_of_this_machine(inside: Any) -> None:
    shown = inside.execute_command("hostname; getent hosts localhost; cat /etc/hosts").output
    assert shown.splitlines()[0] == "sandbox"
    assert shown.splitlines()[-2:] == ["127.0.0.1 localhost", "::1 localhost"]


def test_no_privileges(inside: Any) -> None:
    shown = inside.execute_command("id -u; id -un; grep -E '^(Cap|NoNew)' /proc/self/status").output.split()
    assert shown[:2] == ["1000", "agent"]
    assert shown[2:] == [
        *("CapInh:", "0" * 16, "CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "CapAmb:", "0" * 16),
        *("NoNewPrivs:", "1"),
    ]


def test_no_further_namespaces(inside: Any) -> None:
    if not bubblewrap._knows(inside._program, "--disable-userns"):
        pytest.skip("this version of bubblewrap cannot forbid user namespaces")
    for option in ("-U", "-Ur", "-n", "-m"):
        assert inside.execute_command(f"unshare {option} true").exit_code != 0


@pytest.mark.parametrize(
    "path",
    ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/self/oom_score_adj", "/proc/self/uid_map"],
)
def test_switches_of_the_kernel_cannot_be_opened_for_writing(inside: Any, path: str) -> None:
    """Some of them ask for the user alone, and root outside is the same user inside. Nothing is written here."""
    assert inside.execute_command(f"exec 3>>{path}").exit_code != 0
    assert inside.execute_command(f"test -w {path}").exit_code == 1


def test_the_command_line_gives_nothing_away(make: Callable[..., Any]) -> None:
    sandbox = make("bubblewrap", environment={"TOKEN": "abcdefgh-secret"}).acquire("t1", "ada")
    line = sandbox.execute_command("cat /proc/1/cmdline | tr '\\0' ' ' | rev").output
    assert "abcdefgh-secret"[::-1] not in line
    assert str(sandbox.paths.user_data)[::-1] not in line
    assert "pwrb"[::-1] in line[::-1] or "bwrap" in line[::-1]
    assert sandbox.execute_command("ls -l /proc/1/fd 2>/dev/null | grep -c memfd").output == "0\n"
    assert sandbox.execute_command("cat /proc/1/environ | tr '\\0' '\\n' | rev").output == ""


def test_links_to_the_outside_lead_nowhere(inside: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    inside.execute_command(f"ln -s {tmp_path}/secret.txt a; ln -s /etc/shadow b; ln -s ../../../../../../etc c")
    assert inside.execute_command("cat a b c/shadow 2>/dev/null").output == ""


def test_memory_of_the_folders_in_memory_is_bounded(make: Callable[..., Any]) -> None:
    sandbox = make("bubblewrap", max_file_mb=1).acquire("t1", "ada")
    command = (
        "for i in 1 2 3; do head -c 900000 /dev/zero > /dev/shm/$i; done; du -s --apparent-size -B1 /dev/shm | cut -f1"
    )
    assert int(sandbox.execute_command(command).output.splitlines()[-1]) < (1 << 20) + 8192


def test_an_environment_that_cannot_be_set_up(inside: Any) -> None:
    inside.paths.workspace.rmdir()
    with pytest.raises(SandboxCommandError, match="could not be set up") as raised:
        inside.execute_command("echo hi")
    assert str(inside.paths.user_data) not in str(raised.value)
    assert "bwrap:" in str(raised.value.details["bubblewrap"])


def test_a_command_cannot_pretend_that_the_set_up_failed(inside: Any) -> None:
    result = inside.execute_command('echo "bwrap: setting up uid map: Permission denied"; exit 1')
    assert result.exit_code == 1
    assert result.output.startswith("bwrap:")


def test_a_set_up_that_fails_says_why(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make("bubblewrap")
    program = tmp_path / "bwrap"
    for said, advice in (
        ("bwrap: No permissions to create new namespace", "this system forbids user namespaces"),
        ("bwrap: setting up uid map: Permission denied", "this system forbids user namespaces"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "this system forbids user namespaces"),
        ("bwrap: Unknown option --perms", "install bubblewrap 0.5 or newer"),
        ("", "exit code 1"),
    ):
        program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        program.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "_program", lambda: str(program))
        with pytest.raises(SandboxUnavailableError) as raised:
            make("bubblewrap")
        assert advice in str(raised.value)
        assert said in str(raised.value)


def test_the_workspace_is_the_current_folder_and_writable(inside: Any) -> None:
    assert inside.execute_command("pwd; echo $HOME; touch a && echo ok").output == f"{WORKSPACE}\n{WORKSPACE}\nok\n"
    assert (inside.paths.workspace / "a").stat().st_uid == os.geteuid()
