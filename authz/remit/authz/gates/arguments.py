"""Which arguments of a tool call the model supplied, and what they will be once the tool has coerced them.

Conditions and tickets are about the arguments as the tool receives them, without what the runtime injects.
LangChain and LangGraph are imported when a tool is first looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from remit.authz.tickets import Foreseen

_CACHE: Final = "_remit_injection"


def own(value: Any) -> Any:
    """`value` with lists and dicts copied all the way down, so that nobody else holds what was decided about."""
    kind = type(value)
    if kind is dict:
        return {key: own(item) for key, item in value.items()}
    if kind is list:
        return [own(item) for item in value]
    return value


def _injection(tool: Any) -> tuple[Any, frozenset[str]]:
    """How the tool node injects into `tool`, and the names of all its injected parameters. Remembered on the tool.

    The key is what the answer depends on: a copy of the tool with another schema or body is looked at anew.
    """
    fields = tool.__dict__
    key = (fields.get("args_schema"), fields.get("func"), fields.get("coroutine"))
    held = fields.get(_CACHE)
    if held is not None and all(a is b for a, b in zip(held[0], key, strict=True)):
        return held[1], held[2]
    from langgraph.prebuilt.tool_node import _get_all_injected_args

    found = _get_all_injected_args(tool)
    names = frozenset(
        name
        for name in (*found.all_injected_keys, *found.state, found.store, found.runtime, *tool._injected_args_keys)
        if name
    )
    fields[_CACHE] = (key, found, names)
    return found, names


def injected_names(tool: Any) -> frozenset[str]:
    """Parameters of `tool` that the runtime fills; what a model sends for them is dropped by the tool node."""
    return _injection(tool)[1]


def taken(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`args` and `kwargs` for the body of `tool`, with containers copied; injected values are passed as they are."""
    hidden = injected_names(tool)
    return (
        tuple(map(own, args)),
        {name: value if name in hidden else own(value) for name, value in kwargs.items()},
    )


def visible(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What the caller supplied of a body's arguments, by the names that the model sees."""
    hidden = injected_names(tool)
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


def foresee(tool: Any, coerce: Any, sent: dict[str, Any], call_id: str | None, runtime: Any) -> Foreseen | None:
    """What the body of `tool` will receive for the arguments `sent`; None when the tool will refuse them.

    Args:
        tool: The tool object.
        coerce: The tool's own coercion, unarmed: ``(tool, input, call id) -> (args, kwargs)``.
        sent: The arguments of the call.
        call_id: Its id.
        runtime: The `ToolRuntime` of the call, for the values that the tool node injects.
    """
    found, hidden = _injection(tool)
    whole = own(sent)
    if hidden:
        whole = _with_injected(found, whole, runtime)
    before = dict(whole)  # coercion may add to its input
    try:
        return Foreseen(before, coerce(tool, whole, call_id))
    except Exception:  # whatever validation raises: the tool raises it again, for its own error handling
        return None


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
