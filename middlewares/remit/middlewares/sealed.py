"""Sealed requests: what inner middlewares are handed, and what stays in force whatever they make of it.

A sealed tool request arms every tool that is put into it. A sealed model request shows nothing that its `View` hides,
and hands on a twin of the model that filters once more at `bind_tools`, the last place where a tool can appear.
`override`, `dataclasses.replace` and assignment keep the seal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt.tool_node import ToolCallRequest

from remit.authz.errors import ConfigError
from remit.authz.gates.arming import arm, is_armed
from remit.authz.gates.tools import tool_name
from remit.middlewares.events import log


@dataclass(init=False)
class SealedToolCallRequest(ToolCallRequest):
    """A tool call request that arms its tool: one that is swapped in by `override` or assignment as well."""

    mandatory: ClassVar[bool] = True

    def __init__(self, tool_call: ToolCall, tool: BaseTool | None, state: Any, runtime: Any) -> None:
        arm((tool,), mandatory=self.mandatory)
        self.__dict__.update(tool_call=tool_call, tool=tool, state=state, runtime=runtime)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tool":
            arm((value,), mandatory=self.mandatory)
        super().__setattr__(name, value)


@dataclass(init=False)
class WatchedToolCallRequest(SealedToolCallRequest):
    """The seal of an explicit guardrail: its tools ask inside of the call, and run as ever outside of it."""

    mandatory: ClassVar[bool] = False


def shapes_answer(tool: Any) -> bool:
    """Whether `tool` has no body and only gives the answer a shape (structured output), so that nothing can run."""
    if isinstance(tool, type):
        return True
    if isinstance(tool, dict):
        kind = tool.get("type", "object" if "properties" in tool else None)
        return kind == "object" and "name" not in tool and "function" not in tool
    return (
        isinstance(tool, StructuredTool)
        and tool.func is None
        and tool.coroutine is None
        and type(tool)._run is StructuredTool._run
        and type(tool)._arun is StructuredTool._arun
    )


class View:
    """What one principal may be shown during one model call.

    Args:
        names: The tools known when the call began.
        shown: Which of them are shown.
        ask: Tells which of further names are shown; None when that would have to be waited for: they are hidden.
        version: Tells the policy version in force; when it moves, `ask` is asked again.
        seen: The version under which `shown` was decided.
        never: Names that are hidden whatever the policy says.
        always: Tool objects that are shown whatever the policy says: the agent's build made them itself.
    """

    __slots__ = ("_always", "_ask", "_known", "_never", "_seen", "_version")

    def __init__(
        self,
        names: Iterable[str],
        shown: Iterable[str],
        *,
        ask: Callable[[list[str]], list[str]] | None,
        version: Callable[[], str],
        seen: str,
        never: frozenset[str] = frozenset(),
        always: Sequence[object] = (),
    ) -> None:
        allowed = set(shown) - never
        self._always = always
        self._known = {name: name in allowed for name in names}
        self._ask = ask
        self._never = never
        self._version = version
        self._seen = seen

    def shown(self, tools: Sequence[Any]) -> list[Any]:
        """`tools` without those that are hidden, in order. The tools that remain are armed."""
        named = [(tool, "" if shapes_answer(tool) else tool_name(tool) or None) for tool in tools]
        self._learn({name for _, name in named if name})
        known = self._known
        kept = [
            tool
            for tool, name in named
            if name is not None and (name == "" or known.get(name, False) or any(tool is one for one in self._always))
        ]
        bodies = [tool for tool in kept if isinstance(tool, BaseTool) and not shapes_answer(tool)]
        try:
            arm(bodies)
        except ConfigError as exc:
            log.error("%s", exc)
            refused = [tool for tool in bodies if not is_armed(tool)]
            return [tool for tool in kept if all(tool is not one for one in refused)]
        return kept

    def hides(self, name: str) -> bool:
        """Whether a tool of this name is known and hidden."""
        return self._known.get(name) is False

    def _learn(self, names: set[str]) -> None:
        if self._ask is None:
            return
        if (version := self._version()) != self._seen:
            self._known, self._seen = {}, version
        new = [name for name in names if name not in self._known]
        if new:
            allowed = set(self._ask(new)) - self._never
            self._known.update((name, name in allowed) for name in new)


def nothing() -> View:
    """A view in which everything is hidden but what shapes an answer."""
    return View((), (), ask=None, version=str, seen="")


@dataclass(init=False)
class SealedModelRequest(ModelRequest[Any]):
    """A model request that holds only what its view shows, and a model that filters last."""

    view: View = field(repr=False, compare=False, kw_only=True)

    def __init__(self, *, view: View, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        object.__setattr__(self, "view", view)
        self._seal()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("model", "tools", "tool_choice"):
            self._seal()

    def _seal(self) -> None:
        set_ = object.__setattr__
        set_(self, "tools", self.view.shown(self.tools))
        set_(self, "model", twin(self.model, self.view))
        set_(self, "tool_choice", _choice(self.tool_choice, self.view))


def sealed_model_request(request: ModelRequest[Any], view: View) -> SealedModelRequest:
    """`request` under `view`."""
    return SealedModelRequest(
        view=view,
        model=request.model,
        messages=request.messages,
        system_message=request.system_message,
        tool_choice=request.tool_choice,
        tools=request.tools,
        response_format=request.response_format,
        state=request.state,
        runtime=request.runtime,
        model_settings=request.model_settings,
    )


def _choice(tool_choice: Any, view: View) -> Any:
    """`tool_choice`, unless it forces a hidden tool: naming that to the model's provider would be an error."""
    name = tool_name(tool_choice) if isinstance(tool_choice, dict) else tool_choice
    return None if isinstance(name, str) and view.hides(name) else tool_choice


_BINDING: Final[ContextVar[bool]] = ContextVar("remit_binding", default=False)


class _Last:
    """First base of every twin class."""

    __slots__ = ()

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        view = _view_of(self)
        kept = view.shown(list(tools))
        if tools and not kept:  # some providers refuse an empty list: bound as if there had never been tools
            return super().bind(**{key: value for key, value in kwargs.items() if key != "tool_choice"})  # type: ignore[misc]
        if "tool_choice" in kwargs:
            kwargs["tool_choice"] = _choice(kwargs["tool_choice"], view)
        inside = _BINDING.set(True)
        try:
            return super().bind_tools(kept, **kwargs)  # type: ignore[misc]
        finally:
            _BINDING.reset(inside)

    def bind(self, **kwargs: Any) -> Any:
        if not _BINDING.get():  # `bind_tools` ends here too, with what it has filtered already
            for key in ("tools", "functions"):
                if isinstance(kwargs.get(key), (list, tuple)):
                    kwargs[key] = _view_of(self).shown(kwargs[key])
        return super().bind(**kwargs)  # type: ignore[misc]

    def __copy__(self) -> Any:
        return _with_view(super().__copy__(), _view_of(self))  # type: ignore[misc]

    def __deepcopy__(self, memo: Any = None) -> Any:
        return _with_view(super().__deepcopy__(memo), _view_of(self))  # type: ignore[misc]


_VIEW: Final = "remit_view"  # a slot of the twin class: the instance dict is shared with the model
_SHARED: Final = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_TWINS: Final[dict[type, type]] = {}
_LOCK: Final = threading.Lock()


def _view_of(model: Any) -> View:
    """The view of a twin; a twin that lost it shows nothing."""
    view = getattr(model, _VIEW, None)
    return view if isinstance(view, View) else nothing()


def _with_view(model: Any, view: View) -> Any:
    object.__setattr__(model, _VIEW, view)
    return model


def twin(model: Any, view: View) -> Any:
    """A stand-in for `model` that binds only what `view` shows.

    It shares the model's whole state, counters and clients included, and is an instance of its class. What is no chat
    model is handed back.
    """
    if not isinstance(model, BaseChatModel):
        return model
    kind = type(model)
    if issubclass(kind, _Last):
        kind = kind.__mro__[2]
    made = _TWINS.get(kind) or _twin_class(kind)
    stand_in: Any = object.__new__(made)
    for name in _SHARED:
        object.__setattr__(stand_in, name, getattr(model, name))
    return _with_view(stand_in, view)


def _twin_class(kind: type) -> type:
    with _LOCK:
        if kind not in _TWINS:
            space = {
                "__module__": kind.__module__,
                "__qualname__": kind.__qualname__,
                "__doc__": kind.__doc__,
                "__slots__": (_VIEW,),
            }
            _TWINS[kind] = type(kind)(kind.__name__, (_Last, kind), space)
        return _TWINS[kind]
