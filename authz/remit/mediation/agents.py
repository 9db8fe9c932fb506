"""The audit of a compiled agent: every tool, node and nested agent, and the decision that stands before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableBinding
from langchain_core.tools import BaseTool
from langgraph.constants import START
from langgraph.graph.state import StateGraph
from langgraph.pregel import Pregel

from remit.authz.errors import ConfigError
from remit.authz.gates.arming import is_armed, refuse_duplicates
from remit.authz.gates.tools import tool_name
from remit.mediation import approvals, stations
from remit.mediation.guards import changes, is_disabled, is_exempt
from remit.mediation.holdings import Held, graphs_held_by
from remit.mediation.reading import (
    ModelStation,
    ToolStation,
    hook_of,
    is_of_the_framework,
    model_station,
    self_check,
    tool_station,
)
from remit.mediation.report import Report, Row, Standing, accepting
from remit.mediation.stations import Cover

ROOT: Final = "agent"
_UNNAMED: Final = "LangGraph"
_BODIES: Final = ("func", "coroutine", "_run", "_arun", "run", "arun", "invoke", "ainvoke")


def audit(graph_or_app: Any, *, exceptions: Mapping[str, str] | None = None) -> Report:
    """Prove that every tool of an agent is reached through an authorization guard alone.

    Registered tools, the order of middlewares, the two forms of each, and agents inside of agents are read. What a
    function does while it runs cannot be: where that matters the verdict is ``opaque``, which fails unless an exception
    names it.

    Args:
        graph_or_app: A compiled LangGraph agent.
        exceptions: Path or name of what is opaque -> why it is accepted.

    Raises:
        TypeError: It is no compiled graph.
        ConfigError: An exception gives no reason.
        MediationError: Agents of the installed LangChain cannot be read.
    """
    accepted = dict(exceptions or {})
    for name, reason in accepted.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ConfigError(f"the exception {name!r} gives no reason; say why this is accepted")
    graph = _graph(graph_or_app)
    self_check()
    walk = _Walk()
    walk.agent(graph, (_label(graph),))
    rows, notes = accepting(walk.rows, accepted)
    return Report(tuple(rows), tuple(walk.standings), (*walk.notes, *notes))


def _graph(given: Any) -> Pregel[Any, Any, Any, Any]:
    while isinstance(given, RunnableBinding):
        given = given.bound
    if isinstance(given, Pregel):
        return given
    if isinstance(given, StateGraph):
        raise TypeError("the graph is not compiled; audit what `compile()` returns")
    kind = type(given)
    if hasattr(given, "routes") or kind.__module__.partition(".")[0] in ("fastapi", "starlette"):
        raise TypeError(f"{kind.__qualname__}: web applications cannot be audited, only compiled LangGraph agents")
    raise TypeError(f"only compiled LangGraph agents can be audited, got {kind.__qualname__}")


def _label(graph: Any) -> str:
    name = getattr(graph, "name", None)
    return name if isinstance(name, str) and name and name != _UNNAMED else ROOT


class _Walk:
    """One audit: what was found so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.standings: list[Standing] = []
        self.notes: list[str] = []
        self._seen: dict[int, tuple[Any, str]] = {}

    def agent(self, graph: Pregel[Any, Any, Any, Any], path: tuple[str, ...], *, nested: bool = False) -> None:
        """Look through one graph, whose own place is `path`."""
        if (known := self._seen.get(id(graph))) is not None:
            self._row(path, "agent", path[-1], "dominated", note=f"looked through at {known[1]}")
            return
        self._seen[id(graph)] = (graph, " > ".join(path))
        prefix = f"({_label(graph)}) " if nested else ""
        covers: list[tuple[Cover, Iterable[str]]] = []
        models: list[tuple[tuple[str, ...], ModelStation]] = []
        middlewares = stations.Middlewares()
        around: list[tuple[tuple[str, ...], ToolStation]] = []
        for name, node in graph.nodes.items():
            place = (*path, f"{prefix}{name}")
            if name == START and is_of_the_framework(getattr(node.bound, "func", None)):
                continue
            if (station := tool_station(node.bound)) is not None:
                around.append((place, station))
                middlewares.around_tools(station)
            elif (found := model_station(node.bound)) is not None:
                models.append((place, found))
                middlewares.around_model(found)
            elif (hooked := hook_of(name, node.bound)) is not None:
                middlewares.at_node(*hooked)
            elif isinstance(_unbound(node.bound), Pregel):
                self.agent(_unbound(node.bound), place, nested=True)
            else:
                self._opaque_node(place, name, node)
        self._routers(graph, path, prefix)
        for place, station in around:
            cover = stations.cover_of(station.sync, station.soon, "wrap_tool_call")
            covers.append((cover, station.tools))
            self._tool_node(place, station, cover, middlewares)
        for place, model in models:
            self._hosted_tools(place, model)
        self.standings += middlewares.standings(" > ".join(path))
        self._approvals(graph, (*path, f"{prefix}checkpointer"), covers, nested=nested)
        for middleware in middlewares.foreign():
            held = graphs_held_by(middleware, *stations.own_hooks(middleware))
            self._held(held, (*path, f"{prefix}{middleware.name}"))

    def _row(self, path: tuple[str, ...], kind: str, name: str, verdict: Any, **facts: Any) -> None:
        self.rows.append(Row(path=" > ".join(path), kind=kind, name=name, verdict=verdict, **facts))

    def _tool_node(
        self, place: tuple[str, ...], station: ToolStation, cover: Cover, middlewares: stations.Middlewares
    ) -> None:
        self._guard(place, cover)
        doubtful = self._clashes(place, station, middlewares)
        for name, tool in station.tools.items():
            here = (*place, name)
            if name in doubtful:
                self._row(here, "tool", name, "uncovered", sync=False, asynchronous=False, **doubtful[name])
            else:
                self._tool(here, name, tool, cover)
            if isinstance(tool, BaseTool):
                self._held(graphs_held_by(tool, *stations.bodies(tool, _BODIES)), here)
        for row in stations.inside(place, cover):
            self.rows.append(row)

    def _tool(self, here: tuple[str, ...], name: str, tool: Any, cover: Cover) -> None:
        guard = cover.guard
        if guard is None or not (cover.sync and cover.asynchronous):
            self._row(
                here,
                "tool",
                name,
                "opaque" if cover.unknown else "uncovered",
                dominated_by=guard.name if guard is not None else "",
                sync=cover.sync,
                asynchronous=cover.asynchronous,
                note=cover.gap,
                advice=cover.advice,
            )
        elif not is_armed(tool):
            self._row(
                here,
                "tool",
                name,
                "uncovered",
                sync=False,
                asynchronous=False,
                note="the tool is not armed: its body runs for whoever reaches the object",
                advice="pass it through enforcer.visible_tools(...), or its middleware through guard(enforcer, ...)",
            )
        else:
            note = "generated from what the policy shows; not decided about" if is_exempt(guard, tool) else ""
            self._row(here, "tool", name, "dominated", dominated_by=guard.name, note=note)

    def _guard(self, place: tuple[str, ...], cover: Cover) -> None:
        guard = cover.guard
        if guard is None:
            return
        here, facts = (*place, guard.name), {"dominated_by": guard.name}
        if is_disabled(guard):
            note, advice = "no policy stands behind this guard: it allows everything", "give its enforcer a provider"
            self._row(here, "guard", guard.name, "uncovered", note=note, advice=advice, **facts)
        if own := changes(guard):
            note = f"{type(guard).__qualname__} changes what the guard does: {', '.join(own)}"
            advice = "use the guard as it is, or name it as an exception once its code is reviewed"
            self._row(here, "guard", guard.name, "opaque", note=note, advice=advice, **facts)

    def _clashes(
        self, place: tuple[str, ...], station: ToolStation, middlewares: stations.Middlewares
    ) -> dict[str, dict[str, str]]:
        """Names that do not mean one tool -> what is wrong with them."""
        advice = "rename or leave out one of them: one policy rule must mean one tool"
        found = {
            name: {"note": note, "advice": advice} for name, note in middlewares.clashes(station.tools, station).items()
        }
        for name, tool in station.tools.items():
            if (own := tool_name(tool)) != name:
                found[name] = {"note": f"the tool that is registered here is named {own!r}", "advice": advice}
        try:
            refuse_duplicates(station.tools.values())
        except ConfigError as exc:
            note, _, rest = str(exc).rpartition("; ")
            self._row(
                place, "tool", place[-1], "uncovered", sync=False, asynchronous=False, note=note or rest, advice=advice
            )
        return found

    def _hosted_tools(self, place: tuple[str, ...], station: ModelStation) -> None:
        cover = stations.cover_of(station.sync, station.soon, "wrap_model_call")
        for tool in station.tools:
            if not isinstance(tool, dict):
                continue
            name = tool_name(tool) or "unnamed"
            if cover.guard is None or not (cover.sync and cover.asynchronous) or name == "unnamed":
                note = cover.gap if name != "unnamed" else "no policy can name this tool: it has neither name nor type"
                self._row(
                    (*place, name),
                    "hosted tool",
                    name,
                    "opaque" if cover.unknown else "uncovered",
                    sync=cover.sync,
                    asynchronous=cover.asynchronous,
                    note=note,
                    advice=cover.advice,
                )
                continue
            note = "runs at the model's provider: the policy decides whether it is shown, not about single calls"
            by = f"{cover.guard.name} (layer 1)"
            self._row((*place, name), "hosted tool", name, "dominated", dominated_by=by, note=note)

    def _opaque_node(self, place: tuple[str, ...], name: str, node: Any) -> None:
        note = f"a node whose code cannot be looked into ({_described(node.bound)})"
        advice = "put tools into a guarded tool node, and name the node as an exception once its code is reviewed"
        self._row(place, "node", name, "opaque", sync=False, asynchronous=False, note=note, advice=advice)
        runnable = node.bound
        functions = [getattr(runnable, attribute, None) for attribute in ("func", "afunc")]
        self._held(graphs_held_by(runnable, *functions, *(node.subgraphs or ())), place)

    def _routers(self, graph: Any, path: tuple[str, ...], prefix: str) -> None:
        """Functions that choose the next node are code as well."""
        branches: Mapping[str, Mapping[str, Any]] = getattr(getattr(graph, "builder", None), "branches", None) or {}
        for source, named in branches.items():
            for name, branch in named.items():
                functions = [getattr(branch.path, attribute, None) for attribute in ("func", "afunc")]
                if all(is_of_the_framework(function) for function in functions if function is not None) and any(
                    functions
                ):
                    continue
                here = (*path, f"{prefix}{source}", name)
                note = f"a router whose code cannot be looked into ({_described(branch.path)})"
                advice = "name it as an exception once its code is reviewed"
                self._row(here, "router", name, "opaque", sync=False, asynchronous=False, note=note, advice=advice)
                self._held(graphs_held_by(branch.path, *functions), here)

    def _held(self, held: Held, path: tuple[str, ...]) -> None:
        if not held.complete:
            self.notes.append(f"{' > '.join(path)}: holds too much to be searched to its end for agents")
        for graph in held.graphs:
            if isinstance(graph, Pregel):
                self.agent(graph, path, nested=True)
                continue
            what = "a graph that is compiled while it runs" if isinstance(graph, StateGraph) else "a remote graph"
            name = getattr(graph, "name", None) or type(graph).__qualname__
            note = f"{what}: its tools cannot be looked at"
            advice = "name it as an exception once it is known to be guarded where it runs"
            here = (*path, f"({name})")
            self._row(here, "agent", str(name), "opaque", sync=False, asynchronous=False, note=note, advice=advice)

    def _approvals(
        self,
        graph: Any,
        place: tuple[str, ...],
        covers: Sequence[tuple[Cover, Iterable[str]]],
        *,
        nested: bool,
    ) -> None:
        for cover, tools in covers:
            if cover.guard is None:
                continue
            verdict = approvals.without_saver(graph.checkpointer, cover.guard, tools, nested=nested)
            if verdict is None:
                continue
            fails, note, advice = verdict
            if fails:
                facts = {"dominated_by": cover.guard.name, "note": note, "advice": advice}
                self._row(place, "approvals", "checkpointer", "opaque", **facts)
            else:
                self.notes.append(f"{' > '.join(place)}: {note}")


def _unbound(runnable: Any) -> Any:
    while isinstance(runnable, RunnableBinding):
        runnable = runnable.bound
    return runnable


def _described(runnable: Any) -> str:
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None)
    function = getattr(function, "__func__", function)
    name = getattr(function, "__qualname__", None) or type(runnable).__qualname__
    module = getattr(function, "__module__", None) or type(runnable).__module__
    return f"{module}.{name}"
