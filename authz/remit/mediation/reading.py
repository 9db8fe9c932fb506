"""What can be read off a compiled graph.

LangGraph offers no way to ask which middlewares stand around a tool, so private attributes and closures of LangChain
are read. A shape counts as read only when the very code of the installed LangChain made it; anything else is unknown,
and the audit treats that as opaque. `self_check` proves once per process that the readers understand what is installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langgraph.prebuilt import ToolNode

from remit.mediation.report import MediationError
from remit.middlewares.fusion import HOOKS

_FACTORY: Final = "langchain.agents.factory"
_CHAINS: Final = (
    "_chain_tool_call_wrappers",
    "_chain_async_tool_call_wrappers",
    "_chain_model_call_handlers",
    "_chain_async_model_call_handlers",
)
_COMPOSED: Final = ("composed", "normalized_single")
_FRAMEWORK: Final = ("langchain", "langchain_core", "langgraph")
_MOST_LINKS: Final = 1_000


class Link(NamedTuple):
    """One wrapper of a chain of wrappers."""

    function: Any
    """What runs, unbound."""
    owner: Any
    """The object whose method it is; None for anything else than a method."""

    @property
    def name(self) -> str:
        """Of the middleware, else of the function."""
        named = getattr(self.owner, "name", None) if self.owner is not None else None
        if isinstance(named, str):
            return named
        return str(getattr(self.function, "__qualname__", None) or type(self.function).__qualname__)


class ToolStation(NamedTuple):
    """A tool node."""

    tools: dict[str, Any]
    sync: list[Link]
    """Wrappers around a call, outermost first."""
    soon: list[Link]
    """Those of the asynchronous form."""


class ModelStation(NamedTuple):
    """The model node of an agent."""

    tools: list[Any]
    """What is bound by default, provider-hosted tools (dicts) included."""
    sync: list[Link]
    soon: list[Link]


def links(wrapper: Any) -> list[Link]:
    """The wrappers that LangChain composed into `wrapper`, outermost first; one unknown link for an unknown shape."""
    found: list[Link] = []
    waiting = [] if wrapper is None else [wrapper]
    while waiting:
        function = waiting.pop()
        cells = _cells(function)
        if not _is_code_of(function, _composing_codes()) or len(found) + len(waiting) > _MOST_LINKS:
            found.append(_link(function))
        elif "outer" in cells and "inner" in cells:
            waiting += [cells["inner"], cells["outer"]]
        elif "single_handler" in cells:
            waiting.append(cells["single_handler"])
        else:
            found.append(_link(function))
    return found


def tool_station(runnable: Any) -> ToolStation | None:
    """A tool node's tools and wrappers, or None when it is not LangGraph's own tool node."""
    if type(runnable) is not ToolNode or getattr(runnable.func, "__func__", None) is not vars(ToolNode).get("_func"):
        return None
    own = vars(runnable)
    if any(isinstance(value, FunctionType) and name in own for name, value in vars(ToolNode).items()):
        return None  # somebody put another method into this one
    tools = own.get("_tools_by_name")
    if not isinstance(tools, dict) or not {"_wrap_tool_call", "_awrap_tool_call"} <= own.keys():
        return None
    return ToolStation(dict(tools), links(own["_wrap_tool_call"]), links(own["_awrap_tool_call"]))


def model_station(runnable: Any) -> ModelStation | None:
    """Tools and wrappers of `create_agent`'s model node, or None when this is another node."""
    tools: list[Any] = []
    chains: list[list[Link]] = []
    for attribute, name, chain in (
        ("func", "model_node", "wrap_model_call_handler"),
        ("afunc", "amodel_node", "awrap_model_call_handler"),
    ):
        function = getattr(runnable, attribute, None)
        cells = _cells(function)
        if (
            not _is_code_of(function, _codes(create_agent))
            or getattr(function, "__name__", None) != name
            or not isinstance(cells.get("default_tools"), list)
            or chain not in cells
        ):
            return None
        tools += [tool for tool in cells["default_tools"] if not any(tool is other for other in tools)]
        chains.append(links(cells[chain]))
    return ModelStation(tools, *chains)


def hook_of(node: str, runnable: Any) -> tuple[Any, str] | None:
    """The middleware behind a node ``NAME.before_agent`` and the like, and its hook; None for any other node."""
    name, _, hook = node.rpartition(".")
    if hook not in HOOKS:
        return None
    found = None
    for attribute, own in (("func", hook), ("afunc", f"a{hook}")):
        method = getattr(runnable, attribute, None)
        if method is None:
            continue
        owner = method.__self__ if isinstance(method, MethodType) else None
        if not isinstance(owner, AgentMiddleware) or owner.name != name or found not in (None, owner):
            return None
        if method.__func__ is not getattr(type(owner), own, None):
            return None
        found = owner
    return None if found is None else (found, hook)


def is_of_the_framework(function: Any) -> bool:
    """Whether a function is defined in LangChain or LangGraph, and so is everything that is bound to it."""
    if isinstance(function, functools.partial):
        bound = (function.func, *function.args, *function.keywords.values())
        return all(is_of_the_framework(value) for value in bound if callable(value))
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        return False
    return str(function.__globals__.get("__name__", "")).partition(".")[0] in _FRAMEWORK


def _link(function: Any) -> Link:
    while _is_code_of(function, _tracing_codes()) and "func" in (cells := _cells(function)):
        function = cells["func"]
    if isinstance(function, MethodType):
        return Link(function.__func__, function.__self__)
    return Link(function, None)


def _cells(function: Any) -> dict[str, Any]:
    if not isinstance(function, FunctionType):
        return {}
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found


def _is_code_of(function: Any, codes: frozenset[CodeType]) -> bool:
    return isinstance(function, FunctionType) and function.__code__ in codes


@cache
def _composing_codes() -> frozenset[CodeType]:
    factory = import_module(_FACTORY)
    chains = [getattr(factory, name, None) for name in _CHAINS]
    return frozenset(code for chain in chains for code in _codes(chain) if code.co_name in _COMPOSED)


@cache
def _tracing_codes() -> frozenset[CodeType]:
    return _codes(getattr(import_module("langsmith.run_helpers"), "traceable", None))


@cache
def _codes(function: Any) -> frozenset[CodeType]:
    """The code of every function that is defined inside of `function`."""
    found: list[CodeType] = []
    waiting = [function.__code__] if isinstance(function, FunctionType) else []
    while waiting:
        inner = [constant for constant in waiting.pop().co_consts if isinstance(constant, CodeType)]
        found += inner
        waiting += inner
    return frozenset(found)


class _Probe(AgentMiddleware[Any, Any, Any]):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    def wrap_model_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        return await handler(request)


@cache
def self_check() -> None:
    """Prove once per process that agents of the installed LangChain are read as they are.

    Raises:
        MediationError: They are not; no agent can be proved then.
    """
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.tools import StructuredTool

    tool = StructuredTool.from_function(lambda: "", name="probe", description="never runs")
    hosted = {"type": "probe_hosted"}
    for count in (0, 1, 3):
        probes = [_Probe(f"probe{index}") for index in range(count)]
        graph = create_agent(FakeListChatModel(responses=[""]), [tool, hosted], middleware=probes)
        if not _is_read(graph, probes, tool, hosted):
            from importlib.metadata import version

            raise MediationError(
                f"agents of the installed langchain {version('langchain')} and langgraph {version('langgraph')} "
                f"cannot be audited: a probe agent with {count} middlewares was not read as it is; "
                "install a supported release"
            )


def _is_read(graph: Any, probes: list[_Probe], tool: Any, hosted: Any) -> bool:
    around, model = tool_station(graph.nodes["tools"].bound), model_station(graph.nodes["model"].bound)
    if around is None or model is None or model.tools != [tool, hosted] or around.tools != {"probe": tool}:
        return False
    expected = {
        name: [(getattr(_Probe, name), probe) for probe in probes]
        for name in ("wrap_tool_call", "awrap_tool_call", "wrap_model_call", "awrap_model_call")
    }
    read = {
        "wrap_tool_call": around.sync,
        "awrap_tool_call": around.soon,
        "wrap_model_call": model.sync,
        "awrap_model_call": model.soon,
    }
    if any([tuple(link) for link in read[name]] != expected[name] for name in expected):
        return False
    hooks = [hook_of(f"{probe.name}.before_model", graph.nodes[f"{probe.name}.before_model"].bound) for probe in probes]
    return hooks == [(probe, "before_model") for probe in probes]
