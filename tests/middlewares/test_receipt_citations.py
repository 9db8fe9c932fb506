"""What the citations of a report are worth: against the receipts that its author was shown, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from tests.support.agents import run
from tests.support.receipts import KEY, receipted, snapshot_on
from tests.support.scripted import call, calls

from remit.middlewares.receipt_citations import Citation, parse_citations, verify_citations
from remit.middlewares.receipt_ledger import numbered, snapshot, snapshot_of
from remit.middlewares.receipts import Receipt, Scope, make_receipt
from remit.runtime.signing import signer

SCOPE = Scope("t", "r")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One key for signatures, in no file."""
    monkeypatch.setenv("REMIT_RUNTIME_KEY", KEY)
    signer.cache_clear()
    yield
    signer.cache_clear()


def shown(first: int = 1) -> dict[str, Any]:
    """A snapshot of three receipts: of a search, a failed command and a written file."""
    message = ToolMessage("m", tool_call_id="c")
    rows = [("web_search", "success"), ("bash", "error"), ("write_file", "success")]
    receipts: list[Receipt] = [
        make_receipt(message, tool_name=name, args={}, status=status, seq=seq, scope=SCOPE)
        for seq, (name, status) in enumerate(rows, first)
    ]
    return snapshot(numbered(receipts), SCOPE)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as [r3] shows", [("r3", None)]),
        ("[r3 web_search]", [("r3", "web_search")]),
        ("[r3: web_search] and [r3\t`web_search`]", [("r3", "web_search")]),
        ("[r1][r2] [r1]", [("r1", None), ("r2", None)]),
        ("[r1] [r1 bash] [r1 ls] [r1 bash]", [("r1", None), ("r1", "bash"), ("r1", "ls")]),
        ("[r007]", [("r7", None)]),
        ("[r0]", [("r0", None)]),
        ("[r999999999]", [("r999999999", None)]),
        ("[r1000000000]", []),
        ("[r" + "9" * 5_000 + "]", []),
        ("[r１] [r٣]", []),
        ("[R1] r1 [r] [rx] [r1", []),
        ("[r1 a\nb]", []),
        ("[r1 [r2]]", [("r2", None)]),
        ("[r1 " + "x" * 300 + "]", []),
        ("", []),
    ],
)
def test_parse(text: str, found: list[tuple[str, str | None]]) -> None:
    assert parse_citations(text) == [Citation(*one) for one in found]


@pytest.mark.parametrize("thing", [None, 3, b"[r1]", ["[r1]"]], ids=repr)
def test_parse_anything(thing: Any) -> None:
    assert parse_citations(thing) == []
    assert verify_citations(thing, shown())["cited"] == []


def test_a_report_cites_at_most_so_many() -> None:
    assert len(parse_citations("".join(f"[r{n}]" for n in range(5_000)))) == 256


VERDICTS: list[tuple[str, dict[str, Any]]] = [
    ("found it [r1]", {"cited": ["r1"], "resolved": ["r1"], "citation_resolved": True}),
    ("found it [r1 web_search]", {"cited": ["r1"], "resolved": ["r1"], "citation_resolved": True}),
    (
        "found it [r1 bash]",
        {"cited": ["r1"], "failed": [{"id": "r1", "reason": "the receipt is of 'web_search', not of 'bash'"}]},
    ),
    (
        "found it [r1] [r1 bash] [r1]",
        {
            "cited": ["r1", "r1"],
            "resolved": ["r1"],
            "failed": [{"id": "r1", "reason": "the receipt is of 'web_search', not of 'bash'"}],
        },
    ),
    ("ran it [r2]", {"cited": ["r2"], "failed": [{"id": "r2", "reason": "the call ended as error"}]}),
    ("wrote it [r4]", {"cited": ["r4"], "unknown": ["r4"]}),
    (
        "[r1] [r2] [r3 write_file] [r9]",
        {
            "cited": ["r1", "r2", "r3", "r9"],
            "resolved": ["r1", "r3"],
            "failed": [{"id": "r2", "reason": "the call ended as error"}],
            "unknown": ["r9"],
        },
    ),
    ("I wrote the report.", {"no_citation_claims": True}),
    ("See /mnt/user-data/outputs/report.md", {"no_citation_claims": True}),
    ("It is in summary.csv", {"no_citation_claims": True}),
    ("我已经创建了文件", {"no_citation_claims": True}),
    ("word " * 60, {"no_citation_claims": True}),
    ("[r" + "9" * 50 + "] I saved it", {"no_citation_claims": True}),
    ("The answer is 42.", {"citation_resolved": True}),
    ("See https://example.com/a/b for more, e.g. this.", {"citation_resolved": True}),
    ("", {"citation_resolved": True}),
]


@pytest.mark.parametrize(("report", "wanted"), VERDICTS, ids=[row[0][:30] or "empty" for row in VERDICTS])
def test_verdicts(report: str, wanted: dict[str, Any]) -> None:
    assert verify_citations(report, shown()) == {
        "source": "receipt_citations",
        "requirement": "cited_ids_in_execution_record",
        "citation_resolved": False,
        "cited": [],
        "resolved": [],
        "failed": [],
        "unknown": [],
        "no_citation_claims": False,
        **wanted,
    }


def test_a_long_report_of_somebody_without_tools_is_not_flagged() -> None:
    verdict = verify_citations("word " * 60, None)
    assert (verdict["no_citation_claims"], verdict["citation_resolved"]) == (False, True)


def test_numbers_of_a_shortened_ledger_resolve() -> None:
    """A snapshot need not begin with r1."""
    verdict = verify_citations("[r24] [r26 write_file] [r1]", shown(first=24))
    assert (verdict["resolved"], verdict["unknown"]) == (["r24", "r26"], ["r1"])


def test_the_receipts_of_a_message_may_be_handed_over() -> None:
    message = AIMessage("x", additional_kwargs={"deerflow_tool_receipt_snapshot": shown()})
    assert verify_citations("[r1]", snapshot_of(message, SCOPE))["resolved"] == ["r1"]


@pytest.mark.parametrize(
    "forged",
    [
        lambda: {**shown(), "signature": "0" * 32},
        lambda: {**shown(), "thread_id": "other"},
        lambda: {"receipts": [{"id": "r1", "tool_name": "web_search", "status": "success"}]},
        lambda: [{"id": "r1", "tool_name": "web_search", "status": "success"}],
        lambda: [*shown()["receipts"], *shown()["receipts"]],
        lambda: "r1",
        lambda: None,
        lambda: 5,
    ],
)
def test_with_a_forged_snapshot_nothing_resolves(forged: Any) -> None:
    assert verify_citations("[r1]", forged())["unknown"] == ["r1"]


@given(
    st.text(),
    st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)),
)
def test_any_report_and_any_snapshot_get_a_verdict(report: str, held: Any) -> None:
    """Never raises, and without evidence nothing is resolved."""
    verdict = verify_citations(report, held)
    assert verdict["resolved"] == []
    assert verdict["citation_resolved"] is not (bool(verdict["unknown"]) or verdict["no_citation_claims"])


@pytest.mark.parametrize("piece", ["a-", "/a", "[r1", "[r1 a", "a.", "1"])
def test_no_report_takes_long(piece: str) -> None:
    began = perf_counter()
    verify_citations(piece * 100_000, None)
    assert perf_counter() - began < 2.0


async def test_a_report_is_checked_against_what_its_author_saw() -> None:
    """Through an agent: the last answer cites a call that ran, one that failed and one that never was."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    report = AIMessage("Looked [r1 look], tried [r2], sent [r3].")
    graph, _ = receipted([look, fail], calls(call("look", id="a")), calls(call("fail", id="b")), report)
    state = await run(graph, "ainvoke", context={"thread_id": "t"})
    final = state["messages"][-1]
    for held in (snapshot_on(final), snapshot_of(final, Scope("t", None))):
        verdict = verify_citations(final.content, held)
        assert (verdict["resolved"], verdict["unknown"]) == (["r1"], ["r3"])
        assert verdict["failed"] == [{"id": "r2", "reason": "the call ended as error"}]
        assert verdict["citation_resolved"] is False
