"""Route permissions: what a caller of the gateway may do, decided once per request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from remit.authz.config import AuthorizationConfig
from remit.authz.gates.access import agate_of, named, principal_of_user
from remit.authz.judge import in_place
from remit.authz.provider import AuthorizationProvider
from remit.authz.types import AuthzRequest
from remit.authz.vocabulary import visibility_action

ROUTE_PERMISSIONS: Final = (
    "threads:read",
    "threads:write",
    "threads:delete",
    "runs:create",
    "runs:read",
    "runs:cancel",
)
"""The permissions that every gateway registers."""
GUARD: Final = "gate.routes"


async def resolve_route_permissions(
    user: Any,
    *,
    is_internal: bool,
    config: AuthorizationConfig,
    provider: AuthorizationProvider | None = None,
    permissions: Sequence[str] = ROUTE_PERMISSIONS,
) -> list[str]:
    """Which of `permissions` the caller has, in their order.

    Each permission is decided by itself: one that fails is missing (under fail-open: granted) and the others are not
    touched. An identity that is malformed has none, under fail-open too. A cancelled request stops all of it.

    Args:
        user: The host's own record of the user (see `principal_of_user`), None for a caller without one.
        is_internal: Whether the host authenticated the caller as one of its own services.
        config: The loaded configuration. When authorization is disabled all permissions are returned unasked.
        provider: The instance to ask; the one that serves `config` when None.
        permissions: ``resource:action`` strings that the gateway registers.
    """
    if config.enabled is not True:
        return list(permissions)
    gate, principal = named(
        lambda: principal_of_user(user, is_internal=is_internal, default_role=config.default_role),
        await agate_of(config, provider),
    )

    async def granted(permission: str) -> bool:
        request = AuthzRequest(principal, "route", visibility_action("route", permission), permission)
        return (await gate.adecide(request, GUARD)).allow is True

    if in_place(gate.provider):  # nothing to wait for: tasks would only cost time
        answers = [await granted(permission) for permission in permissions]
    else:
        answers = await _together(granted(permission) for permission in permissions)
    return [permission for permission, answer in zip(permissions, answers, strict=True) if answer]


async def _together(work: Iterable[Coroutine[Any, Any, bool]]) -> list[bool]:
    """The results, in order. The first exception ends the others, which are waited for, and is raised as it is."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
