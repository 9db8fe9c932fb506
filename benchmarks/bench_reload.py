"""Reloading 100,000 rules while four threads decide: no wrong answer, no long pause."""

from __future__ import annotations

import itertools
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import subjects
from benchmarks.measure import Row, settle
from benchmarks.worlds import world
from remit.authz.types import AuthzRequest, Principal

if TYPE_CHECKING:
    from remit.providers.casbin import CasbinAuthorizationProvider

THREADS = 4
RELOADS = 3
QUIET_SECONDS = 3.0
TICK_NS = 1_000_000
"""A thread has something to decide once in a millisecond, as a busy server does, and sleeps in between: threads that
never rest would mostly wait for each other."""
PER_TICK = 256
MARKER = "p, role:r0, tool, marker, call, allow,\n"


def rows(seconds: float) -> Iterator[Row]:
    """`seconds` is ignored: three reloads take as long as they take."""
    from remit.providers.casbin import CasbinAuthorizationProvider

    base = world("100k")
    with subjects.folder() as place:
        provider = CasbinAuthorizationProvider(**subjects.write(base, place))
        asked = [(request, True) for request in subjects.requests(base, base.allowed)]
        asked += [(request, False) for request in subjects.requests(base, base.denied)]
        settle()
        with deciding(provider, asked) as quiet:
            time.sleep(QUIET_SECONDS)
        stale = 0
        with deciding(provider, asked) as busy:
            for number in range(RELOADS):
                stale += reload_with(provider, place, marker=number % 2 == 0)
    quiet_p99, busy_p99 = quiet.at(0.99), busy.at(0.99)
    note = f"{busy.count:,} decisions, {RELOADS} reloads"
    yield Row(
        group="reload", name="wrong answers", value=quiet.wrong + busy.wrong + stale, unit="wrong", bound=0, note=note
    )
    yield Row(
        group="reload",
        name="p99 of a decision, against quiet",
        value=busy_p99 / quiet_p99,
        bound=3.0,
        us=busy_p99,
        note=f"quiet {quiet_p99:.1f} us; p50 {busy.at(0.5):.1f} us, quiet {quiet.at(0.5):.1f} us",
    )
    yield Row(
        group="reload",
        name="longest pause: from due to decided",
        value=busy.longest,
        unit="ms",
        bound=50.0,
        us=busy.longest * 1e3,
        note=f"quiet {quiet.longest:.1f} ms",
    )


@dataclass
class Latencies:
    """Nanoseconds that every decision took, and from the moment a batch was due until it was answered."""

    samples: list[array[int]] = field(default_factory=list)
    pauses: list[array[int]] = field(default_factory=list)
    wrong: int = 0
    _sorted: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.samples))

    @property
    def longest(self) -> float:
        """Milliseconds."""
        return max(ns for pauses in self.pauses for ns in pauses) / 1e6

    def at(self, quantile: float) -> float:
        """Microseconds."""
        if not self._sorted:
            self._sorted = sorted(ns for samples in self.samples for ns in samples)
        return self._sorted[min(len(self._sorted) - 1, int(len(self._sorted) * quantile))] / 1e3


@contextmanager
def deciding(provider: CasbinAuthorizationProvider, asked: list[tuple[AuthzRequest, bool]]) -> Iterator[Latencies]:
    """Four threads that decide, tick by tick, until the block ends."""
    seen, stop, lock = Latencies(), threading.Event(), threading.Lock()
    decided = [threading.Event() for _ in range(THREADS)]

    def work(first: threading.Event) -> None:
        samples: array[int] = array("q")
        pauses: array[int] = array("q")
        wrong = 0
        turns = itertools.cycle(asked)
        clock, over, authorize = time.perf_counter_ns, stop.is_set, provider.authorize
        due = clock()
        while not over():
            due = max(due + TICK_NS, clock())
            time.sleep(max(0.0, (due - clock()) / 1e9))
            for request, want in itertools.islice(turns, PER_TICK):
                start = clock()
                answer = authorize(request)
                samples.append(clock() - start)
                if answer.allow is not want:
                    wrong += 1
            pauses.append(clock() - due)
            first.set()
        with lock:
            seen.samples.append(samples)
            seen.pauses.append(pauses)
            seen.wrong += wrong

    threads = [threading.Thread(target=work, args=(first,)) for first in decided]
    for thread in threads:
        thread.start()
    for first in decided:
        first.wait()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def reload_with(provider: CasbinAuthorizationProvider, place: Path, *, marker: bool) -> int:
    """Change the policy, reload, and count a wrong answer when the change is not in force at once."""
    file = place / "policy.csv"
    text = file.read_text(encoding="utf-8").replace(MARKER, "")
    file.write_text(text + (MARKER if marker else ""), encoding="utf-8")
    provider.reload()
    answer = provider.authorize(AuthzRequest(Principal(role="r0"), "tool", "call", "marker"))
    return int(answer.allow is not marker)
