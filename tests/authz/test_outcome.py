"""Outcomes travel from the guards to whoever records the call, once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from remit.authz import AuthorizationOutcome, pop_outcome, publish_outcome
from remit.authz.outcome import MAX_CALLS, denied

ALLOWED = AuthorizationOutcome(
    guard="guardrail.authz", decision="allowed", policy_id="policy.csv:3", policy_version="v1"
)
DENIED = AuthorizationOutcome(guard="guardrail.allowlist", decision="denied", reason_codes=("oap.tool_not_allowed",))


def test_one_per_guard_in_order_and_popped_once() -> None:
    context: dict[str, object] = {}
    publish_outcome(context, "c1", ALLOWED)
    publish_outcome(context, "c1", DENIED)
    publish_outcome(context, "c2", ALLOWED)
    outcomes = pop_outcome(context, "c1")
    assert outcomes == (ALLOWED, DENIED)
    assert denied(outcomes)
    assert not denied(pop_outcome(context, "c2"))
    assert pop_outcome(context, "c1") == ()


@pytest.mark.parametrize(
    ("context", "call"),
    [(None, "c"), (SimpleNamespace(), "c"), ({}, None), ({}, ""), ((), "c")],
    ids=["none", "object", "no-id", "empty-id", "tuple"],
)
def test_no_place_to_publish(context: object, call: str | None) -> None:
    publish_outcome(context, call, ALLOWED)
    assert pop_outcome(context, call) == ()


def test_a_forged_value_is_replaced_not_read() -> None:
    context: dict[str, object] = {"__authorization_outcome": "allowed"}
    assert pop_outcome(context, "c1") == ()
    publish_outcome(context, "c1", DENIED)
    assert pop_outcome(context, "c1") == (DENIED,)


def test_bounded_oldest_first() -> None:
    context: dict[str, object] = {}
    for index in range(MAX_CALLS + 5):
        publish_outcome(context, f"c{index}", ALLOWED)
    assert pop_outcome(context, "c4") == ()
    assert pop_outcome(context, "c5") == (ALLOWED,)


def test_a_guard_that_decides_again_has_the_last_word() -> None:
    """One outcome per guard: a call that is decided a second time ends as it was decided then."""
    context: dict[str, object] = {}
    publish_outcome(context, "c1", ALLOWED)
    publish_outcome(context, "c1", DENIED)
    again = AuthorizationOutcome(guard="guardrail.authz", decision="denied")
    publish_outcome(context, "c1", again)
    assert pop_outcome(context, "c1") == (DENIED, again)


@pytest.mark.parametrize("forged", ["allowed", ("allowed",), [ALLOWED], {"guard": "x"}, 7], ids=str)
def test_a_forged_entry_does_not_keep_an_outcome_away(forged: object) -> None:
    context: dict[str, object] = {"__authorization_outcome": {"c1": forged}}
    publish_outcome(context, "c1", DENIED)
    assert pop_outcome(context, "c1") == (DENIED,)
