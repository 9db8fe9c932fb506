"""Whose thread this is: user id and thread id of a run, from server-owned sources only."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any, Final

from remit.authz import wire
from remit.authz.principal import read
from remit.authz.types import Principal

DEFAULT_USER: Final = "default"
"""Owner of what is kept where nobody has signed in."""

CURRENT_USER: Final[ContextVar[str | None]] = ContextVar("remit_current_user", default=None)
"""User of the request that is being served; set by the gateway."""

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}")


def resolve_runtime_user_id(runtime: Any) -> str:
    """The user whose folders, skills and memory a run uses.

    In this order: the sealed principal, `user_id` of the run context, the identity that a LangGraph server put into
    `runtime.server_info`, the user of the current request, ``"default"``. `configurable` is never read: clients write
    it.

    Args:
        runtime: The runtime of a hook or a tool.

    Raises:
        ValueError: The id cannot name a folder.
    """
    context = getattr(runtime, "context", None)
    sealed = read(context, wire.PRINCIPAL)
    found = sealed.user_id if isinstance(sealed, Principal) else read(context, wire.USER_ID)
    if not found:
        user = getattr(getattr(runtime, "server_info", None), "user", None)
        found = getattr(user, "identity", None)
    return safe_id(found or CURRENT_USER.get() or DEFAULT_USER, "user id")


def runtime_thread_id(runtime: Any) -> str | None:
    """The thread of a run: `thread_id` of the run context, else the one the graph runs under. None when there is none.

    Raises:
        ValueError: The id cannot name a folder.
    """
    found = read(getattr(runtime, "context", None), wire.THREAD_ID)
    if not found:
        found = getattr(getattr(runtime, "execution_info", None), "thread_id", None)
    if not found:
        config = getattr(runtime, "config", None) or _running_config()
        found = (config.get("configurable") or {}).get("thread_id") if config else None
    return safe_id(found, "thread id") if found else None


def runtime_run_id(runtime: Any) -> str | None:
    """The run: `run_id` of the run context, else the one the graph runs under."""
    found = read(getattr(runtime, "context", None), wire.RUN_ID)
    if not found:
        found = getattr(getattr(runtime, "execution_info", None), "run_id", None)
    return found if isinstance(found, str) and found else None


def safe_id(value: Any, what: str) -> str:
    """`value`, which may become the name of a folder.

    Raises:
        ValueError: It is no string of letters, digits and ``_ . @ -``, or begins with a punctuation mark.
    """
    if not isinstance(value, str) or not _SAFE.fullmatch(value):
        raise ValueError(
            f"the {what} {value!r} cannot name a folder; "
            "use 1 to 128 letters, digits and _ . @ -, a letter or digit first"
        )
    return value


def _running_config() -> Any:
    from langgraph.config import get_config

    try:
        return get_config()
    except RuntimeError:  # outside of a graph
        return None
