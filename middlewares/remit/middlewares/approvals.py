"""Ask: one call waits for a person, in LangChain's human-in-the-loop payload, and the answer counts for that call only.

An answer carries nothing of what was shown. So what was shown is sealed into the question, and an answer is taken only
for a question whose seal equals that of the call at hand; then the seal is written into the stored answer, where it
survives further interrupts of the same task. The seal is bytes: no JSON client can write one.

Who answered is not part of an answer either. Whoever can tell (a gateway) gives `Approvals` an `approver`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

from langchain.agents.middleware.human_in_the_loop import ApproveDecision, RejectDecision
from langgraph.types import interrupt
from pydantic import (
    BaseModel,
    Discriminator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
)

from remit.authz import wire
from remit.authz.principal import read
from remit.authz.tickets import Call, canonical
from remit.authz.types import AuthzRequest, Principal
from remit.middlewares.calls import Facts, Turn, identity_digest
from remit.middlewares.results import escaped
from remit.middlewares.shells import settled

_TICKET: Final = "ticket"
_SEAL: Final = "remit_seal"
_CHECKPOINTER: Final = "__pregel_checkpointer"
_SCRATCHPAD: Final = "__pregel_scratchpad"
_SEND: Final = "__pregel_send"
_RESUME: Final = "__resume__"
_INTERRUPT: Final = "__interrupt__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """How people are asked, and which answers count."""

    ttl_seconds: float = 86_400.0
    """How old a question may be when its answer is used, by the time of its checkpoint."""
    by_requester: bool = False
    """Whether the caller may approve a call of their own (``approvals.self``). Looked at when `approver` is set."""
    approver: Callable[[Any], Principal | None] | None = None
    """Tells who answered, from the `ToolRuntime` of the resumed call. The one named needs ``approval:decide`` on the
    tool; nobody named is a denial. None: whoever can resume the run may answer, which is right for a library in the
    host's own process only."""
    interactive: bool = True
    """False: there is nobody to ask, every ask is a denial."""


def has_answers(config: Any) -> bool:
    """Whether the task of `config` goes on with answers to interrupts; a cheap look before anything is read."""
    configurable = config.get("configurable") if isinstance(config, dict) else None
    scratchpad = configurable.get(_SCRATCHPAD) if configurable else None
    return scratchpad is not None and bool(scratchpad.resume or scratchpad.get_null_resume(False) is not None)


class Unapproved(Exception):
    """The call may not run. `text` is safe to show to the model."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(code)
        self.code, self.text = code, text


class Ports(NamedTuple):
    """What differs between the synchronous and the asynchronous shell."""

    read: Callable[[Any, Any], Any]
    """``(saver, config) -> CheckpointTuple | None``, or awaitable."""
    decide: Callable[[AuthzRequest], Any]
    """``request -> AuthzDecision``, or awaitable."""


class Inquiry:
    """The conversation with a reviewer about one call.

    Args:
        facts: The call.
        turn: The model turn it comes from.
        guard: Name of the guard that asks.
        principal: For whom the call is made.
        approvals: The rules.
        sealed: Whether the graph has sealed the identity of the run, so that a resume by another is noticed.
    """

    def __init__(
        self, facts: Facts, turn: Turn, guard: str, principal: Principal, approvals: Approvals, *, sealed: bool
    ) -> None:
        self._facts = facts
        self._turn = turn
        self._guard = guard
        self._principal = principal
        self._approvals = approvals
        self._sealed = sealed
        config = getattr(facts.runtime, "config", None) or {}
        self._conf: Mapping[str, Any] = config.get("configurable") or {}
        self._path = (config.get("metadata") or {}).get("langgraph_path") or ()
        self._info: Any = getattr(facts.runtime, "execution_info", None)
        self._saved: Any = None
        self.approver: Principal | None = None
        """Who approved the call, where that can be told."""
        self._answers: int | None = None
        self._taken = 0

    def obstacle(self) -> str | None:
        """Why nobody can be asked about this call, for operators; None when somebody can."""
        if not self._approvals.interactive or read(self._facts.context, wire.NON_INTERACTIVE) is True:
            return "the run is not interactive"
        if not self._conf.get(_CHECKPOINTER) or not self._conf.get("thread_id"):
            return "the agent has no checkpointer or the run no thread_id"
        if self._info is None or _SCRATCHPAD not in self._conf:
            return "the call does not run inside of a graph task"
        if not self._sealed:
            return "the graph did not seal the identity of the run"
        if self._facts.tool is None:
            return "the tool is not registered"
        if self._path[:1] == ("__pregel_pull",) and self._turn.open_calls > 1:
            return "several calls share one graph task and would run again on resume"
        return None

    async def outstanding(self, ports: Ports) -> bool:
        """Whether a reviewer has answered in this task and the answer was not taken yet.

        It counts, whatever the policy says meanwhile: a call that was rejected does not run because a rule was changed.
        """
        scratchpad = self._conf.get(_SCRATCHPAD)
        if scratchpad is None or self._info is None or not self._conf.get(_CHECKPOINTER):
            return False
        if self._answers is None:
            stored = sum(_stored_seal(answer) is not None for answer in scratchpad.resume)
            new = scratchpad.get_null_resume(False) is not None or len(scratchpad.resume) > stored
            asked = new and bool(self._shown(await self._checkpoint(ports)))
            self._answers = stored + asked
        return self._answers > self._taken

    async def put(self, call: Call, sent: dict[str, Any], ports: Ports, *, answered: bool) -> dict[str, Any]:
        """Ask about `call` and return the answer, checked: ``approve``, ``reject`` or ``edit``.

        Args:
            call: The call as the tool would receive it.
            sent: Its arguments as they were sent (or edited).
            ports: How to wait.
            answered: Whether an answer to a question of ours is there (`outstanding`).

        Raises:
            GraphInterrupt: Nobody has answered yet. The run pauses here.
            ValidationError: The answer has another shape; nothing is saved and it can be answered again.
            Unapproved: There is an answer and it does not count.
        """
        seal = self._seal_of(call, sent)
        try:
            answer: Any = interrupt(_question(call, self._ticket(seal)), response_schema=_answer_type(call))
        except ValidationError as exc:
            if answered:
                raise
            # The tool paused by itself when it still was allowed; the answer is for that question, not for ours.
            raise Unapproved("authz.approval_mismatch", "the answer was given to another question.") from exc
        self._taken += 1
        checkpoint = await self._checkpoint(ports)
        if checkpoint is None or checkpoint.checkpoint["id"] != self._info.checkpoint_id:
            raise Unapproved("authz.approval_used", "the approval belongs to a point that this conversation has left.")
        resume: list[Any] = self._conf[_SCRATCHPAD].resume
        place = next((number for number, given in enumerate(resume) if given is answer), None)
        if place is None:
            raise Unapproved("authz.approval_mismatch")
        stored = _stored_seal(answer)
        if stored is not None:
            if stored != seal:
                raise Unapproved("authz.approval_mismatch", "the approval was given for another call.")
            return cast("dict[str, Any]", answer)
        if place != len(resume) - 1 or self._ticket(seal) not in self._shown(checkpoint):
            raise Unapproved("authz.approval_mismatch", "the approval was given for another call.")
        if answer["type"] != "reject":
            self._in_time(checkpoint)
            await self._by_whom(call, ports)
        bound: dict[str, Any] = {**answer, _SEAL: seal}
        resume[place] = bound
        self._conf[_SEND]([(_RESUME, list(resume))])
        return bound

    async def _checkpoint(self, ports: Ports) -> Any:
        """The newest checkpoint of this thread and namespace, read once."""
        if self._saved is None:
            place = {"thread_id": self._conf["thread_id"], "checkpoint_ns": self._info.checkpoint_ns.rpartition("|")[0]}
            self._saved = await settled(ports.read(self._conf[_CHECKPOINTER], {"configurable": place}))
        return self._saved

    def _ticket(self, seal: bytes) -> str:
        """What a question carries. It starts with the task: questions of an agent inside of the tool pass through."""
        return f"{blake2b(self._info.checkpoint_ns.encode(), digest_size=8).hexdigest()}.{seal.hex()}"

    def _shown(self, checkpoint: Any) -> set[str]:
        """Tickets of the questions that were put in this very task and wait there."""
        mine = self._ticket(b"")
        return {
            ticket
            for task, channel, written in (checkpoint.pending_writes or () if checkpoint is not None else ())
            if task == self._info.task_id and channel == _INTERRUPT
            for item in written
            if isinstance(item.value, dict) and isinstance(ticket := item.value.get(_TICKET), str)
            if ticket.startswith(mine)
        }

    def _seal_of(self, call: Call, sent: dict[str, Any]) -> bytes:
        """What an approval is bound to. Not the run and not the policy: a resume is a new run, and the call is decided
        again whenever it is used. Arguments without a JSON form are bound by what they were made of."""
        parts = [
            self._guard,
            str(self._conf["thread_id"]),
            self._turn.message_id,
            call.call_id,
            _fingerprint(call.tool),
            canonical(call.args)[1].hex(),
            canonical(sent)[1].hex(),
            identity_digest(self._principal, with_rights=False),
        ]
        return blake2b(json.dumps(parts).encode(), digest_size=16).digest()

    def _in_time(self, checkpoint: Any) -> None:
        age = (datetime.now(UTC) - datetime.fromisoformat(checkpoint.checkpoint["ts"])).total_seconds()
        if not -60 <= age <= self._approvals.ttl_seconds:  # a clock that jumped back far makes every age doubtful
            raise Unapproved("authz.approval_expired", "the approval came too late.")

    async def _by_whom(self, call: Call, ports: Ports) -> None:
        if self._approvals.approver is None:
            return
        who = self._approvals.approver(self._facts.runtime)
        if not isinstance(who, Principal):
            raise Unapproved("authz.approver_unknown")
        same = identity_digest(who, with_rights=False) == identity_digest(self._principal, with_rights=False)
        if same and not self._approvals.by_requester:
            raise Unapproved("authz.approver_is_requester", "nobody may approve a call of their own.")
        question = AuthzRequest(who, "approval", "decide", call.name, {"args": call.args})
        if (await settled(ports.decide(question))).allow is not True:
            raise Unapproved("authz.approver_denied", "the one who approved may not decide about this tool.")
        self.approver = who


def _stored_seal(answer: Any) -> bytes | None:
    seal = answer.get(_SEAL) if isinstance(answer, dict) else None
    return seal if isinstance(seal, bytes) else None


def _question(call: Call, ticket: str) -> dict[str, Any]:
    arguments = json.dumps(call.args, indent=2, ensure_ascii=False, sort_keys=True)
    lines = "\n".join(map(escaped, arguments.split("\n")))
    return {
        "type": "tool_approval",
        "tool_call_id": call.call_id,
        "name": call.name,
        "args": call.args,
        "description": f"{escaped(call.name)} needs approval before it runs.\n\nArguments:\n{lines}",
        _TICKET: ticket,
    }


def _fingerprint(tool: Any) -> str:
    """What makes `tool` the same tool in another process: name, description, class and argument schema."""
    schema = tool.tool_call_schema
    shape = schema if isinstance(schema, dict) else tool.args
    kind = type(tool)
    text = json.dumps(
        [tool.name, tool.description, kind.__module__, kind.__qualname__, shape], sort_keys=True, default=str
    )
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _as_sent(answer: object, check: ValidatorFunctionWrapHandler) -> object:
    """Check `answer`, then pass on the very object: its place among the stored answers is found by identity."""
    check(answer)
    return answer


def _answer_type(call: Call) -> Any:
    """The type that answers are checked against: approve, reject, or edit with the tool's own argument schema."""
    schema = cast("Any", call.tool).tool_call_schema
    shape = schema if isinstance(schema, dict) else {"type": "object"}
    fields: Any = {
        "name": (Literal[call.name], ...),  # pinned: an edit cannot turn the call into one of another tool
        "args": (
            schema
            if isinstance(schema, type) and issubclass(schema, BaseModel)
            else Annotated[dict[str, Any], WithJsonSchema(shape)],
            ...,
        ),
    }
    action = create_model("EditedAction", **fields)
    fields = {"type": (Literal["edit"], ...), "edited_action": (action, ...)}
    decisions: Any = ApproveDecision | RejectDecision | create_model("EditDecision", **fields)
    return Annotated[Annotated[decisions, Discriminator("type")], WrapValidator(_as_sent)]
