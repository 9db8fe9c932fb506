"""Who stands in whose name: role links, closed over any number of steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CASBIN_LINKS: Final = 9
"""Casbin follows this many links and silently forgets the rest; here every link counts."""


class RoleGraph:
    """The links of one role definition, of one domain where it has domains. Cycles do no harm.

    Args:
        links: ``(member, role)`` pairs.
    """

    __slots__ = ("_above", "_below", "down", "up")

    def __init__(self, links: Iterable[tuple[str, str]] = ()) -> None:
        self.up: dict[str, list[str]] = {}
        self.down: dict[str, list[str]] = {}
        for member, role in links:
            self.up.setdefault(member, []).append(role)
            self.down.setdefault(role, []).append(member)
        self._above: dict[str, tuple[str, ...]] = {}
        self._below: dict[str, tuple[str, ...]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.up or name in self.down

    def above(self, name: str) -> tuple[str, ...]:
        """`name` and everything it is a member of, nearest first."""
        return _reached(name, self.up, self._above)

    def below(self, name: str) -> tuple[str, ...]:
        """`name` and every member of it, nearest first."""
        return _reached(name, self.down, self._below)

    def prepare(self, room: int = 100_000) -> None:
        """Look up now what every role stands for, so that the first decision of a principal need not.

        Args:
            room: Names that may be held for it.
        """
        for role in self.down:
            room -= len(self.above(role))
            if room < 0:
                return

    def too_long_for_casbin(self) -> tuple[str, str] | None:
        """A member and a role of it that are further apart than Casbin looks, or None."""
        far = set(self.up)  # names with a chain of at least 1, 2, … links above them
        for _ in range(CASBIN_LINKS):
            far = {name for name in far if not far.isdisjoint(self.up[name])}
        for start in sorted(far):  # usually none; a chain may still have a short cut
            level, seen = [start], {start}
            for _ in range(CASBIN_LINKS):
                level = [role for name in level for role in self.up.get(name, ()) if role not in seen]
                seen.update(level)
            for role in self.above(start):
                if role not in seen:
                    return start, role
        return None


def _reached(name: str, edges: dict[str, list[str]], known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    found = known.get(name)
    if found is None:
        nearest = edges.get(name)
        if nearest is None:
            return (name,)  # not remembered: anybody may ask about any name
        beyond = known.get(nearest[0]) if len(nearest) == 1 else None
        if beyond is not None and name not in beyond:
            found = known[name] = (name, *beyond)
            return found
        order = {name: None}
        todo = [name]
        for at in todo:
            for other in edges.get(at, ()):
                if other not in order:
                    order[other] = None
                    todo.append(other)
        found = known[name] = tuple(order)
    return found
