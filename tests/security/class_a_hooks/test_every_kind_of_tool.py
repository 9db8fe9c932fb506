"""Every kind of tool: armed and allowed it behaves as before; without a decision its body does not run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.store.memory import InMemoryStore
from tests.support.agents import agent, answers, code, run
from tests.support.kinds import KINDS, Kind
from tests.support.policies import allow, deny
from tests.support.scripted import call, calls, scripted
from tests.support.tampering import Rewriting

from remit.authz.errors import TicketRefused
from remit.authz.gates.arming import arm, disarm, is_armed

GINA = {"user_id": "gina"}
# LangChain itself serialises the injected runtime when it checks arguments, with any context but None
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def _style(kind: Kind, style: str) -> str:
    return "ainvoke" if kind.only_async else style


def _told(message: BaseMessage) -> tuple[Any, ...]:
    return (
        message.type,
        message.name,
        message.content,
        getattr(message, "status", None),
        getattr(message, "artifact", None),
    )


@each_kind
@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_armed_and_allowed_behaves_as_before(kind: Kind, style: str, policy: Any) -> None:
    """The same messages, artifacts, errors, schema and bodies as without the guard."""
    style = _style(kind, style)
    plain_ran: list[Any] = []
    ran: list[Any] = []
    turn = calls(call("subject", kind.args))
    bare_model = scripted(turn)
    bare = create_agent(bare_model, [kind.make(plain_ran)], store=InMemoryStore())
    expected = await run(bare, style, context=GINA)

    subject = kind.make(ran)
    schema = convert_to_openai_tool(subject)
    world = policy(allow("guest", "subject"))
    graph, model = agent(world.enforcer, [subject], turn, store=InMemoryStore())
    state = await run(graph, style, context=GINA)

    assert list(map(_told, state["messages"])) == list(map(_told, expected["messages"]))
    assert ran == plain_ran == kind.ran
    assert model.bound == bare_model.bound
    assert convert_to_openai_tool(subject) == schema


@each_kind
@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_decided_once(kind: Kind, style: str, policy: Any) -> None:
    """The ticket fits: the arguments that the guard foresaw are those that the body received."""
    asked: list[str] = []
    world = policy(allow("guest", "subject"))
    authorize = world.provider.authorize
    world.provider.authorize = lambda request: (asked.append(request.target), authorize(request))[1]
    graph, _ = agent(world.enforcer, [kind.make([])], calls(call("subject", kind.args)), store=InMemoryStore())
    await run(graph, _style(kind, style), context=GINA)
    assert asked == ["subject"]


@each_kind
async def test_refused_without_a_ticket(kind: Kind) -> None:
    """Called as an object, sync and async, with a call of a model or bare arguments."""
    ran: list[Any] = []
    subject = kind.make(ran)
    arm([subject])
    assert is_armed(subject)
    for attempt in (
        lambda: asyncio.to_thread(subject.invoke, call("subject", kind.args)),
        lambda: asyncio.to_thread(subject.run, dict(kind.args)),
        lambda: subject.ainvoke(call("subject", kind.args)),
        lambda: subject.arun(dict(kind.args)),
    ):
        with pytest.raises(TicketRefused):
            await attempt()
    assert [step for step in ran if isinstance(step, tuple)] == []


@each_kind
@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_denied(kind: Kind, style: str, policy: Any) -> None:
    """A denied call of any kind of tool is answered by a denial."""
    ran: list[Any] = []
    world = policy(deny("guest", "subject"), allow("guest", "*"))
    graph, _ = agent(world.enforcer, [kind.make(ran)], calls(call("subject", kind.args)), store=InMemoryStore())
    state = await run(graph, _style(kind, style), context=GINA)
    assert ran == []
    assert code(answers(state)["call_1"]) == "authz.denied"


@each_kind
@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_swapped_in_below_the_guard(kind: Kind, style: str, policy: Any) -> None:
    """Any kind of tool, put in the place of an allowed one, is decided by its own name."""
    ran: list[Any] = []
    subject = kind.make(ran)

    def swap(request: Any) -> Any:
        renamed = {**request.tool_call, "name": "subject", "args": dict(kind.args)}
        return request.override(tool=subject, tool_call=renamed)

    world = policy(allow("guest", "decoy"))
    decoy = KINDS["no_arguments"].make([])
    decoy.name = "decoy"
    graph, _ = agent(world.enforcer, [decoy], calls(call("decoy")), others=[Rewriting(swap)], store=InMemoryStore())
    state = await run(graph, _style(kind, style), context=GINA)
    assert [step for step in ran if isinstance(step, tuple)] == []
    assert answers(state)["call_1"].status == "error"


@each_kind
async def test_disarmed_it_is_what_it_was(kind: Kind) -> None:
    """Arming can be taken back, and leaves nothing behind."""
    subject = kind.make([])
    before = (type(subject), repr(subject).partition("func=")[0], subject.name)
    arm([subject])
    assert type(subject) is not before[0]
    assert isinstance(subject, before[0])
    assert type(subject).__name__ == before[0].__name__
    arm([subject])
    disarm([subject])
    assert (type(subject), repr(subject).partition("func=")[0], subject.name) == before
