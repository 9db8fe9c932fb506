"""Which of 500 names may a principal see, under 10,000 rules: against 500 calls of the floor."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from benchmarks import subjects
from benchmarks.floor import Decide, floor
from benchmarks.measure import Row, paired
from benchmarks.worlds import World, as_patterns, world
from remit.authz.types import Principal

CANDIDATES = 500
USERS = 8

Filter = Callable[[Principal, str, list[str]], list[str]]


def rows(seconds: float) -> Iterator[Row]:
    base = world("10k")
    lists = {query.user: candidates(base, query.user) for query in base.allowed[:USERS]}
    decide = floor(base)
    for kind, tested, suffix, bound in (
        ("exact names", base, "", 0.5),
        ("patterns", as_patterns(base), "__run", 1.5),
    ):
        visible = subjects.provider(tested).filter_resources
        asked = [(subjects.principal(base, user), [name + suffix for name in names]) for user, names in lists.items()]
        for (who, names), user in zip(asked, lists, strict=True):
            want = [name + suffix for name in lists[user] if decide(user, name, "call")]
            if visible(who, "tool", names) != want:
                raise AssertionError(f"{kind}: {user} is not shown the {len(want)} names that are allowed")
        result = paired(_by_policy(visible, asked), _by_floor(decide, lists), seconds=seconds)
        yield Row(
            group="filter", name=f"500 candidates, 10k rules, {kind}", value=result.ratio, bound=bound, us=result.us
        )


def candidates(base: World, user: str) -> list[str]:
    """250 names that some rule of the user's roles is about, and 250 others."""
    rng = random.Random(user)
    line = set(base.lineage(base.users[user]))
    mine = sorted({grant.tool for grant in base.grants if grant.role in line})
    others = sorted({grant.tool for grant in base.grants} - set(mine))
    mixed = rng.sample(mine, CANDIDATES // 2) + rng.sample(others, CANDIDATES - CANDIDATES // 2)
    rng.shuffle(mixed)
    return mixed


def _by_policy(visible: Filter, asked: list[tuple[Principal, list[str]]]) -> Callable[[], None]:
    turns = itertools.cycle(asked)

    def run() -> None:
        who, names = next(turns)
        visible(who, "tool", names)

    return run


def _by_floor(decide: Decide, lists: dict[str, list[str]]) -> Callable[[], None]:
    turns = itertools.cycle(lists.items())

    def run() -> None:
        user, names = next(turns)
        for name in names:
            decide(user, name, "call")

    return run
