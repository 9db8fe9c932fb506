"""One decision: at 30, 10,000 and 100,000 rules, for each kind of rule, and what stands around it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from benchmarks import subjects
from benchmarks.floor import floor
from benchmarks.measure import Paired, Row, paired
from benchmarks.worlds import SIZES, Query, World, as_patterns, world
from remit.authz.types import AuthzRequest, Principal

GROUP = "decision"
STRETCH = 32
"""Batches of decisions that stay within the queue of the log."""
LOGGED = {"to": "alice", "amount": 80, "currency": "EUR", "note": "x" * 140}


def rows(seconds: float) -> Iterator[Row]:
    """Every line of this module, `seconds` of measuring for each."""
    flat: dict[str, list[Paired]] = {"five-part": [], "three-part": []}
    for shape, bound in (("five-part", 3.0), ("three-part", 2.0)):
        for size in SIZES:
            for patterns in (False, True):
                base = world(size)
                tested = as_patterns(base) if patterns else base
                provider = subjects.provider(tested, shape)  # type: ignore[arg-type]
                subjects.insist(tested, provider.authorize)
                kind = "patterns" if patterns else "equality"
                for side in ("allow", "deny"):
                    result = _against_floor(provider.authorize, tested, base, side, seconds)
                    if not patterns and side == "allow":
                        flat[shape].append(result)
                    yield _row(f"{shape}, {size} rules, {kind}, {side}", result, bound)
    for shape, results in flat.items():
        small, large = results[0], results[-1]
        yield Row(
            group=GROUP, name=f"{shape}, 100k against 30 rules", value=large.ratio / small.ratio, bound=1.5, us=large.us
        )
    yield from _around(seconds)
    yield from _first_sight(seconds)


def _around(seconds: float) -> Iterator[Row]:
    from remit.authz.enforcer import Enforcer

    base = world("10k")
    named = subjects.provider(base, named_users=True)
    subjects.insist(base, named.authorize)
    yield _row("five-part, 10k rules, users named in the policy", _mixed(named.authorize, base, seconds), 3.0)

    conditional = subjects.provider(base, condition=subjects.CONDITION)
    subjects.insist(base, conditional.authorize, args=subjects.ARGS)
    yield _row(
        "two conditions on arguments, allow",
        _against_floor(conditional.authorize, base, base, "allow", seconds, args=subjects.ARGS),
        25.0,
    )

    queries = base.requests()
    role_of = base.users

    def make() -> None:
        for user, tool in queries:
            AuthzRequest(Principal(user_id=user, role=role_of[user]), "tool", "call", tool)

    yield _row(
        "making a principal and a request",
        paired(make, _floor_batch(base, queries), calls=len(queries), base_calls=len(queries), seconds=seconds),
        6.0,
    )

    enforcer = Enforcer(subjects.provider(base), default_role="r0")
    subjects.insist(base, enforcer.decide)
    yield _row("Enforcer.decide", _mixed(enforcer.decide, base, seconds), 8.0)
    yield from _recorded(seconds)


def _recorded(seconds: float) -> Iterator[Row]:
    """Decisions that are also written down. The caller hands a line over; a thread writes it, here between rounds."""
    from remit.authz.enforcer import Enforcer
    from remit.authz.ledger import DecisionLog
    from remit.authz.ledger.sink import FileSink

    base = world("10k")
    queries = base.requests()
    asked = subjects.requests(base, queries, LOGGED)
    with subjects.folder() as place:
        sink = FileSink(place / "decisions.jsonl")
        with closing(DecisionLog(sink)) as ledger:
            enforcer = Enforcer(subjects.provider(base), default_role="r0", ledger=ledger)
            subjects.insist(base, enforcer.decide, args=LOGGED)
            decide, by_floor = _batch(enforcer.decide, asked), _floor_batch(base, queries)
            each = len(queries)
            handed_over = paired(
                decide,
                by_floor,
                calls=each,
                base_calls=each,
                seconds=seconds,
                warm=False,
                after=sink.flush,
                clock=time.perf_counter_ns,
            )
            yield _row("Enforcer.decide with a decision log, 200 bytes of arguments", handed_over, 60.0)

            def until_stored() -> None:
                for _ in range(STRETCH):
                    decide()
                sink.flush()

            stored = paired(
                until_stored,
                by_floor,
                calls=STRETCH * each,
                base_calls=each,
                seconds=seconds,
                warm=False,
                clock=time.perf_counter_ns,
            )
            yield _row("the same, until the lines are in the file", stored, None)
            if sink.dropped:
                raise AssertionError(f"{sink.dropped} records were dropped")


def _first_sight(seconds: float) -> Iterator[Row]:
    base = world("10k")
    patterned = as_patterns(base)
    provider = subjects.provider(patterned)
    numbers = itertools.count()
    turn = 64

    def unseen(queries: tuple[Query, ...]) -> list[AuthzRequest]:
        stems = itertools.cycle(queries)
        fresh = [next(stems) for _ in range(turn)]
        return subjects.requests(patterned, [q._replace(tool=f"{q.tool[:-3]}{next(numbers)}") for q in fresh])

    for side, queries in (("allow", patterned.allowed), ("deny", patterned.denied)):
        result = _fresh(provider.authorize, partial(unseen, queries), base, turn, seconds)
        yield _row(f"first sight of a name under patterns, {side}", result, 15.0)

    big = world("100k")
    named = subjects.provider(big, named_users=True)
    strangers = iter(big.users)
    turn = 64

    def newcomers() -> list[AuthzRequest]:
        return [
            AuthzRequest(Principal(user_id=user, role=big.users[user]), "tool", "call", f"own_{user}")
            for user in itertools.islice(strangers, turn)
        ]

    yield _row(
        "first sight of a principal, users named in the policy",
        _fresh(named.authorize, newcomers, big, turn, seconds, most=len(big.users) // turn - 1),
        40.0,
    )


def _row(name: str, result: Paired, bound: float | None) -> Row:
    return Row(group=GROUP, name=name, value=result.ratio, bound=bound, us=result.us)


def _against_floor(
    decide: Callable[[AuthzRequest], Any],
    tested: World,
    base: World,
    side: str,
    seconds: float,
    args: dict[str, Any] | None = None,
) -> Paired:
    asked = subjects.requests(tested, tested.allowed if side == "allow" else tested.denied, args)
    queries = list(base.allowed if side == "allow" else base.denied)
    return paired(
        _batch(decide, asked),
        _floor_batch(base, queries),
        calls=len(asked),
        base_calls=len(queries),
        seconds=seconds,
    )


def _mixed(decide: Callable[[AuthzRequest], Any], base: World, seconds: float) -> Paired:
    queries = base.requests()
    return paired(
        _batch(decide, subjects.requests(base, queries)),
        _floor_batch(base, queries),
        calls=len(queries),
        base_calls=len(queries),
        seconds=seconds,
    )


def _batch(decide: Callable[[AuthzRequest], Any], asked: list[AuthzRequest]) -> Callable[[], None]:
    def run() -> None:
        for request in asked:
            decide(request)

    return run


def _floor_batch(base: World, queries: list[Query]) -> Callable[[], None]:
    decide = floor(base)

    def run() -> None:
        for user, tool in queries:
            decide(user, tool, "call")

    return run


def _fresh(
    decide: Callable[[AuthzRequest], Any],
    unseen: Callable[[], list[AuthzRequest]],
    base: World,
    turn: int,
    seconds: float,
    most: int = 1_000,
) -> Paired:
    """Every call is the first of its kind: the requests of a round are made before its clock starts."""
    rounds = iter([unseen() for _ in range(most)])

    def run() -> None:
        for request in next(rounds):
            decide(request)

    queries = list(base.allowed)
    return paired(
        run, _floor_batch(base, queries), calls=turn, base_calls=len(queries), seconds=seconds, warm=False, most=most
    )
