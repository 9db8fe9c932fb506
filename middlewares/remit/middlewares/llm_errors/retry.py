"""How often a failed model call is tried again, and how long to wait before."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from remit.middlewares.llm_errors.classification import Failure, attribute, causes
from remit.runtime.config import LlmCallConfig

BURST_ATTEMPTS: Final = 2
CHUNK_TIMEOUT_ATTEMPTS: Final = 2
"""A stream that stops coming costs its whole timeout each time."""
MAX_HEADER: Final = 128

# Looked up here at each use, so that tests can stop the clocks.
_draw = random.uniform
_wall = time.time
_sleep = time.sleep
_asleep = asyncio.sleep


def pause(seconds: float) -> None:
    """Wait on this thread."""
    _sleep(seconds)


async def apause(seconds: float) -> None:
    """Wait on the event loop; ends at once when the task is cancelled."""
    await _asleep(seconds)


def attempts(failure: Failure, config: LlmCallConfig) -> int:
    """How many calls there may be in all, the first one included."""
    allowed = config.retry_max_attempts
    if failure.reason == "burst_rate":
        allowed = min(allowed, BURST_ATTEMPTS)
    if failure.chunk_timeout:
        allowed = min(allowed, CHUNK_TIMEOUT_ATTEMPTS)
    return allowed


def delay(failure: Failure, announced: float | None, previous: float | None, config: LlmCallConfig) -> float | None:
    """Seconds to wait before the next attempt; None when the provider asks for more patience than we have.

    Args:
        failure: What went wrong.
        announced: Seconds that the provider asked for.
        previous: The wait before this one.
        config: The settings.
    """
    if announced is not None:
        return announced if announced * 1000 <= config.retry_after_cap_ms else None
    base = config.burst_retry_base_delay_ms if failure.reason == "burst_rate" else config.retry_base_delay_ms
    cap = config.retry_cap_delay_ms
    low = min(base, cap)
    high = min(cap, max(base, 3 * (1000 * previous if previous is not None else base)))
    return _draw(low, max(low, high)) / 1000  # clamped before the draw: waits do not pile up at the cap


def retry_after(error: BaseException) -> float | None:
    """Seconds that the provider's headers ask to wait; None when they do not, or not in a way that makes sense.

    ``retry-after-ms`` goes before ``retry-after``, which is seconds or an HTTP date. Infinite means: longer than we
    wait. What is negative, zero, not a number or past is as good as nothing.
    """
    for one in causes(error):
        for holder in (attribute(one, "response"), one):
            headers = attribute(holder, "headers")
            if headers is not None:
                found = _seconds(_header(headers, "retry-after-ms"), 1000)
                return found if found is not None else _seconds_or_date(_header(headers, "retry-after"))
    return None


def _header(headers: Any, name: str) -> str | None:
    try:
        value = headers.get(name)
        if value is None and isinstance(headers, Mapping):
            value = next((held for key, held in headers.items() if str(key).lower() == name), None)
    except Exception:
        return None
    text = str(value).strip() if isinstance(value, (str, int, float)) else ""
    return text if 0 < len(text) <= MAX_HEADER else None


def _seconds(text: str | None, per_second: int) -> float | None:
    try:
        found = float(text or "nan") / per_second
    except ValueError:
        return None
    return found if found > 0 else None  # false for NaN as well


def _seconds_or_date(text: str | None) -> float | None:
    if text is None:
        return None
    if (found := _seconds(text, 1)) is not None:
        return found
    try:
        left = parsedate_to_datetime(text).timestamp() - _wall()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return left if left > 0 else None
