"""What a guard reads off a tool call before it asks anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from remit.authz.tickets import canonical
from remit.authz.types import Principal


@dataclass(slots=True)
class Facts:
    """One tool call on its way, as the tool node hands it over."""

    request: ToolCallRequest
    name: str
    """As the model wrote it; empty when it is no string."""
    call_id: str | None
    tool: Any
    """The registered object, or None for a name that is not registered."""
    args: dict[str, Any] | None
    """As sent; None when they are no mapping with string keys."""
    runtime: Any
    context: Any
    registered: dict[str, Any]
    """The agent's tools by name."""
    thread_id: str | None
    run_id: str | None


def facts_of(request: ToolCallRequest) -> Facts:
    """What `request` says."""
    call: Mapping[str, Any] = request.tool_call
    name, call_id, args = call.get("name"), call.get("id"), call.get("args")
    runtime = request.runtime
    info = getattr(runtime, "execution_info", None)
    return Facts(
        request=request,
        name=name if isinstance(name, str) else "",
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        tool=request.tool,
        args=args if isinstance(args, dict) and all(isinstance(key, str) for key in args) else None,
        runtime=runtime,
        context=getattr(runtime, "context", None),
        registered={tool.name: tool for tool in getattr(runtime, "tools", None) or ()},
        thread_id=getattr(info, "thread_id", None),
        run_id=getattr(info, "run_id", None),
    )


class Turn(NamedTuple):
    """The model turn that calls come from: the last AI message of the state."""

    message_id: str | None
    ids: tuple[str | None, ...]
    """Ids of its calls."""
    answered: frozenset[str]
    """Ids that a later tool message answers."""

    @property
    def open_calls(self) -> int:
        """How many of its calls have no answer yet."""
        return sum(call_id not in self.answered for call_id in self.ids)


_NO_TURN: Final = Turn(None, (), frozenset())


def turn_of(state: Any) -> Turn:
    """The last model turn in `state`: a mapping, an object with ``messages``, or the list of messages itself."""
    if isinstance(state, Mapping):
        messages = state.get("messages")
    else:
        messages = state if isinstance(state, list) else getattr(state, "messages", None)
    if not isinstance(messages, (list, tuple)):
        return _NO_TURN
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return Turn(message.id, tuple(call["id"] for call in message.tool_calls), frozenset(answered))
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
    return _NO_TURN


def irregularity(facts: Facts, turn: Turn) -> tuple[str, str] | None:
    """Why a call is refused whatever the policy says: reason code and a safe sentence. None when it is in order."""
    if facts.call_id is None or not facts.name or facts.args is None:
        return "authz.malformed_call", "the call has no id, no name or no proper arguments."
    if turn.ids.count(facts.call_id) > 1:
        return "authz.duplicate_call", "several calls share one id. Give every call an id of its own."
    if facts.tool is not None:
        if getattr(facts.tool, "name", None) != facts.name:
            return "authz.tool_identity", "the tool behind this name has another name."
        if facts.registered.get(facts.name, facts.tool) is not facts.tool:
            return "authz.tool_identity", "another tool is registered under this name."
    return None


def read_state(state: Any, key: str) -> Any:
    """A channel of `state`, or None."""
    if isinstance(state, Mapping):
        return state.get(key)
    return None if isinstance(state, list) else getattr(state, key, None)


def identity_digest(principal: Principal, *, with_rights: bool) -> str:
    """A digest of who `principal` is: the fields that stay the same as long as it is the same caller.

    Args:
        principal: Whose identity.
        with_rights: Whether role and attributes are part of it. They are for a caller who has no other identity.
    """
    identity = _digest(
        principal.user_id,
        principal.oauth_provider,
        principal.oauth_id,
        principal.channel_user_id,
        principal.is_internal,
    )
    return _digest(identity, principal.role, canonical(principal.attributes)[1]) if with_rights else identity


@lru_cache(maxsize=4096)
def _digest(*parts: str | bytes | bool | None) -> str:
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_anonymous(principal: Principal) -> bool:
    """Whether nothing but the role tells who this is."""
    return not (principal.user_id or principal.oauth_id or principal.channel_user_id)


def sealed_identity(principal: Principal) -> str:
    """The value of the private state channel: who the run belongs to, and with which rights it began."""
    return f"{identity_digest(principal, with_rights=False)}:{identity_digest(principal, with_rights=True)}"


def same_identity(sealed: Any, principal: Principal, *, resumed: bool) -> bool:
    """Whether `principal` is the one whose run `sealed` belongs to.

    A caller with an id may change role: that is obeyed, at once. A caller without any may change role during a run, but
    whoever resumes it must have the rights with which it began, since nothing else tells two such callers apart.
    """
    if sealed is None:
        return not resumed  # a graph that seals no identity; whose run is resumed there cannot be told
    if not isinstance(sealed, str):
        return False
    identity, _, rights = sealed.partition(":")
    if identity != identity_digest(principal, with_rights=False):
        return False
    if resumed and is_anonymous(principal):
        return rights == identity_digest(principal, with_rights=True)
    return True


def is_resumed(config: Any) -> bool:
    """Whether the run continues from a checkpoint (an answered interrupt, a retry) instead of from new input."""
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    return isinstance(configurable, Mapping) and configurable.get("__pregel_resuming") is True
