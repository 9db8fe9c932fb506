"""Route permissions: who has which, in what order, and what one failing answer does to the others."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt
from tests.support.blocking import no_blocking_calls
from tests.support.gates import NOT_SURE, OUTCOMES, Scripted, behind, scripted
from tests.support.ledger import listening, records

from remit.authz.config import load_config
from remit.authz.gates.routes import ROUTE_PERMISSIONS, resolve_route_permissions
from remit.authz.ledger import shared_log
from remit.authz.provider import ProviderBase
from remit.authz.types import AuthzDecision, AuthzRequest

ALL = ["threads:read", "threads:write", "threads:delete", "runs:create", "runs:read", "runs:cancel"]
ALICE = {"id": "alice", "role": "user"}


async def permissions(user: Any, config: Any, *, is_internal: bool = False, **kw: Any) -> list[str]:
    return await resolve_route_permissions(user, is_internal=is_internal, config=config, **kw)


def test_the_registered_permissions() -> None:
    assert list(ROUTE_PERMISSIONS) == ALL


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
async def test_disabled_is_everything_and_imports_nothing(fail_closed: bool) -> None:
    section = {"enabled": False, "fail_closed": fail_closed, "provider": {"use": "tests.support.never_there:Provider"}}
    config = load_config({"authorization": section})
    assert await permissions(ALICE, config) == ALL
    assert await permissions({"id": ["malformed"]}, config) == ALL
    assert "tests.support.never_there" not in sys.modules


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize(("answer", "blocking", "closed", "open_"), OUTCOMES)
async def test_one_answer_for_all(answer: str, blocking: bool, closed: bool, open_: bool, fail_closed: bool) -> None:
    config = scripted(answer, blocking=blocking, fail_closed=fail_closed)
    assert await permissions(ALICE, config) == (ALL if (closed if fail_closed else open_) else [])


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
async def test_a_provider_that_cannot_be_built(fail_closed: bool) -> None:
    use = {"use": "tests.support.never_there:Provider"}
    config = load_config({"authorization": {"enabled": True, "fail_closed": fail_closed, "provider": use}})
    with listening("remit.authz") as said:
        assert await permissions(ALICE, config) == ([] if fail_closed else ALL)
    assert said.saying("authz.evaluator_error")


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
async def test_what_is_asked(blocking: bool) -> None:
    config = scripted("allow", blocking=blocking)
    assert await permissions(ALICE, config) == ALL
    asked = behind(config).asked
    assert sorted((request.resource, request.action, request.target) for request in asked) == sorted(
        [
            ("route", "read", "threads:read"),
            ("route", "write", "threads:write"),
            ("route", "delete", "threads:delete"),
            ("route", "create", "runs:create"),
            ("route", "read", "runs:read"),
            ("route", "cancel", "runs:cancel"),
        ]
    )
    assert len({id(request.principal) for request in asked}) == 1


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
async def test_declaration_order_and_own_permissions(blocking: bool) -> None:
    config = scripted({"*": "allow", "runs:create": "deny"}, blocking=blocking)
    assert await permissions(ALICE, config) == [name for name in ALL if name != "runs:create"]
    mine = ["runs:cancel", "memory:read", "runs:create", "threads:read"]
    assert await permissions(ALICE, config, permissions=mine) == ["runs:cancel", "memory:read", "threads:read"]


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("failing", ["threads:read", "runs:create", "runs:cancel"])
@pytest.mark.parametrize("how", sorted(NOT_SURE))
async def test_one_failing_permission_leaves_the_others_alone(how: str, failing: str, fail_closed: bool) -> None:
    config = scripted({"*": "allow", "threads:write": "deny", failing: how}, fail_closed=fail_closed)
    gone = {"threads:write", failing} if fail_closed else {"threads:write"}
    assert await permissions(ALICE, config) == [name for name in ALL if name not in gone]


async def test_the_permissions_are_decided_at_the_same_time() -> None:
    together = asyncio.Barrier(len(ALL))

    class Meeting(ProviderBase):
        async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
            await together.wait()
            return AuthzDecision(True)

    assert await permissions(ALICE, scripted("deny", deadline_ms=10_000), provider=Meeting()) == ALL


async def test_a_sync_provider_does_not_run_on_the_event_loop() -> None:
    threads = set()

    class Blocking(ProviderBase):
        def authorize(self, request: AuthzRequest) -> AuthzDecision:
            threads.add(threading.current_thread())
            return AuthzDecision(True)

    assert await permissions(ALICE, scripted("deny", deadline_ms=10_000), provider=Blocking()) == ALL
    assert threads
    assert threading.current_thread() not in threads


class TestSignals:
    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
    @pytest.mark.parametrize(("how", "raised"), [("interrupt", GraphInterrupt), ("cancel", asyncio.CancelledError)])
    async def test_they_pass_through(
        self, how: str, raised: type[BaseException], blocking: bool, fail_closed: bool
    ) -> None:
        config = scripted({"*": "allow", "runs:create": how}, blocking=blocking, fail_closed=fail_closed)
        with pytest.raises(raised):
            await permissions(ALICE, config)

    async def test_a_cancelled_request_stops_every_question(self) -> None:
        reached, cancelled = asyncio.Barrier(len(ALL) + 1), []

        class Pending(ProviderBase):
            async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
                try:
                    await reached.wait()
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(request.target)
                    raise
                raise AssertionError

        config = scripted("deny", deadline_ms=60_000)
        work = asyncio.create_task(permissions(ALICE, config, provider=Pending()))
        await reached.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert sorted(cancelled) == sorted(ALL)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_a_signal_stops_the_other_questions(self) -> None:
        config = scripted({"*": "late", "runs:create": "interrupt"}, deadline_ms=60_000)
        with pytest.raises(GraphInterrupt):
            await permissions(ALICE, config)
        assert behind(config).cancelled == len(ALL) - 1
        assert asyncio.all_tasks() == {asyncio.current_task()}


@dataclass
class User:
    id: str | None = "bob"
    system_role: str | None = "editor"
    oauth_provider: str | None = "github"
    oauth_id: str | None = "77"
    authz_attributes: dict[str, Any] = field(default_factory=lambda: {"team": "red"})


class TestIdentity:
    """Who is asked for (PRI-03 included)."""

    @pytest.mark.parametrize(
        ("user", "internal", "user_id", "role"),
        [
            pytest.param(None, False, None, "guest", id="nobody"),
            pytest.param({"id": "alice", "role": "admin"}, False, "alice", "admin", id="mapping"),
            pytest.param({"id": "alice", "system_role": "admin"}, False, "alice", "admin", id="system role"),
            pytest.param({"id": "a", "role": "x", "system_role": "x"}, False, "a", "x", id="both, alike"),
            pytest.param({"id": "a", "role": None, "system_role": "x"}, False, "a", "x", id="one is none"),
            pytest.param({"id": "alice"}, False, "alice", "guest", id="no role"),
            pytest.param({"id": "alice", "role": ""}, False, "alice", "guest", id="empty role"),
            pytest.param({"id": "alice", "role": "nosuch"}, False, "alice", "nosuch", id="unknown role is kept"),
            pytest.param(User(), False, "bob", "editor", id="object"),
            pytest.param(User(id=None), False, None, "editor", id="record without an id yet"),
            pytest.param(None, True, None, "guest", id="internal, for nobody"),
            pytest.param({"id": None, "role": "internal"}, True, None, "guest", id="internal, synthetic role"),
            pytest.param({"id": "svc", "system_role": "internal"}, True, "svc", "guest", id="internal, unbound"),
            pytest.param({"id": "alice", "role": "admin"}, True, "alice", "admin", id="internal, owner's role"),
            pytest.param({"id": "alice", "role": "internal"}, False, "alice", "internal", id="not internal: kept"),
        ],
    )
    async def test_principal(self, user: Any, internal: bool, user_id: str | None, role: str) -> None:
        config = scripted("allow")
        await permissions(user, config, is_internal=internal)
        principal = behind(config).asked[0].principal
        assert (principal.user_id, principal.role, principal.is_internal) == (user_id, role, internal)

    async def test_oauth_fields_and_attributes(self) -> None:
        config = scripted("allow")
        await permissions(User(), config)
        principal = behind(config).asked[0].principal
        assert (principal.oauth_provider, principal.oauth_id) == ("github", "77")
        assert dict(principal.attributes) == {"team": "red"}

    @pytest.mark.parametrize("claimed", [1, "true", object(), "True", [True]])
    async def test_only_true_is_internal(self, claimed: Any) -> None:
        config = scripted("allow")
        await permissions({"id": "a", "role": "internal"}, config, is_internal=claimed)
        principal = behind(config).asked[0].principal
        assert (principal.is_internal, principal.role) == (False, "internal")

    async def test_a_record_cannot_smuggle(self) -> None:
        """Keys that mean something in a run context mean nothing in a user record."""
        config = scripted("allow")
        user = {
            "id": "alice",
            "role": "user",
            "user_id": "root",
            "user_role": "admin",
            "is_internal": True,
            "channel_user_id": "c1",
            "__principal": "root",
        }
        await permissions(user, config)
        principal = behind(config).asked[0].principal
        assert (principal.user_id, principal.role, principal.is_internal) == ("alice", "user", False)
        assert principal.channel_user_id is None

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize(
        "user",
        [
            pytest.param({"id": 7, "role": "admin"}, id="number as id"),
            pytest.param({"id": " alice", "role": "admin"}, id="white space"),
            pytest.param({"id": "al\u200bice"}, id="invisible character"),
            pytest.param({"id": "alice", "role": ["admin"]}, id="list as role"),
            pytest.param({"id": "alice", "role": 0}, id="zero as role"),
            pytest.param({"id": "alice", "role": "admin\n"}, id="line break in role"),
            pytest.param({"id": "alice", "role": "user", "system_role": "admin"}, id="two roles"),
            pytest.param({"id": "alice", "authz_attributes": ["admin"]}, id="attributes"),
            pytest.param({"user_id": "alice", "role": "admin"}, id="no id"),
            pytest.param({}, id="empty"),
            pytest.param("alice", id="text"),
            pytest.param(SimpleNamespace(name="alice"), id="object without id"),
        ],
    )
    async def test_a_malformed_identity_has_nothing(self, user: Any, fail_closed: bool) -> None:
        config = scripted("allow", fail_closed=fail_closed)
        with listening("remit.authz") as said:
            assert await permissions(user, config) == []
        assert said.saying("authz.malformed_identity")
        assert bool(said.saying("has no id")) is (not hasattr(user, "get") or "id" not in user)
        assert behind(config).asked == []


class TestOneInstance:
    async def test_one_provider_serves_a_configuration(self) -> None:
        config, other = scripted("allow"), scripted("allow")
        for _ in range(3):
            await permissions(ALICE, config)
        assert len(behind(config).asked) == 3 * len(ALL)
        assert behind(other).asked == []

    async def test_failures_are_reported_once_for_a_configuration(self) -> None:
        """Six permissions, three requests, one line: the judge is shared like the provider."""
        config = scripted("raise")
        with listening("remit.authz") as said:
            for _ in range(3):
                await permissions(ALICE, config)
        assert len(said.saying("authz.evaluator_error")) == 1

    async def test_it_is_not_built_on_the_event_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        built = []
        original = Scripted.__init__
        monkeypatch.setattr(
            Scripted, "__init__", lambda *a, **kw: (built.append(threading.current_thread()), original(*a, **kw))[1]
        )
        config = scripted("allow")
        assert await asyncio.gather(*(permissions(ALICE, config) for _ in range(4))) == [ALL] * 4
        assert len(built) == 1
        assert built[0] is not threading.current_thread()

    async def test_a_provider_that_is_handed_in_is_asked_instead(self) -> None:
        config, mine = scripted("deny"), Scripted({"*": "allow"})
        assert await permissions(ALICE, config, provider=mine) == ALL
        assert await permissions(ALICE, config) == []
        assert await permissions(ALICE, config, provider=mine) == ALL
        assert len(mine.asked) == 2 * len(ALL)

    async def test_a_failure_to_build_is_not_remembered(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        section = {"enabled": True, "provider": {"use": "gate_comes_late:Provider"}}
        config = load_config({"authorization": section})
        assert await permissions(ALICE, config) == []
        (tmp_path / "gate_comes_late.py").write_text(
            "from remit.authz.provider import ProviderBase\n"
            "from remit.authz.types import AuthzDecision\n"
            "class Provider(ProviderBase):\n"
            "    def authorize(self, request): return AuthzDecision(True)\n"
        )
        assert await permissions(ALICE, config) == ALL


class TestRecords:
    @pytest.fixture(autouse=True)
    def _state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))

    async def test_each_permission_is_one_record(self, tmp_path: Path) -> None:
        config = scripted({"*": "allow", "runs:create": "raise"}, ledger={"sink": "file"})
        await permissions(ALICE, config)
        await permissions({"id": " x"}, config)
        log = shared_log(config)
        assert log is not None
        log.close()
        found = records(tmp_path / "state" / "decisions.jsonl")
        assert {record["guard"] for record in found} == {"gate.routes"}
        first = {record["target"]: (record["decision"], record["reasons"], record["failure"]) for record in found[:6]}
        assert first == {
            **dict.fromkeys(ALL, ("allow", ["authz.allowed"], False)),
            "runs:create": ("deny", ["authz.evaluator_error"], True),
        }
        assert [record["user_id"] for record in found] == ["alice"] * 6 + [None] * 6
        assert {tuple(record["reasons"]) for record in found[6:]} == {("authz.malformed_identity",)}

    @pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
    async def test_nothing_blocks_the_event_loop(self, tmp_path: Path, blocking: bool) -> None:
        """Building the provider and opening the log happen in a thread; recording never waits."""
        config = scripted("allow", blocking=blocking, ledger={"sink": "file"})
        with no_blocking_calls():
            for _ in range(3):
                assert await permissions(ALICE, config) == ALL
        log = shared_log(config)
        assert log is not None
        log.close()
        assert len(records(tmp_path / "state" / "decisions.jsonl")) == 18

    @pytest.mark.parametrize(("required", "expected"), [(True, []), (False, ALL)])
    async def test_a_log_that_cannot_be_opened_later(self, tmp_path: Path, required: bool, expected: list[str]) -> None:
        (tmp_path / "state").write_text("a file where the folder should be")
        config = scripted("allow", ledger={"sink": "file", "required": required})
        with listening("remit.authz") as said:
            assert await permissions(ALICE, config) == expected
        assert said.saying("cannot be opened")

    async def test_a_required_log_that_fails_denies_under_fail_open_too(self) -> None:
        config = scripted("allow", fail_closed=False, ledger={"sink": "file", "path": "/dev/full", "required": True})
        with listening() as said:
            await permissions(ALICE, config)
            said.wait_for("every decision is denied meanwhile")
            assert await permissions(ALICE, config) == []
            log = shared_log(config)
            assert log is not None
            log.close()
