"""The benchmarks measure what they say: worlds with known answers, and a table that fails when a bound is missed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks import __main__ as table
from benchmarks.floor import floor
from benchmarks.measure import Row, paired
from benchmarks.worlds import REQUESTS, World, world


@pytest.mark.parametrize(("size", "rules", "users", "depth"), [("30", 30, 40, 1), ("10k", 10_000, 1_000, 3)])
def test_world(size: str, rules: int, users: int, depth: int) -> None:
    made = world(size)
    assert len(made.grants) == rules
    assert len(made.users) == users
    assert {len(made.lineage(role)) for role in made.users.values()} == {depth}
    denials = sum(grant.effect == "deny" for grant in made.grants)
    assert 0.03 < denials / rules < 0.15
    decide = floor(made)
    assert [decide(q.user, q.tool, "call") for q in made.allowed] == [True] * REQUESTS
    assert [decide(q.user, q.tool, "call") for q in made.denied] == [False] * REQUESTS


def test_half_of_the_denied_requests_meet_a_rule_that_denies() -> None:
    made = world("10k")
    assert sum(denied_by_rule(made, query.user, query.tool) for query in made.denied) == REQUESTS // 2


def denied_by_rule(made: World, user: str, tool: str) -> bool:
    line = made.lineage(made.users[user])
    return any(g.effect == "deny" and g.tool == tool and g.role in line for g in made.grants)


def test_a_ratio_compares_the_two_sides_of_a_round() -> None:
    result = paired(lambda: sum(range(2_000)), lambda: sum(range(1_000)), seconds=0.05)
    assert 1.5 < result.ratio < 3


@pytest.mark.parametrize(
    ("flags", "measured", "code"),
    [([], 3.0, 0), (["--check"], 3.0, 1), (["--check"], 2.0, 0)],
    ids=["missed-but-not-asked", "missed", "at-the-bound"],
)
def test_check_fails_when_a_bound_is_missed(
    flags: list[str], measured: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(seconds: float) -> Iterator[Row]:
        yield Row(group="decision", name="planted", value=measured, bound=2.0, us=1.0)

    monkeypatch.setitem(table.GROUPS, "decision", rows)
    assert table.main(["decision", *flags]) == code
    printed = capsys.readouterr().out
    assert "planted" in printed
    assert ("MISS" in printed) is (measured > 2.0)
