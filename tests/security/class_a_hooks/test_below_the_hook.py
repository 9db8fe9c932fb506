"""Tools reached below, beside or without the hook that guards them."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import tool
from tests.support.agents import HELLO, STYLES, agent, answers, code, run
from tests.support.policies import allow, deny
from tests.support.scripted import call, calls, scripted
from tests.support.tampering import Hooking, Showing

from remit.authz.errors import TicketRefused
from remit.middlewares import guard

GUEST = {"user_id": "gina"}


def danger(ran: list[Any]) -> Any:
    @tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ran"

    return bash


def adanger(ran: list[Any]) -> Any:
    @tool
    async def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ran"

    return bash


class TestOutsideOfARun:
    """An armed tool called as an object."""

    def test_sync(self, policy: Any) -> None:
        ran: list[Any] = []
        bash = danger(ran)
        policy(allow("guest", "*")).enforcer.visible_tools([bash])
        for attempt in (
            lambda: bash.invoke({"command": "x"}),
            lambda: bash.run({"command": "x"}),
            lambda: bash.invoke(call("bash", {"command": "x"})),
            lambda: bash.batch([{"command": "x"}]),
            lambda: list(bash.stream({"command": "x"})),
            lambda: (bash | str).invoke({"command": "x"}),
            lambda: bash.with_retry(stop_after_attempt=1).invoke({"command": "x"}),
            lambda: copy.copy(bash).invoke({"command": "x"}),
            lambda: bash.model_copy(update={"name": "innocent"}).invoke({"command": "x"}),
            lambda: bash.bind().invoke({"command": "x"}),
        ):
            with pytest.raises(TicketRefused) as refused:
                attempt()
            assert refused.value.code == "authz.no_ticket"
        assert ran == []

    @pytest.mark.parametrize("make", [danger, adanger], ids=["sync-body", "async-body"])
    async def test_async(self, policy: Any, make: Any) -> None:
        ran: list[Any] = []
        bash = make(ran)
        world = await asyncio.to_thread(policy, allow("guest", "*"))
        world.enforcer.visible_tools([bash])
        for attempt in (
            lambda: bash.ainvoke({"command": "x"}),
            lambda: bash.arun({"command": "x"}),
            lambda: bash.abatch([{"command": "x"}]),
        ):
            with pytest.raises(TicketRefused):
                await attempt()
        assert ran == []

    def test_in_another_agent_without_a_guard(self, policy: Any) -> None:
        """A tool that an agent shares with a guarded one does not become a way around."""
        ran: list[Any] = []
        bash = danger(ran)
        policy(allow("guest", "*")).enforcer.visible_tools([bash])
        bare = create_agent(scripted(calls(call("bash", {"command": "x"}))), [bash])
        with pytest.raises(TicketRefused):
            bare.invoke(HELLO)
        assert ran == []


class TestActing:
    """The host's own way in: a scope in which every call is decided."""

    async def test_each_call_is_decided(self, policy: Any) -> None:
        ran: list[Any] = []
        bash = danger(ran)
        world = policy(allow("admin", "*"), deny("admin", "bash", "r.ctx.args.command == 'rm'"))
        world.enforcer.visible_tools([bash])

        with world.enforcer.acting({"user_role": "admin"}):
            assert bash.invoke({"command": "ls"}) == "ran"
            assert await bash.ainvoke({"command": "pwd"}) == "ran"
            with pytest.raises(TicketRefused) as refused:
                bash.invoke({"command": "rm"})
            assert refused.value.code == "authz.denied"
        with world.enforcer.acting({"user_role": "guest"}), pytest.raises(TicketRefused):
            bash.invoke({"command": "ls"})
        with pytest.raises(TicketRefused):
            bash.invoke({"command": "ls"})
        assert ran == ["ls", "pwd"]

    def test_malformed_identity_raises(self, policy: Any) -> None:
        world = policy(allow("guest", "*"))
        with pytest.raises(TypeError):
            world.enforcer.acting({"user_role": 0})

    async def test_work_that_outlives_the_scope_is_refused(self, policy: Any) -> None:
        ran: list[Any] = []
        bash = danger(ran)
        world = policy(allow("admin", "*"))
        world.enforcer.visible_tools([bash])
        left = asyncio.Event()

        async def later() -> Any:
            await left.wait()
            return await bash.ainvoke({"command": "late"})

        with world.enforcer.acting({"user_role": "admin"}):
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        left.set()
        with pytest.raises(TicketRefused, match="over"):
            await task
        assert ran == []


@pytest.mark.parametrize("style", STYLES)
class TestInsideOfARun:
    async def test_hidden_tool_is_called_anyway(self, style: str, policy: Any) -> None:
        """A model-call filter hides a tool; the model (or a restored history) calls it all the same."""
        ran: list[Any] = []
        world = policy(allow("guest", "search"))
        hide = Showing(lambda request: request.override(tools=[]))
        turn = calls(call("bash", {"command": "x"}))
        graph, _ = agent(world.enforcer, [danger(ran)], turn, others=[hide])
        state = await run(graph, style, context=GUEST)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.no_policy"

    async def test_raw_call_in_a_hook(self, style: str, policy: Any) -> None:
        """A middleware calls a tool object from a hook that no guard surrounds."""
        ran: list[Any] = []
        bash = danger(ran)
        world = policy(allow("guest", "*"))
        refusals: list[str] = []

        def act() -> None:
            try:
                bash.invoke({"command": "x"})
            except TicketRefused as refused:
                refusals.append(refused.code)

        graph, _ = agent(world.enforcer, [bash], others=[Hooking(act)])
        await run(graph, style, context=GUEST)
        assert (ran, refusals) == ([], ["authz.no_ticket"])

    @pytest.mark.parametrize("role", ["guest", "admin"])
    async def test_raw_call_inside_of_an_allowed_body(self, style: str, policy: Any, role: str) -> None:
        """An armed tool that another tool's body calls is decided, with its own name and arguments."""
        ran: list[Any] = []
        bash = danger(ran)

        @tool
        def helper(command: str) -> str:
            """Help."""
            return str(bash.invoke({"command": command}))

        world = policy(allow("guest", "helper"), allow("admin", "*"))
        graph, _ = agent(world.enforcer, [bash, helper], calls(call("helper", {"command": "x"})))
        state = await run(graph, style, context={"user_role": role})
        assert ran == (["x"] if role == "admin" else [])
        assert code(answers(state)["call_1"]) == ("authz.no_policy" if role == "guest" else None)

    async def test_unarmed_tool_inside_of_a_body(self, style: str, policy: Any) -> None:
        """A tool that nobody showed the guard does not start inside of a guarded call."""
        ran: list[Any] = []
        bash = danger(ran)

        @tool
        def helper(command: str) -> str:
            """Help."""
            return str(bash.invoke({"command": command}))

        world = policy(allow("guest", "*"))
        graph, _ = agent(world.enforcer, [helper], calls(call("helper", {"command": "x"})))
        state = await run(graph, style, context=GUEST)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.no_ticket"
        assert "bash" not in str(answers(state)["call_1"].content)

    async def test_hidden_tool_called_without_callbacks(self, style: str, policy: Any) -> None:
        """A registered tool is armed though the caller never saw it, and though callbacks are switched off."""
        ran: list[Any] = []
        bash = danger(ran)

        @tool
        def helper(command: str) -> str:
            """Help."""
            return str(bash.invoke({"command": command}, {"callbacks": []}))

        world = policy(allow("guest", "helper"))
        model = scripted(calls(call("helper", {"command": "x"})))
        graph = create_agent(model, [bash, helper], middleware=guard(world.enforcer))
        state = await run(graph, style, context=GUEST)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.no_policy"

    async def test_unguarded_agent_inside_of_a_body(self, style: str, policy: Any) -> None:
        """The tools of an agent that a tool's body builds do not run past the outer guard."""
        ran: list[Any] = []
        inner = create_agent(scripted(calls(call("bash", {"command": "x"}))), [danger(ran)])

        @tool
        def delegate(task: str) -> str:
            """Delegate."""
            return str(inner.invoke(HELLO)["messages"][-1].content)

        world = policy(allow("guest", "*"))
        graph, _ = agent(world.enforcer, [delegate], calls(call("delegate", {"task": "t"})))
        state = await run(graph, style, context=GUEST)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.no_ticket"

    async def test_guarded_agent_inside_of_a_body(self, style: str, policy: Any) -> None:
        """A nested agent with a guard of its own decides for itself, for the same caller."""
        ran: list[Any] = []
        world = policy(
            allow("guest", "delegate"), allow("guest", "bash"), deny("guest", "bash", "r.ctx.args.command == 'rm'")
        )
        turn = calls(call("bash", {"command": "ls"}, "1"), call("bash", {"command": "rm"}, "2"))
        inner, _ = agent(world.enforcer, [danger(ran)], turn)
        nested: list[Any] = []

        @tool
        def delegate(task: str) -> str:
            """Delegate."""
            nested.append(inner.invoke(HELLO, context=GUEST))
            return "delegated"

        graph, _ = agent(world.enforcer, [delegate], calls(call("delegate", {"task": "t"})))
        state = await run(graph, style, context=GUEST)
        assert ran == ["ls"]
        assert answers(state)["call_1"].content == "delegated"
        assert code(answers(nested[0])["2"]) == "authz.denied"

    async def test_a_thread_without_the_context(self, style: str, policy: Any) -> None:
        """An inner middleware hands the call to a bare thread: the decision does not reach it, the tool refuses."""
        ran: list[Any] = []

        class Threaded(AgentMiddleware[Any, Any, Any]):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                box: list[Any] = []

                def work() -> None:
                    try:
                        box.append(handler(request))
                    except BaseException as exc:
                        box.append(exc)

                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
                if isinstance(box[0], BaseException):
                    raise box[0]
                return box[0]

            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                import contextvars

                return await asyncio.create_task(handler(request), context=contextvars.Context())

        world = policy(allow("guest", "*"))
        graph, _ = agent(world.enforcer, [danger(ran)], calls(call("bash", {"command": "x"})), others=[Threaded()])
        state = await run(graph, style, context=GUEST)
        assert ran == []
        assert code(answers(state)["call_1"]) == "authz.no_ticket"
