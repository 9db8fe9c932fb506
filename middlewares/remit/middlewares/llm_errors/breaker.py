"""The circuit breaker: a model that keeps failing is left alone for a while, by the whole process.

```text
closed ──threshold failures──▶ open ──recovery time──▶ half-open ──probe succeeds──▶ closed
                                ▲                          │
                                └──────── probe fails ─────┘
```

Every change of state begins a new generation. Whoever enters gets a pass of the present one, and what a pass of an
older generation reports is history: a call that fails long after the breaker opened, or a probe that was given up,
changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal

from remit.runtime.config import CircuitBreakerConfig

State = Literal["closed", "open", "half_open"]
Key = tuple[str, ...]
"""Provider, endpoint and model."""

MAX_BREAKERS: Final = 1024

_now = time.monotonic  # looked up here at each use, so that tests can stop the clock


@dataclass(frozen=True, slots=True)
class Pass:
    """Leave to call the model."""

    generation: int
    probe: bool
    """Whether it is the one call that tries whether the model works again."""


class Breaker:
    """The state of one model. Safe to use from many threads and loops; holds its lock for moments only."""

    __slots__ = ("_failures", "_generation", "_lock", "_opened", "_probing", "_state")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a call that is thrown away may report while this very thread holds it
        self._state: State = "closed"
        self._generation = 0
        self._failures = 0
        self._opened = 0.0
        self._probing = 0.0

    @property
    def state(self) -> State:
        return self._state

    @property
    def idle(self) -> bool:
        """Whether there is nothing to remember."""
        return self._state == "closed" and self._failures == 0

    def enter(self, config: CircuitBreakerConfig) -> Pass | None:
        """A pass for one model step, which must be handed back by exactly one of the methods below; None: do not call.

        A probe that nobody hears of again keeps its place for one recovery time, then the next caller gets one.
        """
        with self._lock:
            if self._state == "closed":
                return Pass(self._generation, False)
            since = self._opened if self._state == "open" else self._probing
            if _now() - since < config.recovery_timeout_sec:
                return None
            self._become("half_open")
            self._probing = _now()
            return Pass(self._generation, True)

    def holds(self, given: Pass) -> bool:
        """Whether nothing has changed since the pass was given: whether it is worth trying again."""
        return given.generation == self._generation

    def succeeded(self, given: Pass) -> None:
        """The model answered."""
        if self.idle:
            return
        with self._lock:
            if given.generation == self._generation:
                self._failures = 0
                if given.probe:
                    self._become("closed")

    def failed(self, given: Pass, config: CircuitBreakerConfig) -> bool:
        """The model failed for good, in a way that may pass.

        Returns:
            Whether the breaker opened by it.
        """
        with self._lock:
            if given.generation != self._generation:
                return False
            self._failures += 1
            if not given.probe and self._failures < config.failure_threshold:
                return False
            self._become("open")
            self._opened = _now()
            return True

    def released(self, given: Pass) -> None:
        """The call came to nothing that says anything about the model: it was cancelled, or refused as wrong."""
        if not given.probe:
            return
        with self._lock:
            if given.generation == self._generation:
                self._become("open")  # since when stays: the next caller may probe at once

    def _become(self, state: State) -> None:
        self._state = state
        self._generation += 1


class Breakers:
    """The breakers of a process, one for each model of each provider."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[Key, Breaker] = OrderedDict()

    def of(self, key: Key) -> Breaker:
        """The breaker of a model; the same one for every agent of the process."""
        found = self._held.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._held.setdefault(key, Breaker())
            if len(self._held) > MAX_BREAKERS:
                idle = (name for name, breaker in self._held.items() if breaker.idle and name != key)
                self._held.pop(next(idle, next(iter(self._held))), None)
            return found

    def reset(self) -> None:
        """Forget everything: for tests, and for operators who know better."""
        with self._lock:
            self._held.clear()


BREAKERS: Final = Breakers()
