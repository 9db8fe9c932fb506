"""The one door to environments: identity, gate, then the environment, every time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.blocking import no_blocking_calls

from remit.authz import SandboxAuthorizationError, wire
from remit.authz.types import Principal
from remit.harness.sandbox.local import LocalSandboxProvider
from remit.runtime.config import SandboxConfig
from remit.runtime.sandboxes import (
    SandboxAccess,
    SandboxError,
    SandboxUnavailableError,
    decided_once,
    noticed,
    sandbox_id_in,
)


class Gate:
    """Counts, and refuses whom it is told to."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.closed = False

    def __call__(self, context: Any) -> None:
        self.asked.append(context)
        if self.closed:
            raise SandboxAuthorizationError("not permitted")

    async def soon(self, context: Any) -> None:
        await asyncio.sleep(0)
        self(context)


class Counting(LocalSandboxProvider):
    """Counts what is asked of it."""

    def __init__(self, settings: SandboxConfig) -> None:
        super().__init__(settings)
        self.acquired = 0
        self.got = 0

    def acquire(self, thread_id: str, user_id: str) -> Any:
        self.acquired += 1
        return super().acquire(thread_id, user_id)

    def get(self, sandbox_id: str, *, thread_id: str, user_id: str) -> Any:
        self.got += 1
        return super().get(sandbox_id, thread_id=thread_id, user_id=user_id)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def provider() -> Iterator[Counting]:
    made = Counting(SandboxConfig(use="local"))
    yield made
    made.close()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def access(provider: Counting, gate: Gate) -> SandboxAccess:
    return SandboxAccess(provider, gate, gate.soon)


def runtime(user: str = "u1", thread: str | None = "t1", sandbox: Any = None) -> SimpleNamespace:
    context = {wire.USER_ID: user} | ({} if thread is None else {wire.THREAD_ID: thread})
    state = {} if sandbox is None else {wire.SANDBOX: sandbox}
    return SimpleNamespace(context=context, state=state)


@pytest.fixture(params=["ensure", "aensure"])
def ensure(request: pytest.FixtureRequest, access: SandboxAccess) -> Any:
    """The door in both forms, as one coroutine function."""

    async def door(given: Any) -> Any:
        if request.param == "ensure":
            return await asyncio.to_thread(access.ensure, given)
        with no_blocking_calls():
            return await access.aensure(given)

    return door


async def test_the_same_environment_again(ensure: Any, provider: Counting) -> None:
    first = await ensure(runtime())
    assert (await ensure(runtime(sandbox={"sandbox_id": first.id}))) is first
    assert (await ensure(runtime())) is first
    assert (provider.acquired, provider.got) == (2, 1)


async def test_the_gate_is_asked_every_time_and_first(ensure: Any, gate: Gate, provider: Counting) -> None:
    first = await ensure(runtime())
    known = runtime(sandbox={"sandbox_id": first.id})
    await ensure(known)
    assert gate.asked == [runtime().context] * 2
    gate.closed = True
    for given in (known, runtime(), runtime(thread="t2")):
        with pytest.raises(SandboxAuthorizationError):
            await ensure(given)
    assert (provider.acquired, provider.got) == (1, 1), "nothing is acquired and nothing reused"


FORGED = [
    {"sandbox_id": "made-up"},
    {"sandbox_id": ""},
    {"sandbox_id": 7},
    {"sandbox_id": ["x"]},
    "text",
    ["x"],
    {"__overwrite__": {"sandbox_id": "x"}},
]


@pytest.mark.parametrize("held", FORGED, ids=repr)
async def test_an_id_that_is_nobodys(ensure: Any, held: Any) -> None:
    mine = await ensure(runtime())
    assert (await ensure(runtime(sandbox=held))) is mine


@pytest.mark.parametrize(("user", "thread"), [("u2", "t1"), ("u1", "t2"), ("u2", "t2")])
async def test_an_id_of_somebody_else(ensure: Any, access: SandboxAccess, user: str, thread: str) -> None:
    theirs = await ensure(runtime(user, thread))
    mine = await ensure(runtime(sandbox={"sandbox_id": theirs.id}))
    assert mine is not theirs
    assert mine.paths.user_data != theirs.paths.user_data
    assert access.release(runtime(), theirs.id) is False
    assert (await ensure(runtime(user, thread, {"sandbox_id": theirs.id}))) is theirs


async def test_the_sealed_principal_is_the_owner(ensure: Any) -> None:
    given = runtime(user="other")
    given.context[wire.PRINCIPAL] = Principal(user_id="u1", role="user")
    assert (await ensure(given)) is (await ensure(runtime()))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (runtime(thread=None), "this run has none"),
        (runtime(user="../x"), "user id"),
        (runtime(thread="a/b"), "thread id"),
    ],
    ids=["no thread", "user", "thread"],
)
async def test_a_run_that_owns_nothing(ensure: Any, gate: Gate, provider: Counting, given: Any, says: str) -> None:
    with pytest.raises(SandboxUnavailableError, match=says):
        await ensure(given)
    assert gate.asked == []
    assert provider.acquired == 0


async def test_one_decision_for_a_composed_call(access: SandboxAccess, gate: Gate, provider: Counting) -> None:
    with decided_once():
        access.ensure(runtime())
        await asyncio.to_thread(access.ensure, runtime())
        access.ensure(runtime())
        assert len(gate.asked) == 1
        access.ensure(runtime(thread="t2"))
        assert len(gate.asked) == 2, "another thread is another decision"
        SandboxAccess(provider, gate, gate.soon).ensure(runtime())
        assert len(gate.asked) == 3, "and so is another door"
    access.ensure(runtime())
    assert len(gate.asked) == 4
    with decided_once():
        await access.aensure(runtime())
        await access.aensure(runtime())
    assert len(gate.asked) == 5


async def test_a_denial_is_not_remembered(access: SandboxAccess, gate: Gate) -> None:
    with decided_once():
        gate.closed = True
        for _ in range(2):
            with pytest.raises(SandboxAuthorizationError):
                access.ensure(runtime())
        assert len(gate.asked) == 2
        gate.closed = False
        access.ensure(runtime())


async def test_scopes_of_parallel_calls_do_not_mix(access: SandboxAccess, gate: Gate) -> None:
    async def composed() -> None:
        with decided_once():
            await access.aensure(runtime())
            await asyncio.sleep(0)
            await access.aensure(runtime())

    await asyncio.gather(composed(), composed(), composed())
    assert len(gate.asked) == 3


def test_two_that_come_at_once_get_one(access: SandboxAccess) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: access.ensure(runtime()), range(64)))
    assert len({id(one) for one in found}) == 1


async def test_what_is_opened_is_noticed(ensure: Any, access: SandboxAccess) -> None:
    before = await ensure(runtime())
    with noticed() as outer:
        assert outer == []
        sandbox = await ensure(runtime())
        with noticed() as inner:
            await asyncio.create_task(ensure(runtime("u2", "t2")))
        assert [(one.user_id, one.thread_id) for one in inner] == [("u2", "t2")]
    await ensure(runtime("u3", "t3"))
    assert [(one.user_id, one.thread_id) for one in outer] == [("u1", "t1"), ("u2", "t2")]
    assert outer[0].sandbox_id == sandbox.id == before.id
    assert outer[0].access is access


async def test_what_is_refused_is_not_noticed(ensure: Any, gate: Gate) -> None:
    gate.closed = True
    with noticed() as opened, pytest.raises(SandboxAuthorizationError):
        await ensure(runtime())
    assert opened == []


def test_letting_go(access: SandboxAccess) -> None:
    sandbox = access.ensure(runtime())
    assert access.release(runtime(), sandbox.id) is True
    assert access.release(runtime(), sandbox.id) is False
    with pytest.raises(SandboxUnavailableError):
        access.release(runtime(thread=None), sandbox.id)
    assert access.ensure(runtime(sandbox={"sandbox_id": sandbox.id})).id != sandbox.id


def test_without_a_policy_there_is_no_gate(provider: Counting) -> None:
    assert SandboxAccess(provider).ensure(runtime()).id


@pytest.mark.parametrize("state", [None, [], "x", {}, {"sandbox": None}, SimpleNamespace(sandbox={"sandbox_id": "x"})])
def test_no_id(state: Any) -> None:
    assert sandbox_id_in(state) is None


def test_a_denial_is_no_failure_of_the_environment() -> None:
    assert not issubclass(SandboxAuthorizationError, SandboxError)
    assert SandboxError("x", details={"a": 1}).details == {"a": 1}
