"""The sandbox gate, sync and async: one table for both."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt
from tests.support.gates import MALFORMED_CONTEXTS, OUTCOMES, Scripted, behind, scripted
from tests.support.ledger import listening, records

from remit.authz.config import load_config
from remit.authz.errors import AuthzError, SandboxAuthorizationError
from remit.authz.gates.sandbox import aauthorize_sandbox_execution, authorize_sandbox_execution
from remit.authz.ledger import shared_log
from remit.authz.principal import seal_principal
from remit.authz.provider import ProviderBase
from remit.authz.types import AuthzDecision, AuthzRequest, Principal

ALICE = {"user_id": "alice", "user_role": "user", "thread_id": "t1", "run_id": "r1"}
Gate = Callable[..., Awaitable[None]]


@pytest.fixture(params=["sync", "async"])
def gate(request: pytest.FixtureRequest) -> Gate:
    """Both forms behind one awaitable; the sync one runs where nothing else does, as in a worker thread."""

    async def ask(context: Any, **kw: Any) -> None:
        if request.param == "sync":
            authorize_sandbox_execution(context, **kw)
        else:
            await aauthorize_sandbox_execution(context, **kw)

    return ask


async def permitted(gate: Gate, context: Any, config: Any, **kw: Any) -> bool:
    try:
        await gate(context, config=config, **kw)
    except SandboxAuthorizationError:
        return False
    return True


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize(("answer", "blocking", "closed", "open_"), OUTCOMES)
async def test_outcomes(gate: Gate, answer: str, blocking: bool, closed: bool, open_: bool, fail_closed: bool) -> None:
    config = scripted(answer, blocking=blocking, fail_closed=fail_closed)
    assert await permitted(gate, ALICE, config) is (closed if fail_closed else open_)


async def test_disabled_asks_nobody_and_imports_nothing(gate: Gate) -> None:
    use = {"use": "tests.support.never_there:Provider"}
    config = load_config({"authorization": {"enabled": False, "provider": use}})
    await gate({"user_role": ["malformed"]}, config=config)
    assert "tests.support.never_there" not in sys.modules


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
async def test_a_provider_that_cannot_be_built(gate: Gate, fail_closed: bool) -> None:
    use = {"use": "tests.support.never_there:Provider"}
    config = load_config({"authorization": {"enabled": True, "fail_closed": fail_closed, "provider": use}})
    with listening("remit.authz") as said:
        assert await permitted(gate, ALICE, config) is not fail_closed
    assert said.saying("authz.evaluator_error")


async def test_what_is_asked(gate: Gate) -> None:
    config = scripted("allow")
    await gate({**ALICE, "tool_input": {"user_role": "admin"}}, config=config)
    (asked,) = behind(config).asked
    assert (asked.resource, asked.action, asked.target) == ("sandbox", "execute", "*")
    assert asked.principal == Principal("alice", "user")
    assert dict(asked.context) == {"thread_id": "t1", "run_id": "r1"}


async def test_the_error_can_be_shown_and_keeps_its_facts(gate: Gate) -> None:
    with pytest.raises(SandboxAuthorizationError) as caught:
        await gate(ALICE, config=scripted("deny"))
    assert str(caught.value) == "the sandbox is not permitted for the role 'user'"
    assert caught.value.details == {"role": "user", "reason_codes": ("authz.denied",), "policy_id": "script:2"}
    assert isinstance(caught.value, AuthzError)


async def test_the_error_of_a_failure_shows_nothing_of_it(gate: Gate) -> None:
    with pytest.raises(SandboxAuthorizationError) as caught:
        await gate(ALICE, config=scripted("raise"))
    assert "no such rule" not in str(caught.value)
    assert caught.value.details["reason_codes"] == ("authz.evaluator_error",)


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("name", MALFORMED_CONTEXTS)
async def test_a_malformed_identity_is_denied(gate: Gate, name: str, fail_closed: bool) -> None:
    config = scripted("allow", fail_closed=fail_closed)
    with listening("remit.authz") as said, pytest.raises(SandboxAuthorizationError) as caught:
        await gate(MALFORMED_CONTEXTS[name], config=config)
    assert caught.value.details["reason_codes"] == ("authz.malformed_identity",)
    assert said.saying("authz.malformed_identity")
    assert behind(config).asked == []


@dataclass
class Context:
    user_id: str = "carol"
    user_role: str = "editor"
    thread_id: str = "t9"
    run_id: int = 5


@pytest.mark.parametrize(
    ("context", "principal", "ids"),
    [
        pytest.param({}, Principal(None, "guest"), {}, id="empty"),
        pytest.param(None, Principal(None, "guest"), {}, id="none"),
        pytest.param({"user_role": ""}, Principal(None, "guest"), {}, id="empty role"),
        pytest.param({"user_role": "nosuch"}, Principal(None, "nosuch"), {}, id="unknown role is kept"),
        pytest.param({"is_internal": 1}, Principal(None, "guest"), {}, id="one is not True"),
        pytest.param({"is_internal": True}, Principal(None, "guest", is_internal=True), {}, id="internal"),
        pytest.param(Context(), Principal("carol", "editor"), {"thread_id": "t9"}, id="dataclass"),
    ],
)
async def test_kinds_of_contexts(gate: Gate, context: Any, principal: Principal, ids: dict[str, str]) -> None:
    config = scripted("allow")
    await gate(context, config=config)
    (asked,) = behind(config).asked
    assert (asked.principal, dict(asked.context)) == (principal, ids)


async def test_a_sealed_principal_wins(gate: Gate) -> None:
    config, context = scripted("allow"), {"user_id": "mallory", "user_role": "admin"}
    seal_principal(context, Principal("alice", "user"))
    await gate(context, config=config)
    assert behind(config).asked[0].principal == Principal("alice", "user")


async def test_the_instance_of_the_run_is_asked(gate: Gate) -> None:
    config, mine = scripted("deny"), Scripted({"*": "allow"})
    assert await permitted(gate, ALICE, config, provider=mine)
    assert not await permitted(gate, ALICE, config)
    assert len(mine.asked) == 1


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
@pytest.mark.parametrize(("how", "raised"), [("interrupt", GraphInterrupt), ("cancel", asyncio.CancelledError)])
async def test_signals_pass_through(
    gate: Gate, how: str, raised: type[BaseException], blocking: bool, fail_closed: bool
) -> None:
    config = scripted(how, blocking=blocking, fail_closed=fail_closed)
    with pytest.raises(raised):
        await gate(ALICE, config=config)


async def test_the_async_form_does_not_block_the_loop() -> None:
    threads = set()

    class Blocking(ProviderBase):
        def authorize(self, request: AuthzRequest) -> AuthzDecision:
            threads.add(threading.current_thread())
            return AuthzDecision(True)

    config = scripted("deny", deadline_ms=10_000)
    await aauthorize_sandbox_execution(ALICE, config=config, provider=Blocking())
    assert threads
    assert threading.current_thread() not in threads


async def test_every_answer_is_a_record(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path))
    config = scripted("deny", ledger={"sink": "file"})
    await permitted(gate, ALICE, config)
    await permitted(gate, {"user_id": " x"}, config)
    log = shared_log(config)
    assert log is not None
    log.close()
    denied, refused = records(tmp_path / "decisions.jsonl")
    assert (denied["guard"], denied["resource"], denied["target"], denied["user_id"], denied["thread_id"]) == (
        "gate.sandbox", "sandbox", "*", "alice", "t1"
    )  # fmt: skip
    assert (denied["reasons"], refused["reasons"]) == (["authz.denied"], ["authz.malformed_identity"])


async def test_what_must_be_recorded_and_cannot_is_denied(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state").write_text("")
    config = scripted("allow", fail_closed=False, ledger={"sink": "file", "required": True})
    with pytest.raises(SandboxAuthorizationError) as caught:
        await gate(ALICE, config=config)
    assert caught.value.details["reason_codes"] == ("authz.unrecorded",)
