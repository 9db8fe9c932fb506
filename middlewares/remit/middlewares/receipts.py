"""Receipts: signed evidence that a tool call happened and what it returned, made without a model.

A receipt says what was called, with which arguments, what came back and when, and in which thread and run. It counts
only where its signature is ours, the thread is the one at hand, and the message that carries it answers that call with
that very content. Everything else that looks like one is worth nothing, wherever it came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypedDict, cast

from langchain_core.messages import ToolMessage

from remit.authz import wire
from remit.authz.principal import read
from remit.middlewares.results import escaped
from remit.runtime.identity import runtime_run_id, runtime_thread_id
from remit.runtime.release import canonical_json
from remit.runtime.signing import signer

PURPOSE: Final = "receipt"
HASH_DIGITS: Final = 16
MAX_FIELD: Final = 256
"""Characters of a field of a receipt."""
STATUSES: Final = frozenset({"success", "error", "partial_success"})
MAX_SEQ: Final = 10**9


class Receipt(TypedDict, total=False):
    """Evidence of one result. `raw_sha256` is there when the result was changed after the tool had returned it."""

    tool_call_id: str
    tool_name: str
    status: str
    args_sha256: str
    output_sha256: str
    """Of the content as the model sees it."""
    raw_sha256: str
    """Of the content as it left the gates and the tool."""
    output_bytes: int
    """Of the content as the model sees it, in UTF-8."""
    created_at: str
    seq: int
    """1 for the first of a thread; later ones are higher."""
    thread_id: str | None
    run_id: str | None
    signature: str


class Scope(NamedTuple):
    """Where a receipt belongs. Without a thread it belongs to its run alone."""

    thread_id: str | None
    run_id: str | None

    @classmethod
    def of(cls, runtime: Any) -> Scope:
        """The thread and run of a hook or a tool."""
        try:
            thread = runtime_thread_id(runtime)
        except ValueError:  # no name of a folder, and still the thread's
            held = read(getattr(runtime, "context", None), wire.THREAD_ID)
            info = getattr(runtime, "execution_info", None)
            thread = str(held or getattr(info, "thread_id", None))
        run = runtime_run_id(runtime)
        return cls(_cut(thread), _cut(run))

    def holds(self, thread_id: Any, run_id: Any) -> bool:
        """Whether what was written in that thread and run counts here."""
        if self.thread_id is None:
            return thread_id is None and run_id == self.run_id
        return bool(thread_id == self.thread_id)


class Digest(NamedTuple):
    """What a receipt says about the content of a result."""

    sha256: str
    size: int


def make_receipt(message: ToolMessage, *, tool_name: str, args: Any, status: str, seq: int, scope: Scope) -> Receipt:
    """The receipt of `message` as it is now."""
    content = digest_of(message.content)
    return _signed(
        Receipt(
            tool_call_id=_cut(message.tool_call_id) or "",
            tool_name=_cut(escaped(tool_name)) or "",
            status=status,
            args_sha256=digest_of(args).sha256,
            output_sha256=content.sha256,
            output_bytes=content.size,
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            seq=seq,
            thread_id=scope.thread_id,
            run_id=scope.run_id,
        )
    )


def restamped(message: ToolMessage) -> ToolMessage:
    """`message` whose content was changed on purpose, with its receipt brought up to date; one that is not ours stays.

    For whoever changes a result after it got its receipt, and only for content of the server's own making.
    """
    held = _genuine(_receipt_on(message))
    if held is None:
        return message
    content = digest_of(message.content)
    if content == (held["output_sha256"], held["output_bytes"]):
        return message
    raw = held.get("raw_sha256", held["output_sha256"])
    fresh = cast("Receipt", {**held, "output_sha256": content.sha256, "output_bytes": content.size, "raw_sha256": raw})
    if raw == content.sha256:
        del fresh["raw_sha256"]
    return with_receipt(message, _signed(fresh))


def with_receipt(message: ToolMessage, receipt: Receipt) -> ToolMessage:
    """A copy of `message` that carries `receipt`, in place of anything that stood there."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, wire.TOOL_RECEIPT: receipt}})


def receipt_of(message: Any, scope: Scope) -> Receipt | None:
    """The receipt of `message`, when it counts in `scope`. Never raises."""
    held = _genuine(_receipt_on(message))
    if held is None or not scope.holds(held["thread_id"], held["run_id"]):
        return None
    if held["tool_call_id"] != _cut(message.tool_call_id):
        return None
    return held if digest_of(message.content) == (held["output_sha256"], held["output_bytes"]) else None


def receipts_in(messages: Iterable[Any], scope: Scope) -> list[Receipt]:
    """Every receipt that counts in `scope`, by its number, each once however often it was copied."""
    found: dict[str, Receipt] = {}
    for message in messages:
        if isinstance(message, ToolMessage) and (held := receipt_of(message, scope)) is not None:
            found.setdefault(held["signature"], held)
    return sorted(found.values(), key=lambda receipt: receipt["seq"])


def digest_of(value: Any) -> Digest:
    """Hash and size of a text, or of the JSON of anything else. Never raises."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
    else:
        try:
            text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
        except Exception:  # keys that cannot be sorted, too deep, or an object that cannot be written
            text = _written(value)
        data = text.encode("utf-8", "surrogatepass")
    return Digest(hashlib.sha256(data).hexdigest()[:HASH_DIGITS], len(data))


def _written(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_FIELD]


def _receipt_on(message: Any) -> Any:
    kwargs = getattr(message, "additional_kwargs", None)
    return kwargs.get(wire.TOOL_RECEIPT) if isinstance(kwargs, Mapping) else None


def _body(receipt: Mapping[str, Any]) -> str:
    return canonical_json({key: value for key, value in receipt.items() if key != "signature"})


def _signed(receipt: Receipt) -> Receipt:
    signature = signer().sign(PURPOSE, receipt["thread_id"], receipt["run_id"], _body(receipt))
    return cast("Receipt", {**receipt, "signature": signature})


_TEXTS: Final = ("tool_call_id", "tool_name", "status", "args_sha256", "output_sha256", "created_at")
_FIELDS: Final = frozenset({*_TEXTS, "raw_sha256", "output_bytes", "seq", "thread_id", "run_id", "signature"})


def _genuine(held: Any) -> Receipt | None:
    """`held` as a receipt of this deployment, or None. Never raises."""
    if type(held) is not dict or not _FIELDS.issuperset(held) or not well_formed(held):
        return None
    scope = (held.get("thread_id"), held.get("run_id"))
    if not all(part is None or isinstance(part, str) for part in scope):
        return None
    if not signer().verify(held.get("signature"), PURPOSE, *scope, _body(held)):
        return None
    return cast("Receipt", held)


def well_formed(held: Mapping[Any, Any]) -> bool:
    """Whether the fields that a receipt is made of have their types and bounds."""
    texts = [held.get(key) for key in _TEXTS]
    if not all(isinstance(text, str) and len(text) <= MAX_FIELD for text in texts):
        return False
    raw, size, seq = held.get("raw_sha256", ""), held.get("output_bytes"), held.get("seq")
    if not isinstance(raw, str) or len(raw) > MAX_FIELD or held["status"] not in STATUSES:
        return False
    return type(size) is int and size >= 0 and type(seq) is int and 0 < seq <= MAX_SEQ
