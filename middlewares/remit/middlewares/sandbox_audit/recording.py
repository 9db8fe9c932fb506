"""What the audit leaves behind about a call: one line in the log ``remit.audit``, and an event in the run's journal."""

from __future__ import annotations

import json
import logging
from typing import Any, Final, Literal

from remit.authz import wire
from remit.authz.principal import read
from remit.middlewares.sandbox_audit.redaction import MAX_COMMAND, loggable
from remit.middlewares.sandbox_audit.ruling import Finding, Subject
from remit.runtime.journal import record

log = logging.getLogger("remit.audit")

Operation = Literal["command", "read_file", "write_file", "sandbox"]
NAME: Final = "SandboxAuditMiddleware"
_ID: Final = 128
_PATH: Final = 300
_ACTIONS: Final = {"block": "block_command", "warn": "warn_command", "pass": "allow_command_by_policy"}


def leave(
    operation: Operation, what: Any, finding: Finding, subject: Subject, *, tool: str, call_id: str | None
) -> None:
    """Write one record about a call. Never raises.

    Args:
        operation: What the tool does.
        what: The command or the path, as it came; anything but text is described by its type.
        finding: What becomes of the call.
        subject: Who it runs for, and where.
        tool: The tool's name, as the model wrote it.
        call_id: The call.
    """
    plain = finding.verdict == "pass" and finding.classified == "pass"
    try:
        level = logging.INFO if plain else logging.WARNING
        if log.isEnabledFor(level):
            log.log(level, "%s", _line(operation, what, finding, subject, tool, call_id))
    except Exception:
        log.exception("an audit record could not be written")
    if plain:
        return
    record(
        subject.context,
        "sandbox_audit",
        name=NAME,
        hook="wrap_tool_call",
        action=_ACTIONS[finding.verdict],
        changes={
            "tool_name": _text(tool),
            "tool_call_id": _text(call_id),
            "is_subagent": read(subject.context, wire.IS_SUBAGENT) is True,
            "verdict": finding.verdict,
            "classified": finding.classified,
            "rule_id": finding.rule_id,
            "span": None if finding.span is None else list(finding.span),
            "policy_id": finding.policy_id,
            "reason_codes": list(finding.codes),
        },
    )


def _line(operation: Operation, what: Any, finding: Finding, subject: Subject, tool: str, call_id: str | None) -> str:
    held: dict[str, Any] = {
        "event": "sandbox_audit",
        "operation": operation,
        "tool": _text(tool),
        "verdict": finding.verdict,
        "thread_id": _text(subject.thread_id) or "unknown",
        "run_id": _text(subject.run_id),
        "tool_call_id": _text(call_id),
        "is_subagent": read(subject.context, wire.IS_SUBAGENT) is True,
    }
    if operation != "sandbox":
        command = operation == "command"
        shown = (
            loggable(what, MAX_COMMAND if command else _PATH) if isinstance(what, str) else f"<{type(what).__name__}>"
        )
        held["command" if command else "path"] = shown
        if isinstance(what, str):
            held["length"] = len(what)
    if finding.rule_id is not None:
        held |= {"rule_id": finding.rule_id, "span": finding.span}
    if finding.verdict != finding.classified or finding.codes:
        held |= {"classified": finding.classified, "policy_id": finding.policy_id, "reason_codes": finding.codes[:8]}
    return json.dumps(held, separators=(",", ":")).replace("\x7f", "\\u007f")


def _text(value: str | None) -> str | None:
    return value if value is None or len(value) <= _ID else value[: _ID - 3] + "..."
