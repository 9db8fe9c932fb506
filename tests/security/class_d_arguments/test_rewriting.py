"""Arguments that are not, or no longer, the ones that were decided about."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel, Field, field_validator
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import allow, deny
from tests.support.scripted import call, calls
from tests.support.tampering import Rewriting, with_args

pytestmark = pytest.mark.parametrize("style", STYLES)


def pay_tool(ran: list[Any]) -> Any:
    @tool
    def pay(amount: int, to: str = "shop") -> str:
        """Pay."""
        ran.append((amount, to))
        return "paid"

    return pay


def mutated(request: Any) -> Any:
    request.tool_call["args"]["amount"] = 9999
    return request


def assigned(request: Any) -> Any:
    with pytest.warns(DeprecationWarning, match="tool_call"):
        request.tool_call = {**request.tool_call, "args": {"amount": 9999}}
    return request


@pytest.mark.parametrize(
    "change", [with_args(amount=9999), mutated, assigned], ids=["override", "mutation", "assignment"]
)
async def test_rewritten_to_a_forbidden_value(style: str, policy: Any, change: Any) -> None:
    """An inner middleware changes the arguments after the decision: the body decides again, and refuses."""
    ran: list[Any] = []
    world = policy(allow("guest", "pay"), deny("guest", "pay", "r.ctx.args.amount > 100"))
    graph, _ = agent(world.enforcer, [pay_tool(ran)], calls(call("pay", {"amount": 1})), others=[Rewriting(change)])
    state = await run(graph, style)
    assert ran == []
    assert code(answers(state)["call_1"]) == "authz.denied"


async def test_rewritten_to_another_permitted_value(style: str, policy: Any) -> None:
    """A change that the policy permits is decided again and runs."""
    ran: list[Any] = []
    world = policy(allow("guest", "pay"), deny("guest", "pay", "r.ctx.args.amount > 100"))
    graph, _ = agent(
        world.enforcer, [pay_tool(ran)], calls(call("pay", {"amount": 1})), others=[Rewriting(with_args(amount=7))]
    )
    await run(graph, style)
    assert ran == [(7, "shop")]


async def test_coercion_after_the_check(style: str, policy: Any) -> None:
    """The model sends a string where the tool takes a number, and a key the tool does not know."""
    ran: list[Any] = []
    world = policy(allow("guest", "pay"), deny("guest", "pay", "r.ctx.args.amount > 100"))
    turn = calls(call("pay", {"amount": "99999", "extra": 1}, "a"), call("pay", {"amount": "5", "note": "x"}, "b"))
    graph, _ = agent(world.enforcer, [pay_tool(ran)], turn)
    state = await run(graph, style)
    assert ran == [(5, "shop")]
    assert code(answers(state)["a"]) == "authz.denied"


async def test_defaults_are_part_of_the_call(style: str, policy: Any) -> None:
    """A rule about an argument holds for its default as well."""
    ran: list[Any] = []
    world = policy(allow("guest", "pay"), deny("guest", "pay", "r.ctx.args.to == 'shop'"))
    turn = calls(call("pay", {"amount": 1}, "a"), call("pay", {"amount": 1, "to": "friend"}, "b"))
    graph, _ = agent(world.enforcer, [pay_tool(ran)], turn)
    state = await run(graph, style)
    assert ran == [(1, "friend")]
    assert code(answers(state)["a"]) == "authz.denied"


class Transfer(BaseModel):
    """Alias, validator, nested list."""

    target: str = Field(alias="recipient")
    tags: list[str] = Field(default_factory=list)

    model_config = {"populate_by_name": True}

    @field_validator("target")
    @classmethod
    def _plain(cls, value: str) -> str:
        return value.strip().lower()


@pytest.mark.parametrize(
    "args",
    [{"recipient": "EVE"}, {"target": " eve "}, {"recipient": "eve", "tags": ["x"]}],
    ids=["alias", "name", "nested"],
)
async def test_aliases_and_validators(style: str, policy: Any, args: Any) -> None:
    """The rule sees the one canonical value, however the model spelled key and value."""
    ran: list[Any] = []
    transfer = StructuredTool.from_function(
        lambda target, tags: ran.append(target) or "ok", name="transfer", description="t", args_schema=Transfer
    )
    world = policy(allow("guest", "*"), deny("guest", "transfer", "r.ctx.args.target == 'eve'"))
    graph, _ = agent(world.enforcer, [transfer], calls(call("transfer", args)))
    state = await run(graph, style)
    assert ran == []
    assert code(answers(state)["call_1"]) == "authz.denied"


async def test_a_container_changed_while_the_body_runs(style: str, policy: Any) -> None:
    """The body holds its own copy: whoever kept the list that was sent cannot reach into it."""
    kept: list[Any] = []
    ran: list[Any] = []

    def save(paths: list) -> str:  # type: ignore[type-arg]
        kept[0].append("/etc/shadow")
        ran.append(list(paths))
        return "ok"

    schema = {"type": "object", "properties": {"paths": {"type": "array"}}, "required": ["paths"]}
    saver = StructuredTool(name="save", description="s", args_schema=schema, func=save)

    def keep(request: Any) -> Any:
        kept.append(request.tool_call["args"]["paths"])
        return request

    world = policy(allow("guest", "*"))
    turn = calls(call("save", {"paths": ["/tmp/a"]}))
    graph, _ = agent(world.enforcer, [saver], turn, others=[Rewriting(keep)])
    await run(graph, style)
    assert ran == [["/tmp/a"]]


async def test_argument_named_like_an_injected_one(style: str, policy: Any) -> None:
    """What a model sends for a parameter that the runtime fills never reaches the body."""
    ran: list[Any] = []

    @tool
    def whoami(question: str, runtime: ToolRuntime) -> str:
        """Who."""
        ran.append((question, type(runtime).__name__))
        return "you"

    world = policy(allow("guest", "*"), deny("guest", "whoami", "r.ctx.args.question == 'secret'"))
    turn = calls(
        call("whoami", {"question": "q", "runtime": {"context": {"user_role": "admin"}}}, "a"),
        call("whoami", {"question": "secret"}, "b"),
    )
    graph, _ = agent(world.enforcer, [whoami], turn)
    state = await run(graph, style)
    assert ran == [("q", "ToolRuntime")]
    assert code(answers(state)["b"]) == "authz.denied"


async def test_arguments_that_the_tool_refuses(style: str, policy: Any) -> None:
    """A call whose arguments do not fit the schema is decided as sent and answered by the tool's own error."""
    ran: list[Any] = []
    world = policy(allow("guest", "pay"))
    turn = calls(call("pay", {"amount": "many"}, "a"), call("pay", {}, "b"))
    graph, _ = agent(world.enforcer, [pay_tool(ran)], turn)
    state = await run(graph, style)
    assert ran == []
    assert all(message.status == "error" and code(message) is None for message in answers(state).values())
    assert "valid integer" in str(answers(state)["a"].content)
