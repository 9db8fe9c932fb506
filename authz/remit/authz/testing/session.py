"""One provider under test: the doors to ask it through, and what counts as a complaint."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from remit.authz.provider import AuthorizationProvider, Closes
from remit.authz.testing.world import Answer, Question, World
from remit.authz.types import AuthzDecision

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long the kit waits for an answer before it calls the provider stuck."""


class NotClaimed(Exception):
    """The provider does not offer an optional capability, so a case does not apply. Not a failure."""


def complaint_about(question: object, answer: Any, expected: Answer | None) -> str | None:
    """What is wrong with `answer`, or None. `expected` None: anything but an allow or an ask is fine."""
    if type(answer) is not AuthzDecision:
        return f"{question}: answered {type(answer).__name__} instead of an AuthzDecision"
    if answer.allow is not True and answer.allow is not False:
        return f"{question}: allow is {type(answer.allow).__name__} {answer.allow!r} instead of True or False"
    got: Answer = "allow" if answer.allow else "ask" if answer.asks else "deny"
    if expected is None:
        return None if got == "deny" else f"{question}: answered {got}; only a denial or an error is right"
    return None if got == expected else f"{question}: answered {got}, expected {expected}"


class Session:
    """A fresh provider, asked from outside and from inside of an event loop of its own.

    Args:
        provider: The provider under test.
        world: The part of the world it was given.
        sabotage: Breaks the provider's engine, or None when that is not offered.
    """

    def __init__(
        self,
        provider: AuthorizationProvider,
        world: World,
        sabotage: Callable[[AuthorizationProvider], object] | None = None,
    ) -> None:
        self.provider: Any = provider
        self.world = world
        self.sabotage = sabotage
        self._runner = asyncio.Runner()

    def close(self) -> None:
        """Close the provider, if it can be closed, and the loop."""
        try:
            if isinstance(self.provider, Closes):
                self.run(self.provider.aclose())
        finally:
            self._runner.close()

    def run(self, awaitable: Awaitable[T]) -> T:
        """`awaitable` to its end in this session's event loop.

        Raises:
            TimeoutError: It took longer than the kit's patience.
        """

        async def patiently() -> T:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await awaitable

        return self._runner.run(patiently())

    def doors(self) -> Iterator[tuple[str, Callable[[Question], Any]]]:
        """Each way to put one question, with its name."""
        yield "authorize", self.authorize
        yield "aauthorize", self.aauthorize
        if callable(getattr(self.provider, "authorize_many", None)):
            yield "authorize_many", lambda question: self.batch([question])[0]

    def authorize(self, question: Question) -> Any:
        """The provider's synchronous answer, whatever it is. A coroutine is closed, not awaited."""
        return self._settled(self.provider.authorize(question.request()))

    def aauthorize(self, question: Question) -> Any:
        """The provider's asynchronous answer, whatever it is."""
        return self.run(self.provider.aauthorize(question.request()))

    def batch(self, questions: Sequence[Question]) -> list[Any]:
        """`authorize_many`, as a list of the right length.

        Raises:
            NotClaimed: There is no batch.
            AssertionError: The answer is no list, or has another length than the questions.
        """
        many = getattr(self.provider, "authorize_many", None)
        if many is None:
            raise NotClaimed("authorize_many")
        return batch_of(self._settled(many([question.request() for question in questions])), questions)

    def filter(self, role: str | None, candidates: Any, resource: str = "tool") -> Any:
        """The provider's filter for `role`, whatever it answers."""
        principal = Question(role, "-").principal()
        return self._settled(self.provider.filter_resources(principal, resource, candidates))

    def expect(self, question: Question, expected: Answer) -> Iterator[str]:
        """Complaints when a door does not answer `expected`."""
        for door, ask in self.doors():
            try:
                wrong = complaint_about(question, ask(question), expected)
            except Exception as exc:
                wrong = f"{question}: raised {named(exc)}, expected {expected}"
            if wrong:
                yield f"{door}: {wrong}"

    def expect_refusal(self, question: Question) -> Iterator[str]:
        """Complaints when a door allows or asks. An error is as good as a denial: enforcement points deny on it."""
        for door, ask in self.doors():
            try:
                answer = ask(question)
            except Exception:  # noqa: S112 - raising is one of the two right answers
                continue
            if wrong := complaint_about(question, answer, None):
                yield f"{door}: {wrong}"

    @staticmethod
    def _settled(answer: Any) -> Any:
        if inspect.iscoroutine(answer):
            answer.close()  # it was promised to be an answer; nobody must be warned about it later
        return answer


def batch_of(answers: Any, questions: Sequence[object]) -> list[Any]:
    """`answers` if it is a list with one answer for each question.

    Raises:
        AssertionError: It is not.
    """
    if type(answers) is not list:
        raise AssertionError(f"the batch answered {type(answers).__name__} instead of a list")
    if len(answers) != len(questions):
        raise AssertionError(f"{len(questions)} questions got {len(answers)} answers")
    return answers


def named(exc: BaseException) -> str:
    """Type and text of an exception, on one line."""
    text = " ".join(str(exc).split())
    return f"{type(exc).__name__}: {text[:200]}" if text else type(exc).__name__


def caught(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """What `call` answered, or what it raised."""
    try:
        return call(*args, **kwargs), None
    except NotClaimed:
        raise
    except Exception as exc:
        return None, exc
