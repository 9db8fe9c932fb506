from __future__ import annotations

import asyncio
import operator
import pickle
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from remit.authz import provider as module
from remit.authz.provider import (
    AuthorizationProvider,
    Closes,
    Explains,
    GuardrailDecision,
    GuardrailProvider,
    GuardrailReason,
    GuardrailRequest,
    PolicyTools,
    ProviderBase,
    SupportsAsyncFilter,
    SupportsBatch,
    ValidatesRole,
    Versioned,
)
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Obligation, Principal

READER = Principal(role="reader")


class Only(ProviderBase):
    """Allows some targets and asks about others; remembers what it was asked, and on which thread."""

    name = "only"

    def __init__(self, *allowed: str, asks: tuple[str, ...] = (), blocking: bool = True) -> None:
        self.allowed, self.asks, self.blocking = allowed, asks, blocking
        self.asked: list[AuthzRequest] = []
        self.threads: set[int] = set()

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        self.asked.append(request)
        self.threads.add(threading.get_ident())
        if request.target == "broken":
            raise RuntimeError("broken")
        if request.target in self.asks:
            return AuthzDecision(False, obligations=(Obligation("approval"),))
        return AuthzDecision(request.target in self.allowed, (AuthzReason(f"only.{request.target}"),))


def about(target: str) -> AuthzRequest:
    return AuthzRequest(READER, "tool", "call", target)


def test_all_names_exist() -> None:
    assert sorted(module.__all__) == module.__all__
    assert all(hasattr(module, name) for name in module.__all__)


def test_what_the_base_offers() -> None:
    for protocol in (AuthorizationProvider, SupportsBatch, SupportsAsyncFilter):
        assert isinstance(Only(), protocol)
    for protocol in (Versioned, ValidatesRole, Explains, PolicyTools, Closes, GuardrailProvider):
        assert not isinstance(Only(), protocol)


@pytest.mark.parametrize("missing", ["name", "authorize", "aauthorize", "filter_resources"])
def test_half_a_provider_is_none(missing: str) -> None:
    members: dict[str, Any] = {
        "name": "half",
        "authorize": lambda self, request: None,
        "aauthorize": lambda self, request: None,
        "filter_resources": lambda self, principal, resource_type, candidates: [],
    }
    assert isinstance(type("Whole", (), members)(), AuthorizationProvider)
    del members[missing]
    assert not isinstance(type("Half", (), members)(), AuthorizationProvider)


def test_the_bare_base_says_what_to_do() -> None:
    class Forgetful(ProviderBase):
        pass

    with pytest.raises(NotImplementedError, match=r"Forgetful must implement authorize\(request\) -> AuthzDecision"):
        Forgetful().authorize(about("search"))
    assert Forgetful.blocking is True  # what says nothing is taken to block


@pytest.mark.parametrize("blocking", [True, False])
async def test_async_from_sync(blocking: bool) -> None:
    provider = Only("search", blocking=blocking)
    assert (await provider.aauthorize(about("search"))).allow is True
    assert (await provider.aauthorize(about("bash"))).allow is False
    assert (threading.get_ident() in provider.threads) is not blocking
    with pytest.raises(RuntimeError, match="broken"):
        await provider.aauthorize(about("broken"))


async def test_a_blocking_provider_does_not_stop_the_loop() -> None:
    loop, began, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    class Slow(ProviderBase):
        name = "slow"

        def authorize(self, request: AuthzRequest) -> AuthzDecision:
            loop.call_soon_threadsafe(began.set)
            release.wait(30)
            return AuthzDecision(True)

    for call in (
        lambda: Slow().aauthorize(about("search")),
        lambda: Slow().afilter_resources(READER, "tool", ["search"]),
        lambda: Slow().aauthorize_many([about("search")]),
    ):
        began.clear()
        release.clear()
        with blockbuster_ctx(scanned_modules=["remit"]):
            waiting = asyncio.ensure_future(call())
            await began.wait()
            assert not waiting.done()
            release.set()
            await waiting


@pytest.mark.parametrize(
    ("candidates", "shown"),
    [
        ([], []),
        (["bash"], []),
        (["search", "bash", "read"], ["search", "read"]),
        (["read", "search"], ["read", "search"]),
        (["search", "bash", "search"], ["search", "search"]),
        (["mail", "bash"], ["mail"]),  # what is asked is visible
    ],
)
async def test_filter_from_authorize(candidates: list[str], shown: list[str]) -> None:
    provider = Only("search", "read", asks=("mail",))
    given = list(candidates)
    answer = provider.filter_resources(READER, "tool", given)
    assert answer == shown
    assert answer is not given
    assert given == candidates
    assert await provider.afilter_resources(READER, "tool", given) == shown


def test_filter_asks_once_per_name_with_the_visibility_action() -> None:
    provider = Only()
    provider.filter_resources(READER, "tool", ["a", "a", "b"])
    provider.filter_resources(READER, "model", ["small"])
    provider.filter_resources(READER, "route", ["threads:read"])
    provider.filter_resources(READER, "vehicle", ["car"])
    assert [(r.resource, r.action, r.target, dict(r.context)) for r in provider.asked] == [
        ("tool", "call", "a", {}),
        ("tool", "call", "b", {}),
        ("model", "list", "small", {}),
        ("route", "read", "threads:read", {}),
        ("vehicle", "use", "car", {}),
    ]


@pytest.mark.parametrize("candidates", [["search", "broken"], ["search", ""], ["search", None], ["search", 7]])
def test_a_failing_filter_raises_and_does_not_answer_with_a_part(candidates: list[Any]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        Only("search").filter_resources(READER, "tool", candidates)


async def test_batch_from_single() -> None:
    provider = Only("search")
    requests = [about(target) for target in ("search", "bash", "search", "read")]
    answers = provider.authorize_many(requests)
    assert [(answer.allow, answer.code) for answer in answers] == [
        (True, "only.search"),
        (False, "only.bash"),
        (True, "only.search"),
        (False, "only.read"),
    ]
    assert await provider.aauthorize_many(requests) == answers
    assert provider.authorize_many([]) == await provider.aauthorize_many([]) == []
    with pytest.raises(RuntimeError, match="broken"):
        provider.authorize_many([about("search"), about("broken")])


# The guardrail's values


@pytest.mark.parametrize("allow", [1, 0, "yes", "", None, [], object()])
def test_a_guardrail_allows_with_true_and_nothing_else(allow: Any) -> None:
    with pytest.raises(TypeError, match="allow must be True or False"):
        GuardrailDecision(allow)


@pytest.mark.parametrize("careless", [bool, operator.not_, lambda d: "yes" if d else "no"])
def test_a_guardrail_decision_has_no_truth_value(careless: Callable[[Any], object]) -> None:
    for allow in (True, False):
        with pytest.raises(TypeError, match="no truth value"):
            careless(GuardrailDecision(allow))


def test_a_guardrail_decision_is_a_value() -> None:
    reason = GuardrailReason("x.y", "z")
    decision = GuardrailDecision(False, [reason], "p", "v", [Obligation("approval")], {"a": [1]})  # type: ignore[arg-type]
    assert decision.reasons == (reason,)
    assert decision.metadata == {"a": (1,)}
    assert decision.asks is True
    assert GuardrailDecision(False).asks is False
    assert hash(decision) == hash(pickle.loads(pickle.dumps(decision)))  # noqa: S301 - made in this line
    for field in fields(GuardrailDecision):
        with pytest.raises(FrozenInstanceError):
            setattr(decision, field.name, True)


@pytest.mark.parametrize(
    "wrong",
    [{"reasons": ["no"]}, {"reasons": [AuthzReason("x.y")]}, {"obligations": ["approval"]}, {"metadata": None},
     {"metadata": "x"}, {"reasons": None}],
    ids=repr,
)  # fmt: skip
def test_members_of_another_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        GuardrailDecision(False, **wrong)


def test_a_guardrail_that_asks_does_not_allow() -> None:
    with pytest.raises(ValueError, match="must have allow=False"):
        GuardrailDecision(True, obligations=(Obligation("approval"),))


def test_a_guardrail_request_keeps_the_tool_to_itself() -> None:
    tool = object()
    request = GuardrailRequest(tool_name="search", tool_input={}, tool=tool)
    assert request.tool is tool
    assert "tool=" not in repr(request)
    assert request == GuardrailRequest(tool_name="search", tool_input={})
    with pytest.raises(FrozenInstanceError):
        request.tool_name = "bash"  # type: ignore[misc]
    with pytest.raises(TypeError):
        GuardrailRequest("search", {})  # type: ignore[misc]
