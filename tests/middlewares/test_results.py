"""Mapping over the shapes of a tool result, and what denials look like."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command

from remit.middlewares.results import denial, escaped, lists_tools, map_messages, safe_code
from remit.middlewares.shells import run_now, settled


def message(id: str = "a", content: Any = "x") -> ToolMessage:
    return ToolMessage(content, tool_call_id=id)


def shout(one: ToolMessage) -> ToolMessage:
    return one.model_copy(update={"content": str(one.content).upper()})


def contents(result: Any) -> Any:
    """`result` with every message replaced by its content."""
    if isinstance(result, (ToolMessage, HumanMessage)):
        return result.content
    if isinstance(result, Command):
        return ("command", contents(result.update))
    if isinstance(result, dict):
        return {key: contents(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return type(result)(contents(item) for item in result)
    return result


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (message(), "X"),
        (message("b"), "x"),
        (Command(update={"messages": [message(), message("b")]}), ("command", {"messages": ["X", "x"]})),
        (Command(update={"messages": (message(),)}), ("command", {"messages": ("X",)})),
        (Command(update={"messages": message(), "n": 1}), ("command", {"messages": "X", "n": 1})),
        (Command(update={"n": 1}), ("command", {"n": 1})),
        (Command(update=[message(), HumanMessage("h")]), ("command", ["X", "h"])),
        (Command(update=[("messages", [message()]), ("n", 1)]), ("command", [("messages", ["X"]), ("n", 1)])),
        (Command(update=None), ("command", None)),
        (Command(update=message()), ("command", "X")),
        ([message(), Command(update={"messages": [message()]})], ["X", ("command", {"messages": ["X"]})]),
        ((message(),), ("X",)),
        ([], []),
        ("text", "text"),
        (None, None),
        ({"free": 1}, {"free": 1}),
    ],
)
def test_every_shape(result: Any, expected: Any) -> None:
    before = contents(result)
    assert contents(map_messages(result, shout, call_id="a")) == expected
    assert contents(result) == before


def test_untouched_results_are_the_same_object() -> None:
    for result in (message("b"), Command(update={"messages": [message("b")]}), [message("b")]):
        assert map_messages(result, shout, call_id="a") is result


def test_command_keeps_everything_else() -> None:
    command = Command(goto="next", graph=Command.PARENT, update={"messages": [message()]})
    mapped = map_messages(command, shout, call_id="a")
    assert (mapped.goto, mapped.graph) == ("next", Command.PARENT)


@pytest.mark.parametrize(
    ("scope", "code", "expected"),
    [
        ("tool", "authz.denied", "may not be used here"),
        ("invocation", "authz.denied", "this call of 'bash' is not permitted"),
        ("invocation", "authz.timeout", "could not be decided"),
    ],
)
def test_a_denial_says_what_to_do(scope: Any, code: str, expected: str) -> None:
    made = denial("bash", "c", code, scope=scope)
    assert (made.status, made.name, made.tool_call_id) == ("error", "bash", "c")
    assert str(made.content).startswith("Guardrail denied: ")
    assert expected in str(made.content)
    assert made.artifact == {"code": code, "message": made.content, "scope": scope, "alternatives": []}


def test_a_denial_of_a_call_without_id_or_name() -> None:
    made = denial("", None, "authz.malformed_call", scope="invocation")
    assert (made.tool_call_id, made.name) == ("missing_id", "unnamed")


@pytest.mark.parametrize("code", ["x" * 65, "authz denied", "a\nb", 7, None, ""])
def test_what_is_no_code_is_not_shown(code: Any) -> None:
    assert safe_code(code) == "authz.denied"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", "plain text"),
        ("a\nb", "a\\u000ab"),
        ("\u202egnp", "\\u202egnp"),
        ("\U000e0041", "\\U000e0041"),
        ("caf\u00e9 \u4f60", "caf\u00e9 \u4f60"),
        ("\u3164", "\\u3164"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_the_list_of_tools_is_recognised() -> None:
    from langgraph.prebuilt.tool_node import INVALID_TOOL_NAME_ERROR_TEMPLATE

    content = INVALID_TOOL_NAME_ERROR_TEMPLATE.format(requested_tool="x", available_tools="a, b")
    assert lists_tools(ToolMessage(content, tool_call_id="a", status="error"))
    assert not lists_tools(ToolMessage(content, tool_call_id="a"))


class TestShells:
    def test_a_core_runs_through(self) -> None:
        async def core() -> int:
            return await settled(1) + await settled(2)

        assert run_now(core()) == 3

    def test_a_core_that_waits_is_an_error(self) -> None:
        import asyncio

        async def core() -> None:
            await asyncio.sleep(0)

        with pytest.raises(RuntimeError, match="asynchronous"):
            run_now(core())

    def test_exceptions_keep_their_type(self) -> None:
        async def core() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            run_now(core())

    async def test_awaitables_are_awaited(self) -> None:
        async def answer() -> int:
            return 7

        assert await settled(answer()) == 7
