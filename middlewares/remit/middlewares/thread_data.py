"""Where a run's files lie, computed from whose run it is and never from what the run was given."""

from __future__ import annotations

import os
from asyncio import to_thread
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.messages import HumanMessage

from remit.authz import wire
from remit.authz.config import state_dir
from remit.runtime.identity import resolve_runtime_user_id, runtime_run_id, runtime_thread_id
from remit.runtime.paths import ThreadPaths, thread_paths
from remit.runtime.state import ThreadState

DEFAULT_NAME: Final = "user-input"


class ThreadDataMiddleware(AgentMiddleware[Any, Any, Any]):
    """Writes the thread's folders into the state, and stamps the message that starts the run.

    Args:
        base_dir: Instead of the state folder.
        lazy_init: Whether the folders are left to whoever needs them first: the sandbox provider makes them when it
            acquires an environment. When it is off they are made at the start of each run.
    """

    state_schema = ThreadState
    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, *, base_dir: str | os.PathLike[str] | None = None, lazy_init: bool = True) -> None:
        super().__init__()
        self.base_dir = None if base_dir is None else Path(base_dir).absolute()
        self.lazy_init = lazy_init

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot. Where the folder lies does not."""
        return {"lazy_init": self.lazy_init}

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Compute the folders and stamp the last message.

        Raises:
            ValueError: The run has no thread, or an id cannot name a folder.
        """
        return _update(self._paths(*_owner(runtime)), state, runtime)

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """The asynchronous form of `before_agent`.

        Raises:
            ValueError: As there.
        """
        user_id, thread_id = _owner(runtime)
        if self.lazy_init and (self.base_dir or state_dir()).is_absolute():
            return _update(self._paths(user_id, thread_id), state, runtime)
        return _update(await to_thread(self._paths, user_id, thread_id), state, runtime)

    def _paths(self, user_id: str, thread_id: str) -> ThreadPaths:
        """The folders. Asks the system for the working directory when the base is relative, and makes them if told."""
        paths = thread_paths(user_id, thread_id, base=self.base_dir)
        if not self.lazy_init:
            paths.create()
        return paths


def _owner(runtime: Any) -> tuple[str, str]:
    thread_id = runtime_thread_id(runtime)
    if thread_id is None:
        raise ValueError(
            f"this run has no thread; pass {wire.THREAD_ID!r} in the run context or in `configurable` of the config"
        )
    return resolve_runtime_user_id(runtime), thread_id


def _update(paths: ThreadPaths, state: Any, runtime: Any) -> dict[str, Any]:
    update: dict[str, Any] = {wire.THREAD_DATA: paths.as_state()}
    messages = state.get("messages") or ()
    if messages and isinstance(messages[-1], HumanMessage) and messages[-1].id is not None:
        # Without an id the state could not tell it from a new message; in a graph every message has one.
        update["messages"] = [_stamped(messages[-1], runtime_run_id(runtime))]
    return update


def _stamped(message: HumanMessage, run_id: str | None) -> HumanMessage:
    """A copy that says when and in which run it came. A client's own copies of the two keys do not count."""
    stamp = {wire.RUN_ID: run_id, wire.MESSAGE_TIMESTAMP: datetime.now(UTC).isoformat()}
    return message.model_copy(
        update={"name": message.name or DEFAULT_NAME, "additional_kwargs": {**message.additional_kwargs, **stamp}}
    )
