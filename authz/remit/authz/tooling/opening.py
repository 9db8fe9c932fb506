"""A provider for as long as a tool needs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from remit.authz.config import AuthorizationConfig
from remit.authz.provider import AuthorizationProvider, Closes
from remit.authz.registry import resolve_authorization_provider

log = logging.getLogger("remit.authz")


@contextmanager
def opened(config: AuthorizationConfig) -> Iterator[AuthorizationProvider]:
    """The provider that `config` names, built even when authorization is off: a policy is checked before it is put on.

    Raises:
        ConfigError: It cannot be built.
    """
    on = config if config.enabled else config.model_copy(update={"enabled": True})
    provider = resolve_authorization_provider(on)
    assert provider is not None  # noqa: S101 - an enabled configuration resolves or raises
    try:
        yield provider
    finally:
        if isinstance(provider, Closes):
            closing = Thread(target=_close, args=(provider,), name="remit-close")
            closing.start()  # a thread has no event loop yet, whoever calls us
            closing.join()


def _close(provider: Closes) -> None:
    try:
        asyncio.run(provider.aclose())
    except Exception as exc:
        log.warning("the provider could not be closed: %s: %s", type(exc).__name__, exc)
