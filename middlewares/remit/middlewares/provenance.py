"""Where an injected or rewritten message comes from, as neutral keys in its metadata.

At the boundary of the model such a message looks like any other, so whoever makes it writes down what it is. Always:
a fact whose presence depended on an observer would be none. The keys are the server's; inbound copies are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from remit.authz import wire

ContentKind = Literal["middleware_injection", "memory", "durable_context", "skill_body", "image_payload"]
_KINDS: Final = frozenset(get_args(ContentKind))


class Provenance(NamedTuple):
    """What a message says about its origin."""

    content_kind: ContentKind
    producer_kind: str
    """The kind of producer, for example ``"middleware"``."""
    entity_id: str | None = None
    """The producer itself: a slot, a skill."""


def provenance_kwargs(
    content_kind: ContentKind, producer_kind: str = "middleware", entity_id: str | None = None
) -> dict[str, str]:
    """The entries of ``additional_kwargs`` that say so."""
    kwargs: dict[str, str] = {wire.CONTENT_KIND: content_kind, wire.PRODUCER_KIND: producer_kind}
    if entity_id is not None:
        kwargs[wire.PRODUCER_ENTITY_ID] = entity_id
    return kwargs


def provenance_of(message: Any) -> Provenance | None:
    """What `message` says about its origin; None when it says nothing, or not all of it."""
    kwargs = getattr(message, "additional_kwargs", None)
    if not isinstance(kwargs, Mapping):
        return None
    kind, producer, entity = (
        kwargs.get(key) for key in (wire.CONTENT_KIND, wire.PRODUCER_KIND, wire.PRODUCER_ENTITY_ID)
    )
    if (
        not isinstance(kind, str)
        or kind not in _KINDS
        or not isinstance(producer, str)
        or not isinstance(entity, str | None)
    ):
        return None
    return Provenance(cast("ContentKind", kind), producer, entity)
