"""The file sink: nothing on the caller's path, and a stated outcome for every way in which a file can fail."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from tests.support.ledger import listening, records

from remit.authz.ledger import FileSink
from remit.authz.ledger.record import to_line


def numbered(number: int, thread: int = 0) -> partial[bytes]:
    return partial(to_line, {"thread": thread, "n": number})


def numbers(path: Path) -> list[int]:
    return [record["n"] for record in records(path) if "n" in record]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


class Held:
    """A line that takes as long to make as the test wants: the writer is busy until `release`."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self) -> bytes:
        self.begun.set()
        assert self.released.wait(10)
        return to_line({"held": True})


def test_lines_arrive_in_order(path: Path) -> None:
    sink = FileSink(path)
    assert all(sink.write(numbered(number)) for number in range(1000))
    assert sink.flush()
    assert numbers(path) == list(range(1000))
    assert (sink.written, sink.dropped, sink.failing) == (1000, 0, False)
    sink.close()


def test_appends_to_what_is_there(path: Path) -> None:
    for number in range(3):
        sink = FileSink(path)
        sink.write(numbered(number))
        sink.close()
    assert numbers(path) == [0, 1, 2]


def test_the_file_is_the_owners_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        FileSink(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_caller_never_makes_a_line(path: Path) -> None:
    makers = []
    sink = FileSink(path)

    def render() -> bytes:
        makers.append(threading.current_thread())
        return b"{}\n"

    sink.write(render)
    sink.close()
    assert makers
    assert threading.current_thread() not in makers


def test_eight_threads(path: Path) -> None:
    sink = FileSink(path)
    start = threading.Barrier(8)

    def work(thread: int) -> None:
        start.wait()
        for number in range(500):
            assert sink.write(numbered(number, thread))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    found = records(path)
    for thread in range(8):
        assert [record["n"] for record in found if record["thread"] == thread] == list(range(500))


def test_a_full_queue_drops_and_accounts_for_it(path: Path) -> None:
    sink, held = FileSink(path, capacity=10), Held()
    assert sink.write(held)
    assert held.begun.wait(10)
    answers = [sink.write(numbered(number)) for number in range(25)]
    assert answers == [True] * 10 + [False] * 15
    assert sink.dropped == 15
    held.released.set()
    assert sink.flush()
    assert sink.write(numbered(99))
    sink.close()
    found = records(path)
    assert [(record.get("kind"), record.get("count")) for record in found if "kind" in record] == [("dropped", 15)]
    assert numbers(path) == [*range(10), 99]
    assert found[-1]["n"] == 99


def test_the_caller_does_not_wait_for_a_stuck_writer(path: Path) -> None:
    """The test would hang here if `write` waited: the writer is released only afterwards."""
    sink, held = FileSink(path, capacity=5), Held()
    sink.write(held)
    assert held.begun.wait(10)
    for number in range(10_000):
        sink.write(numbered(number))
    assert sink.dropped == 10_000 - 5
    held.released.set()
    sink.close()


def test_a_line_that_cannot_be_made_is_counted(path: Path) -> None:
    def broken() -> bytes:
        raise ValueError("no line")

    sink = FileSink(path)
    with listening() as alarms:
        sink.write(numbered(1))
        sink.write(broken)
        sink.write(numbered(2))
        sink.close()
    assert numbers(path) == [1, 2]
    assert [record["count"] for record in records(path) if record.get("kind") == "dropped"] == [1]
    assert len(alarms.saying("could not be made")) == 1


@pytest.mark.parametrize("required", [False, True])
def test_a_full_device(required: bool) -> None:
    sink = FileSink("/dev/full", required=required)
    with listening() as alarms:
        assert sink.write(numbered(0))
        alarms.wait_for(os.strerror(errno.ENOSPC))
        assert sink.failing
        assert sink.write(numbered(1)) is not required
        assert not sink.flush(0.01)
        sink.close()
    assert sink.written == 0
    assert sink.dropped == 2
    assert len(alarms.saying("cannot be written")) == 1
    assert alarms.saying("2 records are lost")


def test_a_path_that_stops_being_a_file_and_comes_back(path: Path) -> None:
    sink = FileSink(path)
    sink.write(numbered(0))
    assert sink.flush()
    path.unlink()
    path.mkdir()
    with listening() as alarms:
        assert sink.write(numbered(1))
        alarms.wait_for(os.strerror(errno.EISDIR))
        assert sink.write(numbered(2))
        path.rmdir()
        assert sink.flush()
        assert not sink.failing
    assert numbers(path) == [1, 2]
    assert len(alarms.saying("cannot be written")) == 1
    assert len(alarms.saying("is written again")) == 1
    sink.close()


def test_a_folder_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state" / "decisions.jsonl"
    path.parent.mkdir()
    sink = FileSink(path, required=True)
    path.unlink()
    path.parent.rmdir()
    with listening() as alarms:
        assert sink.write(numbered(0)), "accepted: the failure is not known yet"
        alarms.wait_for("every decision is denied meanwhile")
        assert not sink.write(numbered(1))
        path.parent.mkdir()
        alarms.wait_for("is written again")
    assert sink.write(numbered(2))
    sink.close()
    assert numbers(path) == [0, 2]
    assert [record["count"] for record in records(path) if record.get("kind") == "dropped"] == [1]


def test_rotation(path: Path, tmp_path: Path) -> None:
    sink = FileSink(path)
    sink.write(numbered(0))
    assert sink.flush()
    path.rename(tmp_path / "decisions.jsonl.1")
    sink.write(numbered(1))
    sink.close()
    assert numbers(tmp_path / "decisions.jsonl.1") == [0]
    assert numbers(path) == [1]


def test_the_half_line_of_a_killed_process_stays_alone(path: Path) -> None:
    path.write_bytes(b'{"n":0}\n{"n":1,"thr')
    sink = FileSink(path)
    sink.write(numbered(2))
    sink.close()
    assert [line[:7] for line in path.read_bytes().split(b"\n")] == [b'{"n":0}', b'{"n":1,', b'{"threa', b""]


def test_closed_is_closed(path: Path) -> None:
    sink = FileSink(path)
    sink.write(numbered(0))
    sink.close()
    sink.close()
    assert not sink.write(numbered(1))
    assert numbers(path) == [0]


@pytest.mark.parametrize("place", ["missing/decisions.jsonl", "."], ids=["no folder", "a folder"])
def test_what_cannot_be_opened_is_said_at_once(tmp_path: Path, place: str) -> None:
    with pytest.raises(OSError, match=r"decisions\.jsonl|Is a directory"):
        FileSink(tmp_path / place)


def run(script: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True, timeout=60)


DISK_FULL = """
import logging, resource, sys, threading
from functools import partial
from remit.authz.ledger import FileSink
from remit.authz.ledger.record import to_line
said = threading.Event()
class Handler(logging.Handler):
    def emit(self, record): print(record.getMessage(), file=sys.stderr); said.set()
logging.getLogger("remit.authz.ledger").addHandler(Handler())
line = lambda n: partial(to_line, {"n": n, "fill": "x" * 90})
sink = FileSink(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1050, hard))
for n in range(100):
    assert sink.write(line(n))
assert said.wait(10)
assert sink.failing
with open(sys.argv[1], "rb") as file: data = file.read()
assert data.endswith(b"\\n") or not data, data[-20:]
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert sink.flush(), "the records were kept and written once there was room"
assert not sink.failing
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_batch_and_gets_room_again(path: Path) -> None:
    result = run(DISK_FULL, path)
    assert result.returncode == 0, result.stderr
    assert numbers(path) == list(range(100)), "no line is torn, none is missing, none is there twice"
    assert result.stderr.count("cannot be written") == 1
    assert os.strerror(errno.EFBIG) in result.stderr


FORK = """
import os, sys
from functools import partial
from remit.authz.ledger import FileSink
from remit.authz.ledger.record import to_line
line = lambda who, n: partial(to_line, {"who": who, "n": n})
sink = FileSink(sys.argv[1])
for n in range(200): sink.write(line("parent", n))
pid = os.fork()
if pid == 0:
    for n in range(200): assert sink.write(line("child", n))
    sys.exit()
for n in range(200, 400): sink.write(line("parent", n))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork(path: Path) -> None:
    result = run(FORK, path)
    assert result.returncode == 0, result.stderr
    found = records(path)
    assert [record["n"] for record in found if record["who"] == "parent"] == list(range(400))
    assert [record["n"] for record in found if record["who"] == "child"] == list(range(200))


FORK_LOCK = """
import fcntl, os, sys
from functools import partial
from remit.authz.ledger import FileSink
from remit.authz.ledger.record import to_line
sink = FileSink(sys.argv[1])
fcntl.flock(sink._fd, fcntl.LOCK_EX)
pid = os.fork()
if pid == 0:
    sink.write(partial(to_line, {"n": 1}))
    os._exit(int(sink.flush(0.2)))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_parent_and_child_keep_each_other_out(path: Path) -> None:
    """The parent holds the lock: a child that shared its descriptor would write all the same."""
    result = run(FORK_LOCK, path)
    assert result.returncode == 0, result.stderr
    assert numbers(path) == []


APPEND = """
import json, sys
from functools import partial
from remit.authz.ledger import FileSink
from remit.authz.ledger.record import to_line
sink = FileSink(sys.argv[1])
for n in range(2000): assert sink.write(partial(to_line, {"who": sys.argv[2], "n": n}))
"""


def test_two_processes_on_one_file(path: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", APPEND, str(path), who]) for who in ("a", "b")]
    assert [process.wait(60) for process in both] == [0, 0]
    found = records(path)
    for who in ("a", "b"):
        assert [record["n"] for record in found if record["who"] == who] == list(range(2000))
