"""Whether somebody can be asked: an agent that may have to ask needs a place where the question waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remit.mediation.guards import asking_rules
from remit.middlewares.authorization import AuthorizationMiddleware

_MOST_NAMED = 3
_LEAVE_OUT = "leave out checkpointer=False"
_GIVE_ONE = "give the agent a checkpointer, or name 'checkpointer' as an exception: such calls are denied then"


def without_saver(
    checkpointer: Any, guard: AuthorizationMiddleware, tools: Iterable[str], *, nested: bool
) -> tuple[bool, str, str] | None:
    """What it means that an agent has no checkpointer.

    Args:
        checkpointer: Of the compiled graph: None, False, True or a saver.
        guard: Decides, and may ask.
        tools: Names of the agent's tools.
        nested: Whether the agent stands inside of another one, whose checkpointer it uses unless it was given False.

    Returns:
        Whether that fails the proof, what is to be said about it, and what to do; None when questions can wait.
    """
    if checkpointer is False or (checkpointer is None and not nested):
        rules = asking_rules(guard)
        if rules is None and nested:
            return True, "its questions would come back for ever: it refuses the checkpointer of its caller", _LEAVE_OUT
        if rules is None:
            return False, "without a checkpointer nobody can be asked: where the policy says ask, calls are denied", ""
        named = sorted({name for name in tools for rule in rules if rule.matches(name)})
        if not named:
            return None
        rule = next(rule for rule in rules if rule.matches(named[0]))
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        shown = ", ".join(map(repr, named[:_MOST_NAMED])) + more
        note = (
            f"the policy asks a person about {shown} ({rule.policy_id}), and without a checkpointer nobody can answer"
        )
        return True, note, _LEAVE_OUT if nested else _GIVE_ONE
    return None
