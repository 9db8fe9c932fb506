"""Authorization and an explicit guardrail in one agent: neither can be shown something else than the other."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import allow, deny
from tests.support.scripted import call, calls, scripted
from tests.support.tampering import Rewriting, with_args

from remit.authz import pop_outcome
from remit.authz.errors import TicketRefused
from remit.authz.provider import GuardrailDecision, GuardrailReason, GuardrailRequest
from remit.authz.types import Obligation
from remit.middlewares import GuardrailMiddleware, guard

GINA = {"user_id": "gina"}
pytestmark = pytest.mark.parametrize("style", STYLES)


class Amounts:
    """An explicit guardrail that refuses large amounts and notes down what it was asked."""

    name = "amounts"
    blocking = False

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.asked: list[tuple[str, Any]] = []

    def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        self.asked.append((request.tool_name, dict(request.tool_input)))
        allow = request.tool_input.get("amount", 0) <= self.limit
        return GuardrailDecision(allow, (GuardrailReason("amounts.fine" if allow else "amounts.large"),))

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return self.evaluate(request)


def tools(ran: list[Any]) -> list[Any]:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    @tool
    def helper(amount: int) -> str:
        """Pay through another tool."""
        return str(pay.invoke({"amount": amount}))

    return [pay, helper]


async def test_each_denies_what_it_denies(style: str, policy: Any) -> None:
    """A call that the policy denies never reaches the guardrail; one that it allows still needs the guardrail."""
    ran: list[Any] = []
    amounts = Amounts()
    world = policy(allow("guest", "pay"), deny("guest", "pay", "r.ctx.args.amount == 13"))
    turn = calls(*(call("pay", {"amount": n}, f"c{n}") for n in (1, 13, 500)))
    graph, _ = agent(world.enforcer, tools(ran), turn, others=[GuardrailMiddleware(amounts)])
    context = {"user_id": "gina"}
    state = await run(graph, style, context=context)
    assert ran == [1]
    assert sorted(args["amount"] for _, args in amounts.asked) == [1, 500]
    assert {id: code(m) for id, m in answers(state).items()} == {
        "c1": None,
        "c13": "authz.denied",
        "c500": "amounts.large",
    }
    assert [(o.guard, o.decision) for o in pop_outcome(context, "c1")] == [
        ("guardrail.authz", "allowed"),
        ("guardrail.amounts", "allowed"),
    ]
    assert [(o.guard, o.decision) for o in pop_outcome(context, "c500")] == [
        ("guardrail.authz", "allowed"),
        ("guardrail.amounts", "denied"),
    ]
    assert [(o.guard, o.decision) for o in pop_outcome(context, "c13")] == [("guardrail.authz", "denied")]


async def test_shown_one_thing_to_each(style: str, policy: Any) -> None:
    """Between the guards the call is changed and inside changed back: nobody has allowed what would run."""
    ran: list[Any] = []
    amounts = Amounts()
    world = policy(allow("guest", "pay"))
    others = [
        Rewriting(with_args(amount=1), "between"),
        GuardrailMiddleware(amounts),
        Rewriting(with_args(amount=500), "inside"),
    ]
    graph, _ = agent(world.enforcer, tools(ran), calls(call("pay", {"amount": 500})), others=others)
    state = await run(graph, style, context=GINA)
    assert ran == []
    assert code(answers(state)["call_1"]) == "amounts.large"


async def test_a_guardrail_that_the_guard_was_not_told_of(style: str, policy: Any) -> None:
    """Listed beside `guard` instead of being passed to it, it joins when the call reaches it."""
    ran: list[Any] = []
    world = policy(allow("guest", "pay"))
    middleware = [*guard(world.enforcer), GuardrailMiddleware(Amounts()), Rewriting(with_args(amount=500))]
    graph = create_agent(scripted(calls(call("pay", {"amount": 1}))), tools(ran), middleware=middleware)
    state = await run(graph, style, context=GINA)
    assert ran == []
    assert code(answers(state)["call_1"]) == "amounts.large"


async def test_a_guardrail_that_is_jumped_over(style: str, policy: Any) -> None:
    """A middleware between the guards calls the tool itself: the body asks the guardrail that was left out."""
    ran: list[Any] = []
    amounts = Amounts()

    class Shortcut(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return request.tool.invoke(request.tool_call)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await request.tool.ainvoke(request.tool_call)

    world = policy(allow("guest", "pay"))
    others = [Shortcut(), GuardrailMiddleware(amounts)]
    turn = calls(call("pay", {"amount": 500}, "a"), call("pay", {"amount": 5}, "b"))
    graph, _ = agent(world.enforcer, tools(ran), turn, others=others)
    state = await run(graph, style, context=GINA)
    assert ran == [5]
    assert code(answers(state)["a"]) == "amounts.large"


async def test_a_call_inside_of_a_body_passes_both(style: str, policy: Any) -> None:
    ran: list[Any] = []
    amounts = Amounts()
    world = policy(allow("guest", "helper"), allow("admin", "*"))
    turn = calls(call("helper", {"amount": 500}, "a"), call("helper", {"amount": 5}, "b"))
    amounts.limit = 1000
    graph, model = agent(world.enforcer, tools(ran), turn, others=[GuardrailMiddleware(amounts)])
    state = await run(graph, style, context={"user_role": "guest"})
    assert ran == []
    assert {code(m) for m in answers(state).values()} == {"authz.no_policy"}
    model.restart()
    amounts.asked.clear()
    await run(graph, style, context={"user_role": "admin"})
    assert sorted(ran) == [5, 500]
    assert ("pay", {"amount": 500}) in amounts.asked


async def test_a_guardrail_alone_binds_its_answer(style: str, policy: Any) -> None:
    """Without authorization too, what runs is what the guardrail was asked about; outside the tools run as ever."""
    ran: list[Any] = []
    pay, helper = tools(ran)
    guardrail = GuardrailMiddleware(Amounts())
    model = scripted(calls(call("pay", {"amount": 1}, "a")))
    graph = create_agent(model, [pay, helper], middleware=[guardrail, Rewriting(with_args(amount=500))])
    state = await run(graph, style, context=GINA)
    assert ran == []
    assert code(answers(state)["a"]) == "amounts.large"
    assert pay.invoke({"amount": 7}) == "paid"
    model.restart(calls(call("helper", {"amount": 500}, "a")))
    state = await run(create_agent(model, [pay, helper], middleware=[guardrail]), style, context=GINA)
    assert ran == [7]
    assert code(answers(state)["a"]) == "amounts.large"


async def test_a_guardrail_alone_is_no_authorization(style: str, policy: Any) -> None:
    """A tool that another agent has put under the policy does not run on the word of a guardrail."""
    ran: list[Any] = []
    pay, _ = tools(ran)
    policy(allow("guest", "*")).enforcer.visible_tools([pay])
    graph = create_agent(
        scripted(calls(call("pay", {"amount": 1}, "a"))), [pay], middleware=[GuardrailMiddleware(Amounts())]
    )
    state = await run(graph, style, context=GINA)
    assert ran == []
    assert code(answers(state)["a"]) == "authz.no_ticket"
    with pytest.raises(TicketRefused):
        pay.invoke({"amount": 1})


async def test_a_guardrail_inside_of_a_guarded_tool_adds_to_it(style: str, policy: Any) -> None:
    """A nested agent with an explicit guardrail only: the policy of the outer call stays in force for its tools."""
    ran: list[Any] = []
    pay, _ = tools(ran)
    world = policy(allow("guest", "delegate"), allow("admin", "*"))
    world.enforcer.visible_tools([pay])
    inner_model = scripted(calls(call("pay", {"amount": 1}, "x"), call("pay", {"amount": 500}, "y")))
    inner = create_agent(inner_model, [pay], middleware=[GuardrailMiddleware(Amounts())])
    nested: list[Any] = []

    @tool
    def delegate(task: str) -> str:
        """Delegate."""
        inner_model.restart()
        nested.append(inner.invoke({"messages": [("user", task)]}, context=GINA))
        return "ok"

    graph, model = agent(world.enforcer, [delegate], calls(call("delegate", {"task": "t"})))
    await run(graph, style, context={"user_role": "guest"})
    assert ran == []
    assert {code(m) for m in answers(nested[-1]).values()} == {"authz.no_policy", "amounts.large"}
    model.restart()
    await run(graph, style, context={"user_role": "admin"})
    assert ran == [1]


async def test_an_explicit_guardrail_cannot_ask(style: str, policy: Any) -> None:
    """An answer that asks for approval is a denial there."""
    ran: list[Any] = []

    class Asking(Amounts):
        def evaluate(self, request: GuardrailRequest) -> GuardrailDecision:
            return GuardrailDecision(False, obligations=(Obligation("approval"),))

    world = policy(allow("guest", "pay"))
    others = [GuardrailMiddleware(Asking())]
    graph, _ = agent(world.enforcer, tools(ran), calls(call("pay", {"amount": 1})), others=others)
    state = await run(graph, style, context=GINA)
    assert ran == []
    assert code(answers(state)["call_1"]) == "authz.ask_unanswerable"
