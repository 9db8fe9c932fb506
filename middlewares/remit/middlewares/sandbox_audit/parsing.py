"""Calls of the grammar that end when the time is up and leave nothing behind.

Only a parse that reads through a callback can be cut short, and the binding never lets go of what a callback hands
out. So each thread has one buffer, and hands out views of it that it keeps and uses again: what is not let go is
bounded. The text stands at the end of the buffer, so that a view is known by where it begins.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from remit.middlewares.sandbox_audit.verdicts import Budget, TooComplex

if TYPE_CHECKING:
    import tree_sitter

_ROOM: Final = 1 << 17
"""Bytes of the longest text: a command of the longest kind, or a text that it puts together."""


@cache
def _language() -> tree_sitter.Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


class _Buffer:
    def __init__(self) -> None:
        self._bytes = bytearray(_ROOM)
        self._view = memoryview(self._bytes)
        self._views: dict[int, memoryview] = {}
        self._start = _ROOM

    def put(self, text: bytes) -> None:
        if len(text) > _ROOM:
            raise TooComplex
        self._start = _ROOM - len(text)
        self._view[self._start :] = text

    def read(self, at: int, _: object) -> memoryview | bytes:
        place = self._start + at
        if place >= _ROOM:
            return b""
        view = self._views.get(place)
        if view is None:
            view = self._views[place] = self._view[place:]
        return view


class _Thread(threading.local):
    def __init__(self) -> None:
        self.buffer = _Buffer()


_THREAD: Final = _Thread()


def parsed(text: bytes, budget: Budget) -> Any:
    """The root of the tree of `text`.

    Raises:
        TooComplex: The time is up, or there are too many letters.
    """
    import tree_sitter

    budget.parse()
    buffer = _THREAD.buffer
    buffer.put(text)
    try:
        # INVARIANT: nothing that holds the tree is reachable from these callables; the tree keeps them, unseen by gc
        tree = tree_sitter.Parser(_language()).parse(buffer.read, progress_callback=lambda _, __: budget.spent())
    except ValueError:  # it was cut short
        raise TooComplex from None
    budget.check()
    return tree.root_node
