"""Agents that somebody holds: in a function's closure, in globals that it names, in attributes and containers.

Only what lies there is looked at; nothing is called, and no property is evaluated. What a body builds while it runs
cannot be seen.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from langgraph.graph.state import StateGraph
from langgraph.pregel.protocol import PregelProtocol

DEPTH: Final = 3
"""Steps from the function: its closure is one, an attribute of what lies there two, an item of that three."""
MOST_OBJECTS: Final = 20_000
"""What holds more is not searched to its end, and the report says so."""
_PLAIN: Final = (str, bytes, bytearray, int, float, complex, bool, type(None), CodeType)
_LIBRARIES: Final = (sys.stdlib_module_names - {"__main__"}) | {
    *("langchain", "langchain_core", "langgraph", "langsmith", "pydantic", "pydantic_core"),
}
_CONTAINERS: Final = (list, tuple, set, frozenset, deque)


class Held(NamedTuple):
    """What a search found."""

    graphs: list[Any]
    """Graphs, compiled or not, and remote ones, each once, nearest first."""
    complete: bool
    """Whether everything within reach was looked at."""


def graphs_held_by(*holders: Any, depth: int = DEPTH) -> Held:
    """The graphs that `holders` hold within `depth` steps."""
    found: list[Any] = []
    seen: dict[int, Any] = {}
    layer: list[Any] = list(holders)
    for step in range(depth + 1):
        deeper: list[Any] = []
        for value in layer:
            if id(value) in seen or isinstance(value, _PLAIN):
                continue
            if len(seen) >= MOST_OBJECTS:
                return Held(found, False)
            seen[id(value)] = value  # kept alive, or its id may be given to another
            if isinstance(value, (PregelProtocol, StateGraph)):
                found.append(value)
            elif step < depth:
                deeper += _held(value)
        layer = deeper
    return Held(found, True)


def _held(value: Any) -> Iterator[Any]:
    """What `value` holds, one step away. A function's own wrappers and a method's function are no step."""
    if isinstance(value, MethodType):
        yield value.__self__
        yield from _held(value.__func__)
    elif isinstance(value, FunctionType):
        yield from _held_by_function(value)
    elif isinstance(value, functools.partial):
        yield from (*value.args, *value.keywords.values())
        yield from _held(value.func)
    elif isinstance(value, Mapping):
        if isinstance(value, dict):
            yield from list(value.values())
    elif isinstance(value, _CONTAINERS):
        yield from list(value)
    elif isinstance(value, type):
        yield from _class_values(value)
    elif not isinstance(value, ModuleType):
        yield from _attributes(value)


def _held_by_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if (wrapped := vars(function).get("__wrapped__")) is not None:
        yield from _held(wrapped)
    if _is_of_a_library(function.__globals__.get("__name__")):
        return  # its globals are the library's own
    names = _names(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):  # `module.agent` inside of the body
            yield from (vars(value)[other] for other in names if other in vars(value))
        else:
            yield value


def _is_of_a_library(module: Any) -> bool:
    """Whether a module is of the standard library or the framework: nobody's agents lie in those."""
    name = module.partition(".")[0] if isinstance(module, str) else ""
    return name in _LIBRARIES


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    """Global and attribute names in a body and in the functions that are defined in it."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return tuple(names)


def _attributes(value: Any) -> Iterator[Any]:
    for place in ("__dict__", "__pydantic_private__", "__pydantic_extra__"):
        try:
            held = object.__getattribute__(value, place)
        except AttributeError:
            continue
        if isinstance(held, dict):
            yield from list(held.values())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") or not isinstance(name, str):
                continue
            try:
                yield object.__getattribute__(value, name)
            except AttributeError:
                continue


def _class_values(kind: type) -> Iterator[Any]:
    """Values and methods of a class that somebody wrote here."""
    if _is_of_a_library(kind.__module__):
        return
    for value in list(vars(kind).values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        yield value
