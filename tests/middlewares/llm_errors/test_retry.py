"""How long to wait, and how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_errors import named, openai_error

from remit.middlewares.llm_errors import retry
from remit.middlewares.llm_errors.classification import Failure
from remit.middlewares.llm_errors.retry import attempts, delay, retry_after
from remit.runtime.config import LlmCallConfig

BUSY, BURST = Failure("busy", "X"), Failure("burst_rate", "X")
CHUNK = Failure("transient", "X", chunk_timeout=True)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_wall", NOW.timestamp)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"Retry-After": " 7 "}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=20), usegmt=True)}, 20.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=20), usegmt=True)}, None),
        ({"retry-after": "inf"}, float("inf")),
        ({"retry-after": "1e999"}, float("inf")),
        ({"retry-after": "99999999999999999999"}, 1e20),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "9" * 1000}, None),
        ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None),
        ({}, None),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_the_provider_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(openai_error(429, headers=headers)) == seconds
    assert retry_after(named("Plain", headers=headers)) == seconds
    wrapped = ValueError("wrapped")
    wrapped.__cause__ = openai_error(429, headers=headers)
    assert retry_after(wrapped) == seconds


@pytest.mark.parametrize(
    "headers", [None, 7, "retry-after: 3", ["retry-after"], {"retry-after": None}, {3: 4}], ids=repr
)
def test_headers_that_are_none(headers: Any) -> None:
    assert retry_after(named("Odd", headers=headers)) is None


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text(max_size=30) | st.floats().map(str)))
def test_any_header(headers: dict[str, str]) -> None:
    found = retry_after(named("Odd", headers=headers))
    assert found is None or found > 0
    waited = delay(BUSY, found, None, LlmCallConfig())
    assert waited is None or 0 < waited <= 60


@pytest.mark.parametrize(
    ("failure", "configured", "allowed"),
    [(BUSY, 3, 3), (BUSY, 1, 1), (BUSY, 20, 20), (BURST, 3, 2), (BURST, 1, 1), (CHUNK, 5, 2), (CHUNK, 1, 1)],
)
def test_attempts(failure: Failure, configured: int, allowed: int) -> None:
    assert attempts(failure, LlmCallConfig(retry_max_attempts=configured)) == allowed


@pytest.mark.parametrize(
    ("announced_seconds", "cap_ms", "waited"),
    [(5.0, 60_000, 5.0), (60.0, 60_000, 60.0), (60.001, 60_000, None), (float("inf"), 60_000, None), (0.001, 0, None)],
)
def test_the_longest_wait_that_is_granted(announced_seconds: float, cap_ms: int, waited: float | None) -> None:
    assert delay(BUSY, announced_seconds, None, LlmCallConfig(retry_after_cap_ms=cap_ms)) == waited


@pytest.mark.parametrize(
    ("failure", "previous", "config", "window"),
    [
        pytest.param(BUSY, None, {}, (1.0, 3.0), id="first"),
        pytest.param(BUSY, 2.0, {}, (1.0, 6.0), id="three-times-the-last"),
        pytest.param(BUSY, 6.0, {}, (1.0, 8.0), id="clamped-before-the-draw"),
        pytest.param(BURST, None, {}, (5.0, 8.0), id="burst"),
        pytest.param(BUSY, None, {"retry_base_delay_ms": 9_000}, (8.0, 8.0), id="base-beyond-the-cap"),
        pytest.param(BUSY, None, {"retry_base_delay_ms": 0}, (0.0, 0.0), id="no-wait"),
        pytest.param(BUSY, 0.1, {}, (1.0, 1.0), id="never-below-the-base"),
    ],
)
def test_the_window_of_a_wait(
    failure: Failure, previous: float | None, config: dict[str, int], window: tuple[float, float], monkeypatch: Any
) -> None:
    drawn = []
    monkeypatch.setattr(retry, "_draw", lambda low, high: drawn.append((low / 1000, high / 1000)) or high)
    assert delay(failure, None, previous, LlmCallConfig(**config)) == window[1]
    assert drawn == [window]
