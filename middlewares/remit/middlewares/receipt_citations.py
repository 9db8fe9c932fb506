"""Checks the receipts that a report cites against those its author was shown.

The verdict is about evidence, not about truth: a citation that resolves says that such a call ran and succeeded, and
nothing about whether the report draws the right conclusion from it. It advises; it opens and closes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypedDict

from remit.middlewares.receipt_ledger import genuine_snapshot, valid_entries

SOURCE: Final = "receipt_citations"
REQUIREMENT: Final = "cited_ids_in_execution_record"
_MAX_REPORT: Final = 200_000
"""Characters of a report that are read."""
_MAX_CITATIONS: Final = 256
_MIN_CLAIM: Final = 240
"""A report of this length, from somebody whose tools ran, claims something whatever its words."""
_CITATION: Final = re.compile(r"\[r([0-9]+)(?:[ \t:]+([^\[\]\n]{1,200}))?\]")
_MAX_DIGITS: Final = 9
_ACTIONS: Final = re.compile(
    r"\b(?:added|applied|built|changed|checked out|cleaned|committed|compiled|configured|converted|copied|created"
    r"|deleted|deployed|downloaded|edited|executed|exported|fetched|fixed|generated|implemented|imported|inserted"
    r"|installed|launched|merged|migrated|modified|moved|patched|posted|produced|published|pushed|ran|refactored"
    r"|removed|renamed|replaced|restarted|saved|sent|started|stopped|stored|submitted|tested|updated|uploaded|verified"
    r"|written|wrote)\b",
    re.IGNORECASE,
)
_ACTIONS_UNSPACED: Final = re.compile(
    "创建|生成|写入|保存|修改|更新|删除|运行|执行|安装|部署|上传|下载|修复|添加|测试|提交"
)
_PATHS: Final = re.compile(
    r"(?<![\w/:.])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}"
    r"|(?<![\w-])[\w-]{1,100}\.(?:c|cfg|conf|cpp|css|csv|db|docx?|env|gif|go|gz|h|html?|ini|ipynb|java|jpe?g|jsonl?|js|jsx|lock|log|md"
    r"|parquet|pdf|php|png|pptx?|py|rb|rs|sh|sql|sqlite|svg|tar|toml|tsx?|txt|wav|xlsx?|xml|ya?ml|zip)\b",
    re.IGNORECASE,
)


class Citation(NamedTuple):
    """One reference of a report."""

    id: str
    """``"r3"``."""
    anchor: str | None
    """What the report says the receipt is of."""


class CitationFailure(TypedDict):
    """A citation of a receipt that does not bear it out."""

    id: str
    reason: str


class ReceiptVerdict(TypedDict):
    """What became of the citations of one report."""

    source: str
    requirement: str
    citation_resolved: bool
    """Whether every citation resolves; for a report without any, whether it claims nothing that needs one."""
    cited: list[str]
    resolved: list[str]
    failed: list[CitationFailure]
    unknown: list[str]
    no_citation_claims: bool
    """Whether the report claims actions and cites nothing: it is to be shown as unverified."""


def parse_citations(text: Any) -> list[Citation]:
    """The citations of `text`, in order, each pair of id and anchor once. Ids too long to be ids are no citations."""
    if not isinstance(text, str):
        return []
    found: dict[Citation, None] = {}
    for match in _CITATION.finditer(text[:_MAX_REPORT]):
        digits = match[1].lstrip("0") or "0"
        if len(match[1]) <= _MAX_DIGITS and len(found) < _MAX_CITATIONS:
            found[Citation(f"r{digits}", _anchor(match[2]))] = None
    return list(found)


def verify_citations(report: Any, snapshot: Any) -> ReceiptVerdict:
    """What the citations of `report` are worth. Never raises.

    Args:
        report: The text of an answer.
        snapshot: The receipts that the model saw when it wrote that answer: what
            `remit.middlewares.receipt_ledger.snapshot_of` says of it, or the signed snapshot itself. With anything
            else nothing resolves.
    """
    shown = genuine_snapshot(snapshot) if isinstance(snapshot, Mapping) else valid_entries(snapshot)
    receipts = {entry["id"]: entry for entry in shown or ()}
    citations = parse_citations(report)
    resolved, failed, unknown = list[str](), list[CitationFailure](), list[str]()
    for citation in citations:
        receipt = receipts.get(citation.id)
        if receipt is None:
            unknown.append(citation.id)
        elif (reason := _flaw(citation, receipt)) is not None:
            failed.append(CitationFailure(id=citation.id, reason=reason))
        else:
            resolved.append(citation.id)
    unverified = not citations and _claims_actions(report, with_receipts=bool(receipts))
    return ReceiptVerdict(
        source=SOURCE,
        requirement=REQUIREMENT,
        citation_resolved=not (failed or unknown or unverified),
        cited=[citation.id for citation in citations],
        resolved=resolved,
        failed=failed,
        unknown=unknown,
        no_citation_claims=unverified,
    )


def _anchor(text: str | None) -> str | None:
    return (text.strip(" \t`'\"*_") or None) if text else None


def _flaw(citation: Citation, receipt: Mapping[str, Any]) -> str | None:
    if receipt["status"] != "success":
        return f"the call ended as {receipt['status']}"
    if citation.anchor is not None and citation.anchor != receipt["tool_name"]:
        return f"the receipt is of {receipt['tool_name'][:64]!r}, not of {citation.anchor[:64]!r}"
    return None


def _claims_actions(report: Any, *, with_receipts: bool) -> bool:
    if not isinstance(report, str):
        return False
    text = report[:_MAX_REPORT]
    if with_receipts and len(text.strip()) >= _MIN_CLAIM:
        return True
    return any(claim.search(text) for claim in (_ACTIONS, _ACTIONS_UNSPACED, _PATHS))
