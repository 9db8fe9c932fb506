"""Which messages the server wrote itself, proven by a signature: flags and names can be set by anybody.

Whoever puts a message of the server's own making into the state seals it; what carries no valid seal is a stranger's.
The seal holds for that id and that very content, and says nothing about the rest of the message.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from uuid import uuid4

from langchain_core.messages import BaseMessage

from remit.authz import wire
from remit.authz.errors import ConfigError
from remit.runtime.release import canonical_json
from remit.runtime.signing import signer

M = TypeVar("M", bound=BaseMessage)

_PURPOSE: Final = "server-message"
_PROOFS: Final = frozenset({wire.SERVER_SEAL, wire.UPLOADS_SEAL, wire.TOOL_RECEIPT})


def sealed_message(message: M) -> M:
    """A copy of `message`, which the server wrote, that proves it. One without an id gets one.

    The first call in a process may read the signing key from disk.

    Raises:
        TypeError: The content has no JSON form.
        ValueError: As `TypeError`.
    """
    message_id = message.id or f"remit-{uuid4()}"
    seal = signer().sign(_PURPOSE, message_id, canonical_json(message.content))
    kwargs = {**message.additional_kwargs, wire.SERVER_SEAL: seal}
    return message.model_copy(update={"id": message_id, "additional_kwargs": kwargs})


def is_server_message(message: Any) -> bool:
    """Whether the server wrote `message`, as it stands. Never raises for what a message may hold.

    The first call for a sealed message in a process may read the signing key from disk.

    Raises:
        ConfigError: The signing key cannot be used.
    """
    seal = _seal_of(message)
    if seal is None:
        return False
    try:
        content = canonical_json(message.content)
    except (TypeError, ValueError, RecursionError):
        return False
    return signer().verify(seal, _PURPOSE, message.id or "", content)


async def prepare_key(messages: Iterable[Any]) -> None:
    """Have the signing key ready when looking at `messages` would read it from disk, which blocks.

    A key that cannot be used is found out where it is needed.
    """
    if not signer.cache_info().currsize and any(_proofs(message) for message in messages):
        with suppress(ConfigError):
            await to_thread(signer)


def _seal_of(message: Any) -> str | None:
    kwargs = getattr(message, "additional_kwargs", None)
    held = kwargs.get(wire.SERVER_SEAL) if isinstance(kwargs, Mapping) else None
    return held if isinstance(held, str) else None


def _proofs(message: Any) -> bool:
    kwargs = getattr(message, "additional_kwargs", None)
    return isinstance(kwargs, Mapping) and not _PROOFS.isdisjoint(kwargs)
