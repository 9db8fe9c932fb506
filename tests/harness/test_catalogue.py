"""What `tool_search` finds, and what it must never find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool

from remit.harness.catalogue import MAX_RESULTS, Catalogue, words


def made(name: str, description: str) -> StructuredTool:
    def body(text: str) -> str:
        return text

    return StructuredTool.from_function(body, name=name, description=description)


TOOLS = [
    made("mcp__hr__salary", "Look up the salary of an employee."),
    made("mcp__hr__leave", "Book leave for an employee."),
    made("mcp__mail__send", "Send a mail to somebody."),
    made("mcp__mail__search", "Search mails by sender and subject."),
    made("mcp__web__searchPages", "Search pages of the web."),
]
CATALOGUE = Catalogue(TOOLS)
ALL = CATALOGUE.names


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param(
            "select:mcp__mail__send,mcp__hr__leave", ["mcp__mail__send", "mcp__hr__leave"], id="select-in-order"
        ),
        pytest.param("select: mcp__mail__send , nothing", ["mcp__mail__send"], id="select-unknown"),
        pytest.param("SELECT:mcp__hr__leave,mcp__hr__leave", ["mcp__hr__leave"], id="select-twice"),
        pytest.param("salary", ["mcp__hr__salary"], id="one-word"),
        pytest.param("employee", ["mcp__hr__leave", "mcp__hr__salary"], id="equal-by-name"),
        pytest.param("search mails", ["mcp__mail__search", "mcp__web__searchPages"], id="ranked"),
        pytest.param("+web search", ["mcp__web__searchPages"], id="required"),
        pytest.param("+mail +pages", [], id="required-by-nobody"),
        pytest.param("pages", ["mcp__web__searchPages"], id="camel-case"),
        pytest.param(".*", [], id="no-pattern"),
        pytest.param("(zz+)+$", [], id="no-expensive-pattern"),
        pytest.param("", [], id="empty"),
        pytest.param("zebra", [], id="nothing"),
    ],
)
def test_finds(query: str, found: list[str]) -> None:
    assert [entry.name for entry in CATALOGUE.search(query, ALL)] == found


@given(st.text(max_size=80), st.sets(st.sampled_from(sorted(ALL))))
def test_never_finds_what_is_hidden(query: str, visible: set[str]) -> None:
    for text in (query, f"select:{','.join(ALL)}", f"employee mail search {query}"):
        found = [entry.name for entry in CATALOGUE.search(text, visible)]
        assert set(found) <= visible
        assert len(found) <= MAX_RESULTS


def test_at_most_five() -> None:
    many = Catalogue(made(f"tool_{index}", "the same words") for index in range(20))
    assert [entry.name for entry in many.search("words", many.names)] == [
        "tool_0",
        "tool_1",
        "tool_10",
        "tool_11",
        "tool_12",
    ]


def test_the_hash_follows_names_and_schemas_only() -> None:
    assert Catalogue(TOOLS).hash == Catalogue(reversed(TOOLS)).hash
    assert Catalogue(TOOLS[1:]).hash != CATALOGUE.hash
    changed = [made(TOOLS[0].name, "Something else."), *TOOLS[1:]]
    assert Catalogue(changed).hash != CATALOGUE.hash
    assert len(CATALOGUE.hash) == 16


def test_words() -> None:
    assert words("mcp__web__searchPages Search-pages 2x") == ["mcp", "web", "search", "pages", "2x"]
