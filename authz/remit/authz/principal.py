"""From a run context to a `Principal`: one builder for every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remit.authz import wire
from remit.authz.types import EMPTY, FrozenDict, Principal, deep_freeze


def read(context: Any, key: str, default: Any = None) -> Any:
    """`context[key]` for a mapping, the attribute of that name for a dataclass or model, else `default`."""
    if type(context) is dict:  # the usual kind, without the slower look at the protocol
        return context.get(key, default)
    if context is None:
        return default
    if isinstance(context, Mapping):
        return context.get(key, default)
    if key.startswith("__"):  # a reserved key is never a Python attribute
        return default
    return getattr(context, key, default)


def normalize_authz_attributes(value: Any) -> FrozenDict:
    """A deep-frozen copy of `value`; None is empty.

    Raises:
        TypeError: `value` is not a Mapping with str keys. Attributes are never coerced.
    """
    if value is None:
        return EMPTY
    if not isinstance(value, Mapping):
        raise TypeError(f"authz_attributes must be a Mapping, got {type(value).__name__}")
    frozen: FrozenDict = deep_freeze(value)
    return frozen


def seal_principal(context: dict[str, Any], principal: Principal) -> None:
    """Fix the identity of a run: every layer below reads this object and nothing else.

    Raises:
        ValueError: Another principal is sealed already.
    """
    sealed = context.get(wire.PRINCIPAL)
    if sealed is not None and sealed != principal:
        raise ValueError("another principal is sealed in this context; a run keeps one identity")
    context[wire.PRINCIPAL] = principal


def build_principal_from_context(context: Any, *, default_role: str | None) -> Principal:
    """Who runs, read from server-owned `context`: a mapping, a dataclass or a model. Pure; nothing is cached.

    A sealed principal wins. A missing or empty role becomes `default_role`; an unknown role is kept for the provider
    to judge. `is_internal` holds only for the literal True.

    Raises:
        TypeError: Attributes are not a Mapping, an identity field is not a str, or what is sealed is no `Principal`.
        ValueError: An identity string is not clean (see `Principal`).
    """
    sealed = read(context, wire.PRINCIPAL)
    if sealed is not None:
        if not isinstance(sealed, Principal):
            raise TypeError(f"{wire.PRINCIPAL} must be a Principal, got {type(sealed).__name__}")
        return sealed
    role = read(context, wire.USER_ROLE)
    return Principal(
        user_id=read(context, wire.USER_ID),
        role=default_role if role is None or (isinstance(role, str) and not role) else role,
        oauth_provider=read(context, wire.OAUTH_PROVIDER),
        oauth_id=read(context, wire.OAUTH_ID),
        channel_user_id=read(context, wire.CHANNEL_USER_ID),
        is_internal=read(context, wire.IS_INTERNAL) is True,
        attributes=normalize_authz_attributes(read(context, wire.AUTHZ_ATTRIBUTES)),
    )
