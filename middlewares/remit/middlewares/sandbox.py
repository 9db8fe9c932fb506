"""The environment of a thread: made, noted in the state, and let go by the agent that owns it.

Where the gate is asked: not here. This slot stands outside of the guards, so it has no effect before a call was
decided. `SandboxAccess.ensure` asks ``sandbox:execute`` for whatever needs the environment first (the inspection before
a write, the body of a tool, the store for long results), before it acquires and before it reuses; the eager start of a
run goes through the same door.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, runtime_checkable

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz import wire
from remit.authz.errors import SandboxAuthorizationError
from remit.authz.principal import read
from remit.middlewares.release import declaration_of
from remit.middlewares.shells import run_now, settled
from remit.runtime.identity import resolve_runtime_user_id, runtime_thread_id
from remit.runtime.sandboxes import Opened, Sandbox, SandboxAccess, SandboxError, noticed, sandbox_id_in
from remit.runtime.state import ThreadState

log = logging.getLogger("remit.middlewares")

_CHANNEL: Final = wire.SANDBOX


@runtime_checkable
class Projection(Protocol):
    """Puts what a thread may use where its environment sees it."""

    def project(self, user_id: str, thread_id: str) -> None:
        """Bring the thread's view up to date. Blocks; does nothing when nothing changed."""
        ...


class SandboxMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps the id of the thread's environment in the state.

    An owner brings the projection up to date when a run starts, acquires then when `lazy_init` is off, and lets go when
    the run ends. Everybody else only notes what its tools acquired: subagents and the bootstrap agent see less than the
    thread may, and work in an environment that is not theirs.

    Args:
        access: The door to the environments.
        lazy_init: Whether the environment is made at first use. When it is off and the caller may not have one, or none
            can be made, the run starts without: the tools that need one say so.
        owner: Whether this agent owns the thread's environment.
        projection: Brought up to date at the start of a run, by owners.
    """

    state_schema = ThreadState
    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(
        self,
        access: SandboxAccess,
        *,
        lazy_init: bool = True,
        owner: bool = True,
        projection: Projection | None = None,
    ) -> None:
        super().__init__()
        self.access = access
        self.owner = owner
        self.eager = owner and not lazy_init
        self.projection = projection if owner else None

    @property
    def releases(self) -> bool:
        """Whether the end of a run lets go of anything: not where idle environments cost nothing and are kept."""
        return self.owner and not getattr(self.access.provider, "keeps_environments", False)

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        projection = self.projection
        declares = callable(getattr(projection, "release_policy_parameters", None))
        return {
            "lazy_init": not self.eager,
            "owner": self.owner,
            "projection": declaration_of(projection) if declares else projection is not None,
        }

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Project, and acquire when that is not left to the first use."""
        self._project(runtime)
        if not self.eager:
            return None
        try:
            return _noted(self.access.ensure(runtime), state)
        except (SandboxAuthorizationError, SandboxError) as exc:
            _put_off(exc)
            return None

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The asynchronous form of `before_agent`."""
        if self.projection is not None:
            await to_thread(self._project, runtime)
        if not self.eager:
            return None
        try:
            return _noted(await self.access.aensure(runtime), state)
        except (SandboxAuthorizationError, SandboxError) as exc:
            _put_off(exc)
            return None

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Let go of the environment, when it is this thread's and this agent owns it."""
        if (sandbox_id := self._releasable(state, runtime)) is not None:
            self._release(runtime, sandbox_id)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """The asynchronous form of `after_agent`."""
        if (sandbox_id := self._releasable(state, runtime)) is not None:
            await to_thread(self._release, runtime, sandbox_id)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call, and note the environment that was opened for it."""
        result: ToolMessage | Command[Any] = run_now(self._tool_call(request, handler))
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        result: ToolMessage | Command[Any] = await self._tool_call(request, handler)
        return result

    async def _tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        with noticed() as opened:
            result = await settled(handler(request))
        if not opened or (sandbox_id := self._own(opened, request.runtime)) is None:
            return result
        if sandbox_id == sandbox_id_in(request.state):
            return result
        return with_update(result, _CHANNEL, {"sandbox_id": sandbox_id})

    def _own(self, opened: list[Opened], runtime: Any) -> str | None:
        """The latest of the environments that is this thread's: an agent called as a tool may open another's."""
        try:
            mine = runtime_thread_id(runtime), resolve_runtime_user_id(runtime)
        except ValueError:  # then nothing of ours can have been opened
            return None
        for one in reversed(opened):
            if one.access is self.access and (one.thread_id, one.user_id) == mine:
                return one.sandbox_id
        return None

    def _project(self, runtime: Any) -> None:
        if self.projection is not None and (thread_id := runtime_thread_id(runtime)) is not None:
            self.projection.project(resolve_runtime_user_id(runtime), thread_id)

    def _releasable(self, state: Any, runtime: Any) -> str | None:
        """The id to let go of. Whose it is, the provider checks."""
        if not self.releases:
            return None
        held = state.get(_CHANNEL) if isinstance(state, Mapping) else None
        if held is not None:
            # What a fork restored is still wrapped (`Overwrite`, or a JSON form of it): no run made it, none ends it.
            return sandbox_id_in(state)
        found = read(getattr(runtime, "context", None), wire.SANDBOX_ID)
        return found if isinstance(found, str) and found else None

    def _release(self, runtime: Any, sandbox_id: str) -> None:
        try:
            self.access.release(runtime, sandbox_id)
        except Exception:  # the answer is there already; a provider that cannot let go must not take it away
            log.exception("the sandbox of a finished run could not be released")


def with_update(result: Any, channel: str, value: Any) -> Any:
    """`result` of a tool call with one more channel written; nothing is changed in place.

    A message becomes a `Command`; a `Command` whose update is a mapping, a list of pairs, or None gets the channel and
    keeps ``goto``, ``graph`` and ``resume``; beside every other form stands a second `Command`.
    """
    if isinstance(result, ToolMessage):
        return Command(update={channel: value, "messages": [result]})
    extra: Command[Any] = Command(update={channel: value})
    if isinstance(result, Command):
        update = result.update
        if update is None:
            return replace(result, update={channel: value})
        if isinstance(update, dict):
            return replace(result, update={**update, channel: value})
        if isinstance(update, (list, tuple)) and all(_is_pair(item) for item in update):
            return replace(result, update=[*(item for item in update if item[0] != channel), (channel, value)])
        return [result, extra]
    if isinstance(result, (list, tuple)):
        return [*result, extra]
    return result


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _noted(sandbox: Sandbox, state: Any) -> dict[str, Any] | None:
    return None if sandbox.id == sandbox_id_in(state) else {_CHANNEL: {"sandbox_id": sandbox.id}}


def _put_off(exc: Exception) -> None:
    """The tools that need an environment will ask again, and say so to the model."""
    log.info("the run starts without a sandbox: %s", exc)
