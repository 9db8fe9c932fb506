"""Many callers at once, callers that give up, and an event loop that must not stand still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from remit.authz.testing.cases import case
from remit.authz.testing.session import PATIENCE_SECONDS, NotClaimed, Session, complaint_about, named
from remit.authz.testing.world import Answer, Question

STANDSTILL_SECONDS: Final = 0.025
"""An event loop that stands still for longer than this, at every attempt, is being blocked."""

_ROUND: Final[tuple[tuple[Question, Answer], ...]] = (
    (Question("reader", "search", user="u-1"), "allow"),
    (Question("reader", "write_file", user="u-2"), "deny"),
    (Question("writer", "write_file", user="u-1"), "allow"),
    (Question("admin", "wipe_disk", user="u-3"), "deny"),
    (Question("blocked", "search", user="u-1"), "deny"),
    (Question("blocked", "read_file", user="u-2"), "allow"),
)


@case("waiting/tasks")
def tasks(s: Session) -> Iterator[str]:
    """gives each of 120 tasks that ask at once its own answer"""
    asked = [_ROUND[index % len(_ROUND)] for index in range(120)]

    async def ask_all() -> list[Any]:
        calls = [s.provider.aauthorize(question.request()) for question, _ in asked]
        return await asyncio.gather(*calls, return_exceptions=True)

    for (question, expected), answer in zip(asked, s.run(ask_all()), strict=True):
        if wrong := _wrong(question, answer, expected):
            yield wrong


@case("waiting/threads")
def threads(s: Session) -> Iterator[str]:
    """gives each of 8 threads that ask at once its own answer"""

    def ask(number: int) -> list[str]:
        found: list[str] = []
        for turn in range(30):
            question, expected = _ROUND[(number + turn) % len(_ROUND)]
            try:
                wrong = complaint_about(question, s.provider.authorize(question.request()), expected)
            except Exception as exc:
                wrong = f"{question}: raised {named(exc)}"
            found += [wrong] if wrong else []
        return found

    yield from _in_threads(8, ask)


@case("waiting/filtering-threads")
def filtering_threads(s: Session) -> Iterator[str]:
    """filters for each of 8 threads at once as for one alone"""
    names = ["search", "write_file", "wipe_disk", "read_file"]
    seen = {
        "reader": ["search", "read_file"],
        "writer": ["search", "write_file", "read_file"],
        "blocked": ["read_file"],
    }
    roles = list(seen)

    def ask(number: int) -> list[str]:
        found: list[str] = []
        for turn in range(15):
            role = roles[(number + turn) % len(roles)]
            shown = s.provider.filter_resources(Question(role, "-").principal(), "tool", list(names))
            found += [] if shown == seen[role] else [f"role {role!r} sees {shown!r}, expected {seen[role]!r}"]
        return found

    yield from _in_threads(8, ask)


@case("waiting/loops-in-threads")
def loops_in_threads(s: Session) -> Iterator[str]:
    """serves event loops of several threads at once"""

    def ask(number: int) -> list[str]:
        async def some() -> list[Any]:
            rounds = [_ROUND[(number + turn) % len(_ROUND)] for turn in range(12)]
            calls = [s.provider.aauthorize(question.request()) for question, _ in rounds]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            return [_wrong(question, answer, right) for (question, right), answer in zip(rounds, answers, strict=True)]

        return [wrong for wrong in asyncio.run(some()) if wrong]

    yield from _in_threads(4, ask)


@case("waiting/second-loop")
def second_loop(s: Session) -> Iterator[str]:
    """works on in a second event loop after the first was closed"""
    question = Question("reader", "search")
    for turn in ("first", "second", "third"):

        async def ask() -> Any:
            return await s.provider.aauthorize(question.request())

        try:
            answer: Any = asyncio.run(ask())
        except Exception as exc:
            answer = exc
        if wrong := _wrong(question, answer, "allow"):
            yield f"in the {turn} loop: {wrong}"


@case("waiting/cancelled")
def cancelled(s: Session) -> Iterator[str]:
    """ends a cancelled call with CancelledError, whenever it is cancelled"""
    for turns in range(8):
        for question, _ in _ROUND[:2]:
            if wrong := s.run(_cancelled_after(turns, s.provider.aauthorize, question.request())):
                yield f"{question}: cancelled after {turns} turns of the loop, it {wrong}"


@case("waiting/cancelled-filter")
def cancelled_filter(s: Session) -> Iterator[str]:
    """ends a cancelled filter with CancelledError, where it offers afilter_resources"""
    if not hasattr(s.provider, "afilter_resources"):
        raise NotClaimed("afilter_resources")
    principal = Question("reader", "-").principal()
    for turns in range(4):
        call = _cancelled_after(turns, s.provider.afilter_resources, principal, "tool", ["search", "write_file"])
        if wrong := s.run(call):
            yield f"cancelled after {turns} turns of the loop, it {wrong}"


@case("waiting/after-many-cancelled")
def after_many_cancelled(s: Session) -> Iterator[str]:
    """loses nothing to callers that give up: answers on after 60 cancelled calls"""

    async def give_up() -> None:
        calls = [asyncio.ensure_future(s.provider.aauthorize(_ROUND[0][0].request())) for _ in range(60)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    s.run(give_up())
    for question, expected in _ROUND:
        yield from s.expect(question, expected)


@case("waiting/impatient-caller")
def impatient_caller(s: Session) -> Iterator[str]:
    """lets a caller's time limit through instead of answering for it"""
    question = _ROUND[0][0]

    async def ask() -> Any:
        try:
            async with asyncio.timeout(0):
                return await s.provider.aauthorize(question.request())
        except TimeoutError:
            return None

    answer = s.run(ask())
    if answer is not None and (wrong := _wrong(question, answer, "allow")):
        yield wrong


@case("waiting/loop-keeps-ticking")
def loop_keeps_ticking(s: Session) -> Iterator[str]:
    """never stops the event loop while aauthorize waits"""
    gaps = [s.run(_longest_gap(s.provider.aauthorize, question.request())) for question, _ in _ROUND]
    if min(gaps) > STANDSTILL_SECONDS:
        yield f"aauthorize stopped the event loop for at least {min(gaps) * 1000:.0f} ms, each time it was called"


@case("waiting/loop-keeps-ticking-for-filter")
def loop_keeps_ticking_for_filter(s: Session) -> Iterator[str]:
    """never stops the event loop while afilter_resources waits"""
    if not hasattr(s.provider, "afilter_resources"):
        raise NotClaimed("afilter_resources")
    gaps = []
    for role in s.world.roles:
        principal = Question(role, "-").principal()
        gaps.append(s.run(_longest_gap(s.provider.afilter_resources, principal, "tool", ["search", "x"])))
    if min(gaps) > STANDSTILL_SECONDS:
        yield f"afilter_resources stopped the event loop for at least {min(gaps) * 1000:.0f} ms, each time"


@case("waiting/claims-not-to-block")
def claims_not_to_block(s: Session) -> Iterator[str]:
    """is quick in authorize when it says blocking = False, since it is then called on the event loop"""
    if getattr(s.provider, "blocking", True) is not False:
        raise NotClaimed("blocking = False")
    spent = []
    for question, _ in _ROUND:
        asked, start = question.request(), time.perf_counter()
        s.provider.authorize(asked)
        spent.append(time.perf_counter() - start)
    if min(spent) > STANDSTILL_SECONDS:
        yield f"blocking is False, but authorize takes at least {min(spent) * 1000:.0f} ms"


def _wrong(question: Question, answer: Any, expected: Answer) -> str | None:
    if isinstance(answer, BaseException):
        return f"{question}: raised {named(answer)}"
    return complaint_about(question, answer, expected)


def _in_threads(count: int, work: Callable[[int], list[str]]) -> list[str]:
    """What `work` found in `count` threads that start together."""
    found: list[str] = []
    together = threading.Barrier(count)

    def one(number: int) -> None:
        together.wait(PATIENCE_SECONDS)
        try:
            found.extend(work(number))
        except BaseException as exc:
            found.append(f"a thread raised {named(exc)}")

    running = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in running:
        thread.start()
    limit = time.monotonic() + PATIENCE_SECONDS
    for thread in running:
        thread.join(max(0.0, limit - time.monotonic()))
    stuck = sum(thread.is_alive() for thread in running)
    return found + ([f"{stuck} of {count} threads got no answer within {PATIENCE_SECONDS:.0f} s"] if stuck else [])


async def _cancelled_after(turns: int, call: Callable[..., Awaitable[Any]], *args: Any) -> str | None:
    """What a call does wrong that is cancelled after some turns of the loop."""
    task = asyncio.ensure_future(call(*args))
    for _ in range(turns + 1):
        await asyncio.sleep(0)
    if task.done():
        task.exception()
        return None
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
    if not task.done():
        return "went on"
    if task.cancelled():
        return None
    error = task.exception()
    return f"raised {named(error)}" if error is not None else f"answered {task.result()!r}"


async def _longest_gap(call: Callable[..., Awaitable[Any]], *args: Any) -> float:
    """The longest time in seconds that one turn of the loop took while `call` was awaited."""
    longest = 0.0
    task = asyncio.ensure_future(call(*args))
    last = time.perf_counter()
    while not task.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await asyncio.gather(task, return_exceptions=True)
    return longest
