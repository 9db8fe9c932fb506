"""Which arguments of a tool call the model supplied, and what they will be once the tool has coerced them.

Conditions and tickets are about the arguments as the tool receives them, without what the runtime injects.
LangChain and LangGraph are imported when a tool is first looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from remit.authz.gates.coercion import Coerced, short_cut
from remit.authz.tickets import Foreseen

_CACHE: Final = "_remit_arguments"


def own(value: Any) -> Any:
    """`value` with lists and dicts copied all the way down, so that nobody else holds what was decided about."""
    kind = type(value)
    if kind is dict:
        return {key: own(item) for key, item in value.items()}
    if kind is list:
        return [own(item) for item in value]
    return value


class _Reckoning:
    """What was found out about one tool."""

    __slots__ = ("body", "coroutine", "injected", "names", "schema", "short_cut")

    def __init__(self, tool: Any, kind: type, schema: Any, body: Any, coroutine: Any) -> None:
        from langgraph.prebuilt.tool_node import _get_all_injected_args

        self.schema, self.body, self.coroutine = schema, body, coroutine
        found = self.injected = _get_all_injected_args(tool)
        self.names = frozenset(
            name
            for name in (*found.all_injected_keys, *found.state, found.store, found.runtime, *tool._injected_args_keys)
            if name
        )
        self.short_cut = short_cut(tool, kind, self.names)


def reckon(tool: Any, kind: type) -> _Reckoning:
    """How the tool node injects into `tool` and how its arguments are coerced. Remembered on the tool.

    A copy of the tool with another schema or body is looked at anew.

    Args:
        tool: The tool object.
        kind: Its class before it was armed.
    """
    fields = tool.__dict__
    schema, body, coroutine = fields.get("args_schema"), fields.get("func"), fields.get("coroutine")
    held: _Reckoning | None = fields.get(_CACHE)
    if held is None or held.schema is not schema or held.body is not body or held.coroutine is not coroutine:
        held = fields[_CACHE] = _Reckoning(tool, kind, schema, body, coroutine)
    return held


def taken(hidden: frozenset[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coerced:
    """`args` and `kwargs` for a body, with containers copied; what is injected (`hidden`) is passed as it is."""
    return (
        tuple(map(own, args)),
        {name: value if name in hidden else own(value) for name, value in kwargs.items()},
    )


def visible(tool: Any, hidden: frozenset[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What the caller supplied of a body's arguments, by the names that the model sees: everything not in `hidden`."""
    shown = {name: value for name, value in kwargs.items() if name not in hidden} if hidden else dict(kwargs)
    if args:
        names = [name for name in _parameters(tool) if name not in hidden and name not in shown]
        for number, value in enumerate(args):
            shown[names[number] if number < len(names) else f"__arg{number + 1}"] = value
    return shown


def _parameters(tool: Any) -> list[str]:
    """Names of a tool's parameters in order; empty for a single-input tool without schema (``__arg1`` to the model)."""
    from langchain_core.tools import Tool

    if tool.args_schema is None and isinstance(tool, Tool):
        return []
    try:
        return list(tool.args)
    except Exception:  # a schema that cannot be printed still gets positional names
        return []


def foresee(tool: Any, kind: Any, sent: dict[str, Any], call_id: str | None, runtime: Any) -> Foreseen | None:
    """What the body of `tool` will receive for the arguments `sent`; None when the tool will refuse them.

    Args:
        tool: The tool object.
        kind: Its class before it was armed, whose coercion is used.
        sent: The arguments of the call.
        call_id: Its id.
        runtime: The `ToolRuntime` of the call, for the values that the tool node injects.
    """
    reckoning = reckon(tool, kind)
    whole = own(sent)
    if reckoning.names:
        whole = _with_injected(reckoning.injected, whole, runtime)
    before = dict(whole)  # coercion may add to its input
    quick = reckoning.short_cut
    try:
        if quick is not None and quick.proved:
            return Foreseen(before, quick.coerce(whole))
        coerced = kind._to_args_and_kwargs(tool, whole, call_id)
    except Exception:  # whatever validation raises: the tool raises it again, for its own error handling
        return None
    if quick is not None:
        quick.proved = quick.agrees(own(sent), coerced)
        if not quick.proved:
            reckoning.short_cut = None
    return Foreseen(before, coerced)


def _with_injected(found: Any, sent: dict[str, Any], runtime: Any) -> dict[str, Any]:
    """`sent` as the tool node will complete it: forged values dropped, state, store and runtime filled in."""
    state = runtime.state
    if isinstance(state, list):
        state = {"messages": state}
    whole = {name: value for name, value in sent.items() if name not in found.all_injected_keys}
    for name, channel in found.state.items():
        if not channel:
            whole[name] = state
        elif isinstance(state, Mapping):
            if channel in state:
                whole[name] = state[channel]
        elif hasattr(state, channel):
            whole[name] = getattr(state, channel)
    if found.store:
        whole[found.store] = runtime.store
    if found.runtime:
        whole[found.runtime] = runtime
    return whole
