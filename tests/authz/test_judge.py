"""Whatever a provider does, the judge answers: sync and async alike, and control flow passes through."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt

from remit.authz import AuthzDecision, AuthzReason, AuthzRequest, GuardrailDecision, GuardrailRequest, Principal
from remit.authz.judge import Judge
from remit.authz.types import Obligation
from remit.authz.workers import Workers

REQUEST = AuthzRequest(Principal("u1", "user"), "tool", "call", "bash")
CALL = GuardrailRequest(tool_name="bash", tool_input={})


class Scripted:
    """A provider that does what it is told, in every form of the protocol."""

    name = "scripted"

    def __init__(self, act: Callable[[], Any], *, blocking: bool = True) -> None:
        self.act, self.blocking = act, blocking

    def authorize(self, request: AuthzRequest) -> Any:
        return self.act()

    async def aauthorize(self, request: AuthzRequest) -> Any:
        return self.act()

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> Any:
        candidates.append("smuggled in")  # the judge must not let a mutated argument count
        return self.act()

    evaluate = authorize
    aevaluate = aauthorize


def throws(exc: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise exc

    return act


class Lying(AuthzDecision):
    """A subclass could answer differently at every look."""


def both(judge: Judge, provider: Any) -> AuthzDecision:
    """The decision, asked both ways; they must agree."""
    sync = judge.decide(provider, REQUEST)
    assert asyncio.run(judge.adecide(provider, REQUEST)) == sync
    return sync


@pytest.mark.parametrize("blocking", [True, False], ids=["in-thread", "in-place"])
@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize(
    ("act", "code"),
    [
        pytest.param(throws(KeyError("x")), "authz.evaluator_error", id="raises"),
        pytest.param(throws(RecursionError()), "authz.evaluator_error", id="recursion"),
        pytest.param(throws(StopIteration()), "authz.evaluator_error", id="stop-iteration"),
        pytest.param(throws(TimeoutError()), "authz.timeout", id="times-out-itself"),
        pytest.param(lambda: None, "authz.malformed_decision", id="none"),
        pytest.param(lambda: True, "authz.malformed_decision", id="bare-true"),
        pytest.param(lambda: {"allow": True}, "authz.malformed_decision", id="dict"),
        pytest.param(lambda: Lying(True), "authz.malformed_decision", id="subclass"),
        pytest.param(lambda: AuthzDecision(1), "authz.evaluator_error", id="truthy-int"),  # type: ignore[arg-type]
    ],
)
def test_failure_is_never_an_answer(act: Callable[[], Any], code: str, fail_closed: bool, blocking: bool) -> None:
    decision = both(Judge(fail_closed=fail_closed), Scripted(act, blocking=blocking))
    assert decision.allow is not fail_closed
    assert decision.code == code
    assert decision.metadata["failure"] is True


@pytest.mark.parametrize("allow", [True, False])
def test_answers_pass_unchanged(allow: bool) -> None:
    answer = AuthzDecision(allow, (AuthzReason("x"),), "policy.csv:3", "v1")
    assert both(Judge(), Scripted(lambda: answer)) is answer or both(Judge(), Scripted(lambda: answer)) == answer


def test_an_obligation_nobody_knows_is_a_denial_even_when_failing_open() -> None:
    answer = AuthzDecision(True, policy_id="p:1", obligations=(Obligation("watermark"),))
    decision = both(Judge(fail_closed=False), Scripted(lambda: answer))
    assert decision.allow is False
    assert decision.code == "authz.unknown_obligation"
    assert decision.policy_id == "p:1"


def test_approval_is_known() -> None:
    answer = AuthzDecision(False, obligations=(Obligation("approval"),))
    assert both(Judge(), Scripted(lambda: answer)).asks is True


@pytest.mark.parametrize("signal", [GraphInterrupt(()), asyncio.CancelledError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("blocking", [True, False], ids=["in-thread", "in-place"])
def test_signals_pass_through_sync(signal: BaseException, blocking: bool) -> None:
    judge, provider = Judge(fail_closed=False), Scripted(throws(signal), blocking=blocking)
    for ask in (
        lambda: judge.decide(provider, REQUEST),
        lambda: judge.filter(provider, REQUEST.principal, "tool", ["a"]),
        lambda: judge.evaluate(provider, CALL),
    ):
        with pytest.raises(type(signal)):
            ask()


@pytest.mark.parametrize("signal", [GraphInterrupt(()), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("blocking", [True, False], ids=["in-thread", "in-place"])
async def test_signals_pass_through_async(signal: BaseException, blocking: bool) -> None:
    judge, provider = Judge(fail_closed=False), Scripted(throws(signal), blocking=blocking)
    with pytest.raises(type(signal)):
        await judge.adecide(provider, REQUEST)
    with pytest.raises(type(signal)):
        await judge.aevaluate(provider, CALL)
    with pytest.raises(type(signal)):
        await judge.afilter(provider, REQUEST.principal, "tool", ["a"])


@pytest.mark.parametrize(
    ("answer", "closed", "opened"),
    [
        pytest.param(lambda: ["a"], ["a"], ["a"], id="subset"),
        pytest.param(lambda: ["b", "a"], ["a", "b"], ["a", "b"], id="order-is-ours"),
        pytest.param(lambda: ["a", "zzz"], ["a"], ["a"], id="nothing-is-added"),
        pytest.param(lambda: ["a", "smuggled in"], ["a"], ["a"], id="nothing-by-mutation"),
        pytest.param(lambda: ["a", "a"], ["a"], ["a"], id="duplicate"),
        pytest.param(lambda: ["A"], [], [], id="other-case"),
        pytest.param(lambda: [], [], [], id="empty"),
        pytest.param(lambda: ("a",), [], ["a", "b"], id="tuple"),
        pytest.param(lambda: {"a"}, [], ["a", "b"], id="set"),
        pytest.param(lambda: None, [], ["a", "b"], id="none"),
        pytest.param(lambda: ["a", None], [], ["a", "b"], id="list-with-none"),
        pytest.param(lambda: "ab", [], ["a", "b"], id="text"),
        pytest.param(throws(ValueError("x")), [], ["a", "b"], id="raises"),
    ],
)
def test_a_filter_can_only_shrink(answer: Callable[[], Any], closed: list[str], opened: list[str]) -> None:
    for fail_closed, want in ((True, closed), (False, opened)):
        judge, provider = Judge(fail_closed=fail_closed), Scripted(answer)
        assert judge.filter(provider, REQUEST.principal, "tool", ["a", "b"]) == want
        assert asyncio.run(judge.afilter(provider, REQUEST.principal, "tool", ["a", "b"])) == want


@pytest.mark.parametrize(
    ("act", "code"),
    [
        pytest.param(lambda: None, "authz.malformed_decision", id="none"),
        pytest.param(lambda: AuthzDecision(True), "authz.malformed_decision", id="wrong-kind"),
        pytest.param(throws(OSError("down")), "authz.evaluator_error", id="raises"),
    ],
)
def test_guardrails_are_judged_alike(act: Callable[[], Any], code: str) -> None:
    judge, provider = Judge(), Scripted(act)
    decision = judge.evaluate(provider, CALL)
    assert decision == asyncio.run(judge.aevaluate(provider, CALL))
    assert decision.allow is False
    assert decision.reasons[0].code == code


def test_guardrail_with_an_unknown_obligation_denies() -> None:
    answer = GuardrailDecision(True, obligations=(Obligation("watermark"),))
    decision = Judge(fail_closed=False).evaluate(Scripted(lambda: answer), CALL)
    assert decision.allow is False
    assert decision.reasons[0].code == "authz.unknown_obligation"


def test_a_sleeping_provider_is_a_denial_at_the_deadline() -> None:
    release = threading.Event()
    started = time.perf_counter()
    decision = Judge(deadline=0.05).decide(Scripted(lambda: release.wait(10)), REQUEST)
    release.set()
    assert decision.code == "authz.timeout"
    assert decision.allow is False
    assert time.perf_counter() - started < 5


async def test_an_async_provider_that_sleeps_does_not_stop_the_loop() -> None:
    class Slow(Scripted):
        async def aauthorize(self, request: AuthzRequest) -> Any:
            await asyncio.sleep(10)

    ticks = 0

    async def heart() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    beat = asyncio.create_task(heart())
    decision = await Judge(deadline=0.1).adecide(Slow(lambda: None), REQUEST)
    beat.cancel()
    assert decision.code == "authz.timeout"
    assert ticks > 3


async def test_a_blocking_filter_never_runs_on_the_event_loop() -> None:
    seen: list[str] = []

    def act() -> list[str]:
        seen.append(threading.current_thread().name)
        return ["a"]

    assert await Judge().afilter(Scripted(act), REQUEST.principal, "tool", ["a"]) == ["a"]
    assert seen[0].startswith("remit-provider")


def test_the_text_of_a_foreign_exception_stays_out_of_the_decision() -> None:
    decision = Judge().decide(Scripted(throws(RuntimeError("https://u:secret@pdp"))), REQUEST)
    assert "secret" not in decision.reasons[0].message


def test_failures_are_logged_once_a_minute_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    judge = Judge(fail_closed=False)
    with caplog.at_level(logging.WARNING, "remit.authz"):
        for _ in range(50):
            judge.decide(Scripted(throws(KeyError("x"))), REQUEST)
    assert len(caplog.records) <= 2  # two when the minute turns
    assert "ALLOWED AFTER AN ERROR" in caplog.text
    assert "'scripted'" in caplog.text


def test_workers_are_bounded_and_see_the_callers_context() -> None:
    pool, var = Workers(2), contextvars.ContextVar("var", default="unset")
    var.set("mine")
    gate, running, peak = threading.Event(), [0], [0]
    lock = threading.Lock()

    def job() -> str:
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        gate.wait(5)
        with lock:
            running[0] -= 1
        return var.get()

    results: list[str] = []
    callers = [
        threading.Thread(target=contextvars.copy_context().run, args=(lambda: results.append(pool.call(5, job)),))
        for _ in range(6)
    ]
    for caller in callers:
        caller.start()
    gate.set()
    for caller in callers:
        caller.join()
    assert results == ["mine"] * 6
    assert peak[0] <= 2


def test_a_late_call_waiting_for_a_worker_is_given_up() -> None:
    pool, gate, ran = Workers(1), threading.Event(), []
    with pytest.raises(TimeoutError):
        pool.call(0.02, gate.wait, 10)
    with pytest.raises(TimeoutError):
        pool.call(0.02, ran.append, "late")
    gate.set()
    assert pool.call(5, lambda: "next") == "next"
    assert ran == []
