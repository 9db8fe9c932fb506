"""Files are changed only in the version that the model has read.

A successful read is marked with the version of the whole file, also when only a part was shown. A write to a file that
exists runs when the newest valid mark for its path is the version that lies there now; writes make no marks, so each
change needs a look at the one before. Marks live on messages: a summary that drops the message drops the permission.

Looking, running and marking are one step per user, thread and path (`pathlocks`), and one decision about the sandbox.

What cannot be looked at:

- a file that is not there, and a run without a thread (which has no sandbox): the call runs;
- a sandbox that reports failures as text and says so (`readmarks.version_of`): the call runs, nothing is marked;
- everything else that goes wrong while looking: the write is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, TracePolicy, omit_payload
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from remit.authz import wire
from remit.authz.errors import ConfigError, SandboxAuthorizationError
from remit.authz.principal import read
from remit.middlewares.blocked_payloads import without_payloads
from remit.middlewares.calls import read_state
from remit.middlewares.events import log
from remit.middlewares.pathlocks import Busy, Grant, PathLocks
from remit.middlewares.readmarks import (
    FailsAsText,
    Owner,
    Version,
    blocked_calls,
    has_blocks,
    newest_mark,
    version_of,
    with_block,
    with_mark,
)
from remit.middlewares.results import MISSING_ID, denial, escaped, map_messages, safe_code, shown_name
from remit.middlewares.shells import run_now, settled
from remit.middlewares.tool_result_meta import ToolMeta, failure, stamped, text_of
from remit.runtime.capabilities import Capabilities, capabilities_of
from remit.runtime.config import ReadBeforeWriteConfig
from remit.runtime.identity import resolve_runtime_user_id, runtime_thread_id
from remit.runtime.journal import record
from remit.runtime.paths import normal_virtual_path
from remit.runtime.sandboxes import Sandbox, SandboxAccess, SandboxError, decided_once
from remit.runtime.signing import signer

T = TypeVar("T")
Reason = Literal["unread", "changed", "uninspectable", "busy", "path", "undeclared"]

_MAX_SHOWN: Final = 200
"""Characters of a path in a sentence."""
_WHY: Final[dict[str, str]] = {
    "unread": "it exists and was not read in this conversation. Read it with {reader} (a part is enough), "
    "then make the change to what you see.",
    "changed": "it has changed since it was read; a write of your own is such a change. Read it again with {reader} "
    "(a part is enough), then make the change to what you see.",
    "uninspectable": "what lies there now cannot be looked at. Check the path, or write to another one.",
    "busy": "another change of it is still going on. Wait for its result, read the file, and try again.",
    "path": "that is no path that can be written. Use an absolute path below /mnt/user-data.",
    "undeclared": "what this tool does to files is not declared in a way that can be understood. Use another tool.",
}
_LOCKS: Final = PathLocks()  # of the process: agents of one thread must wait for each other
_IO: Final = ThreadPoolExecutor(max_workers=4, thread_name_prefix="remit-files")
"""Reads while a lock is held. Nobody who waits for a lock ever waits in here."""


class _File(NamedTuple):
    """The file that a call is about."""

    owner: Owner
    sandbox: Sandbox
    path: str
    """The one spelling under which it is compared and locked."""

    @property
    def key(self) -> Hashable:
        return self.owner.user_id, self.owner.thread_id, self.path


class _Port(NamedTuple):
    """How a core reaches the outside: at once in the synchronous shell, awaitable in the other."""

    ensure: Callable[[Any], Any]
    run: Callable[..., Any]
    """``(function, *arguments) -> what it returns``"""
    acquire: Callable[[Hashable], Any]


class ReadBeforeWriteMiddleware(AgentMiddleware[Any, Any, Any]):
    """Refuses to change files that the model has not read in their current version.

    Tools are recognised by the capabilities ``reads_file`` and ``writes_file``; one that has both counts as a writer.

    Args:
        config: Whether and from which length on the content of refused writes is left out of later requests.
        access: The door to the sandbox of the thread.
    """

    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(self, config: ReadBeforeWriteConfig, *, access: SandboxAccess) -> None:
        super().__init__()
        self._config = config
        self._now = _Port(access.ensure, lambda function, *args: function(*args), _LOCKS.acquire)
        self._soon = _Port(access.aensure, _beside, _LOCKS.aacquire)

    def release_policy_parameters(self) -> dict[str, object]:
        """What changes the behaviour of this slot."""
        return self._config.model_dump(mode="json")

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run the call, or refuse a write to a version that was not read."""
        return run_now(self._tool_call(request, handler, self._now))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The asynchronous form of `wrap_tool_call`."""
        return await self._tool_call(request, handler, self._soon)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Call the model without the content of writes that were refused."""
        return run_now(self._model_call(request, handler, self._now))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The asynchronous form of `wrap_model_call`."""
        return await self._model_call(request, handler, self._soon)

    async def _model_call(self, request: ModelRequest[Any], handler: Callable[..., Any], port: _Port) -> Any:
        if self._config.elide_blocked_payloads and has_blocks(request.messages):
            owner = _owner(request.runtime)
            if owner is not None:
                await _signing(port)
                ids = blocked_calls(request.messages, owner)
                if (shorter := without_payloads(request.messages, ids, self._config.elide_min_chars)) is not None:
                    request = request.override(messages=shorter)
        return await settled(handler(request))

    async def _tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Any], port: _Port
    ) -> ToolMessage | Command[Any]:
        call = _Call.of(request)
        try:
            can = capabilities_of(request.tool, call.name)
        except ConfigError as exc:
            log.error("read_before_write: %s", exc)
            return self._refused(request, call, "", "undeclared", None)
        argument = can.writes_file or can.reads_file
        if argument is None:
            return cast("ToolMessage | Command[Any]", await settled(handler(request)))
        path, owner = _path_of(request, argument), _owner(request.runtime)
        if path is None or owner is None:
            return cast("ToolMessage | Command[Any]", await settled(handler(request)))
        await _signing(port)
        kind = self._write if can.writes_file else self._read
        try:
            with decided_once():  # looking before, the body, and looking afterwards: one decision
                return await kind(request, handler, port, call, path, owner)
        except SandboxAuthorizationError as exc:
            return _unauthorized(call, exc)

    async def _write(
        self, request: ToolCallRequest, handler: Callable[..., Any], port: _Port, call: _Call, path: str, owner: Owner
    ) -> ToolMessage | Command[Any]:
        try:
            file = await _file(request, port, path, owner)
        except ValueError:
            return self._refused(request, call, path, "path", owner)
        except (SandboxError, OSError) as exc:
            log.warning("read_before_write: the sandbox cannot be looked into: %s", type(exc).__name__)
            return self._refused(request, call, path, "uninspectable", owner)
        try:
            grant: Grant = await settled(port.acquire(file.key))
        except Busy as exc:
            log.warning("read_before_write: a write was refused: %s", exc)
            return self._refused(request, call, path, "busy", owner)
        try:
            reason = await self._obstacle(request, port, file)
            if reason is not None:
                return self._refused(request, call, path, reason, owner)
            return cast("ToolMessage | Command[Any]", await settled(handler(request)))
        finally:
            grant.release()

    async def _obstacle(self, request: ToolCallRequest, port: _Port, file: _File) -> Reason | None:
        """Why the file must not be written now, or None."""
        try:
            now: Version | None = await settled(port.run(version_of, file.sandbox, file.path))
        except FailsAsText:
            return None
        except SandboxAuthorizationError:
            raise
        except Exception as exc:
            log.warning("read_before_write: a file cannot be looked at, so it is not written: %s", type(exc).__name__)
            return "uninspectable"
        if now is None:
            return None
        messages = read_state(request.state, "messages") if not isinstance(request.state, list) else request.state
        seen = newest_mark(messages if isinstance(messages, (list, tuple)) else (), file.path, file.owner)
        if seen == now.digest:
            return None
        return "unread" if seen is None else "changed"

    async def _read(
        self, request: ToolCallRequest, handler: Callable[..., Any], port: _Port, call: _Call, path: str, owner: Owner
    ) -> ToolMessage | Command[Any]:
        try:
            file = await _file(request, port, path, owner)
            grant: Grant = await settled(port.acquire(file.key))
        except (ValueError, SandboxError, OSError, Busy):  # the tool says what is wrong; nothing is marked
            return cast("ToolMessage | Command[Any]", await settled(handler(request)))
        try:
            before = await _looked_at(port, file)
            result = await settled(handler(request))
            if before is None:
                return cast("ToolMessage | Command[Any]", result)
            line = _error_line(result, call.id)
            after = await _looked_at(port, file, line)
        finally:
            grant.release()
        if after is None or after.digest != before.digest or not after.holds:
            return cast("ToolMessage | Command[Any]", result)  # it changed meanwhile, or the text is no part of it
        version = after

        def mark(message: ToolMessage) -> ToolMessage:
            shown = message.status == "success" and (bool(message.content) or version.size == 0)
            return with_mark(message, file.path, version.digest, owner) if shown else message

        return cast("ToolMessage | Command[Any]", map_messages(result, mark, call_id=call.id))

    def _refused(
        self, request: ToolCallRequest, call: _Call, path: str, reason: Reason, owner: Owner | None
    ) -> ToolMessage:
        """The answer to a write that did not run; the model can put it right."""
        why = _WHY[reason].format(reader=_reader(request.runtime))
        shown = escaped(path if len(path) <= _MAX_SHOWN else path[: _MAX_SHOWN - 3] + "...")
        message = ToolMessage(
            f"Write refused: {shown or 'the file'} was not changed, because {why}",
            name=call.name or "unnamed",
            tool_call_id=call.id or MISSING_ID,
            status="error",
            artifact={"code": f"read_before_write.{reason}", "path": shown},
        )
        if owner is not None:
            message = with_block(message, reason, owner)
        context = getattr(request.runtime, "context", None)
        record(
            context,
            "read_before_write",
            name="ReadBeforeWriteMiddleware",
            hook="wrap_tool_call",
            action="block_write",
            changes={
                "tool_name": escaped(call.name[:_MAX_SHOWN]),
                "tool_call_id": None if call.id is None else escaped(call.id[:_MAX_SHOWN]),
                "is_subagent": read(context, wire.IS_SUBAGENT) is True,
                "reason": reason,
            },
        )
        return stamped(message, _META)


_META: Final = ToolMeta(
    status="error",
    error_type="write_blocked",
    recoverable_by_model=True,
    recommended_next_action="try_alternative",
    source="tool_return",
)


class _Call(NamedTuple):
    """What a call goes by."""

    name: str
    id: str | None

    @classmethod
    def of(cls, request: ToolCallRequest) -> _Call:
        name, call_id = request.tool_call.get("name"), request.tool_call.get("id")
        return cls(name if isinstance(name, str) else "", call_id if isinstance(call_id, str) and call_id else None)


def _path_of(request: ToolCallRequest, argument: str) -> str | None:
    """The path in the call; the tool's own default when it has none. None when it is no text: the tool refuses it."""
    args: Any = request.tool_call.get("args")
    if not isinstance(args, dict):
        return None
    if argument in args:
        value = args[argument]
    else:
        schema = getattr(request.tool, "args_schema", None)
        field = getattr(schema, "model_fields", {}).get(argument)
        value = getattr(field, "default", None)
    return value if isinstance(value, str) else None


def _owner(runtime: Any) -> Owner | None:
    """Whose files a run works on; None for one without a thread."""
    try:
        thread_id = runtime_thread_id(runtime)
        return None if thread_id is None else Owner(thread_id, resolve_runtime_user_id(runtime))
    except ValueError:
        return None


async def _file(request: ToolCallRequest, port: _Port, path: str, owner: Owner) -> _File:
    """The file at `path` of the run's own sandbox.

    Raises:
        ValueError: `path` is none.
        SandboxError: The sandbox cannot be reached, or does not have such a path.
        SandboxAuthorizationError: The policy does not permit it.
    """
    normal = normal_virtual_path(path)
    sandbox: Sandbox = await settled(port.ensure(request.runtime))
    resolve = getattr(sandbox, "real_path", None)
    if callable(resolve):  # one file, one spelling, whatever links lead to it
        normal = await settled(port.run(resolve, normal))
    return _File(owner, sandbox, normal)


async def _looked_at(port: _Port, file: _File, line: str = "") -> Version | None:
    """The file as it is now; None when it is not there or cannot be looked at."""
    try:
        found: Version | None = await settled(port.run(version_of, file.sandbox, file.path, line))
    except SandboxAuthorizationError:
        raise
    except Exception:  # nothing is marked, and the tool itself says what is wrong
        return None
    return found


def _error_line(result: Any, call_id: str | None) -> str:
    """The first line of a result that looks like a failure told as text; it counts as one unless the file holds it."""
    found = ""

    def look(message: ToolMessage) -> ToolMessage:
        nonlocal found
        text = text_of(message)
        if text[:6].lower() == "error:":
            found = text.partition("\n")[0].rstrip("\r")
        return message

    map_messages(result, look, call_id=call_id)
    return found


def _reader(runtime: Any) -> str:
    """The tool that reads files, by its name."""
    for tool in getattr(runtime, "tools", None) or ():
        try:
            can = capabilities_of(tool)
        except ConfigError:
            can = Capabilities()
        if can.reads_file is not None and can.writes_file is None:
            return str(getattr(tool, "name", "read_file"))
    return "read_file"


def _unauthorized(call: _Call, error: SandboxAuthorizationError) -> ToolMessage:
    codes = error.details.get("reason_codes")
    code = safe_code(codes[0] if isinstance(codes, (list, tuple)) and codes else "authz.denied")
    text = f"{shown_name(call.name)} needs a sandbox, and this run may not use one. Choose an approach without it."
    return stamped(denial(call.name, call.id, code, scope="invocation", text=text), failure("permission", "exception"))


async def _signing(port: _Port) -> None:
    """Have the signer ready: its first use in a process may read the key from disk."""
    if not signer.cache_info().currsize:
        await settled(port.run(signer))


async def _beside(function: Callable[..., T], *args: Any) -> T:
    """What `function` returns, run in a thread that belongs to this module."""
    return await asyncio.get_running_loop().run_in_executor(_IO, copy_context().run, function, *args)
