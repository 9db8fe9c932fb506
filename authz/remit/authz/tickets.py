"""Decision tickets: a tool body runs only with a decision that covers this very call.

A guard that allowed a call opens a `Frame` around it and puts a single-use `Ticket` into it. The frame travels in a
context variable; the body of an armed tool (`remit.authz.gates.arming`) redeems the ticket, or has the call decided
again with the arguments it now has, or refuses. Without any frame it refuses.

Nothing here knows a framework.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

from remit.authz.errors import TicketRefused
from remit.authz.types import EMPTY, Principal

__all__ = ["FRAME", "Call", "Foreseen", "Frame", "Gate", "Ruling", "Ticket", "canonical", "opened"]

NO_TICKET: Final = "authz.no_ticket"
TOOL_IDENTITY: Final = "authz.tool_identity"


class Call:
    """One call as the tool receives it: after coercion, without injected parameters.

    Args:
        tool: The tool object; None for a name that is not registered.
        name: Its name.
        args: The arguments. A copy is kept, as plain JSON values (`canonical`).
        call_id: Id of the tool call, where there is one.
    """

    __slots__ = ("_digest", "args", "call_id", "name", "tool")

    def __init__(self, tool: object, name: str, args: Mapping[str, Any], call_id: str | None) -> None:
        self.tool = tool
        self.name = name
        self.call_id = call_id
        self.args: dict[str, Any]
        self._digest: bytes | None = None
        if _is_flat(args):
            self.args = dict(args)
        else:
            self.args, self._digest = canonical(args)

    @property
    def digest(self) -> bytes:
        """What a ticket binds: equal digests mean equal canonical arguments."""
        if self._digest is None:
            self._digest = _flat_digest(self.args)
        return self._digest


class Foreseen(NamedTuple):
    """What the body of a tool will receive for a call, worked out before the call is decided."""

    sent: dict[str, Any]
    """The input that was coerced, injected values included."""
    ready: tuple[tuple[Any, ...], dict[str, Any]]
    """The coerced arguments, which nobody else holds: handed to the body, which then need not coerce again."""


class Ruling(NamedTuple):
    """What one gate says about a `Call`."""

    allow: bool
    code: str


class Gate(Protocol):
    """One guard of a call. The body asks all gates of its frame again, in order, when no ticket fits."""

    @property
    def key(self) -> object:
        """What makes it the same guard: compared by identity."""
        ...

    @property
    def waits(self) -> bool:
        """Whether `decide` may wait for I/O; on an event loop `adecide` is used then."""
        ...

    def decide(self, call: Call) -> Ruling: ...
    async def adecide(self, call: Call) -> Ruling: ...


def canonical(args: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """`args` as conditions may read them, and their digest.

    An argument that has no JSON form is left out of what conditions see (a missing value grants nothing and lifts no
    restriction) and enters the digest by the identity of the object.

    Returns:
        Plain JSON values (a copy of our own, all the way down), and 32 bytes that are equal for equal arguments only.
    """
    if _is_flat(args):
        return dict(args), _flat_digest(args)
    try:
        text = _ENCODER.encode(dict(args))
    except (TypeError, ValueError, RecursionError):
        return _partly(args)
    return json.loads(text), _hash(text)


_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
_TEXT: Final = frozenset({str})


def _is_flat(args: Mapping[str, Any]) -> bool:
    """Whether `args` is what it would be as JSON already: the usual case, which needs no encoder."""
    return _ATOMS.issuperset(map(type, args.values())) and _TEXT.issuperset(map(type, args))


def _flat_digest(args: Mapping[str, Any]) -> bytes:
    return _hash(repr(sorted(args.items())))


def _partly(args: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    view: dict[str, Any] = {}
    parts: list[str] = []
    for key, value in args.items():
        name = key if isinstance(key, str) else f"{type(key).__name__}:{key!r}"
        try:
            text = _ENCODER.encode(value)
        except (TypeError, ValueError, RecursionError):
            kind = type(value)
            parts.append(json.dumps([name, "opaque", f"{kind.__module__}.{kind.__qualname__}", id(value)]))
        else:
            if isinstance(key, str):
                view[key] = json.loads(text)
            parts.append(json.dumps([name, "json", text]))
    return view, _hash("\n".join(sorted(parts)))


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python  # only for models, dates, sets, paths: rare in calls by a model

    return to_jsonable_python(value)


# Keys of mixed types cannot be sorted and raise: two of them could share one JSON spelling.
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain)


class Ticket:
    """One allowed call. Redeemed at most once, whoever of several threads comes first.

    It binds the tool object and its name, the canonical arguments, the principal, the policy version, the run and the
    call id, and it counts only when every gate of its frame has signed it.
    """

    __slots__ = ("_left", "call", "foreseen", "principal", "run_id", "signed", "version")

    def __init__(
        self,
        call: Call,
        *,
        principal: Principal | None,
        version: str,
        run_id: str | None,
        foreseen: Foreseen | None = None,
    ) -> None:
        self.call = call
        self.foreseen = foreseen
        self.principal = principal
        self.version = version
        self.run_id = run_id
        self.signed: list[object] = []
        self._left = [self]

    def fits(self, call: Call) -> bool:
        """Whether `call` is the very call that was allowed."""
        mine = self.call
        return call is mine or (
            call.tool is mine.tool
            and call.name == mine.name
            and call.call_id == mine.call_id
            and call.digest == mine.digest
        )

    def foresaw(self, tool: object, name: str, call_id: str | None, sent: object) -> bool:
        """Whether this very input of this very tool was coerced when the call was decided."""
        mine = self.call
        if self.foreseen is None or tool is not mine.tool or name != mine.name or call_id != mine.call_id:
            return False
        try:
            return bool(self.foreseen.sent == sent)
        except Exception:  # values that cannot be compared are coerced and compared by digest
            return False

    def redeem(self) -> bool:
        """Spend the ticket; False when it is spent already."""
        try:
            self._left.pop()
        except IndexError:
            return False
        return True

    @property
    def spent(self) -> bool:
        """Whether it was redeemed."""
        return not self._left


class Frame:
    """One guarded call in progress, or a scope in which the host calls tools itself.

    Args:
        gates: Every guard that a call under this frame must pass, outermost first.
        registered: The agent's tools by name; a foreign object under one of these names is refused.
        principal: For whom decisions are made.
        run_id: The run, as far as known.
        call_id: Id of the call this frame was opened for; None for a host's scope.
        owner: What tells this call from another with the same id: the runtime object that the tool node made for it.
        version: Tells the policy version in force now.
        authorizes: Whether one of the gates asks the authorization policy. Tools that demand a policy decision refuse
            to run under a frame without one.
    """

    __slots__ = (
        "_registered",
        "_tickets",
        "authorizes",
        "call_id",
        "gates",
        "open",
        "owner",
        "principal",
        "run_id",
        "version",
    )

    def __init__(
        self,
        gates: Iterable[Gate],
        *,
        registered: Mapping[str, object] = EMPTY,
        principal: Principal | None,
        run_id: str | None = None,
        call_id: str | None = None,
        owner: object = None,
        version: Callable[[], str],
        authorizes: bool,
    ) -> None:
        self.gates = tuple(gates)
        self.principal = principal
        self.run_id = run_id
        self.call_id = call_id
        self.owner = owner
        self.version = version
        self.authorizes = authorizes
        self.open = True
        self._registered = registered
        self._tickets: list[Ticket] = []

    def join(self, gate: Gate) -> None:
        """Add an inner guard: from now on every call under this frame needs its consent as well."""
        if all(gate.key is not other.key for other in self.gates):
            self.gates = (*self.gates, gate)

    def issue(self, call: Call, *, version: str, signed: Iterable[object], foreseen: Foreseen | None = None) -> None:
        """Leave a ticket for `call`, allowed under policy `version` by the gates whose keys are in `signed`."""
        ticket = Ticket(call, principal=self.principal, version=version, run_id=self.run_id, foreseen=foreseen)
        ticket.signed.extend(signed)
        self._tickets.append(ticket)

    def issued(self, tool: object, call_id: str | None) -> Call | None:
        """The call of `tool` that a ticket was left for and not yet spent; None when there is none."""
        calls = (ticket.call for ticket in self._tickets if not ticket.spent)
        return next((call for call in calls if call.tool is tool and call.call_id == call_id), None)

    def countersign(self, key: object, call: Call) -> None:
        """Record that the gate with `key` allowed `call`. A ticket for anything else stays unsigned, thus worthless."""
        for ticket in self._tickets:
            if ticket.fits(call):
                ticket.signed.append(key)

    def redeem(self, call: Call) -> bool:
        """Whether a ticket covers `call` now; it is spent."""
        return any(ticket.fits(call) and self._valid(ticket) and ticket.redeem() for ticket in self._tickets)

    def claim(
        self, tool: object, name: str, call_id: str | None, sent: object
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments that were decided about, when `sent` is the input they were made of; the ticket is spent."""
        for ticket in self._tickets:
            if self.open and ticket.foresaw(tool, name, call_id, sent) and self._valid(ticket) and ticket.redeem():
                return ticket.foreseen and ticket.foreseen.ready
        return None

    def covers(self, tool: object, name: str, call_id: str | None, sent: object) -> bool:
        """Whether `claim` would find a ticket."""
        return any(
            ticket.foresaw(tool, name, call_id, sent) and self._valid(ticket) and not ticket.spent
            for ticket in self._tickets
        )

    def _valid(self, ticket: Ticket) -> bool:
        """Whether the policy is still the one it was issued under, and every gate has signed it."""
        signed = ticket.signed
        return ticket.version == self.version() and all(any(gate.key is key for key in signed) for gate in self.gates)

    @property
    def waits(self) -> bool:
        """Whether deciding may wait for I/O."""
        return any(gate.waits for gate in self.gates)

    def admit(self, call: Call) -> None:
        """Let `call` run now: by ticket, else by asking every gate again.

        Raises:
            TicketRefused: It may not run.
        """
        self._identify(call)
        if self.redeem(call):
            return
        if self.waits and _on_event_loop():
            raise TicketRefused(
                call.name, NO_TICKET, "it was called synchronously on the event loop and could not be decided"
            )
        for gate in self.gates:
            _must_allow(call, gate.decide(call))

    async def aadmit(self, call: Call) -> None:
        """`admit` for the event loop.

        Raises:
            TicketRefused: It may not run.
        """
        self._identify(call)
        if not self.redeem(call):
            await self._ask(call)

    async def prepare(self, call: Call) -> None:
        """Have `call` decided ahead and leave a ticket for its body, unless one is there.

        Raises:
            TicketRefused: It may not run.
        """
        self._identify(call)
        version = self.version()
        if any(ticket.fits(call) and self._valid(ticket) and not ticket.spent for ticket in self._tickets):
            return
        gates = self.gates
        await self._ask(call)
        self.issue(call, version=version, signed=[gate.key for gate in gates])

    async def _ask(self, call: Call) -> None:
        for gate in self.gates:
            _must_allow(call, await gate.adecide(call))

    def _identify(self, call: Call) -> None:
        if not self.open:
            raise TicketRefused(call.name, NO_TICKET, "the call it belonged to is over")
        if self._registered.get(call.name, call.tool) is not call.tool:
            raise TicketRefused(call.name, TOOL_IDENTITY, "another tool is registered under this name")


def _must_allow(call: Call, ruling: Ruling) -> None:
    if ruling.allow is not True:
        raise TicketRefused(call.name, ruling.code)


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


FRAME: Final[ContextVar[Frame | None]] = ContextVar("remit_frame", default=None)
"""The innermost open frame. Copied into tasks and `to_thread`; lost in a bare thread, where bodies then refuse."""


class opened:
    """A scope in which `frame` is the innermost. On exit the frame is over: what still holds it is refused."""

    __slots__ = ("_frame", "_token")

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __enter__(self) -> Frame:
        self._token: Token[Frame | None] = FRAME.set(self._frame)
        return self._frame

    def __exit__(self, *exc: object) -> None:
        self._frame.open = False
        FRAME.reset(self._token)
