"""A guard as seen from the body of a tool, and what passes between a guard's core and its two shells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from remit.authz.gates.acting import ruling
from remit.authz.tickets import Call, Foreseen, Ruling
from remit.authz.types import Principal
from remit.middlewares.calls import Facts
from remit.middlewares.events import Decision
from remit.middlewares.shells import run_now, settled

if TYPE_CHECKING:
    from remit.middlewares.guardrail import GuardrailMiddleware


class Port(NamedTuple):
    """How a core reaches the outside: at once in the synchronous shell, awaitable in the other."""

    evaluate: Callable[[Facts, Principal, Call], Any]
    """``(facts, principal, call) -> Decision``"""
    shown: Callable[[Principal, list[str]], Any]
    """``(principal, tool names) -> those that the principal may ever use``"""
    people: Any = None
    """What a conversation with a reviewer needs; None where nobody is ever asked."""


class Cleared(NamedTuple):
    """A decided call: as it was put to the provider, or as it may run after a reviewer had a say."""

    facts: Facts
    principal: Principal
    call: Call
    decision: Decision
    foreseen: Foreseen | None = None
    """How the arguments came about that were decided about."""
    note: str = ""
    """What the model must be told about it."""


class BodyGate:
    """One guard as a gate of a frame: a body that has no ticket asks it about the call as it has become."""

    __slots__ = ("_facts", "_guard", "_principal")

    def __init__(self, guard: GuardrailMiddleware, principal: Principal, facts: Facts) -> None:
        self._guard = guard
        self._principal = principal
        self._facts = facts

    @property
    def key(self) -> object:
        return self._guard

    @property
    def waits(self) -> bool:
        return self._guard.waits

    def decide(self, call: Call) -> Ruling:
        return run_now(self._decide(call, self._guard._now))

    async def adecide(self, call: Call) -> Ruling:
        return await self._decide(call, self._guard._soon)

    async def _decide(self, call: Call, port: Port) -> Ruling:
        decision: Decision = await settled(port.evaluate(self._facts, self._principal, call))
        # A call from inside of a body has no id or its own: it must not speak for the call around it.
        if call.call_id is not None:
            self._guard._leave(
                self._facts,
                self._principal,
                call.name,
                decision,
                allowed=decision.allow is True,
                call_id=call.call_id,
            )
        return ruling(decision)
