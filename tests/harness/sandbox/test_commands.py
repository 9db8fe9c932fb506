"""Commands in both providers: what they see, what they may use up, and that nothing of them stays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandboxes import WORKSPACE

from remit.harness.sandbox import process
from remit.harness.sandbox.process import stoppable
from remit.runtime.sandboxes import CommandResult, Sandbox, SandboxCommandError, SandboxProvider


def still_running(marker: str) -> list[str]:
    """Command lines on this machine that hold `marker`."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
                state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in line and state != "Z":
                found.append(line.decode("utf-8", "replace"))
    return found


def test_they_are_what_the_port_says(make: Callable[..., Any], kind: str) -> None:
    provider = make(kind)
    assert isinstance(provider, SandboxProvider)
    assert isinstance(provider.acquire("t1", "ada"), Sandbox)
    assert provider.uses_thread_data_mounts is True


def test_output_and_exit_code(sandbox: Any) -> None:
    assert sandbox.execute_command("echo out; echo err >&2; exit 7") == CommandResult("out\nerr\n", 7)
    assert sandbox.execute_command("true") == CommandResult("", 0)
    assert sandbox.execute_command("pwd") == CommandResult(f"{WORKSPACE}\n", 0)
    assert sandbox.execute_command("kill -9 $$").exit_code == 137
    assert sandbox.execute_command("printf 'a\\377b'").output == "a\ufffdb"
    assert sandbox.execute_command("cat").output == ""  # standard input is empty
    assert sandbox.execute_command("nonexistent-program").exit_code == 127
    assert sandbox.execute_command("(").exit_code == 2


def test_commands_and_file_operations_see_the_same_files(sandbox: Any) -> None:
    sandbox.write_file("a.txt", "from the host\n")
    sandbox.paths.skills.mkdir()
    (sandbox.paths.skills / "s.md").write_text("skill\n")
    (sandbox.paths.uploads / "u.txt").write_text("upload\n")
    command = (
        f"cat a.txt {WORKSPACE}/a.txt '/mnt/user-data/uploads/u.txt' \"/mnt/skills/s.md\"; "
        "mkdir d; echo inside > d/b.txt; echo done >/mnt/user-data/outputs/o.txt"
    )
    assert sandbox.execute_command(command).output == "from the host\nfrom the host\nupload\nskill\n"
    assert sandbox.read_file("d/b.txt") == "inside\n"
    assert sandbox.read_file("/mnt/user-data/outputs/o.txt") == "done\n"
    assert (
        "/mnt/user-data/workspace/a.txt" in sandbox.execute_command(f"ls {WORKSPACE}/a.txt; readlink -f a.txt").output
    )
    assert (
        str(sandbox.paths.user_data) not in sandbox.execute_command("readlink -f a.txt /mnt/user-data/outputs").output
    )


def test_folders_of_the_host_with_spaces(make: Callable[..., Any], kind: str, tmp_path: Path) -> None:
    sandbox = make(kind, tmp_path / 'it\'s a $HOME `x` "folder"').acquire("t1", "ada")
    sandbox.write_file("a.txt", "x\n")
    for spelling in (f"{WORKSPACE}/a.txt", f"'{WORKSPACE}/a.txt'", f'"{WORKSPACE}/a.txt"', "a.txt"):
        assert sandbox.execute_command(f"cat {spelling}") == CommandResult("x\n", 0)


def test_the_environment(make: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPERATORS_KEY", "must-not-be-seen")
    monkeypatch.setenv("LD_PRELOAD_X", "must-not-be-seen")
    sandbox = make(kind, environment={"TOKEN": "abcdefgh-secret", "SMALL": "1234"}).acquire("t1", "ada")
    shown = sandbox.execute_command("env; cat /proc/self/environ | tr '\\0' '\\n'", env={"MORE": "another-secret"})
    assert "must-not-be-seen" not in shown.output
    assert "secret" not in shown.output
    lines = dict(line.partition("=")[::2] for line in shown.output.splitlines())
    assert lines["TOKEN"] == lines["MORE"] == "***"
    assert lines["SMALL"] == "1234"
    assert lines["HOME"] == WORKSPACE
    assert lines["LANG"] == "C.UTF-8"
    assert set(lines) <= {
        *("TOKEN", "MORE", "SMALL", "HOME", "LANG", "PATH", "TERM", "TMPDIR", "PWD", "SHLVL", "_"),
        *("REMIT_SANDBOX_COMMAND", "OLDPWD"),
    }
    assert sandbox.execute_command("test \"$MORE\" = 'it'", env={"MORE": "it"}).exit_code == 0


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A-B", "Ä", "A\n", "A\x00"], ids=ascii)
def test_names_that_are_no_variables(sandbox: Any, name: str) -> None:
    with pytest.raises(SandboxCommandError, match="no name of an environment variable"):
        sandbox.execute_command("true", env={name: "x"})


def test_a_value_that_is_no_value_is_not_shown(sandbox: Any) -> None:
    with pytest.raises(SandboxCommandError, match="'TOKEN' is no text") as raised:
        sandbox.execute_command("true", env={"TOKEN": "secret\x00value"})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("echo \x00", "NUL"),
        ("echo \ud800", "half of a character"),
        ("echo " + "x" * 200_000, "write a script"),
    ],
    ids=["empty", "blank", "nul", "surrogate", "long"],
)
def test_commands_that_cannot_be_run(sandbox: Any, command: str, problem: str) -> None:
    with pytest.raises(SandboxCommandError, match=problem):
        sandbox.execute_command(command)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_that_is_none(sandbox: Any, timeout: float) -> None:
    with pytest.raises(SandboxCommandError, match="more than 0 seconds"):
        sandbox.execute_command("true", timeout=timeout)


LEFT_BEHIND = {
    "child": "sleep {0} & sleep {0}",
    "grandchild": "(sleep {0} & sleep {0}) & sleep {0}",
    "deaf": "trap '' TERM HUP INT; sleep {0} & sleep {0}; sleep {0}",
    "own-session": "setsid sleep {0} & setsid setsid sleep {0} & sleep {0}",
    "no-hangup": "nohup sleep {0} >/dev/null 2>&1 & sleep {0}",
}


@pytest.mark.parametrize("how", LEFT_BEHIND)
def test_time_runs_out(sandbox: Any, how: str) -> None:
    seconds = f"30.{os.getpid()}1"
    began = time.monotonic()
    result = sandbox.execute_command("echo begun; " + LEFT_BEHIND[how].format(seconds), timeout=0.25)
    assert time.monotonic() - began < 5
    assert result == CommandResult("begun\n", None, timed_out=True)
    assert still_running(seconds) == []


@pytest.mark.parametrize("how", ["sleep {0} &", "setsid sleep {0} &", "(setsid nohup sleep {0} >/dev/null 2>&1 &)"])
def test_what_runs_in_the_background_ends_with_the_command(sandbox: Any, how: str) -> None:
    seconds = f"30.{os.getpid()}2"
    began = time.monotonic()
    assert sandbox.execute_command(how.format(seconds) + "\necho started") == CommandResult("started\n", 0)
    assert time.monotonic() - began < 5
    assert still_running(seconds) == []


@pytest.mark.slow
def test_the_settings_limit_the_time(make: Callable[..., Any], kind: str) -> None:
    sandbox = make(kind, command_timeout_sec=1).acquire("t1", "ada")
    assert sandbox.execute_command("sleep 30", timeout=60).timed_out


def test_a_command_whose_output_is_closed_is_still_waited_for(sandbox: Any) -> None:
    result = sandbox.execute_command("exec >/dev/null 2>&1; sleep 0.2; exit 3")
    assert result == CommandResult("", 3)


def test_a_flood_of_output_is_bounded(sandbox: Any) -> None:
    result = sandbox.execute_command("echo first; yes | head -c 5000000; echo last")
    assert result.exit_code == 0
    assert result.truncated
    assert len(result.output) < 2_200_000
    assert result.output.startswith("first\ny\n")
    assert result.output.endswith("y\nlast\n")
    assert "bytes left out" in result.output


def test_a_flood_without_end_is_stopped(sandbox: Any) -> None:
    result = sandbox.execute_command("yes", timeout=0.25)
    assert result.timed_out
    assert len(result.output) < 2_200_000


def test_limits(make: Callable[..., Any], kind: str) -> None:
    sandbox = make(kind, max_memory_mb=300, max_cpu_sec=7, max_file_mb=2, max_processes=40).acquire("t1", "ada")
    shown = sandbox.execute_command("ulimit -c; ulimit -v; ulimit -t; ulimit -f; ulimit -Ht; ulimit -u").output.split()
    assert shown[:5] == ["0", str(300 << 10), "7", str(2 << 10), "7"]
    assert shown[5] == "40" or kind == "local" or os.geteuid() == 0  # root is counted from outside
    assert sandbox.execute_command("ulimit -t 100").exit_code != 0  # no way back up
    result = sandbox.execute_command("head -c 3000000 /dev/zero > big; echo $?")
    assert result.output.strip().endswith("153")  # SIGXFSZ
    assert (sandbox.paths.workspace / "big").stat().st_size <= 2 << 20


def test_processes_are_counted(make: Callable[..., Any], kind: str) -> None:
    seconds = f"30.{os.getpid()}3"
    sandbox = make(kind, max_processes=5).acquire("t1", "ada")
    result = sandbox.execute_command(f"for i in 1 2 3 4 5 6 7 8; do sleep {seconds} & done; wait", timeout=20)
    assert not result.timed_out
    if os.geteuid() == 0 or kind == "local":
        assert "[stopped: it ran more than 5 processes at once]" in result.output
        assert result.exit_code is None
    assert still_running(seconds) == []


def test_a_command_is_stopped_from_outside(sandbox: Any) -> None:
    seconds = f"30.{os.getpid()}4"
    with stoppable() as stop:
        threading.Timer(0.2, stop.set).start()
        began = time.monotonic()
        result = sandbox.execute_command(f"echo begun; sleep {seconds}")
    assert time.monotonic() - began < 5
    assert result.exit_code is None
    assert not result.timed_out
    assert result.output == "begun\n[stopped: the run was cancelled]"
    assert still_running(seconds) == []
    assert sandbox.execute_command("echo on").output == "on\n"


def test_temporary_files_last_as_long_as_the_environment(make: Callable[..., Any], kind: str) -> None:
    provider = make(kind)
    sandbox = provider.acquire("t1", "ada")
    sandbox.execute_command('echo x > "$(mktemp -d)/a"; echo y > "${TMPDIR:-/tmp}/b"')
    assert sandbox.execute_command('cat "${TMPDIR:-/tmp}/b"').output == "y\n"
    folder = sandbox.scratch()
    assert folder.stat().st_mode & 0o777 == 0o700
    other = provider.acquire("t2", "ada")
    assert other.execute_command('ls -A "${TMPDIR:-/tmp}"').output == ""
    provider.release(sandbox.id, thread_id="t1", user_id="ada")
    assert not folder.exists()


def test_no_descriptor_stays_open(sandbox: Any) -> None:
    sandbox.execute_command("true")
    before = sorted(os.listdir("/proc/self/fd"))
    for command in ("true", "exit 3", "nonexistent-program"):
        sandbox.execute_command(command)
    sandbox.execute_command("sleep 30", timeout=0.1)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert sandbox.execute_command("ls /proc/self/fd").output.split() == ["0", "1", "2", "3"]


def test_commands_at_the_same_time(sandbox: Any) -> None:
    results: dict[int, str] = {}

    def run(number: int) -> None:
        results[number] = sandbox.execute_command(f"echo {number}; echo {number} >> log").output

    threads = [threading.Thread(target=run, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(12)}
    assert sorted(map(int, sandbox.read_file("log").split())) == list(range(12))


def test_a_shell_that_is_not_there(sandbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "shell", lambda: "/nowhere/sh")
    with pytest.raises(SandboxCommandError, match=r"could not be (started|set up)"):
        sandbox.execute_command("true")
