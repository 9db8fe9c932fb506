"""What guard and ticket add to one tool call, against the plain `tool.invoke` of an unguarded twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks import subjects
from benchmarks.measure import Row, paired
from benchmarks.worlds import world

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

ARGUMENTS = {"to": "alice", "amount": "80", "currency": "EUR"}
"""``"80"`` is coerced to 80 on the way, as happens with what models write."""


def rows(seconds: float) -> Iterator[Row]:
    from langchain_core.messages import ToolMessage

    from remit.authz.enforcer import Enforcer
    from remit.middlewares import guard

    base = world("10k")
    query = base.allowed[0]
    role = base.users[query.user]
    enforcer = Enforcer(subjects.provider(base), default_role=role)
    plain, guarded = _tool(query.tool), _tool(query.tool)
    (around,) = guard(enforcer)
    enforcer.visible_tools([guarded])
    context = {"user_id": query.user, "user_role": role}
    bare_request, request = _request(plain, context), _request(guarded, context)

    def body(asked: ToolCallRequest) -> Any:
        tool: Any = asked.tool
        return tool.invoke({**asked.tool_call, "type": "tool_call"}, asked.runtime.config)

    answer = around.wrap_tool_call(request, body)
    if not isinstance(answer, ToolMessage) or answer.content != "paid 80":
        raise AssertionError(f"the guarded call did not run: {answer}")
    result = paired(_run(around.wrap_tool_call, request, body), _run(_direct, bare_request, body), seconds=seconds)
    yield Row(
        group="agent",
        name="guard and ticket around one tool call, against tool.invoke",
        value=result.ratio,
        bound=1.35,
        us=result.us,
        note=f"tool.invoke {result.base_us:.0f} us",
    )


def _tool(name: str) -> Any:
    from langchain_core.tools import StructuredTool

    def pay(to: str, amount: int, currency: str) -> str:
        """Pay somebody."""
        return f"paid {amount}"

    return StructuredTool.from_function(pay, name=name)


def _request(tool: Any, context: dict[str, Any]) -> ToolCallRequest:
    """A call on its way, as the tool node of a graph hands it to a middleware."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.messages.tool import tool_call
    from langgraph.prebuilt import ToolRuntime
    from langgraph.prebuilt.tool_node import ToolCallRequest

    call = tool_call(name=tool.name, args=dict(ARGUMENTS), id="call-1")
    state = {"messages": [HumanMessage("pay alice"), AIMessage("", tool_calls=[call])]}
    runtime: Any = ToolRuntime(
        state=state,
        context=context,
        config={"configurable": {}, "callbacks": None},
        stream_writer=lambda _: None,
        tool_call_id="call-1",
        store=None,
        tools=[tool],
    )
    return ToolCallRequest(tool_call=call, tool=tool, state=state, runtime=runtime)


def _direct(request: ToolCallRequest, body: Callable[[ToolCallRequest], Any]) -> Any:
    return body(request)


def _run(how: Callable[..., Any], request: ToolCallRequest, body: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: how(request, body)
