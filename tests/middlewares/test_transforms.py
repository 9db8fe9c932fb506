"""The trail of changes on a tool's result, and the receipt that follows them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from tests.support.ids import shown
from tests.support.receipts import KEY, receipt

from remit.authz import wire
from remit.middlewares.receipts import Scope, make_receipt, receipt_of, with_receipt
from remit.middlewares.transforms import append_tool_transform, transforms_of
from remit.runtime.signing import signer

SCOPE = Scope("t", "r")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One key for signatures, in no file."""
    monkeypatch.setenv("REMIT_RUNTIME_KEY", KEY)
    signer.cache_clear()
    yield
    signer.cache_clear()


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def stamped(content: str = "raw") -> ToolMessage:
    message = ToolMessage(content, tool_call_id="c", name="n", id="m", artifact={"a": 1}, status="error")
    return with_receipt(message, make_receipt(message, tool_name="n", args={}, status="error", seq=1, scope=SCOPE))


def entry(kind: str, by: str) -> dict[str, str]:
    return {"kind": kind, "by": by, "version": "1"}


def test_entries_are_kept_in_order() -> None:
    """The last one made the bytes that are seen; the message that was handed in is as it was."""
    message = ToolMessage("x", tool_call_id="c", additional_kwargs={"own": 1})
    first = append_tool_transform(message, "sanitized", by="A")
    second = append_tool_transform(first, "externalized", by="B")
    third = append_tool_transform(second, "truncated", by="A")
    assert message.additional_kwargs == {"own": 1}
    assert transforms_of(first) == [entry("sanitized", "A")]
    assert third.additional_kwargs == {
        "own": 1,
        wire.TOOL_TRANSFORMS: [entry("sanitized", "A"), entry("externalized", "B"), entry("truncated", "A")],
    }


@pytest.mark.parametrize(
    "held",
    [
        None,
        "text",
        {"kind": "sanitized"},
        [1, None, "x", [], {}],
        [{"kind": "sanitized", "by": "A"}],
        [{"kind": "sanitized", "by": 3, "version": "1"}],
        [{"kind": "magic", "by": "A", "version": "1"}],
        [{"kind": ["sanitized"], "by": "A", "version": "1"}],
        [{"kind": "sanitized", "by": "A" * 200, "version": "1"}],
        [{"kind": "sanitized", "by": "A", "version": "1", "more": "x"}],
    ],
    ids=shown,
)
def test_what_is_no_entry_is_left_out(held: Any) -> None:
    message = ToolMessage("x", tool_call_id="c", additional_kwargs={wire.TOOL_TRANSFORMS: held})
    assert transforms_of(message) == []
    assert transforms_of(append_tool_transform(message, "truncated", by="B")) == [entry("truncated", "B")]


def test_a_trail_is_bounded() -> None:
    message = ToolMessage("x", tool_call_id="c")
    for number in range(100):
        message = append_tool_transform(message, "truncated", by=str(number))
    assert transforms_of(message)[-1] == entry("truncated", "99")
    assert len(transforms_of(message)) <= 65


@pytest.mark.parametrize("thing", [None, 3, AIMessage("x"), object()], ids=shown)
def test_anything_else_has_no_trail(thing: Any) -> None:
    assert transforms_of(thing) == []


def test_a_receipt_follows_the_content() -> None:
    """It speaks of what is seen, remembers the raw hash through several changes, and still counts."""
    message = stamped()
    once = append_tool_transform(message.model_copy(update={"content": "rather longer"}), "sanitized", by="A")
    twice = append_tool_transform(once.model_copy(update={"content": "cut"}), "truncated", by="B")
    assert receipt(once) == {
        **receipt(message),
        "output_sha256": hashed("rather longer"),
        "output_bytes": 13,
        "raw_sha256": hashed("raw"),
        "signature": receipt(once)["signature"],
    }
    held = receipt_of(twice, SCOPE)
    assert held is not None
    assert (held["output_sha256"], held["raw_sha256"], held["output_bytes"]) == (hashed("cut"), hashed("raw"), 3)
    assert (twice.id, twice.name, twice.artifact, twice.status) == ("m", "n", {"a": 1}, "error")
    assert receipt(message)["output_sha256"] == hashed("raw")


def test_the_same_content_needs_no_new_receipt() -> None:
    message = stamped()
    same = append_tool_transform(message, "annotated", by="A")
    assert receipt(same) == receipt(message)
    back = append_tool_transform(
        append_tool_transform(message.model_copy(update={"content": "x"}), "truncated", by="A").model_copy(
            update={"content": "raw"}
        ),
        "annotated",
        by="A",
    )
    assert receipt(back) == receipt(message), "no raw hash beside an equal one"


@pytest.mark.parametrize(
    "held",
    [None, {}, "x", {"signature": "0" * 32}, lambda genuine: {**genuine, "seq": 7}],
    ids=["none", "empty", "text", "unsigned", "altered"],
)
def test_a_forged_receipt_is_not_made_genuine(held: Any) -> None:
    message = stamped()
    forged = held(receipt(message)) if callable(held) else held
    message = message.model_copy(update={"content": "y", "additional_kwargs": {wire.TOOL_RECEIPT: forged}})
    changed = append_tool_transform(message, "truncated", by="A")
    assert changed.additional_kwargs[wire.TOOL_RECEIPT] == forged
    assert receipt_of(changed, SCOPE) is None


@given(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=4))
def test_after_any_changes_the_hash_is_of_what_is_seen(contents: list[str]) -> None:
    message = stamped()
    for content in contents:
        message = append_tool_transform(message.model_copy(update={"content": content}), "truncated", by="A")
    held = receipt_of(message, SCOPE)
    assert held is not None
    assert held.get("raw_sha256", held["output_sha256"]) == hashed("raw")
