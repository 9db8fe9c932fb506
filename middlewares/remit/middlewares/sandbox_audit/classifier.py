"""The door: a command goes in, a verdict comes out, whatever the command is."""

from __future__ import annotations

import logging

from remit.middlewares.sandbox_audit.rules import BY_ID
from remit.middlewares.sandbox_audit.verdicts import MAX_COMMAND, Budget, CommandVerdict, Finding, TooComplex
from remit.middlewares.sandbox_audit.walk import Walk

log = logging.getLogger("remit.middlewares")


def classify(command: str) -> CommandVerdict:
    """Judge a shell command by its grammar. Nothing is run, and nothing outside of the command is looked at.

    This is a second line of defence and a source for the record; the sandbox is the boundary.

    Args:
        command: As the tool would hand it to ``bash -c``, at most 10,000 characters. Anything else that arrives here is
            refused unread.

    Returns:
        ``block`` for what must not run, ``warn`` for what may run and should be known, else ``pass``; with the worst
        rule that matched, its place in the command, and every other rule in `CommandVerdict.findings`. Never raises.
    """
    refusal = _refusal(command)
    if refusal is not None:
        return _refused(refusal)
    walk = Walk(Budget())
    try:
        walk.text(command)
        walk.finish()
    except (TooComplex, RecursionError):
        rule = BY_ID["too-complex"]
        walk.findings[rule.id, rule.severity] = Finding(rule.id, rule.severity, None, rule.message)
    except Exception:  # a fault of the classifier must not become a pass
        log.exception("a command could not be classified, so it is blocked")
        return _refused("unparseable")
    findings = sorted(walk.findings.values(), key=lambda found: (found.severity != "block", found.span or (0, 0)))
    kept = {found.rule_id: found for found in reversed(findings)}  # of two, the worse
    ordered = tuple(found for found in findings if kept[found.rule_id] is found)
    if not ordered:
        return CommandVerdict("pass")
    worst = ordered[0]
    return CommandVerdict(worst.severity, worst.rule_id, worst.span, worst.message, ordered)


def _refusal(command: object) -> str | None:
    if not isinstance(command, str):
        return "malformed"
    if len(command) > MAX_COMMAND:
        return "command-too-long"
    if "\0" in command:
        return "null-byte"
    return None if command.strip() else "empty-command"


def _refused(rule_id: str) -> CommandVerdict:
    rule = BY_ID[rule_id]
    return CommandVerdict("block", rule.id, None, rule.message, (Finding(rule.id, "block", None, rule.message),))
