"""The middlewares of one agent: where they stand, what they bring, and how far the guard reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain.agents.middleware.types import AgentMiddleware

from remit.authz.gates.tools import tool_name
from remit.mediation.guards import guarding
from remit.mediation.powers import POWER_ATTRIBUTE, POWERS, UNDECLARED, is_first_party, origin
from remit.mediation.reading import Link, ModelStation, ToolStation
from remit.mediation.report import Row, Standing
from remit.middlewares.authorization import AuthorizationMiddleware
from remit.middlewares.fusion import HOOKS, hosted_by, original_class
from remit.middlewares.guardrail import GuardrailMiddleware

_WRAPS = ("wrap_model_call", "wrap_tool_call")


@dataclass(frozen=True, slots=True)
class Cover:
    """How far a guard covers one node."""

    guard: AuthorizationMiddleware | None
    sync: bool
    asynchronous: bool
    inside: tuple[Link, ...]
    """Wrappers between the guard and the tool, in either form, outermost first."""
    unknown: bool
    """Whether no guard was found where something could not be looked into."""
    gap: str = ""
    """Why it does not cover the node wholly."""
    advice: str = ""


def cover_of(sync: Sequence[Link], soon: Sequence[Link], hook: str) -> Cover:
    """Read the two chains of a node.

    Args:
        sync: Wrappers of synchronous calls, outermost first.
        soon: Wrappers of asynchronous calls.
        hook: The synchronous name of the hook.
    """
    now, later = guarding(sync, hook), guarding(soon, f"a{hook}")
    guard = now.guard or later.guard
    inside: dict[tuple[int, int], Link] = {}
    for link in (*now.inside, *later.inside):
        inside.setdefault((id(link.owner), 0 if link.owner is not None else id(link.function)), link)
    facts = (guard, now.acts, later.acts, tuple(inside.values()))
    if now.acts and later.acts and now.guard is later.guard:
        return Cover(*facts, unknown=False)
    if guard is None:
        unknown = now.unknown or later.unknown
        if unknown:
            names = ", ".join(link.name for link in (*sync, *soon) if link.owner is None)
            gap = f"no guard was found, and {names} cannot be looked into"
        else:
            explicit = [link.name for link in sync if isinstance(link.owner, GuardrailMiddleware)]
            gap = "no authorization guard stands around it" + (f", only {', '.join(explicit)}" if explicit else "")
        return Cover(*facts, unknown=unknown, gap=gap, advice="build the agent with middleware=[*guard(enforcer, ...)]")
    if now.acts and later.acts:
        return Cover(
            guard,
            False,
            False,
            facts[3],
            unknown=False,
            gap="synchronous and asynchronous calls go through two different guards",
            advice="use one guard for both",
        )
    missing = f"a{hook}" if now.acts else hook
    form = "asynchronous" if now.acts else "synchronous"
    gap = f"the guard {guard.name} has no {form} form here: `{missing}` is missing"
    return Cover(*facts, unknown=False, gap=gap, advice="use a guard with both forms")


def inside(place: tuple[str, ...], cover: Cover) -> Iterator[Row]:
    """A row for everything that wraps tool calls between the guard and the tool."""
    if cover.guard is None:
        return
    for link in cover.inside:
        path = " > ".join((*place, link.name))
        if link.owner is None:
            note, declared = f"a wrapper inside of {cover.guard.name} that cannot be looked into", UNDECLARED
            advice = "make it a middleware that declares what it does"
        else:
            declared = origin(link.owner)
            note = (
                f"{_class(link.owner)} wraps tool calls inside of {cover.guard.name} "
                "and does not declare what it does to them"
            )
            advice = f"set {POWER_ATTRIBUTE} to {POWERS[0]!r} or {POWERS[1]!r} on it, or list it before the guard"
        known = declared != UNDECLARED
        yield Row(
            path=path,
            kind="middleware",
            name=link.name,
            verdict="dominated" if known else "opaque",
            dominated_by=cover.guard.name,
            note=declared if known else note,
            advice="" if known else advice,
        )


class Middlewares:
    """The middlewares of one agent, gathered from wherever they can be seen."""

    def __init__(self) -> None:
        self._found: dict[int, Any] = {}
        self._chains: list[list[Link]] = []

    def around_tools(self, station: ToolStation) -> None:
        """Take in the wrappers of a tool node."""
        self._chains.append(station.sync)
        self._chain((*station.sync, *station.soon))

    def around_model(self, station: ModelStation) -> None:
        """Take in the wrappers of a model node."""
        self._chain((*station.sync, *station.soon))

    def at_node(self, middleware: Any, hook: str) -> None:
        """Take in a middleware with a graph node, and those that it runs there."""
        for slot in (middleware, *hosted_by(middleware, hook)):
            self._add(slot)

    def _chain(self, chain: Iterable[Link]) -> None:
        for link in chain:
            if isinstance(link.owner, AgentMiddleware):
                self._add(link.owner)

    def _add(self, middleware: Any) -> None:
        # a view of a slot and the slot itself share their attributes, and are one middleware
        self._found.setdefault(id(vars(middleware)), middleware)

    def foreign(self) -> list[Any]:
        """Those that are not remit's own."""
        return [one for one in self._found.values() if not is_first_party(one)]

    def standings(self, path: str) -> list[Standing]:
        """Where each of them stands: those around tool calls in their order, then the others."""
        around = {id(vars(link.owner)): None for chain in self._chains for link in chain if link.owner is not None}
        order = [self._found[key] for key in around if key in self._found]
        order += [one for key, one in self._found.items() if key not in around]
        out = []
        for middleware in order:
            kind = original_class(middleware)
            has = tuple(hook for hook in (*HOOKS, *_WRAPS) if _has(kind, hook))
            out.append(
                Standing(
                    path=path, name=middleware.name, place=self._place(middleware), origin=origin(middleware), hooks=has
                )
            )
        return out

    def _place(self, middleware: Any) -> Literal["outside", "guard", "inside", "beside"]:
        if isinstance(middleware, AuthorizationMiddleware):
            return "guard"
        for chain in self._chains:
            passed = False
            for link in chain:
                passed = passed or isinstance(link.owner, AuthorizationMiddleware)
                if link.owner is not None and vars(link.owner) is vars(middleware):
                    return "inside" if passed else "outside"
        return "beside"

    def clashes(self, tools: dict[str, Any], station: ToolStation) -> dict[str, str]:
        """Names under which several tools were given to a tool node, of which only the last one is there."""
        owners = {id(link.owner) for link in (*station.sync, *station.soon)}
        brought: dict[str, list[tuple[str, Any]]] = {}
        for middleware in self._found.values():
            for tool in getattr(middleware, "tools", None) or ():
                if (name := _name(tool)) is not None:
                    brought.setdefault(name, []).append((middleware.name, tool))
            if isinstance(middleware, AuthorizationMiddleware) and id(middleware) in owners:
                for name, tool in (vars(middleware).get("_brought") or {}).items():
                    brought.setdefault(name, []).append(("a middleware inside of the guard", tool))
        out: dict[str, str] = {}
        for name, pairs in brought.items():
            if name not in tools:
                continue
            losers = [owner for owner, tool in pairs if not _same(tool, tools[name])]
            if losers:
                out[name] = f"{', '.join(dict.fromkeys(losers))} brings another tool of this name, which is not called"
        return out


def own_hooks(middleware: Any) -> list[Any]:
    """The functions of a middleware's hooks, which may hold agents in their closures."""
    kind = original_class(middleware)
    names = [name for hook in (*HOOKS, *_WRAPS) for name in (hook, f"a{hook}")]
    return [
        getattr(kind, name) for name in names if getattr(kind, name, None) is not getattr(AgentMiddleware, name, None)
    ]


def bodies(tool: Any, names: Iterable[str]) -> list[Any]:
    """The functions of a tool: those it was made of, and methods of a class that somebody wrote."""
    found = [value for name in names if (value := vars(tool).get(name)) is not None]
    for kind in type(tool).__mro__:
        if kind.__module__.partition(".")[0] not in ("langchain_core", "remit", "pydantic", "builtins"):
            found += [vars(kind)[name] for name in names if name in vars(kind)]
    return found


def _has(kind: type, hook: str) -> bool:
    return any(getattr(kind, name, None) is not getattr(AgentMiddleware, name) for name in (hook, f"a{hook}"))


def _class(middleware: Any) -> str:
    kind = original_class(middleware)
    return f"{kind.__module__}.{kind.__qualname__}"


def _name(tool: Any) -> str | None:
    found = tool_name(tool)
    return found if found else getattr(tool, "__name__", None)


def _same(tool: Any, registered: Any) -> bool:
    """Whether `registered` is `tool`, or what the tool node made of it when it was a function."""
    return registered is tool or any(getattr(registered, part, None) is tool for part in ("func", "coroutine"))
