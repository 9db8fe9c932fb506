"""Providers that wait, fail or talk nonsense, behind a compiled agent."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Command, Interrupt
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.scripted import call, calls
from tests.support.tampering import Rewriting, with_args

from remit.authz import AuthzDecision, AuthzReason, Enforcer, Obligation, pop_outcome
from remit.authz.errors import ProviderError
from remit.authz.provider import ProviderBase

GINA = {"user_id": "gina"}
ALLOW = AuthzDecision(True, (AuthzReason("authz.allowed"),))
DENY = AuthzDecision(False, (AuthzReason("authz.denied"),))


def payment(paid: list[Any], *, asynchronous: bool = False) -> Any:
    if asynchronous:

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            paid.append(amount)
            return "paid"

    else:

        @tool
        def pay(amount: int) -> str:
            """Pay."""
            paid.append(amount)
            return "paid"

    return pay


class Remote(ProviderBase):
    """Answers over a wire: waits a moment, on whatever thread or loop it is asked."""

    name = "remote"
    blocking = True

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.asked: list[int] = []
        self.threads: set[int] = set()

    def _answer(self, request: Any) -> AuthzDecision:
        amount = request.context["args"].get("amount", 0)
        self.asked.append(amount)
        return ALLOW if amount <= self.limit else DENY

    def authorize(self, request: Any) -> AuthzDecision:
        self.threads.add(threading.get_ident())
        time.sleep(0.005)
        return self._answer(request)

    async def aauthorize(self, request: Any) -> AuthzDecision:
        await asyncio.sleep(0.005)
        return self._answer(request)

    def filter_resources(self, principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
        time.sleep(0.005)
        return list(candidates)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync-tool", "async-tool"])
@pytest.mark.parametrize("style", STYLES)
class TestWaiting:
    async def test_each_call_is_decided_once(self, style: str, asynchronous: bool) -> None:
        if asynchronous and style in ("invoke", "stream"):
            return
        paid: list[Any] = []
        provider = Remote()
        enforcer = Enforcer(provider, default_role="guest")
        turn = calls(call("pay", {"amount": "5"}, "a"), call("pay", {"amount": 500}, "b"))
        graph, _ = agent(enforcer, [payment(paid, asynchronous=asynchronous)], turn)
        state = await run(graph, style, context=GINA)
        assert paid == [5]
        assert code(answers(state)["b"]) == "authz.denied"
        assert sorted(provider.asked) == [5, 500]
        assert threading.get_ident() not in provider.threads

    @pytest.mark.parametrize(("amount", "runs"), [(7, True), (500, False)])
    async def test_a_rewritten_call_is_asked_about_again(
        self, style: str, asynchronous: bool, amount: int, runs: bool
    ) -> None:
        """Below the guard too the loop is not blocked: the body's own start waits for the answer."""
        if asynchronous and style in ("invoke", "stream"):
            return
        paid: list[Any] = []
        provider = Remote()
        enforcer = Enforcer(provider, default_role="guest")
        graph, _ = agent(
            enforcer,
            [payment(paid, asynchronous=asynchronous)],
            calls(call("pay", {"amount": 1})),
            others=[Rewriting(with_args(amount=amount))],
        )
        state = await run(graph, style, context=GINA)
        assert paid == ([amount] if runs else [])
        assert code(answers(state)["call_1"]) == (None if runs else "authz.denied")
        assert provider.asked == [1, amount]


async def test_a_synchronous_call_on_the_loop_is_refused_not_waited_for() -> None:
    """An async body calls another tool synchronously: asking a remote brain there would block every other task."""
    paid: list[Any] = []
    pay = payment(paid)

    @tool
    async def helper(amount: int) -> str:
        """Help."""
        return str(pay.invoke({"amount": amount}))

    enforcer = Enforcer(Remote(), default_role="guest")
    graph, _ = agent(enforcer, [pay, helper], calls(call("helper", {"amount": 1})))
    state = await run(graph, "ainvoke", context=GINA)
    assert paid == []
    assert code(answers(state)["call_1"]) == "authz.no_ticket"


async def test_a_sleeping_provider_neither_holds_the_loop_nor_the_run() -> None:
    """The deadline turns a provider that sleeps into a denial; a heartbeat beside the run keeps ticking."""
    paid: list[Any] = []

    class Sleeping(Remote):
        async def aauthorize(self, request: Any) -> AuthzDecision:
            await asyncio.sleep(10)
            return ALLOW

    enforcer = Enforcer(Sleeping(), default_role="guest", deadline=0.2)
    graph, _ = agent(enforcer, [payment(paid)], calls(call("pay", {"amount": 1})))
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(heart())
    started = time.monotonic()
    state = await run(graph, "ainvoke", context=GINA)
    beating.cancel()
    assert time.monotonic() - started < 5
    assert beats >= 5
    assert paid == []
    assert code(answers(state)["call_1"]) == "authz.timeout"


class Failing(ProviderBase):
    """Does what it is told at each decision; shows everything."""

    name = "failing"

    def __init__(self, act: Any, *, blocking: bool) -> None:
        self.act = act
        self.blocking = blocking

    def authorize(self, request: Any) -> Any:
        return self.act()

    async def aauthorize(self, request: Any) -> Any:
        return self.act()

    def filter_resources(self, principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
        return list(candidates)


def raising(exc: BaseException) -> Any:
    def act() -> Any:
        raise exc

    return act


FAILURES = {
    "provider-error": (raising(ProviderError("down")), "authz.evaluator_error"),
    "key-error": (raising(KeyError("secret")), "authz.evaluator_error"),
    "timeout": (raising(TimeoutError()), "authz.timeout"),
    "none": (lambda: None, "authz.malformed_decision"),
    "true": (lambda: True, "authz.malformed_decision"),
    "text": (lambda: "allow", "authz.malformed_decision"),
    "look-alike": (lambda: type("AuthzDecision", (), {"allow": True})(), "authz.malformed_decision"),
}


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in-place"])
@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize(("act", "reason"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_failures_follow_fail_closed(
    style: str, act: Any, reason: str, fail_closed: bool, blocking: bool
) -> None:
    """A failure is never an answer: denied when closed, run when open, told apart from a denial in both."""
    paid: list[Any] = []
    enforcer = Enforcer(Failing(act, blocking=blocking), default_role="guest", fail_closed=fail_closed)
    graph, _ = agent(enforcer, [payment(paid)], calls(call("pay", {"amount": 1})))
    context = {"user_id": "gina"}
    state = await run(graph, style, context=context)
    message = answers(state)["call_1"]
    assert paid == ([] if fail_closed else [1])
    assert code(message) == (reason if fail_closed else None)
    assert "secret" not in str(message.content)
    (outcome,) = pop_outcome(context, "call_1")
    assert (outcome.decision, outcome.reason_codes) == ("denied" if fail_closed else "allowed", (reason,))
    assert state["messages"][-1].content == "done"


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in-place"])
@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_signals_pass_through(style: str, fail_closed: bool, blocking: bool) -> None:
    """An interrupt of the graph is nobody's to judge: no denial, no outcome, no run of the tool."""
    paid: list[Any] = []
    signal = GraphInterrupt((Interrupt(value="paused", id="1"),))
    enforcer = Enforcer(Failing(raising(signal), blocking=blocking), default_role="guest", fail_closed=fail_closed)
    graph, _ = agent(enforcer, [payment(paid)], calls(call("pay", {"amount": 1})), checkpointer=InMemorySaver())
    context, config = {"user_id": "gina"}, {"configurable": {"thread_id": "t"}}
    state = await run(graph, style, context=context, config=config)
    assert paid == []
    assert answers(state) == {}
    assert pop_outcome(context, "call_1") == ()
    assert [one.value for one in graph.get_state(config).interrupts] == ["paused"]


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
async def test_cancellation_passes_through(fail_closed: bool) -> None:
    """A cancelled run is cancelled, not denied."""
    paid: list[Any] = []
    reached = asyncio.Event()

    class Hanging(Remote):
        async def aauthorize(self, request: Any) -> AuthzDecision:
            reached.set()
            await asyncio.Event().wait()
            return ALLOW

    enforcer = Enforcer(Hanging(), default_role="guest", fail_closed=fail_closed, deadline=60)
    graph, _ = agent(enforcer, [payment(paid)], calls(call("pay", {"amount": 1})))
    context = {"user_id": "gina"}
    running = asyncio.create_task(run(graph, "ainvoke", context=context))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert paid == []
    assert pop_outcome(context, "call_1") == ()


async def test_signals_of_bodies_pass_through() -> None:
    """What a handler raises is not caught here, signals least of all."""

    class Custom(GraphBubbleUp):
        """A control-flow signal of somebody's own."""

    @tool
    def pay(amount: int) -> str:
        """Raise."""
        raise Custom

    @tool
    def boom(amount: int) -> str:
        """Raise."""
        raise ZeroDivisionError("mine")

    class Once(AgentMiddleware[Any, Any, Any]):
        """Sees what comes out of the guard."""

        seen: list[type] = []  # noqa: RUF012

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return await handler(request)
            except Exception as exc:
                self.seen.append(type(exc))
                raise

    enforcer = Enforcer(Remote(), default_role="guest")
    for name, raised in (("pay", Custom), ("boom", ZeroDivisionError)):
        graph, _ = agent(enforcer, [pay, boom], calls(call(name, {"amount": 1})), before=[Once()])
        with contextlib.suppress(Custom, ZeroDivisionError):
            await graph.ainvoke({"messages": [("user", "hi")]}, context=GINA)
        assert Once.seen.pop() is raised


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_an_unknown_obligation_is_a_denial(style: str) -> None:
    """An allow that obliges to something nobody here can do is no allow."""
    paid: list[Any] = []
    decision = AuthzDecision(True, obligations=(Obligation("redact_output"),))
    enforcer = Enforcer(Failing(lambda: decision, blocking=False), default_role="guest", fail_closed=False)
    graph, _ = agent(enforcer, [payment(paid)], calls(call("pay", {"amount": 1})))
    state = await run(graph, style, context=GINA)
    assert paid == []
    assert code(answers(state)["call_1"]) == "authz.unknown_obligation"


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_a_provider_without_rule_ids_asks_after_every_edit(style: str) -> None:
    """Where no rule is named, an edited call cannot be under the same one: it is asked about again."""
    paid: list[Any] = []
    decision = AuthzDecision(False, obligations=(Obligation("approval"),))
    enforcer = Enforcer(Failing(lambda: decision, blocking=False), default_role="guest")
    graph, _ = agent(enforcer, [payment(paid)], calls(call("pay", {"amount": 1})), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    await run(graph, style, context=GINA, config=config)
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 2}}}
    await run(graph, style, Command(resume=edit), context=GINA, config=config)
    assert paid == []
    assert graph.get_state(config).interrupts[0].value["args"] == {"amount": 2}
    await run(graph, style, Command(resume={"type": "approve"}), context=GINA, config=config)
    assert paid == [2]


async def test_denials_can_name_alternatives() -> None:
    """Alternatives that the provider names are told when the caller may use them, and only then."""
    paid: list[Any] = []

    @tool
    def invoice(amount: int) -> str:
        """Send an invoice."""
        return "sent"

    class Naming(Failing):
        def filter_resources(self, principal: Any, resource_type: str, candidates: list[str]) -> list[str]:
            return [name for name in candidates if name != "hidden"]

    decision = AuthzDecision(False, metadata={"alternatives": ["invoice", "hidden", "pay", "unknown", 7]})
    enforcer = Enforcer(Naming(lambda: decision, blocking=False), default_role="guest")
    hidden = payment(paid)
    hidden.name = "hidden"
    graph, _ = agent(enforcer, [payment(paid), invoice, hidden], calls(call("pay", {"amount": 1})))
    state = await run(graph, "ainvoke", context=GINA)
    message = answers(state)["call_1"]
    assert message.artifact["alternatives"] == ["invoice"]
    assert "'invoice'" in str(message.content)
    assert "hidden" not in str(message.content)
