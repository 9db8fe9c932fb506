"""Which of 500 names may a principal see, under 10,000 rules: against 500 calls of the floor."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from benchmarks import subjects
from benchmarks.floor import floor
from benchmarks.measure import Row, paired
from benchmarks.worlds import World, as_patterns, world

CANDIDATES = 500


def rows(seconds: float) -> Iterator[Row]:
    base = world("10k")
    for kind, tested, bound in (("exact names", base, 0.5), ("patterns", as_patterns(base), 1.5)):
        provider = subjects.provider(tested)
        suffix = "" if tested is base else "__run"
        users = [query.user for query in base.allowed[:8]]
        lists = {user: candidates(base, user) for user in users}
        decide = floor(base)
        for user in users:
            shown = provider.filter_resources(
                subjects.principal(base, user), "tool", [name + suffix for name in lists[user]]
            )
            want = [name + suffix for name in lists[user] if decide(user, name, "call")]
            if shown != want:
                raise AssertionError(f"{kind}: {user} is shown {len(shown)} names and may use {len(want)}")
        asked = itertools.cycle(
            [(subjects.principal(base, user), [n + suffix for n in names]) for user, names in lists.items()]
        )
        counted = itertools.cycle(lists.items())

        def subject(provider=provider, asked=asked) -> None:  # type: ignore[no-untyped-def]
            who, names = next(asked)
            provider.filter_resources(who, "tool", names)

        def by_floor(decide=decide, counted=counted) -> None:  # type: ignore[no-untyped-def]
            user, names = next(counted)
            for name in names:
                decide(user, name, "call")

        result = paired(subject, by_floor, seconds=seconds)
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
