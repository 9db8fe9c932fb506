"""Arming: the body of a tool object runs only with a ticket, whoever calls it and however.

The object itself is armed, in place: its class is swapped for a subclass with the same name. One hook sees what the
body is about to receive, for sync and async tools of every kind; classes that bring doors of their own (`run`,
`invoke` and their twins) are armed at those doors.

Out of reach are plain Python functions: ``tool.func(...)``, ``tool._run(...)``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from functools import cache
from typing import Any, Final

from remit.authz.errors import ConfigError, TicketRefused
from remit.authz.gates.acting import acting_frame
from remit.authz.gates.arguments import foresee as _foresee
from remit.authz.gates.arguments import reckon, taken, visible
from remit.authz.gates.sentinel import announced, sentinel
from remit.authz.gates.tools import tool_name
from remit.authz.tickets import FRAME, NO_TICKET, TOOL_IDENTITY, Call, Foreseen, Frame
from remit.authz.vocabulary import canonical as canonical_name
from remit.authz.vocabulary import look_alike

__all__ = ["acting_frame", "arm", "disarm", "foresee", "is_armed", "refuse_duplicates", "self_check"]

_NAME: Final = "_remit_name"
_DOORS: Final = ("invoke", "ainvoke", "run", "arun")
_LEVEL: Final = {"ainvoke": 0, "invoke": 1, "arun": 2, "run": 3}
"""From the outermost in: an asynchronous door often is the synchronous one in another thread."""
_BODY: Final = 4


class _Armed:
    """First base of every armed class. No annotations here: they would become fields."""

    __slots__ = ()

    def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        with announced(self.name):  # type: ignore[attr-defined]
            return super().run(tool_input, *args, **kwargs)  # type: ignore[misc]

    async def arun(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        frame = FRAME.get()
        if frame is not None and frame.waits and not _inside(self, _LEVEL["arun"]):
            call_id = kwargs.get("tool_call_id")
            if not frame.covers(self, self.name, call_id, tool_input):  # type: ignore[attr-defined]
                await _prepare(self, frame, tool_input, call_id)
        with announced(self.name):  # type: ignore[attr-defined]
            return await super().arun(tool_input, *args, **kwargs)  # type: ignore[misc]

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        frame = _frame(self)
        if frame is None or _inside(self, _BODY):
            return super()._to_args_and_kwargs(tool_input, tool_call_id)  # type: ignore[misc,no-any-return]
        ready = frame.claim(self, self.name, tool_call_id, tool_input)  # type: ignore[attr-defined]
        if ready is not None:
            return ready
        args, kwargs = super()._to_args_and_kwargs(tool_input, tool_call_id)  # type: ignore[misc]
        hidden = _hidden(self)
        args, kwargs = taken(hidden, args, kwargs)
        frame.admit(Call(self, self.name, visible(self, hidden, args, kwargs), tool_call_id))  # type: ignore[attr-defined]
        return args, kwargs


# Armed class -> (the class as it was, whether a frame is demanded). A class is made once and kept: there are few.
_PLAIN: Final[dict[type, tuple[type, bool]]] = {}
_MADE: Final[dict[tuple[type, bool], type]] = {}
_LOCK: Final = threading.Lock()


def _held(kind: type) -> tuple[type, bool] | None:
    """The plain class behind an armed one and whether a frame is demanded; None when `kind` is not armed."""
    held = _PLAIN.get(kind)
    if held is None and issubclass(kind, _Armed):  # a class that somebody derived from an armed one
        held = next(_PLAIN[base] for base in kind.__mro__ if base in _PLAIN)
    return held


def _frame(tool: Any) -> Frame | None:
    """The frame that decides about `tool` here; None when it may run without one.

    Raises:
        TicketRefused: The tool demands a frame with a policy decision and there is none, or it has been renamed.
    """
    frame = FRAME.get()
    if frame is None or not frame.authorizes:
        held = _held(type(tool))
        if held is None or held[1]:
            raise TicketRefused(tool.name, NO_TICKET, "it was called outside of a guarded run")
        if frame is None:
            return None
    name = tool.__dict__.get(_NAME)
    if name is not None and name[0]() is tool and name[1] != tool.name:
        raise TicketRefused(tool.name, TOOL_IDENTITY, "it was given another name after it was armed")
    return frame


async def _prepare(tool: Any, frame: Frame, tool_input: Any, call_id: str | None) -> None:
    """Ask what may be slow to answer before the body is reached, where waiting is possible."""
    _frame(tool)
    sent = dict(tool_input) if isinstance(tool_input, dict) else tool_input
    try:
        args, kwargs = _plain(tool)._to_args_and_kwargs(tool, sent, call_id)
    except Exception:  # the tool raises it again, for its own error handling
        return
    await frame.prepare(Call(tool, tool.name, visible(tool, _hidden(tool), args, kwargs), call_id))


def _hidden(tool: Any) -> frozenset[str]:
    """Parameters of `tool` that the runtime fills; what a model sends for them is dropped by the tool node."""
    return reckon(tool, _plain(tool)).names


def _plain(tool: Any) -> Any:
    held = _held(type(tool))
    return type(tool) if held is None else held[0]


def foresee(
    tool: Any, sent: dict[str, Any], call_id: str | None, runtime: Any
) -> tuple[dict[str, Any], Foreseen | None]:
    """What to decide on when `tool` is called with the arguments `sent`.

    Returns:
        The arguments, as conditions see them, that the body will receive, and how they came about. A class with doors
        of its own is decided on the arguments as sent, and so is a call whose arguments the tool will refuse.
    """
    plain = _plain(tool)
    if not _own_doors(plain):
        foreseen = _foresee(tool, plain, sent, call_id, runtime)
        if foreseen is not None:
            return visible(tool, _hidden(tool), *foreseen.ready), foreseen
    return visible(tool, _hidden(tool), (), sent), None


@cache
def _own_doors(kind: type) -> tuple[str, ...]:
    from langchain_core.tools import BaseTool, StructuredTool, Tool

    known = {getattr(base, door) for base in (BaseTool, Tool, StructuredTool) for door in _DOORS}
    return tuple(door for door in _DOORS if getattr(kind, door) not in known)


_ENTERED: Final[ContextVar[list[Any] | None]] = ContextVar("remit_entered", default=None)


def _inside(tool: Any, level: int) -> bool:
    """Whether `tool` was let in at an outer door and is now on its way to its body. Each inner door once."""
    entered = _ENTERED.get()
    if entered is None or entered[0] is not tool or level <= entered[1]:
        return False
    entered[1] = level
    return True


class _entering:
    __slots__ = ("_entered", "_name", "_token")

    def __init__(self, tool: Any, level: int) -> None:
        self._entered = [tool, level]
        self._name = announced(tool.name)

    def __enter__(self) -> None:
        self._token: Token[list[Any] | None] = _ENTERED.set(self._entered)
        self._name.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._name.__exit__()
        _ENTERED.reset(self._token)


def _sent(tool: Any, value: Any, kwargs: dict[str, Any]) -> Call:
    """The call at a door: the arguments as they were handed in."""
    call_id = kwargs.get("tool_call_id")
    if isinstance(value, dict) and value.get("type") == "tool_call":
        value, call_id = value.get("args"), value.get("id")
    args = value if isinstance(value, dict) else {"__arg1": value}
    return Call(tool, tool.name, visible(tool, _hidden(tool), (), args), call_id)


def _door(kind: type, name: str) -> Callable[..., Any]:
    original = getattr(kind, name)
    level = _LEVEL[name]

    def door(self: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        frame = _frame(self)
        if frame is None or _inside(self, level):
            with announced(self.name):
                return original(self, input, *args, **kwargs)
        frame.admit(_sent(self, input, kwargs))
        with _entering(self, level):
            return original(self, input, *args, **kwargs)

    async def adoor(self: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        frame = _frame(self)
        if frame is None or _inside(self, level):
            with announced(self.name):
                return await original(self, input, *args, **kwargs)
        await frame.aadmit(_sent(self, input, kwargs))
        with _entering(self, level):
            return await original(self, input, *args, **kwargs)

    return adoor if name.startswith("a") else door


def _armed_class(kind: type, *, mandatory: bool) -> type:
    made = _MADE.get((kind, mandatory))
    if made is None:
        with _LOCK:
            made = _MADE.get((kind, mandatory))
            if made is None:
                space: dict[str, Any] = {
                    "__module__": kind.__module__,
                    "__qualname__": kind.__qualname__,
                    "__doc__": kind.__doc__,
                    **{door: _door(kind, door) for door in _own_doors(kind)},
                }
                made = type(kind)(kind.__name__, (_Armed, kind), space)
                _PLAIN[made] = (kind, mandatory)
                _MADE[kind, mandatory] = made
    return made


def arm(tools: Iterable[Any], *, mandatory: bool = True) -> None:
    """Arm every tool object in `tools`, in place. Dicts and functions have no object to arm and are passed over.

    Afterwards `type(tool)` is a subclass of what it was, with the same name; `isinstance`, results, schema and events
    are as before. Arming twice does nothing.

    Args:
        tools: Tool objects.
        mandatory: True: outside of a guarded run the tool refuses. False: it runs there as ever, and asks for a ticket
            inside of one. Never weakens a tool that is armed already.

    Raises:
        ConfigError: A tool cannot be armed; the others are.
    """
    problems: list[str] = []
    for tool in tools:
        held = _PLAIN.get(type(tool)) or _held(type(tool))
        if held is not None and (held[1] or not mandatory):
            name = tool.__dict__.get(_NAME)
            if name is not None and name[0]() is tool:
                continue
        elif held is None and not _is_tool(tool):
            continue
        try:
            if held is None or (mandatory and not held[1]):
                plain = type(tool) if held is None else held[0]
                object.__setattr__(tool, "__class__", _armed_class(plain, mandatory=mandatory))
            known = tool.__dict__.get(_NAME)
            if known is None or known[0]() is not tool:  # the name it had first counts, a copy may have one of its own
                tool.__dict__[_NAME] = (weakref.ref(tool), tool.name)
            _hidden(tool)
        except Exception as exc:  # a class may refuse to be subclassed in any way it likes
            problems.append(
                f"tool {getattr(tool, 'name', '?')!r} of class {type(tool).__qualname__} cannot be armed "
                f"({type(exc).__name__}: {exc}); leave it out or wrap its function in a StructuredTool"
            )
    if problems:
        raise ConfigError("; ".join(problems))


def _is_tool(tool: Any) -> bool:
    if isinstance(tool, (dict, type)) or not hasattr(type(tool), "_to_args_and_kwargs"):
        return False
    from langchain_core.tools import BaseTool

    return isinstance(tool, BaseTool)


def disarm(tools: Iterable[Any]) -> None:
    """Give every tool in `tools` its class back. For tests: a disarmed tool runs without any decision."""
    for tool in tools:
        held = _held(type(tool))
        if held is not None:
            object.__setattr__(tool, "__class__", held[0])
            tool.__dict__.pop(_NAME, None)


def is_armed(tool: Any) -> bool:
    """Whether the body of `tool` refuses to run without a policy decision."""
    held = _held(type(tool))
    return held is not None and held[1]


def refuse_duplicates(tools: Iterable[Any]) -> None:
    """Refuse names that cannot tell two tools apart. The same object twice is one tool.

    Raises:
        ConfigError: Two tools share a name, up to white space and Unicode form, or their names look alike.
    """
    seen: dict[str, tuple[str, Any]] = {}
    problems: list[str] = []
    for tool in tools:
        name = tool_name(tool)
        key = canonical_name(name)
        other = seen.get(key)
        if other is not None and other[1] is not tool:
            problems.append(f"two tools are named {name!r}" + (f" and {other[0]!r}" if other[0] != name else ""))
        elif other is None and (twin := _twin(key, seen)) is not None:
            problems.append(f"the tool names {name!r} and {twin!r} look alike")
        seen.setdefault(key, (name, tool))
    if problems:
        raise ConfigError("; ".join(problems) + "; one policy rule must mean one tool: rename or leave out one of them")


def _twin(name: str, seen: dict[str, tuple[str, Any]]) -> str | None:
    if not name.isascii():
        return look_alike(name, seen)
    return next((other for other in seen if not other.isascii() and look_alike(other, (name,))), None)


_PROBE: Final = "remit_probe"


@cache
def self_check() -> None:
    """Prove once per process that the installed LangChain reaches the hooks that arming relies on.

    Raises:
        ConfigError: A probe tool ran although nobody allowed it; nothing may be served then.
    """
    from langchain_core.tools import StructuredTool

    ran: list[str] = []

    def probe(value: int) -> str:
        ran.append("sync")
        return str(value)

    async def aprobe(value: int) -> str:
        ran.append("async")
        return str(value)

    armed = StructuredTool.from_function(probe, coroutine=aprobe, name=_PROBE, description="never runs")
    raw = StructuredTool.from_function(probe, name=_PROBE, description="never runs")
    arm([armed])
    outside = FRAME.set(None)
    try:
        held = [
            _refuses(lambda: armed.invoke({"value": 1})),
            _refuses(lambda: _drive(armed.ainvoke({"value": 1}))),
            _refuses(lambda: _quietly(lambda: raw.invoke({"value": 1}, {"callbacks": [sentinel()]}))),
        ]
    finally:
        FRAME.reset(outside)
    if ran or not all(held):
        from importlib.metadata import version

        raise ConfigError(
            f"tool bodies cannot be guarded with the installed langchain-core {version('langchain-core')}: "
            "a probe tool was not refused; install a supported release"
        )


def _refuses(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except TicketRefused:
        return True
    return False


def _drive(work: Any) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()  # `asyncio.run` would replace the host's current loop
        try:
            loop.run_until_complete(work)
        finally:
            loop.close()
    else:
        try:
            work.send(None)  # refused before anything is waited for
        finally:
            work.close()


def _quietly(attempt: Callable[[], Any]) -> None:
    """Run `attempt` without LangChain's warning about the refusal that is expected."""
    manager = logging.getLogger("langchain_core.callbacks.manager")

    def unexpected(record: logging.LogRecord) -> bool:
        return _PROBE not in record.getMessage()

    manager.addFilter(unexpected)
    try:
        attempt()
    finally:
        manager.removeFilter(unexpected)
