"""One decision core for two worlds.

A core is an ``async def`` that reaches outside through `settled` only. The asynchronous hook awaits it; the
synchronous hook drives it with `run_now`: there every port answers at once, so the core runs through in one go, in the
same thread and context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def settled(value: T | Awaitable[T]) -> T:
    """The value, awaited only when it has to be."""
    if hasattr(type(value), "__await__"):
        return await cast("Awaitable[T]", value)
    return cast("T", value)


def run_now(core: Coroutine[Any, Any, T]) -> T:
    """Run a core whose ports all answer at once.

    Raises:
        RuntimeError: The core waited for something.
    """
    try:
        core.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    core.close()
    raise RuntimeError("a core waited in a synchronous call: one of its ports is asynchronous")
