"""The floor: what a decision costs in plain Python when all questions of policy are settled beforehand.

The role of the user from a dict, then membership in two frozensets: denied, allowed. Inheritance is flattened when
the sets are built. Nothing is explained, nothing is checked, and no pattern is understood.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from benchmarks.worlds import World

Decide = Callable[[str, str, str], bool]
"""(user, tool, action) -> allowed"""


def floor(world: World) -> Decide:
    """The floor of `world`. It takes patterns for names, so build it from the world without patterns."""
    own: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for grant in world.grants:
        own[grant.effect, grant.role].add((grant.tool, "call"))
    allowed: dict[str, frozenset[tuple[str, str]]] = {}
    denied: dict[str, frozenset[tuple[str, str]]] = {}
    for role in set(world.users.values()):
        line = world.lineage(role)
        allowed[role] = frozenset().union(*(own["allow", r] for r in line))
        denied[role] = frozenset().union(*(own["deny", r] for r in line))
    role_of = dict(world.users)
    nothing: frozenset[tuple[str, str]] = frozenset()

    def decide(user: str, tool: str, action: str) -> bool:
        role = role_of.get(user)
        key = (tool, action)
        return key not in denied.get(role, nothing) and key in allowed.get(role, nothing)  # type: ignore[arg-type]

    return decide
