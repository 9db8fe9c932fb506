"""Whatever a provider does instead of answering, no decision point takes it for a yes.

One provider per kind of failure, driven through every decision point, synchronous and asynchronous. Under
``fail_closed`` nothing is allowed and nothing is shown; under ``fail_closed: false`` the operator's choice holds, except
where an object merely claims to be a decision.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command
from tests.support.gates import DEADLINE_MS, LATE_SECONDS, Scripted, scripted
from tests.support.ledger import MemorySink, listening
from tests.support.points import DECISIONS, LISTS, POINTS

from remit.authz import (
    AuthzDecision,
    AuthzReason,
    AuthzRequest,
    ConfigError,
    Enforcer,
    Obligation,
    Principal,
    ProviderError,
    filter_tools_by_authorization,
    load_config,
)
from remit.authz.config import AuthorizationConfig
from remit.authz.ledger import DecisionLog

ALICE = {"user_id": "alice", "user_role": "user"}
YES = AuthzDecision(True)


def boom(exc: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise exc

    return answer


class Subclass(AuthzDecision):
    """A subclass may answer differently at every look."""


class Liar:
    """Says that it is a decision."""

    allow = True
    reasons = obligations = ()
    asks = False
    policy_id = policy_version = None
    metadata: Mapping[str, Any] = {}

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return AuthzDecision


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def tampered(value: Any) -> AuthzDecision:
    """A decision whose `allow` was overwritten behind its back."""
    decision = AuthzDecision(False)
    object.__setattr__(decision, "allow", value)
    return decision


FAILURES: Final[Mapping[str, Callable[[], Any]]] = {
    "KeyError": boom(KeyError("rule")),
    "OSError": boom(OSError(111, "connection refused")),
    "TimeoutError of its own": boom(TimeoutError()),
    "ProviderError": boom(ProviderError("the policy cannot be consulted")),
    "PermissionError": boom(PermissionError("no")),
    "RecursionError": boom(RecursionError()),
    "MemoryError": boom(MemoryError()),
    "AssertionError": boom(AssertionError()),
    "StopIteration": boom(StopIteration(YES)),
    "StopAsyncIteration": boom(StopAsyncIteration()),
    "LookupError from a base": boom(LookupError()),
    "ExceptionGroup": boom(ExceptionGroup("several", [ValueError("a"), OSError("b")])),
    "an exception without text": boom(Unprintable()),
    "an exception made of a decision": boom(Exception(YES)),
    "None": lambda: None,
    "True": lambda: True,
    "1": lambda: 1,
    "text": lambda: "allow",
    "mapping": lambda: {"allow": True},
    "list": lambda: [YES],
    "tuple": lambda: (True, "because"),
    "the class": lambda: AuthzDecision,
    "a function": lambda: lambda: YES,
    "a look-alike": lambda: SimpleNamespace(allow=True, reasons=(), obligations=(), asks=False, metadata={}),
    "a subclass": lambda: Subclass(True),
    "a liar": Liar,
    "a reason": lambda: AuthzReason("authz.allowed"),
    "1 for True": lambda: tampered(1),
    "text for True": lambda: tampered("no"),
    "list for True": lambda: tampered([False]),
    "None for False": lambda: tampered(None),
}

CLAIMS: Final[Mapping[str, Callable[[], Any]]] = {
    "an unknown obligation": lambda: AuthzDecision(True, obligations=(Obligation("notify"),)),
    "an approval": lambda: AuthzDecision(False, obligations=(Obligation("approval"),)),
    "an empty denial": lambda: AuthzDecision(False),
}
"""Real decisions that do not say yes: never a yes, whatever ``fail_closed`` says."""

LIST_FAILURES: Final[Mapping[str, Callable[[list[str]], Any]]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "null": lambda names: None,
    "True": lambda names: True,
    "list with null": lambda names: [*names, None],
    "list with a number": lambda names: [*names, 0],
    "list with bytes": lambda names: [name.encode() for name in names],
    "nested list": lambda names: [names],
    "subclass of list": lambda names: type("Names", (list,), {})(names),
    "iterator": iter,
    "generator": lambda names: (name for name in names),
    "mapping": lambda names: dict.fromkeys(names, True),
    "text": "".join,
    "decision": lambda names: YES,
}


class Failing:
    """Does one thing, at every door."""

    name = "failing"

    def __init__(self, how: str, *, blocking: bool = True) -> None:
        self.how, self.blocking = how, blocking

    def _answer(self) -> Any:
        return {**FAILURES, **CLAIMS}[self.how]()

    def authorize(self, request: AuthzRequest) -> Any:
        return self._answer()

    async def aauthorize(self, request: AuthzRequest) -> Any:
        return self._answer()

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> Any:
        return LIST_FAILURES[self.how](candidates) if self.how in LIST_FAILURES else self._answer()


def failing(how: str, *, blocking: bool = True, fail_closed: bool = True) -> AuthorizationConfig:
    provider = {"use": f"{__name__}:Failing", "config": {"how": how, "blocking": blocking}}
    section = {"enabled": True, "default_role": "guest", "fail_closed": fail_closed, "provider": provider}
    return load_config({"authorization": {**section, "deadline_ms": 200}})


pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


WAYS: Final = [
    pytest.param(point, blocking, id=f"{point}, {'blocking' if blocking else 'in place'}")
    for point in POINTS
    for blocking in (True, False)
    if blocking or "tool" not in point  # an agent costs more than all other points, and asks the same enforcer
]


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize(("point", "blocking"), WAYS)
class TestAnswers:
    async def test_closed(self, point: str, how: str, blocking: bool) -> None:
        assert await POINTS[point](failing(how, blocking=blocking), ALICE) is False

    async def test_open(self, point: str, how: str, blocking: bool) -> None:
        with listening("remit.authz") as said:
            assert await POINTS[point](failing(how, blocking=blocking, fail_closed=False), ALICE) is True
        assert said.saying("ALLOWED AFTER AN ERROR"), "the operator's choice is logged when it is used"


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
@pytest.mark.parametrize("how", CLAIMS)
@pytest.mark.parametrize("point", [point for point in DECISIONS if not point.startswith("model used")])
async def test_what_does_not_say_yes_is_no_yes(point: str, how: str, blocking: bool, fail_closed: bool) -> None:
    assert await DECISIONS[point](failing(how, blocking=blocking, fail_closed=fail_closed), ALICE) is False


@pytest.mark.parametrize("how", CLAIMS)
@pytest.mark.parametrize("point", ["model used", "model used, async"])
async def test_what_does_not_say_yes_is_no_yes_for_a_model(point: str, how: str) -> None:
    """Under fail-open a run keeps a denied model when all are denied: that is the operator's choice, and a warning."""
    assert await DECISIONS[point](failing(how), ALICE) is False


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
@pytest.mark.parametrize("how", LIST_FAILURES)
@pytest.mark.parametrize("point", LISTS)
async def test_lists_that_are_none(point: str, how: str, blocking: bool, fail_closed: bool) -> None:
    config = failing(how, blocking=blocking, fail_closed=fail_closed)
    assert await LISTS[point](config, ALICE) is not fail_closed


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("point", [point for point in POINTS if point != "filter_tools_by_authorization"])
async def test_a_provider_that_is_late(point: str, fail_closed: bool) -> None:
    """The answer would be yes; nobody waits for it. (The filter function takes no deadline from a configuration.)"""
    config = scripted("late", show="late", fail_closed=fail_closed)
    assert DEADLINE_MS / 1000 < LATE_SECONDS / 4
    with listening("remit.authz") as said:
        assert await POINTS[point](config, ALICE) is not fail_closed
    assert said.saying("authz.timeout")


class TestFilterOnlyShrinks:
    """PRV-07."""

    SHAPES: Final = [
        # what the provider answers to [a, b], shown when closed, shown when open
        pytest.param("tuple", [], ["a", "b"], id="tuple"),
        pytest.param("set", [], ["a", "b"], id="set"),
        pytest.param("null", [], ["a", "b"], id="null"),
        pytest.param("with null", [], ["a", "b"], id="list with null"),
        pytest.param("raise", [], ["a", "b"], id="exception"),
        pytest.param("generator", [], ["a", "b"], id="generator"),
        pytest.param("text", [], ["a", "b"], id="text"),
        pytest.param("mapping", [], ["a", "b"], id="mapping"),
        pytest.param("late", [], ["a", "b"], id="late"),
        pytest.param("added", ["a"], ["a"], id="a name added"),
        pytest.param("twice", ["a"], ["a"], id="a name twice"),
        pytest.param("upper", [], [], id="other case"),
        pytest.param("nothing", [], [], id="nothing"),
        pytest.param("all", ["a", "b"], ["a", "b"], id="all"),
        pytest.param("reversed", ["a", "b"], ["a", "b"], id="reversed"),
        pytest.param("mutating", [], [], id="empties what it was given"),
    ]

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
    @pytest.mark.parametrize(("show", "closed", "open_"), SHAPES)
    async def test_shapes(
        self, show: str, closed: list[str], open_: list[str], blocking: bool, fail_closed: bool
    ) -> None:
        blocking = blocking or show == "late"  # a provider that says that it only computes has no deadline
        provider = Scripted({}, blocking=blocking, show=show)
        enforcer = Enforcer(provider, default_role="guest", fail_closed=fail_closed, deadline=DEADLINE_MS / 1000)  # type: ignore[arg-type]
        expected = closed if fail_closed else open_
        candidates = ["a", "b"]
        assert enforcer.filter(Principal("alice", "user"), "tool", candidates) == expected
        assert await enforcer.afilter(Principal("alice", "user"), "tool", candidates) == expected
        assert candidates == ["a", "b"]
        if show != "late":  # the function has the default deadline
            tools = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]
            kept = filter_tools_by_authorization(
                tools, provider=provider, principal=Principal("alice", "user"), fail_closed=fail_closed
            )
            assert [tool.name for tool in kept] == expected

    async def test_duplicates_go_together_in_order(self) -> None:
        enforcer = Enforcer(Scripted({"*": "deny", "a": "allow", "c": "ask"}), default_role=None)  # type: ignore[arg-type]
        names = ["b", "a", "c", "a", "b", "c"]
        assert enforcer.filter(Principal("alice", "user"), "tool", names) == ["a", "c", "a", "c"]
        assert await enforcer.afilter(Principal("alice", "user"), "tool", names) == ["a", "c", "a", "c"]


class TestSignals:
    """PRV-09: a pause or a cancellation is nobody's denial; a timeout or a KeyError is a failure."""

    RAISED: Final[Mapping[str, BaseException]] = {
        "interrupt": GraphInterrupt(()),
        "bubble up": GraphBubbleUp(),
        "parent command": ParentCommand(Command(goto="x")),
        "cancelled": asyncio.CancelledError(),
        "keyboard interrupt": KeyboardInterrupt(),
        "generator exit": GeneratorExit(),
    }

    class Raising:
        name = "raising"

        def __init__(self, exc: BaseException, blocking: bool) -> None:
            self.exc, self.blocking = exc, blocking

        def authorize(self, request: AuthzRequest) -> AuthzDecision:
            raise self.exc

        async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
            raise self.exc

        def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
            raise self.exc

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
    @pytest.mark.parametrize("name", RAISED)
    def test_sync(self, name: str, blocking: bool, fail_closed: bool) -> None:
        exc, sink = self.RAISED[name], MemorySink()
        enforcer = Enforcer(
            self.Raising(exc, blocking), default_role=None, fail_closed=fail_closed, ledger=DecisionLog(sink)
        )
        for ask in (
            lambda: enforcer.decide(AuthzRequest(Principal("a"), "tool", "call", "x")),
            lambda: enforcer.filter(Principal("a"), "tool", ["x"]),
        ):
            with pytest.raises(type(exc)) as caught:
                ask()
            assert caught.value is exc
        assert sink.lines == [], "neither a denial nor an allowance was recorded"

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
    @pytest.mark.parametrize("name", [name for name in RAISED if name != "keyboard interrupt"])
    async def test_async(self, name: str, blocking: bool, fail_closed: bool) -> None:
        exc, sink = self.RAISED[name], MemorySink()
        enforcer = Enforcer(
            self.Raising(exc, blocking), default_role=None, fail_closed=fail_closed, ledger=DecisionLog(sink)
        )
        for work in (
            enforcer.adecide(AuthzRequest(Principal("a"), "tool", "call", "x")),
            enforcer.afilter(Principal("a"), "tool", ["x"]),
        ):
            with pytest.raises(type(exc)):
                await work
        assert sink.lines == []

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("how", ["KeyError", "TimeoutError of its own"])
    async def test_what_is_no_signal_follows_fail_closed(self, how: str, fail_closed: bool) -> None:
        sink = MemorySink()
        enforcer = Enforcer(Failing(how), default_role=None, fail_closed=fail_closed, ledger=DecisionLog(sink))  # type: ignore[arg-type]
        asked = AuthzRequest(Principal("a"), "tool", "call", "x")
        answers = [await asyncio.to_thread(enforcer.decide, asked), await enforcer.adecide(asked)]
        code = "authz.timeout" if "Timeout" in how else "authz.evaluator_error"
        assert [(answer.allow, answer.code) for answer in answers] == [(not fail_closed, code)] * 2
        assert [(r["decision"], r["failure"]) for r in sink.records] == [("deny" if fail_closed else "allow", True)] * 2

    async def test_a_cancelled_task_is_cancelled(self) -> None:
        """Cancelled from outside, while the provider thinks."""
        started = asyncio.Event()

        class Pending(Scripted):
            async def aauthorize(self, request: AuthzRequest) -> Any:
                started.set()
                await asyncio.Event().wait()

        sink = MemorySink()
        enforcer = Enforcer(Pending({}), default_role=None, deadline=60, ledger=DecisionLog(sink))  # type: ignore[arg-type]
        work = asyncio.create_task(enforcer.adecide(AuthzRequest(Principal("a"), "tool", "call", "x")))
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert sink.lines == []

    async def test_a_cancelled_filter_is_cancelled(self) -> None:
        release, started = threading.Event(), threading.Event()

        class Pending(Scripted):
            def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> Any:
                started.set()
                release.wait(10)
                return candidates

        enforcer = Enforcer(Pending({}), default_role=None, deadline=60)  # type: ignore[arg-type]
        work = asyncio.create_task(enforcer.afilter(Principal("a"), "tool", ["x"]))
        await asyncio.to_thread(started.wait, 10)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        release.set()


@pytest.mark.parametrize("style", ["tool call", "tool call, async"])
@pytest.mark.parametrize("how", ["KeyError", "None", "True"])
async def test_a_failing_provider_does_not_end_the_run(style: str, how: str) -> None:
    """Asserted inside of the point: the model gets a denial and answers."""
    assert await POINTS[style](failing(how), ALICE) is False


class TestConfiguration:
    """Nothing that an operator may mistype opens a door."""

    @pytest.mark.parametrize(
        "section",
        [
            {"enabled": "true"},
            {"enabled": 1},
            {"enabled": True, "fail_close": False, "provider": {"use": "x:Y"}},
            {"enabled": True, "failClosed": False, "provider": {"use": "x:Y"}},
            {"enabled": True, "fail_closed": "no", "provider": {"use": "x:Y"}},
            {"enabled": True, "fail_closed": None, "provider": {"use": "x:Y"}},
            {"enabled": True, "defaultrole": "guest", "provider": {"use": "x:Y"}},
            {"enabled": True},
            {"enabled": True, "provider": None},
            {"enabled": True, "provider": {"use": ""}},
            {"enabled": True, "provider": {"use": "x:Y", "cfg": {}}},
            {"enabled": True, "deadline_ms": 0, "provider": {"use": "x:Y"}},
        ],
        ids=str,
    )
    def test_refused(self, section: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="authorization"):
            load_config({"authorization": section})

    @pytest.mark.parametrize(
        "point", ["sandbox", "sandbox, async", "model used", "model used, async", "routes", "models listed"]
    )
    async def test_a_provider_that_cannot_be_built_later(self, point: str) -> None:
        config = load_config({"authorization": {"enabled": True, "provider": {"use": "not.there:Provider"}}})
        if point.startswith("model used"):
            with pytest.raises(ConfigError, match=r"not\.there:Provider"):
                await POINTS[point](config, ALICE)
        else:
            assert await POINTS[point](config, ALICE) is False

    async def test_a_provider_that_cannot_be_built_at_start(self) -> None:
        config = load_config({"authorization": {"enabled": True, "provider": {"use": "not.there:Provider"}}})
        with pytest.raises(ConfigError, match=r"not\.there:Provider"):
            Enforcer.from_config(config)
