"""`DecisionLog` from the outside: through the enforcer, from the configuration, and when a process ends."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger import ALLOW, ASK, DENY, FAILED, FAILED_OPEN, MemorySink, listening, records, request

from remit.authz.config import AuthorizationConfig, load_config
from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError
from remit.authz.ledger import DecisionLog, FileSink, shared_log
from remit.authz.provider import ProviderBase
from remit.authz.types import AuthzDecision, AuthzRequest, Principal


class Fixed(ProviderBase):
    """Answers every question alike."""

    name = "fixed"
    blocking = False

    def __init__(self, answer: AuthzDecision = ALLOW) -> None:
        self.answer = answer

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return self.answer


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("REMIT_STATE_DIR", str(folder))
    return folder


def config(**ledger: Any) -> AuthorizationConfig:
    return load_config(
        {
            "authorization": {"enabled": True, "provider": {"use": f"{__name__}:Fixed"}},
            "ledger": {"sink": "file", **ledger},
        }
    )


@pytest.fixture(params=["sync", "async"])
def decide(request: pytest.FixtureRequest) -> Any:
    """`decide` and `adecide` behind one awaitable."""

    async def ask(enforcer: Enforcer, asked: AuthzRequest) -> AuthzDecision:
        return enforcer.decide(asked) if request.param == "sync" else await enforcer.adecide(asked)

    return ask


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        pytest.param(ALLOW, "allow", id="allow"),
        pytest.param(DENY, "deny", id="deny"),
        pytest.param(ASK, "ask", id="ask"),
    ],
)
async def test_every_decision_of_an_enforcer_is_recorded(
    tmp_path: Path, decide: Any, answer: AuthzDecision, written: str
) -> None:
    log = DecisionLog(FileSink(tmp_path / "log"))
    enforcer = Enforcer(Fixed(answer), default_role=None, ledger=log)
    for number in range(3):
        assert await decide(enforcer, request({"n": number}, target=f"tool-{number}")) is answer
    log.close()
    found = records(tmp_path / "log")
    assert [(record["target"], record["decision"], record["policy_id"]) for record in found] == [
        (f"tool-{number}", written, answer.policy_id) for number in range(3)
    ]
    assert len({record["args_hash"] for record in found}) == 3
    assert all(0 < record["latency_us"] < 5_000_000 for record in found)


async def test_records_that_are_required_but_refused_deny(decide: Any) -> None:
    sink = MemorySink(required=True)
    enforcer = Enforcer(Fixed(ALLOW), default_role=None, ledger=DecisionLog(sink))
    assert (await decide(enforcer, request())).allow is True
    sink.accepts = False
    refused = await decide(enforcer, request())
    assert refused.allow is False
    assert refused.code == "authz.unrecorded"


async def test_records_that_are_refused_but_not_required_change_nothing(decide: Any) -> None:
    sink = MemorySink()
    sink.accepts = False
    enforcer = Enforcer(Fixed(ALLOW), default_role=None, ledger=DecisionLog(sink))
    assert (await decide(enforcer, request())).allow is True


@pytest.mark.parametrize("required", [False, True])
async def test_a_full_device(decide: Any, required: bool) -> None:
    with listening() as alarms:
        log = DecisionLog(FileSink("/dev/full", required=required))
        enforcer = Enforcer(Fixed(ALLOW), default_role=None, ledger=log)
        await decide(enforcer, request())
        alarms.wait_for("cannot be written")
        assert (await decide(enforcer, request())).allow is not required
        log.close()
    assert len(alarms.saying("cannot be written")) == 1


def test_one_event_one_record_without_arguments(tmp_path: Path) -> None:
    """A denial, a failure, and a name with a line break and a forged prefix (L2-09)."""
    log = DecisionLog(FileSink(tmp_path / "log"))
    forged = 'bash\n{"v":1,"kind":"decision","decision":"allow","target":"rm"}\nINFO allowed '
    secret = {"command": "cat /etc/shadow", "password": "hunter2"}
    log.record(request(secret), DENY, latency_ns=1)
    log.record(request(secret), FAILED, latency_ns=1)
    log.record(request(secret, target=forged), DENY, latency_ns=1)
    log.close()
    denied, failed, odd = records(tmp_path / "log")
    assert (denied["decision"], denied["failure"], denied["reasons"]) == ("deny", False, ["authz.denied"])
    assert (failed["decision"], failed["failure"], failed["reasons"]) == ("deny", True, ["authz.timeout"])
    assert (odd["decision"], odd["target"]) == ("deny", forged)
    text = (tmp_path / "log").read_text()
    assert not re.search("shadow|hunter2|command|password", text)
    assert not re.search(r"[^\x20-\x7e\n]", text)


def test_arguments_are_recorded_as_they_were_when_decided(tmp_path: Path) -> None:
    """The caller's dict may change while its record waits."""
    held, begun = threading.Event(), threading.Event()

    def hold() -> bytes:
        begun.set()
        held.wait(10)
        return b"{}\n"

    hashes = []
    for change in (False, True):
        sink = FileSink(tmp_path / f"log{change}")
        log = DecisionLog(sink, key=b"k" * 32)
        sink.write(hold)
        assert begun.wait(10)
        args = {"to": ["bob"], "n": 1}
        log.record(request(args), ALLOW, latency_ns=1)
        if change:
            args["to"].append("mallory")  # type: ignore[attr-defined]
            args["n"] = 2
        held.set()
        log.close()
        hashes.append(records(tmp_path / f"log{change}")[-1]["args_hash"])
        held.clear()
        begun.clear()
    assert hashes[0] == hashes[1]


def test_eight_threads(tmp_path: Path) -> None:
    log = DecisionLog(FileSink(tmp_path / "log"))
    enforcer = Enforcer(Fixed(), default_role=None, ledger=log)

    def work(thread: int) -> None:
        for number in range(200):
            enforcer.decide(request({"n": number}, run_id=f"run-{thread}", tool_call_id=f"{number}"))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    found = records(tmp_path / "log")
    for thread in range(8):
        mine = [record["tool_call_id"] for record in found if record["run_id"] == f"run-{thread}"]
        assert mine == [str(number) for number in range(200)]


class TestSample:
    def test_denials_asks_and_failures_are_always_recorded(self) -> None:
        sink = MemorySink()
        log = DecisionLog(sink, sample_allow=0.0)
        for decision in (DENY, ASK, FAILED, FAILED_OPEN):
            assert log.record(request(), decision, latency_ns=1)
        assert [record["decision"] for record in sink.records] == ["deny", "ask", "deny", "allow"]

    def test_the_next_record_states_how_many_were_left_out(self) -> None:
        sink = MemorySink()
        log = DecisionLog(sink, sample_allow=0.0)
        for decision in (ALLOW, ALLOW, ALLOW, DENY, DENY, ALLOW, ASK):
            assert log.record(request(), decision, latency_ns=1)
        assert [record.get("left_out") for record in sink.records] == [3, None, 1]

    def test_the_number_survives_a_refused_record(self) -> None:
        sink = MemorySink()
        log = DecisionLog(sink, sample_allow=0.0)
        log.record(request(), ALLOW, latency_ns=1)
        sink.accepts = False
        log.record(request(), DENY, latency_ns=1)
        sink.accepts = True
        log.record(request(), DENY, latency_ns=1)
        assert [record["left_out"] for record in sink.records] == [1]

    def test_close_accounts_for_the_rest(self) -> None:
        sink = MemorySink()
        log = DecisionLog(sink, sample_allow=0.0)
        log.record(request(), ALLOW, latency_ns=1)
        log.record(request(), ALLOW, latency_ns=1)
        log.close()
        log.close()
        assert [(record["kind"], record["count"]) for record in sink.records] == [("left_out", 2)]

    def test_every_decision_is_accounted_for(self) -> None:
        sink = MemorySink()
        log = DecisionLog(sink, sample_allow=0.3)
        for _ in range(2000):
            log.record(request(), ALLOW, latency_ns=1)
        log.close()
        found = [record for record in sink.records if record["kind"] == "decision"]
        left_out = sum(record.get("left_out", record.get("count", 0)) for record in sink.records)
        assert len(found) + left_out == 2000
        assert 450 < len(found) < 750  # 600 expected; the bounds are more than seven standard deviations away

    def test_a_required_log_that_fails_denies_what_it_would_leave_out_too(self) -> None:
        sink = MemorySink(required=True)
        log = DecisionLog(sink, sample_allow=0.0)
        assert log.record(request(), ALLOW, latency_ns=1)
        sink.failing = True
        assert not log.record(request(), ALLOW, latency_ns=1)


@pytest.mark.parametrize("required", [False, True])
def test_record_never_raises(required: bool) -> None:
    class Broken(MemorySink):
        def write(self, render: Any) -> bool:
            raise RuntimeError("sink is broken")

    log = DecisionLog(Broken(required=required))
    with listening() as alarms:
        for _ in range(3):
            assert log.record(request(), ALLOW, latency_ns=1) is not required
    assert len(alarms.messages) == 1


def test_a_log_that_nobody_holds_closes_itself() -> None:
    sink = MemorySink()
    log = DecisionLog(sink, sample_allow=0.0)
    log.record(request(), ALLOW, latency_ns=1)
    del log
    gc.collect()
    assert sink.closed
    assert [record["count"] for record in sink.records] == [1]


def test_the_thread_of_a_log_that_nobody_holds_ends(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "log")
    log = DecisionLog(sink)
    log.record(request(), ALLOW, latency_ns=1)
    thread = sink._thread
    assert thread is not None
    del log
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
    assert len(records(tmp_path / "log")) == 1


EXIT = """
import sys
from remit.authz import ledger
from remit.authz.types import AuthzDecision, AuthzRequest, Principal
log = ledger.DecisionLog(ledger.FileSink(sys.argv[1]), sample_allow=float(sys.argv[2]))
for n in range(3000):
    log.record(AuthzRequest(Principal("alice"), "tool", "call", f"t{n}"), AuthzDecision(True), latency_ns=1)
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError('dies')"], ids=["end", "exit", "exception"])
@pytest.mark.parametrize("sample", [1.0, 0.0])
def test_nothing_is_lost_when_a_process_ends(tmp_path: Path, end: str, sample: float) -> None:
    script = EXIT.replace("{end}", end)
    subprocess.run([sys.executable, "-c", script, tmp_path / "log", str(sample)], capture_output=True, timeout=60)
    found = records(tmp_path / "log")
    if sample:
        assert [record["target"] for record in found] == [f"t{n}" for n in range(3000)]
    else:
        assert [(record["kind"], record["count"]) for record in found] == [("left_out", 3000)]


class TestFromConfig:
    def test_an_enforcer_from_a_configuration_records_below_the_state_folder(self, state: Path) -> None:
        enforcer = Enforcer.from_config(config(path="deep/er.jsonl"))
        enforcer.decide(request())
        assert enforcer.ledger is not None
        enforcer.ledger.close()
        assert [record["target"] for record in records(state / "deep" / "er.jsonl")] == ["bash"]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.rglob("*"))}
        assert modes == {"state": 0o700, "deep": 0o700, "er.jsonl": 0o600, "er.jsonl.key": 0o600}

    def test_settings_reach_the_log(self, state: Path) -> None:
        log = DecisionLog.from_config(config(sample_allow=0.0, mask=["n"], required=True))
        log.record(request(), ALLOW, latency_ns=1)
        seen = AuthzDecision(False, metadata={"reads": ("args.n", "args.m")})
        log.record(request({"n": 1, "m": 2}), seen, latency_ns=1)
        log.close()
        (found,) = records(state / "decisions.jsonl")
        assert (found["left_out"], found["values"], found["masked"]) == (1, {"args.m": 2}, ["args.n"])
        assert log.sink.required

    def test_the_key_is_kept(self, state: Path) -> None:
        for _ in range(2):
            log = DecisionLog.from_config(config())
            log.record(request({"n": 1}), ALLOW, latency_ns=1)
            log.close()
        one, two = records(state / "decisions.jsonl")
        assert one["args_hash"] == two["args_hash"]
        assert len((state / "decisions.jsonl.key").read_bytes()) == 32

    def test_another_log_has_another_key(self, state: Path) -> None:
        hashes = set()
        for name in ("a", "b"):
            log = DecisionLog.from_config(config(path=name))
            log.record(request({"n": 1}), ALLOW, latency_ns=1)
            log.close()
            hashes |= {record["args_hash"] for record in records(state / name)}
        assert len(hashes) == 2

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
    def test_a_key_that_is_open_to_others_is_refused(self, state: Path, mode: int) -> None:
        DecisionLog.from_config(config()).close()
        (state / "decisions.jsonl.key").chmod(mode)
        with pytest.raises(
            ConfigError, match=r"ledger\.path: the key .* is open to others \(mode 06..\); run chmod 600"
        ):
            DecisionLog.from_config(config())

    def test_a_key_that_is_none_is_refused(self, state: Path) -> None:
        DecisionLog.from_config(config()).close()
        (state / "decisions.jsonl.key").write_bytes(b"short")
        with pytest.raises(ConfigError, match=r"has 5 bytes instead of 32; restore it"):
            DecisionLog.from_config(config())

    def test_what_cannot_be_opened_refuses_to_start(self, state: Path) -> None:
        (state / "decisions.jsonl").mkdir(parents=True)
        with pytest.raises(
            ConfigError, match=r"ledger\.path: .*decisions\.jsonl' cannot be opened: .*; make it writable"
        ):
            Enforcer.from_config(config())

    def test_a_state_folder_that_is_a_file_refuses_to_start(self, state: Path) -> None:
        state.write_text("")
        with pytest.raises(ConfigError, match="REMIT_STATE_DIR"):
            DecisionLog.from_config(config())

    @pytest.mark.parametrize("place", [".", "state", "a/b"])
    def test_a_log_among_the_policies_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        policies = tmp_path / "policies"
        policies.mkdir()
        (policies / "authz.yaml").write_text("authorization: {enabled: false}\nledger: {sink: file}\n")
        monkeypatch.setenv("REMIT_STATE_DIR", str(policies / place))
        with pytest.raises(ConfigError, match=r"authz\.yaml: ledger\.path: .* in the policy folder .*REMIT_STATE_DIR"):
            DecisionLog.from_config(load_config(policies / "authz.yaml"))
        assert [path.name for path in policies.rglob("*")] == ["authz.yaml"]

    def test_neither_a_link_nor_dots_lead_into_the_policies(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policies = tmp_path / "policies"
        policies.mkdir()
        (tmp_path / "link").symlink_to(policies)
        for where, path in (("link", "log"), ("other", "../policies/log")):
            text = json.dumps({"authorization": {"enabled": False}, "ledger": {"sink": "file", "path": path}})
            (policies / "authz.yaml").write_text(text)
            monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / where))
            with pytest.raises(ConfigError, match="in the policy folder"):
                DecisionLog.from_config(load_config(policies / "authz.yaml"))

    def test_beside_the_policies_is_fine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "authz.yaml").write_text("authorization: {enabled: false}\nledger: {sink: file}\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("REMIT_STATE_DIR", raising=False)
        DecisionLog.from_config(load_config("policies/authz.yaml")).close()
        assert (tmp_path / ".remit" / "decisions.jsonl").is_file()

    def test_no_log_is_no_log(self, state: Path) -> None:
        assert shared_log(config(sink="none")) is None
        with pytest.raises(ConfigError, match=r"ledger\.sink: is 'none'"):
            DecisionLog.from_config(config(sink="none"))
        assert not state.exists()

    def test_one_configuration_one_log(self, state: Path) -> None:
        one, other = config(), config()
        assert shared_log(one) is shared_log(one)
        assert shared_log(one) is not shared_log(other)

    def test_a_shared_log_goes_with_its_configuration(self, state: Path) -> None:
        held = config()
        log = shared_log(held)
        assert log is not None
        log.record(request(), ALLOW, latency_ns=1)
        sink = log.sink
        assert isinstance(sink, FileSink)
        thread = sink._thread
        assert thread is not None
        del held, log
        gc.collect()
        thread.join(10)
        assert not thread.is_alive()
        assert len(records(state / "decisions.jsonl")) == 1


def test_many_processes_make_one_key(state: Path) -> None:
    script = (
        "from remit.authz import ledger, config\n"
        "c = config.load_config({'authorization': {'enabled': False}, 'ledger': {'sink': 'file'}})\n"
        "print(ledger.DecisionLog.from_config(c)._recorder.key.hex())"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ})
        for _ in range(4)
    ]
    assert len({run.communicate(timeout=60)[0] for run in runs}) == 1


def test_no_debug_noise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log does not copy decisions into the process log, where they would escape its rules."""
    caplog.set_level(logging.DEBUG)
    log = DecisionLog(FileSink(tmp_path / "log"))
    log.record(AuthzRequest(Principal("alice"), "tool", "call", "bash", {"args": {"x": "hunter2"}}), DENY, latency_ns=1)
    log.close()
    assert caplog.text == ""
