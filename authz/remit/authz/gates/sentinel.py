"""The net under the net: a callback that stops tools which no guard has ever seen.

Armed tools announce themselves before they start. The guard puts the sentinel into the callbacks of a guarded call,
from where everything that runs inside the call inherits it; a tool that starts unannounced is refused.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from functools import cache
from typing import Any, Final

from remit.authz.errors import TicketRefused
from remit.authz.tickets import NO_TICKET

_ANNOUNCED: Final[ContextVar[list[str] | None]] = ContextVar("remit_announced", default=None)


class announced:
    """The next tool of this name that starts in this scope is an armed one. Good for one start."""

    __slots__ = ("_name", "_token")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._token: Token[list[str] | None] = _ANNOUNCED.set([self._name])

    def __exit__(self, *exc: object) -> None:
        _ANNOUNCED.reset(self._token)


@cache
def sentinel() -> Any:
    """The one callback handler."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Sentinel(BaseCallbackHandler):
        raise_error = True  # without it the exception would only be logged
        run_inline = True  # in the caller's context, where the announcement is
        ignore_llm = ignore_chain = ignore_retriever = ignore_retry = True
        ignore_chat_model = ignore_custom_event = True

        def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
            name = (serialized or {}).get("name") or str(kwargs.get("name") or "unnamed")
            expected = _ANNOUNCED.get()
            if not expected or expected.pop() != name:
                raise TicketRefused(name, NO_TICKET, "it is not known to the guard of this agent")

    return Sentinel()


def watch(config: Any, *, shared: bool) -> None:
    """Let the sentinel see every tool that runs under `config`, a `RunnableConfig` of one tool call.

    Args:
        config: Changed in place.
        shared: Whether the callback manager in it may belong to somebody else, who must not see the sentinel; then a
            copy of it takes its place.
    """
    handler = sentinel()
    callbacks = config.get("callbacks")
    if callbacks is None or isinstance(callbacks, (list, tuple)):
        if not any(one is handler for one in callbacks or ()):
            config["callbacks"] = [*(callbacks or ()), handler]
        return
    if any(one is handler for one in callbacks.inheritable_handlers):
        return
    if shared:
        callbacks = config["callbacks"] = callbacks.copy()
    callbacks.add_handler(handler, inherit=True)
