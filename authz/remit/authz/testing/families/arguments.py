"""Rules on arguments: a condition that cannot be judged never opens a door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from remit.authz.testing.cases import add, case
from remit.authz.testing.families.decisions import expecting, refusing
from remit.authz.testing.session import Session
from remit.authz.testing.world import Answer, Question


class _Contrary:
    """An argument that cannot be compared with anything."""

    def _refuse(self, other: object) -> bool:
        raise RuntimeError("this value cannot be compared")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__


_DECIDED: Final[tuple[tuple[str, str, str, dict[str, Any], Answer], ...]] = (
    ("amount-below", "writer", "transfer", {"amount": 50}, "allow"),
    ("amount-at-the-limit", "writer", "transfer", {"amount": 100}, "allow"),
    ("amount-as-a-fraction", "writer", "transfer", {"amount": 99.5}, "allow"),
    ("amount-above", "writer", "transfer", {"amount": 101}, "deny"),
    ("amount-far-above", "writer", "transfer", {"amount": 10**30}, "deny"),
    ("amount-a-hair-above", "writer", "transfer", {"amount": 100.0000001}, "deny"),
    ("amount-of-another-role", "reader", "transfer", {"amount": 50}, "deny"),
    ("amount-beside-others", "writer", "transfer", {"to": "x", "amount": 50, "note": "amount: 1"}, "allow"),
    ("topic-of-no-rule", "reader", "fetch", {"topic": "weather"}, "allow"),
    ("topic-that-is-denied", "reader", "fetch", {"topic": "payroll"}, "deny"),
    ("topic-that-is-denied-beside-others", "reader", "fetch", {"a": "weather", "topic": "payroll", "z": 1}, "deny"),
)

_REFUSED: Final[tuple[tuple[str, str, str, dict[str, Any]], ...]] = (
    ("amount-missing", "writer", "transfer", {}),
    ("amount-null", "writer", "transfer", {"amount": None}),
    ("amount-as-text", "writer", "transfer", {"amount": "50"}),
    ("amount-as-a-large-text", "writer", "transfer", {"amount": "1000"}),
    ("amount-as-a-truth-value", "writer", "transfer", {"amount": True}),
    ("amount-as-a-list", "writer", "transfer", {"amount": [50]}),
    ("amount-as-an-object", "writer", "transfer", {"amount": {"amount": 50}}),
    ("amount-nested", "writer", "transfer", {"args": {"amount": 50}}),
    ("amount-in-upper-case", "writer", "transfer", {"AMOUNT": 50}),
    ("amount-not-a-number", "writer", "transfer", {"amount": float("nan")}),
    ("amount-infinite", "writer", "transfer", {"amount": float("inf")}),
    ("amount-that-cannot-be-compared", "writer", "transfer", {"amount": _Contrary()}),
    ("topic-missing", "reader", "fetch", {}),
    ("topic-null", "reader", "fetch", {"topic": None}),
    ("topic-that-cannot-be-compared", "reader", "fetch", {"topic": _Contrary()}),
)


for _id, _role, _tool, _args, _expected in _DECIDED:
    _question = Question(_role, _tool, args=_args)
    add(f"arguments/{_id}", f"{_question}: {_expected}", expecting(_question, _expected), needs=["conditions"])
for _id, _role, _tool, _args in _REFUSED:
    _question = Question(_role, _tool, args=_args)
    add(f"arguments/{_id}", f"{_question}: never allowed", refusing(_question), needs=["conditions"])


@case("arguments/none-at-all", needs=["conditions"])
def none_at_all(s: Session) -> Iterator[str]:
    """does not take a request without arguments for one with harmless arguments"""
    for extra in ({"args": None}, {"args": "amount=50"}, {"args": [("amount", 50)]}):
        yield from s.expect_refusal(Question("writer", "transfer", extra=extra))
        yield from s.expect_refusal(Question("reader", "fetch", extra=extra))


@case("arguments/of-the-context", needs=["conditions"])
def of_the_context(s: Session) -> Iterator[str]:
    """reads arguments from args alone, not from members of the context with the same name"""
    yield from s.expect_refusal(Question("writer", "transfer", extra={"amount": 1}))
    yield from s.expect(Question("writer", "transfer", args={"amount": 5000}, extra={"amount": 1}), "deny")
    yield from s.expect(Question("reader", "fetch", args={"topic": "payroll"}, extra={"topic": "weather"}), "deny")


@case("arguments/odd-values")
def odd_values(s: Session) -> Iterator[str]:
    """is not confused by arguments that no rule reads"""
    nested: Any = "leaf"
    for _ in range(50):
        nested = {"deeper": [nested]}
    odd: tuple[dict[str, Any], ...] = (
        {"text": "\u0000\u200b\u202e e\u0301 \U0001f600"},
        {"number": 10**40, "fraction": -0.0, "flag": False, "nothing": None},
        {"nested": nested},
        {"long": "x" * 100_000},
        {f"key{index}": index for index in range(2_000)},
        {"__class__": "x", "constructor": "y", "": "empty"},
    )
    for args in odd:
        yield from s.expect(Question("reader", "search", args=args), "allow")
        yield from s.expect_refusal(Question("reader", "write_file", args=args))
    yield from s.expect_refusal(Question("reader", "write_file", args={"half": "\ud800"}))
