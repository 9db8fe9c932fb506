"""A model that keeps failing is left alone, and found out about again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from remit.middlewares.llm_errors import breaker as module
from remit.middlewares.llm_errors.breaker import MAX_BREAKERS, Breaker, Breakers, Pass
from remit.runtime.config import CircuitBreakerConfig

CONFIG = CircuitBreakerConfig(failure_threshold=2, recovery_timeout_sec=10)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "_now", found)
    return found


def entered(breaker: Breaker) -> Pass:
    found = breaker.enter(CONFIG)
    assert found is not None
    return found


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(2):
        breaker.failed(entered(breaker), CONFIG)
    assert breaker.state == "open"
    return breaker


def test_opens_at_the_threshold() -> None:
    breaker = Breaker()
    assert breaker.failed(entered(breaker), CONFIG) is False
    assert breaker.state == "closed"
    assert breaker.failed(entered(breaker), CONFIG) is True
    assert breaker.enter(CONFIG) is None


def test_a_success_starts_the_count_again() -> None:
    breaker = Breaker()
    breaker.failed(entered(breaker), CONFIG)
    breaker.succeeded(entered(breaker))
    breaker.failed(entered(breaker), CONFIG)
    assert breaker.state == "closed"


def test_one_probe_after_the_recovery_time(clock: Clock) -> None:
    breaker = opened()
    clock.now += 9.9
    assert breaker.enter(CONFIG) is None
    clock.now += 0.1
    probe = entered(breaker)
    assert probe.probe
    assert breaker.enter(CONFIG) is None
    breaker.succeeded(probe)
    assert breaker.state == "closed"
    assert not entered(breaker).probe


def test_a_probe_that_fails_opens_it_again(clock: Clock) -> None:
    breaker = opened()
    clock.now += 10
    assert breaker.failed(entered(breaker), CONFIG) is True
    clock.now += 9
    assert breaker.enter(CONFIG) is None
    clock.now += 1
    assert entered(breaker).probe


def test_a_probe_that_was_cancelled_makes_room_at_once(clock: Clock) -> None:
    breaker = opened()
    clock.now += 10
    breaker.released(entered(breaker))
    assert entered(breaker).probe


def test_a_probe_that_nobody_hears_of_again_is_replaced(clock: Clock) -> None:
    breaker = opened()
    clock.now += 10
    lost = entered(breaker)
    clock.now += 10
    probe = entered(breaker)
    breaker.succeeded(lost)
    breaker.failed(lost, CONFIG)
    breaker.released(lost)
    assert breaker.state == "half_open"
    breaker.succeeded(probe)
    assert breaker.state == "closed"


@pytest.mark.parametrize("report", ["succeeded", "failed", "released"])
@pytest.mark.parametrize("state", ["open", "half_open", "closed"])
def test_a_late_report_of_an_older_generation_changes_nothing(state: str, report: str, clock: Clock) -> None:
    breaker = Breaker()
    late = entered(breaker)
    for _ in range(2):
        breaker.failed(entered(breaker), CONFIG)
    assert not breaker.holds(late)
    if state != "open":
        clock.now += 10
        probe = entered(breaker)
        if state == "closed":
            breaker.succeeded(probe)
            breaker.failed(entered(breaker), CONFIG)  # one of two
    if report == "failed":
        breaker.failed(late, CONFIG)
    else:
        getattr(breaker, report)(late)
    assert breaker.state == state
    if state == "closed":
        assert breaker.failed(entered(breaker), CONFIG) is True, "the count was left alone too"


def test_settings_of_the_caller_hold() -> None:
    breaker = Breaker()
    patient = CircuitBreakerConfig(failure_threshold=9)
    for _ in range(3):
        breaker.failed(entered(breaker), patient)
    assert breaker.state == "closed"
    assert breaker.failed(entered(breaker), CONFIG) is True


def test_one_for_each_model() -> None:
    breakers = Breakers()
    one = breakers.of(("openai", "", "small"))
    assert breakers.of(("openai", "", "small")) is one
    assert breakers.of(("openai", "http://other", "small")) is not one
    breakers.reset()
    assert breakers.of(("openai", "", "small")) is not one


def test_their_number_is_bounded_and_those_that_remember_stay() -> None:
    breakers = Breakers()
    failing = breakers.of(("p", "", "failing"))
    failing.failed(entered(failing), CONFIG)
    for number in range(MAX_BREAKERS + 50):
        breakers.of(("p", "", f"m{number}"))
    assert len(breakers._held) == MAX_BREAKERS
    assert breakers.of(("p", "", "failing")) is failing


def test_many_threads_one_probe(clock: Clock) -> None:
    breaker = opened()
    clock.now += 10
    found: list[Pass | None] = []
    start = threading.Barrier(16)

    def go() -> None:
        start.wait()
        found.append(breaker.enter(CONFIG))

    threads = [threading.Thread(target=go) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in found if one is not None]) == 1


class AnyOrder(RuleBasedStateMachine):
    """Whatever callers do in whatever order, the breaker never stays shut for ever."""

    passes = Bundle("passes")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.before = module._now
        module._now = self.clock  # type: ignore[assignment]
        self.breaker = Breaker()

    def teardown(self) -> None:
        module._now = self.before

    @rule(target=passes)
    def enter(self) -> Any:
        return self.breaker.enter(CONFIG)

    @rule(given=consumes(passes), what=st.sampled_from(["ok", "bad", "none"]))
    def report(self, given: Pass | None, what: str) -> None:
        if given is None:
            return
        stale = not self.breaker.holds(given)
        before = self.breaker.state
        if what == "ok":
            self.breaker.succeeded(given)
        elif what == "bad":
            self.breaker.failed(given, CONFIG)
        else:
            self.breaker.released(given)
        if stale:
            assert self.breaker.state == before
        elif what == "ok":
            assert self.breaker.state == "closed"

    @rule(seconds=st.sampled_from([1, 10]))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @invariant()
    def never_wedged(self) -> None:
        """After one recovery time a caller gets through, on a copy of the present state."""
        twin = Breaker()
        for name in ("_state", "_generation", "_failures", "_opened", "_probing"):
            setattr(twin, name, getattr(self.breaker, name))
        self.clock.now += 10
        try:
            assert twin.enter(CONFIG) is not None
        finally:
            self.clock.now -= 10


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase
