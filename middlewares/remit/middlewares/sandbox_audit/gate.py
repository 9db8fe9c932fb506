"""The audit as a gate of a frame: it judges a call when it arrives, and again when it has become another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from remit.authz import wire
from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError
from remit.authz.judge import in_place
from remit.authz.principal import read
from remit.authz.tickets import Call, Ruling
from remit.middlewares.events import log
from remit.middlewares.results import safe_code
from remit.middlewares.sandbox_audit.recording import leave
from remit.middlewares.sandbox_audit.ruling import (
    PASSED,
    Finding,
    Port,
    Subject,
    classify_now,
    classify_soon,
    found,
    malformed,
    ruled,
)
from remit.middlewares.shells import run_now
from remit.runtime.capabilities import Capabilities, capabilities_of

_UNREADABLE: Final = Finding(
    verdict="block",
    classified="block",
    rule_id="undeclared",
    message="what this tool does is not declared in a way that can be understood",
)


class Judgement:
    """Judges calls for one audit. Holds nothing of any call.

    Args:
        enforcer: Asked about rules that match; None where there is no policy.
    """

    __slots__ = ("enforcer", "now", "soon")

    def __init__(self, enforcer: Enforcer | None) -> None:
        self.enforcer = enforcer if enforcer is not None and enforcer.enabled else None
        self.now = Port(classify_now, _unasked, _unasked)
        self.soon = Port(classify_soon, _unasked, _unasked)
        if self.enforcer is not None:
            judge, provider = self.enforcer.judge, self.enforcer.provider
            assert provider is not None  # noqa: S101 - it is enabled
            self.now = Port(classify_now, self.enforcer.decide, lambda request: judge.decide(provider, request))
            self.soon = Port(classify_soon, self.enforcer.adecide, lambda request: judge.adecide(provider, request))

    def version(self) -> str:
        """The version of the policy in force; empty without one."""
        return "" if self.enforcer is None else self.enforcer.policy_version

    @property
    def waits(self) -> bool:
        """Whether asking the policy may wait for I/O."""
        return self.enforcer is not None and not in_place(self.enforcer.provider)

    def declared_by(self, tool: Any, name: str) -> Capabilities | None:
        """What a tool declares, None when that cannot be understood."""
        try:
            return capabilities_of(tool, name)
        except ConfigError as exc:
            log.error("sandbox_audit: %s", exc)
            return None

    async def judged(self, call: Call, can: Capabilities | None, subject: Subject, port: Port) -> Finding | None:
        """What becomes of `call`, recorded; None for a tool that runs no command."""
        if can is None:
            leave("sandbox", None, _UNREADABLE, subject, tool=call.name, call_id=call.call_id)
            return _UNREADABLE
        if can.executes_command is None:
            self.noted(can, call.name, call.call_id, call.args, subject)
            return None
        command = call.args.get(can.executes_command)
        finding = malformed(command, missing=can.executes_command not in call.args)
        if finding is None:
            finding = await ruled(await found(command, port.classify), call, subject, self.enforcer, port)
        leave("command", command, finding, subject, tool=call.name, call_id=call.call_id)
        return finding

    @staticmethod
    def noted(can: Capabilities, name: str, call_id: str | None, args: Mapping[str, Any], subject: Subject) -> None:
        """Record a call that touches the sandbox and runs no command."""
        if can.writes_file is not None:
            leave("write_file", args.get(can.writes_file), PASSED, subject, tool=name, call_id=call_id)
        elif can.reads_file is not None:
            leave("read_file", args.get(can.reads_file), PASSED, subject, tool=name, call_id=call_id)
        elif can.uses_sandbox:
            leave("sandbox", None, PASSED, subject, tool=name, call_id=call_id)


class AuditGate:
    """The audit of one call. The body of its tool asks it when the call is no longer the one that was judged."""

    __slots__ = ("_judgement", "_key", "_runtime", "blocked", "warned")

    def __init__(self, key: object, judgement: Judgement, runtime: Any) -> None:
        self._key = key
        self._judgement = judgement
        self._runtime = runtime
        self.blocked: Finding | None = None
        """Why the last call that the body asked about was refused."""
        self.warned: list[Finding] = []
        """What the model must be told about calls that ran."""

    @property
    def key(self) -> object:
        return self._key

    @property
    def waits(self) -> bool:
        return self._judgement.waits

    def decide(self, call: Call) -> Ruling:
        return run_now(self._decide(call, self._judgement.now))

    async def adecide(self, call: Call) -> Ruling:
        return await self._decide(call, self._judgement.soon)

    async def arriving(self, call: Call, can: Capabilities | None, *, soon: bool) -> Finding | None:
        """What becomes of the call as it came in; None when it runs no command."""
        port = self._judgement.soon if soon else self._judgement.now
        finding = await self._judgement.judged(call, can, subject_of(self._runtime), port)
        self.blocked, self.warned = None, []
        if finding is not None and finding.verdict == "warn":
            self.warned.append(finding)
        return finding

    async def _decide(self, call: Call, port: Port) -> Ruling:
        can = self._judgement.declared_by(call.tool, call.name)
        finding = await self._judgement.judged(call, can, subject_of(self._runtime), port)
        if finding is None or finding.verdict == "pass":
            return Ruling(True, "audit.passed")
        if finding.verdict == "warn":
            self.warned.append(finding)
            return Ruling(True, code_of(finding))
        self.blocked = finding
        return Ruling(False, code_of(finding))


def code_of(finding: Finding) -> str:
    """The reason code of a finding: ``audit.<rule id>``."""
    return safe_code(f"audit.{finding.rule_id or 'command'}")


def subject_of(runtime: Any) -> Subject:
    """Who a call runs for, as far as its runtime says."""
    context, info = getattr(runtime, "context", None), getattr(runtime, "execution_info", None)
    thread_id, run_id = read(context, wire.THREAD_ID), read(context, wire.RUN_ID)
    return Subject(
        context,
        thread_id if isinstance(thread_id, str) else getattr(info, "thread_id", None),
        run_id if isinstance(run_id, str) else getattr(info, "run_id", None),
    )


def _unasked(request: Any) -> Any:
    raise RuntimeError("there is no policy to ask")
