"""Node hooks of many slots as one graph node each.

LangChain gives every middleware a graph node, and with it a super-step and a checkpoint, for each of the four hooks
``before_agent``, ``before_model``, ``after_model`` and ``after_agent`` that its class has. `fused` hands back the same
slots in the same order, except that for each hook the first slot that has it runs it for all of them. A slot that gave
its node away is replaced by a view of itself: same class for `isinstance`, same attributes, the same other hooks.

Within a node the cores run as LangChain would run them: in order, ``after_…`` in reverse, each one seeing what those
before it wrote, joined by the reducers of the state. A jump is taken after all of them had their say; the first one
that was asked for counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, NotRequired, Required, cast, get_args, get_origin, get_type_hints

from langchain.agents.middleware.types import AgentMiddleware, hook_config
from langchain_core.messages import convert_to_messages
from langchain_core.runnables.config import run_in_executor
from langgraph.graph.message import add_messages

Middleware = AgentMiddleware[Any, Any, Any]
HOOKS: Final = ("before_agent", "before_model", "after_model", "after_agent")
_FUSED: Final = "remit_fused"
_MASKED: Final = "remit_masked"


class Core(NamedTuple):
    """One slot's part in a fused node."""

    slot: Middleware
    now: Callable[..., Any] | None
    """The synchronous hook, None when the slot has none."""
    soon: Callable[..., Any] | None


def fused(slots: Iterable[Middleware]) -> list[Middleware]:
    """`slots`, in their order, with at most one graph node for each kind of node hook."""
    slots = list(slots)
    owners = {hook: [slot for slot in slots if has_hook(type(slot), hook)] for hook in HOOKS}
    hosted = {hook: tuple(found) for hook, found in owners.items() if len(found) > 1}
    if not hosted:
        return slots
    return [_view(slot, hosted) for slot in slots]


def without(slot: Middleware, *hooks: str) -> Middleware:
    """A view of `slot` that has no node for `hooks`: for a slot as configured, in which they would do nothing."""
    space: dict[str, Any] = {_MASKED: True, _FUSED: {}, "__doc__": slot.__doc__, "__module__": type(slot).__module__}
    for hook in hooks:
        space[hook], space[f"a{hook}"] = getattr(AgentMiddleware, hook), getattr(AgentMiddleware, f"a{hook}")
    return _twin(slot, space)


def has_hook(kind: type, hook: str) -> bool:
    """Whether LangChain would give slots of this class a node for `hook`."""
    return any(getattr(kind, name, None) is not getattr(AgentMiddleware, name) for name in (hook, f"a{hook}"))


def hosted_by(slot: Middleware, hook: str) -> tuple[Middleware, ...]:
    """The slots whose `hook` runs in the node of `slot`; empty when it hosts nobody."""
    cores = getattr(type(slot), _FUSED, {}).get(hook, ())
    return tuple(core.slot for core in cores)


def original_class(slot: Middleware) -> type:
    """The class of a slot, of its own when it is a view."""
    kind = type(slot)
    while _MASKED in kind.__dict__:
        kind = kind.__mro__[1]
    return kind


def _view(slot: Middleware, hosted: Mapping[str, tuple[Middleware, ...]]) -> Middleware:
    mine = [hook for hook, slots in hosted.items() if any(other is slot for other in slots)]
    if not mine:
        return slot
    space: dict[str, Any] = {_MASKED: True, _FUSED: {}, "__doc__": slot.__doc__, "__module__": type(slot).__module__}
    for hook in mine:
        if hosted[hook][0] is slot:
            cores = _cores(hosted[hook], hook)
            space[_FUSED][hook] = cores
            space[hook], space[f"a{hook}"] = _node(cores, hook)
        else:
            space[hook], space[f"a{hook}"] = getattr(AgentMiddleware, hook), getattr(AgentMiddleware, f"a{hook}")
    return _twin(slot, space)


def _twin(slot: Middleware, space: dict[str, Any]) -> Middleware:
    kind: Any = cast("Any", type(type(slot)))(type(slot).__name__, (type(slot),), space)
    view: Any = object.__new__(kind)
    view.__dict__ = slot.__dict__  # the same, not a copy: two names of one slot
    return cast("Middleware", view)


def _cores(slots: Sequence[Middleware], hook: str) -> tuple[Core, ...]:
    def own(slot: Middleware, name: str) -> Callable[..., Any] | None:
        return getattr(slot, name) if getattr(type(slot), name) is not getattr(AgentMiddleware, name) else None

    cores = tuple(Core(slot, own(slot, hook), own(slot, f"a{hook}")) for slot in slots)
    return cores[::-1] if hook.startswith("after") else cores


def _node(cores: tuple[Core, ...], hook: str) -> tuple[Any, Any]:
    """The two forms of a fused hook."""
    reducers = _reducers(tuple(core.slot.state_schema for core in cores))

    def now(self: Any, state: Any, runtime: Any) -> dict[str, Any] | None:
        seen, written = state, Written(reducers)
        for slot, act, _ in cores:
            if act is None:
                raise NotImplementedError(f"{slot.name} has no synchronous `{hook}`; run the agent asynchronously")
            seen = written.after(act(seen, runtime), seen)
        return written.update

    async def soon(self: Any, state: Any, runtime: Any) -> dict[str, Any] | None:
        seen, written = state, Written(reducers)
        for _, act, wait in cores:
            update = (
                await wait(seen, runtime)
                if wait is not None
                else await run_in_executor(None, cast("Any", act), seen, runtime)
            )
            seen = written.after(update, seen)
        return written.update

    now.__name__, soon.__name__ = hook, f"a{hook}"
    if jumps := sorted({target for core in cores for target in _jumps(core)}):
        declared = hook_config(can_jump_to=cast("Any", jumps))
        return declared(now), declared(soon)
    return now, soon


def _jumps(core: Core) -> tuple[str, ...]:
    for act in (core.now, core.soon):
        if (found := getattr(act, "__can_jump_to__", None)) is not None:
            return tuple(found)
    return ()


class Written:
    """What the cores of one node have written so far, as one update.

    Args:
        reducers: Channel -> how two writes of it become one.
    """

    __slots__ = ("_reducers", "update")

    def __init__(self, reducers: Mapping[str, Callable[[Any, Any], Any]]) -> None:
        self._reducers = reducers
        self.update: dict[str, Any] | None = None

    def after(self, update: Any, seen: Any) -> Any:
        """Take the update of one core, and answer with the state that the next one sees."""
        if not update:
            return seen
        if not isinstance(update, Mapping):
            raise TypeError(f"a node hook answers with a mapping or None, got {type(update).__name__}")
        if self.update is None:
            self.update, seen = {}, dict(seen)
        for channel, value in update.items():
            if channel == "jump_to":
                self.update.setdefault(channel, value)
                continue
            reducer = self._reducers.get(channel)
            if channel == "messages":
                messages = convert_to_messages(_listed(value))  # once: both sides must see the same ids
                self.update[channel] = [*self.update.get(channel, ()), *messages]
                seen[channel] = add_messages(seen.get(channel) or [], cast("Any", messages))
            elif reducer is None:
                self.update[channel] = seen[channel] = value
            else:
                held = self.update
                held[channel] = reducer(held[channel], value) if channel in held else value
                seen[channel] = reducer(seen.get(channel), value)
        return seen


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]  # a tuple is one message: role and content


@cache
def _reducers(schemas: tuple[type, ...]) -> dict[str, Callable[[Any, Any], Any]]:
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for schema in schemas:
        for channel, hint in get_type_hints(schema, include_extras=True).items():
            if get_origin(hint) in (NotRequired, Required):
                hint = get_args(hint)[0]
            reducer = get_args(hint)[-1] if get_origin(hint) is Annotated else None
            if callable(reducer) and not isinstance(reducer, type) and channel != "messages":
                found[channel] = reducer
    return found
