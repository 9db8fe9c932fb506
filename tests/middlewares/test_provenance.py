"""Where an injected message comes from: written by whoever makes it, read only when it is whole."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from tests.support.ids import shown

from remit.authz import wire
from remit.middlewares.provenance import Provenance, provenance_kwargs, provenance_of
from remit.runtime.reserved import clean_metadata


def message(**kwargs: Any) -> HumanMessage:
    return HumanMessage("x", additional_kwargs=kwargs)


def test_keys_are_those_of_the_wire() -> None:
    assert provenance_kwargs("skill_body", "skill_activation", "/mnt/skills/x") == {
        "deerflow_content_kind": "skill_body",
        "deerflow_producer_kind": "skill_activation",
        "deerflow_producer_entity_id": "/mnt/skills/x",
    }
    assert provenance_kwargs("memory") == {
        "deerflow_content_kind": "memory",
        "deerflow_producer_kind": "middleware",
    }


@pytest.mark.parametrize("kind", ["middleware_injection", "memory", "durable_context", "skill_body", "image_payload"])
@pytest.mark.parametrize("entity", [None, "one"])
def test_what_was_written_is_read(kind: Any, entity: str | None) -> None:
    assert provenance_of(message(**provenance_kwargs(kind, "slot", entity))) == Provenance(kind, "slot", entity)


WHOLE = provenance_kwargs("memory", "slot", "one")


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {wire.CONTENT_KIND: "memory"},
        {wire.PRODUCER_KIND: "slot"},
        {**WHOLE, wire.CONTENT_KIND: "truth"},
        {**WHOLE, wire.CONTENT_KIND: 3},
        {**WHOLE, wire.PRODUCER_KIND: None},
        {**WHOLE, wire.PRODUCER_KIND: ["slot"]},
        {**WHOLE, wire.PRODUCER_ENTITY_ID: 7},
    ],
    ids=shown,
)
def test_a_partial_or_mistyped_stamp_is_none(kwargs: dict[str, Any]) -> None:
    assert provenance_of(message(**kwargs)) is None


@pytest.mark.parametrize("kind", [["memory"], {"a": 1}], ids=shown)
def test_an_unhashable_kind_does_not_raise(kind: Any) -> None:
    assert provenance_of(message(**{**WHOLE, wire.CONTENT_KIND: kind})) is None


@pytest.mark.parametrize("thing", [None, "x", 3, object()], ids=shown)
def test_anything_else_says_nothing(thing: Any) -> None:
    assert provenance_of(thing) is None


@pytest.mark.parametrize("internal", [False, True])
def test_inbound_copies_are_dropped(internal: bool) -> None:
    """A caller cannot say where a message comes from."""
    assert clean_metadata({**WHOLE, "own": 1}, internal=internal) == {"own": 1}
