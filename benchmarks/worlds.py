"""The policies and requests that every engine is measured on: pure data, made from a seed, known by size.

A world is a set of roles with 100 rules each (8 in the smallest). About five percent of the rules deny what an
inherited role allows. From 10,000 rules on a user reaches three roles in a chain.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

REQUESTS = 64
"""Allowed requests per world, and as many denied ones: half of those by a deny rule, half because nothing matches."""

SIZES = ("30", "10k", "100k")


class Grant(NamedTuple):
    """One rule: `effect` is ``"allow"`` or ``"deny"``. The action is always ``call``."""

    role: str
    tool: str
    effect: str


class Query(NamedTuple):
    """May `user` call `tool`?"""

    user: str
    tool: str


@dataclass(frozen=True)
class World:
    """Rules, who has which role, which role inherits which, and requests with known answers."""

    name: str
    grants: tuple[Grant, ...]
    users: dict[str, str]
    """User -> role."""
    parents: dict[str, str]
    """Role -> the role it inherits."""
    allowed: tuple[Query, ...] = field(default=())
    denied: tuple[Query, ...] = field(default=())

    def lineage(self, role: str) -> list[str]:
        """`role` and every role it inherits, nearest first."""
        out = [role]
        while (up := self.parents.get(out[-1])) is not None:
            out.append(up)
        return out

    def requests(self) -> list[Query]:
        """Allowed and denied requests by turns."""
        return [query for pair in zip(self.allowed, self.denied, strict=True) for query in pair]


@cache
def world(size: str) -> World:
    """The world of `size`: ``"30"``, ``"10k"`` or ``"100k"``.

    Raises:
        KeyError: There is no such size.
    """
    roles, per_role, users, chained = {
        "30": (4, 8, 40, False),
        "10k": (100, 100, 1_000, True),
        "100k": (1_000, 100, 10_000, True),
    }[size]
    made = _make(size, roles, per_role, users, chained)
    if size == "30":  # 4 x 8 less two allow rules
        surplus = set([g for g in made.grants if g.effect == "allow"][-2:])
        made = replace(made, grants=tuple(g for g in made.grants if g not in surplus))
    return _with_requests(made)


def as_patterns(base: World) -> World:
    """The same world with a glob in every rule: ``t3_7`` becomes ``t3_7__*``, and requests name a member of it."""
    return replace(
        base,
        name=f"{base.name} patterns",
        grants=tuple(g._replace(tool=f"{g.tool}__*") for g in base.grants),
        allowed=tuple(q._replace(tool=f"{q.tool}__run") for q in base.allowed),
        denied=tuple(q._replace(tool=f"{q.tool}__run") for q in base.denied),
    )


def _make(name: str, roles: int, per_role: int, users: int, chained: bool) -> World:
    rng = random.Random(7)
    third = roles // 3 if chained else 0
    leaves = roles - 2 * third
    parents: dict[str, str] = {}
    for leaf in range(leaves if chained else 0):
        middle = leaves + leaf % third
        parents[f"r{leaf}"] = f"r{middle}"
        parents[f"r{middle}"] = f"r{middle + third}"
    shell = World(name, (), {f"u{n}": f"r{n % leaves}" for n in range(users)}, parents)

    denials = max(1, per_role // 20)
    grants: list[Grant] = []
    for n in range(roles):
        top = shell.lineage(f"r{n}")[-1]
        for k in range(per_role):
            if k >= denials:
                grants.append(Grant(f"r{n}", f"t{n}_{k}", "allow"))
            elif top == f"r{n}":
                grants.append(Grant(top, f"secret{n}_{k}", "deny"))
            else:  # takes back what the top of the chain allows
                grants.append(Grant(f"r{n}", f"t{top[1:]}_{per_role - 1 - k}", "deny"))
    rng.shuffle(grants)
    return replace(shell, grants=tuple(grants))


def _with_requests(base: World) -> World:
    rng = random.Random(11)
    allows: dict[str, list[str]] = defaultdict(list)
    denies: dict[str, list[str]] = defaultdict(list)
    for grant in base.grants:
        (allows if grant.effect == "allow" else denies)[grant.role].append(grant.tool)
    roles = sorted(allows)

    def draw(kind: Callable[[str, list[str]], str | None]) -> Iterator[Query]:
        users = sorted(base.users)
        while True:
            user = rng.choice(users)
            tool = kind(user, base.lineage(base.users[user]))
            if tool is not None:
                yield Query(user, tool)

    def taken_back(tool: str, line: list[str]) -> bool:
        return any(tool in denies[role] for role in line)

    def allowed(_: str, line: list[str]) -> str | None:
        tool = rng.choice(allows[rng.choice(line)])
        return None if taken_back(tool, line) else tool

    def denied(_: str, line: list[str]) -> str:
        return rng.choice(denies[line[0]])

    def unmentioned(_: str, line: list[str]) -> str | None:
        other = rng.choice(roles)
        return None if other in line else rng.choice(allows[other])

    def take(source: Iterator[Query], count: int) -> list[Query]:
        return [query for query, _ in zip(source, range(count), strict=False)]

    half = REQUESTS // 2
    refused = [
        query for pair in zip(take(draw(denied), half), take(draw(unmentioned), half), strict=True) for query in pair
    ]
    return replace(base, allowed=tuple(take(draw(allowed), REQUESTS)), denied=tuple(refused))
