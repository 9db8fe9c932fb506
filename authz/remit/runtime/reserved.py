"""The one registry of reserved things: what only the server writes, what is secret, and what a client may send.

State channels, keys of the run context, keys of message metadata and patterns of message ids are declared here with
their owner. Generated from it are the annotations that keep channels out of a run's input (`protected_channels`), the
sanitisers of everything that comes from outside (`clean_context`, `clean_metadata`; whole inputs in
`remit.runtime.inbound`), and the set of keys that observers must not see (`redacted`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Final, NotRequired, TypeVar, get_args, get_origin, get_type_hints

from remit.authz import wire

T = TypeVar("T")


class Kind(Enum):
    """Where a reserved thing stands."""

    CHANNEL = "state channel"
    CONTEXT = "key of the run context"
    METADATA = "key of message metadata"
    MESSAGE_ID = "pattern of message ids"


class Input(Enum):
    """Who may send it from outside."""

    NEVER = "never"
    INTERNAL = "internal callers only"
    CLIENT = "clients, when the validator accepts it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """One reserved thing."""

    kind: Kind
    key: str
    """The name; for message ids a regular expression that matches from the start."""
    owner: str
    """The module that writes it."""
    secret: bool = False
    """Whether observers and stored copies must not hold it."""
    input: Input = Input.NEVER
    valid: Callable[[Any], bool] | None = None
    """For `Input.CLIENT`: accepts a value that a client may send."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 100_000


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_files(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 200 and all(isinstance(item, Mapping) for item in value)


def _is_answer(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _channels() -> Iterable[Reserved]:
    yield Reserved(kind=Kind.CHANNEL, key="messages", owner="graph", input=Input.CLIENT, valid=lambda value: True)
    server = {
        wire.SANDBOX: "middlewares.sandbox",
        wire.THREAD_DATA: "middlewares.thread_data",
        wire.UPLOADED_FILES: "middlewares.uploads",
        wire.ARTIFACTS: "harness.tools",
        wire.PROMOTED: "harness.deferred",
        "jump_to": "graph",
        "structured_response": "graph",
        "title": "middlewares.title",
        "summary_text": "middlewares.summarization",
        "todos": "middlewares.todo_list",
        "goal": "gateway",
        "background_tasks": "harness",
        "viewed_images": "middlewares.view_image",
        "delegations": "middlewares.durable_context",
        "skill_context": "middlewares.durable_context",
    }
    for key, owner in server.items():
        yield Reserved(kind=Kind.CHANNEL, key=key, owner=owner)
    yield Reserved(kind=Kind.CHANNEL, key=wire.PRINCIPAL_DIGEST, owner="middlewares.authorization", secret=True)


def _context() -> Iterable[Reserved]:
    for key in (
        wire.PRINCIPAL,
        wire.RUN_JOURNAL,
        wire.AUTHORIZATION_OUTCOME,
        wire.PRE_RUN_MESSAGE_IDS,
        wire.APP_CONFIG,
    ):
        yield Reserved(kind=Kind.CONTEXT, key=key, owner="gateway and harness", secret=True)
    for key in (
        wire.USER_ID,
        wire.USER_ROLE,
        wire.OAUTH_PROVIDER,
        wire.OAUTH_ID,
        wire.IS_INTERNAL,
        wire.AUTHZ_ATTRIBUTES,
        wire.IS_SUBAGENT,
        wire.RUN_ID,
        wire.THREAD_ID,
        wire.SANDBOX_ID,
    ):
        yield Reserved(kind=Kind.CONTEXT, key=key, owner="gateway and harness")
    for key in (wire.CHANNEL_USER_ID, wire.NON_INTERACTIVE):
        yield Reserved(kind=Kind.CONTEXT, key=key, owner="gateway", input=Input.INTERNAL)
    yield Reserved(kind=Kind.CONTEXT, key=wire.AGENT_NAME, owner="client", input=Input.CLIENT, valid=_is_text)


def _metadata() -> Iterable[Reserved]:
    server = {
        wire.TOOL_META: "middlewares.tool_error_handling",
        wire.TOOL_RECEIPT: "middlewares.tool_receipt",
        wire.TOOL_RECEIPT_CONTEXT: "middlewares.tool_receipt",
        wire.TOOL_RECEIPT_SNAPSHOT: "middlewares.tool_receipt",
        wire.TOOL_TRANSFORMS: "middlewares.transforms",
        wire.READ_MARK: "middlewares.read_before_write",
        wire.WRITE_BLOCK: "middlewares.read_before_write",
        wire.CONTENT_KIND: "middlewares.provenance",
        wire.PRODUCER_KIND: "middlewares.provenance",
        wire.PRODUCER_ENTITY_ID: "middlewares.provenance",
        wire.ERROR_FALLBACK: "middlewares.llm_error_handling",
        wire.ERROR_TYPE: "middlewares.llm_error_handling",
        wire.ERROR_REASON: "middlewares.llm_error_handling",
        wire.ERROR_DETAIL: "middlewares.llm_error_handling",
        wire.SKILL_CONTEXT_ENTRY: "middlewares.tool_error_handling",
        wire.SUBAGENT_STATUS: "harness",
        wire.SERVER_SEAL: "runtime.signing",
        wire.UPLOADS_SEAL: "middlewares.uploads",
        wire.MESSAGE_TIMESTAMP: "middlewares.thread_data",
        wire.RUN_ID: "middlewares.thread_data",
    }
    for key, owner in server.items():
        yield Reserved(kind=Kind.METADATA, key=key, owner=owner)
    yield Reserved(
        kind=Kind.METADATA, key=wire.ORIGINAL_USER_CONTENT, owner="middlewares.uploads", input=Input.INTERNAL
    )
    for key, valid in (
        (wire.HIDE_FROM_UI, _is_flag),
        (wire.HUMAN_INPUT_RESPONSE, _is_answer),
        (wire.FILES, _is_files),
    ):
        yield Reserved(kind=Kind.METADATA, key=key, owner="client", input=Input.CLIENT, valid=valid)


def _message_ids() -> Iterable[Reserved]:
    yield Reserved(kind=Kind.MESSAGE_ID, key=r"remit[-_]", owner="middlewares")
    yield Reserved(kind=Kind.MESSAGE_ID, key=r"deerflow[-_]", owner="middlewares")


REGISTRY: Final[Mapping[tuple[Kind, str], Reserved]] = MappingProxyType(
    {(item.kind, item.key): item for source in (_channels, _context, _metadata, _message_ids) for item in source()}
)
SERVER_PREFIXES: Final = ("__", "deerflow_", "remit_")
"""Keys that begin so are the server's, declared or not: a client's copy of an unknown one is dropped as well."""

_IDS: Final = tuple(re.compile(item.key) for item in REGISTRY.values() if item.kind is Kind.MESSAGE_ID)


def declared(kind: Kind) -> frozenset[str]:
    """The keys of one kind."""
    return frozenset(item.key for item in REGISTRY.values() if item.kind is kind)


def may_send(kind: Kind, key: str, value: Any, *, internal: bool) -> bool:
    """Whether `value` under `key` is accepted from outside.

    A key that nobody reserved is the client's own, unless it begins like the server's keys; channels that nobody
    declared are refused.
    """
    item = REGISTRY.get((kind, key))
    if item is None:
        return kind is not Kind.CHANNEL and not key.startswith(SERVER_PREFIXES)
    if item.input is Input.INTERNAL:
        return internal
    return item.input is Input.CLIENT and item.valid is not None and item.valid(value)


def clean_context(section: Mapping[str, Any] | None, *, internal: bool = False) -> dict[str, Any]:
    """A client's ``context``, ``configurable`` or ``metadata`` without what only the server writes.

    Args:
        section: As received; None is empty.
        internal: Whether the host authenticated the caller as one of its own services.
    """
    return {
        key: value
        for key, value in (section or {}).items()
        if isinstance(key, str) and may_send(Kind.CONTEXT, key, value, internal=internal)
    }


def clean_metadata(metadata: Any, *, internal: bool = False) -> dict[str, Any]:
    """A message's ``additional_kwargs`` without what only the server writes."""
    if not isinstance(metadata, Mapping):
        return {}
    return {
        key: value
        for key, value in metadata.items()
        if isinstance(key, str) and may_send(Kind.METADATA, key, value, internal=internal)
    }


def is_server_id(message_id: Any) -> bool:
    """Whether a message id is of a form that only the server gives."""
    return isinstance(message_id, str) and any(pattern.match(message_id) for pattern in _IDS)


def redacted(section: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a run context for observers and stores: without secrets and without every ``__`` key."""
    secret = {item.key for item in REGISTRY.values() if item.secret}
    return {key: value for key, value in section.items() if key not in secret and not str(key).startswith("__")}


def protected_channels(schema: type[T]) -> type[T]:
    """A state schema whose channels are taken out of a run's input wherever clients may not write them.

    The reducer stays last in the annotation, where LangGraph looks for it.

    Raises:
        TypeError: A channel is not declared in the registry.
    """
    from langchain.agents.middleware.types import OmitFromInput

    hints = get_type_hints(schema, include_extras=True)
    own = schema.__annotations__  # of a TypedDict, with the channels it inherits
    for name in own:
        item = REGISTRY.get((Kind.CHANNEL, name))
        if item is None:
            raise TypeError(f"the state channel {name!r} is not declared in remit.runtime.reserved")
        if item.input is not Input.CLIENT:
            own[name] = _omitted(hints[name], OmitFromInput)
    return schema


def _omitted(hint: Any, mark: Any) -> Any:
    if get_origin(hint) is NotRequired:
        return NotRequired[_omitted(get_args(hint)[0], mark)]
    if get_origin(hint) is Annotated:
        kind, *extras = get_args(hint)
        if any(isinstance(extra, type(mark)) for extra in extras):
            return hint
        return Annotated[(kind, mark, *extras)]
    return Annotated[hint, mark]
