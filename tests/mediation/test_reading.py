"""What is read off a graph is read as it is, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from tests.support.scripted import scripted

from remit.mediation import MediationError, audit, reading

CACHES = (reading.self_check, reading._composing_codes, reading._tracing_codes, reading._codes)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    for held in CACHES:
        held.cache_clear()
    yield
    for held in CACHES:
        held.cache_clear()


def test_the_installed_release_is_read() -> None:
    reading.self_check()


@pytest.mark.parametrize("part", ["_composing_codes", "_tracing_codes", "_codes"])
def test_a_release_that_composes_in_another_way_is_found_out(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, part, lambda *args: frozenset())
    with pytest.raises(MediationError, match=r"agents of the installed langchain [\d.]+ and langgraph .* cannot be"):
        audit(create_agent(scripted(), []))


def test_a_release_with_another_order_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversing(model: Any, tools: Any, *, middleware: Any) -> Any:
        return create_agent(model, tools, middleware=middleware[::-1])

    monkeypatch.setattr(reading, "create_agent", reversing)
    with pytest.raises(MediationError, match="was not read as it is"):
        reading.self_check()


def test_a_release_that_swaps_the_wrappers_of_the_two_forms_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapping(model: Any, tools: Any, *, middleware: Any) -> Any:
        graph = create_agent(model, tools, middleware=middleware)
        node = graph.nodes["tools"].bound
        node._wrap_tool_call, node._awrap_tool_call = node._awrap_tool_call, node._wrap_tool_call
        return graph

    read = reading._codes
    monkeypatch.setattr(reading, "_codes", lambda function: read(create_agent if function is swapping else function))
    monkeypatch.setattr(reading, "create_agent", swapping)
    with pytest.raises(MediationError, match="1 middlewares was not read as it is"):
        reading.self_check()


def test_a_shape_that_nobody_knows_is_one_unknown_link() -> None:
    def wrapper(request: Any, execute: Any) -> Any:
        return execute(request)

    (link,) = reading.links(wrapper)
    assert (link.owner, link.function) == (None, wrapper)
    assert reading.links(None) == []
    assert reading.tool_station(wrapper) is None
    assert reading.model_station(wrapper) is None
    assert reading.hook_of("Some.before_model", wrapper) is None
