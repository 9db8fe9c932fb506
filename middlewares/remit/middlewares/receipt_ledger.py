"""Receipts as the model reads them: their numbers, the ledger within its budget, and the snapshot of what was shown.

The snapshot travels on the answer that was written with the ledger in sight. Citations are looked up there and nowhere
else: by the time somebody checks them, the conversation may have been shortened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, ToolMessage

from remit.authz import wire
from remit.middlewares.receipts import MAX_SEQ, Receipt, Scope, receipt_of, well_formed
from remit.runtime.release import canonical_json
from remit.runtime.signing import signer

MAX_LEDGER: Final = 2_000
"""Characters of a rendered ledger."""
MAX_SHOWN: Final = 256
"""Receipts of the longest snapshot."""
_MAX_NAME: Final = 64
_PURPOSE: Final = "receipt snapshot"
_UNUSUAL: Final = re.compile(r"[^\w.:-]")
_ID: Final = re.compile(r"r([1-9][0-9]{0,9})")
HEAD: Final = (
    "<tool_receipts>\n"
    "Receipts of tool calls of this conversation, written by the server. A receipt is evidence that a call ran and of "
    "what came back; it says nothing about whether that is correct. Cite the receipt of an action that you report as "
    "[r1], or as [r1 tool_name]."
)
_TAIL: Final = "</tool_receipts>"

Shown = tuple[int, Receipt]
"""A receipt under its number."""


def numbered(receipts: Sequence[Receipt]) -> list[Shown]:
    """`receipts`, by their own numbers; where two have the same, those after it move up.

    Numbers stay what they were when other receipts leave the conversation.
    """
    shown, last = list[Shown](), 0
    for receipt in receipts:
        last = max(receipt["seq"], last + 1)
        shown.append((last, receipt))
    return shown


def next_seq(messages: Sequence[Any], scope: Scope, call_id: Any) -> int:
    """The number for the result of a call of the last model turn in `messages`.

    Calls of one turn run side by side and see the same messages, so each counts from its place among them.
    """
    answered: set[Any] = set()
    found = list[Receipt]()
    place: int | None = None
    highest = 0
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            if (held := receipt_of(message, scope)) is not None:
                found.append(held)
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            if place is None:
                waiting = [call.get("id") for call in message.tool_calls if call.get("id") not in answered]
                place = waiting.index(call_id) if call_id in waiting else 0
            if shown := snapshot_of(message, scope):
                highest = max(highest, int(shown[-1]["id"][1:]))
            if found or highest:
                break
    if found:
        highest = max(highest, numbered(sorted(found, key=lambda receipt: receipt["seq"]))[-1][0])
    return min(highest + 1 + (place or 0), MAX_SEQ)


def rendered(receipts: Sequence[Shown]) -> tuple[str, list[Shown]]:
    """The ledger as text of at most `MAX_LEDGER` characters, and the receipts that stand in it.

    Older receipts are left out first, and those before a missing number: what is shown is an unbroken run. A line says
    how many are left out.
    """
    lines, room = list[str](), MAX_LEDGER - len(HEAD) - len(_TAIL) - 1 - len(_omission(len(receipts))) - 1
    kept = list[Shown]()
    for number, receipt in reversed(receipts):
        line = _line(number, receipt)
        broken = bool(kept) and number != kept[-1][0] - 1
        if broken or len(line) + 1 > room or len(kept) == MAX_SHOWN:
            break
        room -= len(line) + 1
        lines.append(line)
        kept.append((number, receipt))
    left_out = len(receipts) - len(kept)
    note = [_omission(left_out)] if left_out else []
    return "\n".join([HEAD, *note, *reversed(lines), _TAIL]), kept[::-1]


def snapshot(shown: Sequence[Shown], scope: Scope) -> dict[str, Any]:
    """The value of `wire.TOOL_RECEIPT_SNAPSHOT` for an answer that saw the receipts `shown`."""
    entries = [{"id": f"r{number}", **receipt} for number, receipt in shown]
    return {
        "receipts": entries,
        "thread_id": scope.thread_id,
        "run_id": scope.run_id,
        "signature": signer().sign(_PURPOSE, scope.thread_id, scope.run_id, canonical_json(entries)),
    }


def snapshot_of(message: Any, scope: Scope) -> list[dict[str, Any]] | None:
    """The receipts that the model saw when it wrote `message`, oldest first; None when that is not known for certain.

    Each has its ``id`` (``"r24"``) beside its fields. Never raises.
    """
    kwargs = getattr(message, "additional_kwargs", None)
    held = kwargs.get(wire.TOOL_RECEIPT_SNAPSHOT) if isinstance(kwargs, Mapping) else None
    if not isinstance(held, Mapping) or not scope.holds(held.get("thread_id"), held.get("run_id")):
        return None
    return genuine_snapshot(held)


def genuine_snapshot(held: Any) -> list[dict[str, Any]] | None:
    """The receipts of a snapshot that this deployment wrote, whatever it belongs to; None for anything else."""
    if not isinstance(held, Mapping):
        return None
    entries, thread, run = held.get("receipts"), held.get("thread_id"), held.get("run_id")
    if not (isinstance(thread, str | None) and isinstance(run, str | None)):
        return None
    if (found := valid_entries(entries)) is None:
        return None
    return found if signer().verify(held.get("signature"), _PURPOSE, thread, run, canonical_json(found)) else None


def valid_entries(entries: Any) -> list[dict[str, Any]] | None:
    """`entries` when they have the form of a snapshot's receipts, with ids that follow each other; else None."""
    if not isinstance(entries, (list, tuple)) or not 0 < len(entries) <= MAX_SHOWN:
        return None
    expected: int | None = None
    for entry in entries:
        number = _ID.fullmatch(entry["id"]) if type(entry) is dict and isinstance(entry.get("id"), str) else None
        if number is None or (expected is not None and int(number[1]) != expected) or not _is_entry(entry):
            return None
        expected = int(number[1]) + 1
    return cast("list[dict[str, Any]]", list(entries))


def _is_entry(entry: dict[Any, Any]) -> bool:
    """Whether `entry` is a receipt, with plain values alone in it."""
    return well_formed(entry) and all(
        isinstance(key, str) and isinstance(value, str | int | None) for key, value in entry.items()
    )


def _line(number: int, receipt: Receipt) -> str:
    name = _UNUSUAL.sub("_", receipt["tool_name"])  # a model may call a tool by a name that reads like another line
    name = name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
    return (
        f"[r{number}] {name} {receipt['status']} args={receipt['args_sha256']} output={receipt['output_sha256']} "
        f"{receipt['output_bytes']} bytes {receipt['created_at']}"
    )


def _omission(count: int) -> str:
    return f"({count} older receipts are left out)" if count != 1 else "(1 older receipt is left out)"
