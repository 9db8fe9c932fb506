"""Tickets and frames by themselves, without any framework."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from remit.authz.errors import TicketRefused
from remit.authz.tickets import FRAME, Call, Foreseen, Frame, Ruling, canonical, opened
from remit.authz.types import Principal


class Tool:
    """Stands for a tool object: only its identity matters here."""


class Gatekeeper:
    """A gate that answers what it is told and writes down what it was asked."""

    def __init__(self, *, allow: bool = True, waits: bool = False) -> None:
        self.allow = allow
        self.waits = waits
        self.asked: list[Call] = []

    @property
    def key(self) -> object:
        return self

    def decide(self, call: Call) -> Ruling:
        self.asked.append(call)
        return Ruling(self.allow, "authz.allowed" if self.allow else "authz.denied")

    async def adecide(self, call: Call) -> Ruling:
        return self.decide(call)


def frame(*gates: Any, version: str = "v1", **options: Any) -> Frame:
    state = {"version": version}
    made = Frame(gates, principal=Principal("gina"), version=lambda: state["version"], authorizes=True, **options)
    return made


class TestCanonical:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ({"a": (1, 2)}, {"a": [1, 2]}),
            ({"a": OrderedDict(x=1)}, {"a": {"x": 1}}),
        ],
        ids=["order", "tuple", "mapping"],
    )
    def test_equal(self, one: Any, other: Any) -> None:
        assert canonical(one) == canonical(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"a": 1}, {"a": True}),
            ({"a": 1}, {"a": "1"}),
            ({"a": 1}, {"a": 1.0}),
            ({"a": None}, {}),
            ({"a": [1]}, {"a": [True]}),
            ({"a": {"x": 1}}, {"a": {"x": 1, "y": None}}),
            ({"a": [1, 2]}, {"a": [2, 1]}),
            ({"a": "x", "b": "y"}, {"a": "x', 'b': 'y"}),
            ({"a": float("nan")}, {"a": None}),
            ({"a": -0.0}, {"a": 0.0}),
            ({"a": {1: "x"}}, {"a": {"1": "x", 1: "x"}}),
            ({"a": "\ud800"}, {"a": "?"}),
        ],
        ids=[
            "bool",
            "text",
            "float",
            "none",
            "nested-bool",
            "more-keys",
            "list-order",
            "quotes",
            "nan",
            "minus-zero",
            "mixed-keys",
            "surrogate",
        ],
    )
    def test_different(self, one: Any, other: Any) -> None:
        assert canonical(one)[1] != canonical(other)[1]

    def test_values_are_plain_and_our_own(self) -> None:
        inner = [1, {"x": 2}]
        when = datetime(2024, 1, 2, tzinfo=UTC)
        view, _ = canonical({"list": inner, "when": when, "price": Decimal("1.50"), "set": {1}})
        assert view == {"list": [1, {"x": 2}], "when": "2024-01-02T00:00:00Z", "price": "1.50", "set": [1]}
        inner.append(3)
        assert view["list"] == [1, {"x": 2}]

    def test_what_has_no_json_form_is_left_out_and_bound_by_identity(self) -> None:
        """A missing value grants nothing and lifts no restriction; another object is another call."""
        one, other = object(), object()
        loop: list[Any] = []
        loop.append(loop)
        view, _ = canonical({"a": 1, "o": one, "deep": [one], "loop": loop})
        assert view == {"a": 1}
        assert canonical({"a": 1, "o": one})[1] == canonical({"o": one, "a": 1})[1]
        assert canonical({"a": 1, "o": one})[1] != canonical({"a": 1, "o": other})[1]

    def test_deep_nesting_is_no_crash(self) -> None:
        deep: Any = 1
        for _ in range(100_000):
            deep = [deep]
        view, digest = canonical({"a": 1, "deep": deep})
        assert view == {"a": 1}
        assert len(digest) == 32

    def test_huge_numbers_are_no_crash(self) -> None:
        assert canonical({"a": 10**5000, "b": [10**5000], "c": 1})[0]["c"] == 1


class TestTicket:
    def test_fits_once(self) -> None:
        tool, gate = Tool(), Gatekeeper()
        one = frame(gate)
        one.issue(Call(tool, "t", {"a": 1}, "c"), version="v1", signed=[gate])
        one.admit(Call(tool, "t", {"a": 1}, "c"))
        assert gate.asked == []
        one.admit(Call(tool, "t", {"a": 1}, "c"))
        assert len(gate.asked) == 1

    @pytest.mark.parametrize(
        ("tool", "name", "args", "call_id"),
        [
            (Tool(), "t", {"a": 1}, "c"),
            (None, "u", {"a": 1}, "c"),
            (None, "t", {"a": 2}, "c"),
            (None, "t", {"a": True}, "c"),
            (None, "t", {"a": 1}, "d"),
            (None, "t", {"a": 1}, None),
        ],
        ids=["tool", "name", "args", "args-type", "call-id", "no-call-id"],
    )
    def test_fits_nothing_else(self, tool: Any, name: str, args: Any, call_id: Any) -> None:
        mine, gate = Tool(), Gatekeeper(allow=False)
        one = frame(gate)
        one.issue(Call(mine, "t", {"a": 1}, "c"), version="v1", signed=[gate])
        with pytest.raises(TicketRefused):
            one.admit(Call(tool or mine, name, args, call_id))

    def test_is_void_under_another_policy(self) -> None:
        tool, gate = Tool(), Gatekeeper(allow=False)
        one = frame(gate, version="v2")
        one.issue(Call(tool, "t", {}, "c"), version="v1", signed=[gate], foreseen=Foreseen({}, ((), {})))
        assert one.claim(tool, "t", "c", {}) is None
        with pytest.raises(TicketRefused):
            one.admit(Call(tool, "t", {}, "c"))

    def test_counts_only_when_every_gate_has_signed(self) -> None:
        tool, outer, inner = Tool(), Gatekeeper(), Gatekeeper()
        call = Call(tool, "t", {}, "c")
        one = frame(outer, inner)
        one.issue(call, version="v1", signed=[outer], foreseen=Foreseen({}, ((), {})))
        assert one.claim(tool, "t", "c", {}) is None
        assert one.redeem(call) is False
        one.countersign(inner, call)
        assert one.claim(tool, "t", "c", {}) == ((), {})

    def test_a_gate_that_saw_another_call_does_not_sign(self) -> None:
        """Shown one thing to one guard and another to the next: neither has allowed what would run."""
        tool, outer, inner = Tool(), Gatekeeper(), Gatekeeper(allow=False)
        one = frame(outer)
        one.issue(Call(tool, "t", {"a": 1}, "c"), version="v1", signed=[outer])
        one.join(inner)
        one.countersign(inner, Call(tool, "t", {"a": 2}, "c"))
        with pytest.raises(TicketRefused):
            one.admit(Call(tool, "t", {"a": 1}, "c"))

    def test_one_of_many_threads_gets_it(self) -> None:
        tool, gate = Tool(), Gatekeeper()
        for _ in range(50):
            one = frame(gate)
            call = Call(tool, "t", {}, "c")
            one.issue(call, version="v1", signed=[gate])
            won: list[bool] = []
            start = threading.Barrier(8)

            def race(one: Frame = one, call: Call = call, won: list[bool] = won, start: Any = start) -> None:
                start.wait()
                won.append(one.redeem(call))

            threads = [threading.Thread(target=race) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert won.count(True) == 1

    def test_claim_needs_the_very_input(self) -> None:
        tool, gate = Tool(), Gatekeeper()
        one = frame(gate)
        ready = ((), {"a": 5})
        one.issue(Call(tool, "t", {"a": 5}, "c"), version="v1", signed=[gate], foreseen=Foreseen({"a": "5"}, ready))
        assert one.claim(tool, "t", "c", {"a": "6"}) is None
        assert one.claim(Tool(), "t", "c", {"a": "5"}) is None
        assert one.claim(tool, "t", "d", {"a": "5"}) is None
        assert one.claim(tool, "t", "c", {"a": "5"}) is ready
        assert one.claim(tool, "t", "c", {"a": "5"}) is None

    def test_input_that_cannot_be_compared(self) -> None:
        class Odd:
            def __eq__(self, other: object) -> bool:
                raise RuntimeError("no comparison")

            __hash__ = None  # type: ignore[assignment]

        tool, gate = Tool(), Gatekeeper()
        one = frame(gate)
        foreseen = Foreseen({"a": Odd()}, ((), {}))
        one.issue(Call(tool, "t", {}, "c"), version="v1", signed=[gate], foreseen=foreseen)
        assert one.claim(tool, "t", "c", {"a": Odd()}) is None


class TestFrame:
    def test_all_gates_are_asked_in_order_and_the_first_denial_counts(self) -> None:
        first, second, third = Gatekeeper(), Gatekeeper(allow=False), Gatekeeper()
        with pytest.raises(TicketRefused) as refused:
            frame(first, second, third).admit(Call(Tool(), "t", {}, None))
        assert refused.value.code == "authz.denied"
        assert [len(gate.asked) for gate in (first, second, third)] == [1, 1, 0]

    def test_a_foreign_object_under_a_registered_name(self) -> None:
        mine = Tool()
        one = frame(Gatekeeper(), registered={"t": mine})
        one.admit(Call(mine, "t", {}, None))
        with pytest.raises(TicketRefused) as refused:
            one.admit(Call(Tool(), "t", {}, None))
        assert refused.value.code == "authz.tool_identity"

    def test_is_over_when_left(self) -> None:
        tool, gate = Tool(), Gatekeeper()
        one = frame(gate)
        one.issue(Call(tool, "t", {}, "c"), version="v1", signed=[gate], foreseen=Foreseen({}, ((), {})))
        with opened(one):
            assert FRAME.get() is one
        assert FRAME.get() is None
        assert one.claim(tool, "t", "c", {}) is None
        with pytest.raises(TicketRefused, match="over"):
            one.admit(Call(tool, "t", {}, "c"))

    async def test_a_waiting_gate_is_not_asked_synchronously_on_the_loop(self) -> None:
        gate = Gatekeeper(waits=True)
        one = frame(gate)
        with pytest.raises(TicketRefused, match="event loop"):
            one.admit(Call(Tool(), "t", {}, None))
        await one.aadmit(Call(Tool(), "t", {}, None))
        assert len(gate.asked) == 1

    async def test_prepare_leaves_a_ticket_for_the_body(self) -> None:
        tool, gate = Tool(), Gatekeeper(waits=True)
        one = frame(gate)
        await one.prepare(Call(tool, "t", {"a": 1}, "c"))
        one.admit(Call(tool, "t", {"a": 1}, "c"))
        assert len(gate.asked) == 1
        with pytest.raises(TicketRefused):
            one.admit(Call(tool, "t", {"a": 1}, "c"))

    async def test_prepare_does_not_ask_again_for_a_ticket_that_fits(self) -> None:
        tool, gate = Tool(), Gatekeeper(waits=True)
        one = frame(gate)
        one.issue(Call(tool, "t", {}, "c"), version="v1", signed=[gate])
        await one.prepare(Call(tool, "t", {}, "c"))
        assert gate.asked == []

    def test_joining_twice_is_joining_once(self) -> None:
        gate = Gatekeeper()
        one = frame(Gatekeeper())
        one.join(gate)
        one.join(gate)
        assert len(one.gates) == 2
