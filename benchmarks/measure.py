"""How a figure is taken: paired rounds, medians, and a collector that has nothing old to look at."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Clock = Callable[[], int]
"""Nanoseconds since whenever."""

ROUND_NS = 2_000_000
"""A round of one side lasts about this long: far above the clock's grain, below the scheduler's slice."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    group: str
    name: str
    value: float
    unit: Literal["x", "ms", "wrong", "nodes"] = "x"
    bound: float | None = None
    """None for what is shown for comparison only."""
    us: float | None = None
    """One decision, call or load, in microseconds."""
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.bound is None or self.value <= self.bound


@dataclass(frozen=True)
class Paired:
    """`ratio` is the median of the ratios of the rounds; the two times are medians in microseconds per call."""

    ratio: float
    us: float
    base_us: float


def paired(
    subject: Callable[[], object],
    base: Callable[[], object],
    *,
    calls: int = 1,
    base_calls: int = 1,
    seconds: float = 0.8,
    warm: bool = True,
    most: int = 10_000,
    after: Callable[[], object] | None = None,
    clock: Clock = time.thread_time_ns,
) -> Paired:
    """Run `subject` and `base` by turns, changing who goes first, and compare them round by round.

    A neighbour that spoils the caches spoils them for both sides of a round, so the ratio survives what the times do
    not.

    Args:
        subject: Makes `calls` calls each time it is run.
        base: Makes `base_calls` calls each time it is run.
        seconds: How long to go on, at least 15 rounds.
        warm: False when the first call is the thing to measure: `subject` is then run once per round.
        most: Rounds after which it ends in any case.
        after: Run after each round of `subject`, when its clock has stopped.
        clock: The processor time of this thread, which leaves out what neighbours on the machine take; where other
            threads work for `subject` or are waited for, `time.perf_counter_ns`.
    """
    repeat = _repeats(subject, clock) if warm else 1
    base_repeat = _repeats(base, clock)
    settle()
    ratios: list[float] = []
    times: list[float] = []
    base_times: list[float] = []
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(ratios) < most and (len(ratios) < 15 or time.perf_counter_ns() < end):
        base_first = len(ratios) % 2 == 0
        base_spent = _time(base, base_repeat, clock) if base_first else 0
        spent = _time(subject, repeat, clock)
        if after is not None:
            after()
        base_spent = base_spent or _time(base, base_repeat, clock)
        times.append(spent / (repeat * calls))
        base_times.append(base_spent / (base_repeat * base_calls))
        ratios.append(times[-1] / base_times[-1])
    return Paired(statistics.median(ratios), statistics.median(times) / 1e3, statistics.median(base_times) / 1e3)


def settle() -> None:
    """Collect, then hide all that survived from the collector: a world of 100,000 rules is not what is measured."""
    gc.collect()
    gc.freeze()


def _repeats(call: Callable[[], object], clock: Clock) -> int:
    call()
    return max(1, ROUND_NS // max(1, _time(call, 1, clock)))


def _time(call: Callable[[], object], times: int, clock: Clock) -> int:
    start = clock()
    for _ in range(times):
        call()
    return clock() - start
