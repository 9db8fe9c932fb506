"""The chain: ONE table of slots, and the reasons for their order as data.

A builder (`remit.middlewares.builders`) takes the slots of its scope whose condition holds, in the order of this table,
and checks every edge. It never sorts: what stands here is what runs. ``remit chain`` prints the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from remit.authz import wire
from remit.middlewares.fusion import Middleware, without
from remit.middlewares.slots import Build, Edge, Scope, Slot


def _plain(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()()]


def _budget(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.config.tool_output, access=build.access)]


def _uploads(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.config.uploads)]


def _sandbox(build: Build, slot: Slot) -> Sequence[Middleware]:
    lazy = build.config.sandbox.lazy_init or not build.owner
    projection = build.projection if build.owner else None
    made = slot.load()(build.access, lazy_init=lazy, owner=build.owner, projection=projection)
    return [made if made.releases else without(made, "after_agent")]


def _llm_errors(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.config.llm_call, build.config.circuit_breaker)]


def _receipts(build: Build, slot: Slot) -> Sequence[Middleware]:
    mode = "always" if build.scope == "subagent" else None
    return [slot.load()(build.config.verification, render_mode=mode)]


def _authorization(build: Build, slot: Slot) -> Sequence[Middleware]:
    """A stand-in: the guard must know what the slots further in bring, so `build_chain` makes it last."""
    return ()


def _guardrail(build: Build, slot: Slot) -> Sequence[Middleware]:
    settings = build.config.authz.guardrails
    deadline = build.config.authz.deadline_ms / 1000
    passport = settings.passport or build.passport
    return [slot.load()(build.guardrail, fail_closed=settings.fail_closed, passport=passport, deadline=deadline)]


def _audit(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.enforcer if build.enforcer.enabled else None)]


def _read_before_write(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.config.read_before_write, access=build.access)]


def _progress(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.config.tool_progress)]


def _tool_errors(build: Build, slot: Slot) -> Sequence[Middleware]:
    return [slot.load()(build.config)]


def _custom(build: Build, slot: Slot) -> Sequence[Middleware]:
    return build.custom


AUTHORIZATION: Final = "authorization"
_LEAD: Final[tuple[Scope, ...]] = ("lead", "bootstrap", "embedded")

SLOTS: Final[tuple[Slot, ...]] = (
    Slot(
        id="input_sanitization",
        number="1",
        home="input_sanitization:InputSanitizationMiddleware",
        make=_plain,
        hooks=("wrap_model_call",),
    ),
    Slot(
        id="tool_output_budget",
        number="2",
        home="tool_output_budget:ToolOutputBudgetMiddleware",
        make=_budget,
        hooks=("wrap_model_call", "wrap_tool_call"),
    ),
    Slot(
        id="tool_result_sanitization",
        number="3",
        home="tool_result_sanitization:ToolResultSanitizationMiddleware",
        make=_plain,
        hooks=("wrap_tool_call",),
    ),
    Slot(
        id="thread_data",
        number="4",
        home="thread_data:ThreadDataMiddleware",
        make=_plain,
        hooks=("before_agent",),
        channels=("thread_data",),
    ),
    Slot(
        id="uploads",
        number="5",
        home="uploads:UploadsMiddleware",
        make=_uploads,
        scopes=_LEAD,
        hooks=("before_agent",),
        channels=("uploaded_files",),
    ),
    Slot(
        id="sandbox",
        number="6",
        home="sandbox:SandboxMiddleware",
        make=_sandbox,
        hooks=("before_agent", "after_agent", "wrap_tool_call"),
        channels=("sandbox",),
    ),
    Slot(
        id="dangling_tool_call",
        number="7",
        home="dangling_tool_call:DanglingToolCallMiddleware",
        make=_plain,
        hooks=("wrap_model_call",),
    ),
    Slot(
        id="llm_error_handling",
        number="8",
        home="llm_error_handling:LLMErrorHandlingMiddleware",
        make=_llm_errors,
        hooks=("wrap_model_call",),
    ),
    Slot(
        id="tool_receipt",
        number="13a",
        home="tool_receipt:ToolReceiptMiddleware",
        make=_receipts,
        when=lambda given: given.config.verification.receipts_enabled,
        condition="verification.receipts_enabled",
        hooks=("wrap_model_call", "wrap_tool_call"),
    ),
    Slot(
        id=AUTHORIZATION,
        number="9a",
        home="authorization:AuthorizationMiddleware",
        make=_authorization,
        when=lambda given: given.authorization,
        condition="authorization.enabled",
        hooks=("before_agent", "wrap_model_call", "wrap_tool_call"),
        channels=(wire.PRINCIPAL_DIGEST,),
    ),
    Slot(
        id="guardrail",
        number="9b",
        home="guardrail:GuardrailMiddleware",
        make=_guardrail,
        when=lambda given: given.guardrail,
        condition="guardrails.enabled",
        hooks=("wrap_tool_call",),
    ),
    Slot(
        id="sandbox_audit",
        number="10",
        home="sandbox_audit:SandboxAuditMiddleware",
        make=_audit,
        hooks=("wrap_tool_call",),
    ),
    Slot(
        id="read_before_write",
        number="11",
        home="read_before_write:ReadBeforeWriteMiddleware",
        make=_read_before_write,
        when=lambda given: given.config.read_before_write.enabled,
        condition="read_before_write.enabled",
        hooks=("wrap_model_call", "wrap_tool_call"),
    ),
    Slot(
        id="tool_progress",
        number="12",
        home="tool_progress:ToolProgressMiddleware",
        make=_progress,
        when=lambda given: given.config.tool_progress.enabled,
        condition="tool_progress.enabled",
        hooks=("before_agent", "wrap_model_call", "wrap_tool_call"),
    ),
    Slot(
        id="tool_error_handling",
        number="13b",
        home="tool_error_handling:ToolErrorHandlingMiddleware",
        make=_tool_errors,
        hooks=("wrap_tool_call",),
    ),
    Slot(
        id="custom",
        number="30",
        home="",
        make=_custom,
        when=lambda given: given.custom,
        condition="the host passes middlewares of its own",
        scopes=_LEAD,
        hooks=(),
    ),
)


def _inside(outer: str, inner: Iterable[str], why: str) -> list[Edge]:
    return [Edge(outer=outer, inner=one, why=why) for one in inner]


EDGES: Final[tuple[Edge, ...]] = (
    *_inside(
        "input_sanitization",
        (
            "tool_output_budget",
            "dangling_tool_call",
            "llm_error_handling",
            "tool_receipt",
            AUTHORIZATION,
            "read_before_write",
            "tool_progress",
            "custom",
        ),
        "retries see sanitised input, and trusted blocks that are added further in are not scanned again",
    ),
    Edge(
        outer="tool_output_budget",
        inner="tool_result_sanitization",
        why="raw text is neutralised before it is cut, so that files and previews hold the neutralised text",
    ),
    *_inside(
        "tool_output_budget",
        ("sandbox", "tool_receipt"),
        "it must see the environment that the call acquired, and the receipt of the raw result",
    ),
    *_inside(
        "tool_result_sanitization",
        ("sandbox", "tool_receipt"),
        "it must see the final shape of the result, and the receipt of the raw one",
    ),
    *_inside("thread_data", ("uploads", "sandbox"), "the thread's folders are known before anything uses them"),
    *_inside(
        "sandbox",
        (AUTHORIZATION, "sandbox_audit", "read_before_write"),
        "an environment that any of them acquires is noted in the state",
    ),
    Edge(outer="dangling_tool_call", inner="llm_error_handling", why="the repaired history is what is tried again"),
    *_inside(
        "llm_error_handling",
        ("tool_receipt", AUTHORIZATION, "tool_progress"),
        "every attempt is rendered and filtered anew",
    ),
    *_inside(
        "tool_receipt",
        (
            AUTHORIZATION,
            "guardrail",
            "sandbox_audit",
            "read_before_write",
            "tool_progress",
            "tool_error_handling",
            "custom",
        ),
        "a call that one of them answers itself has a receipt too",
    ),
    Edge(outer=AUTHORIZATION, inner="guardrail", why="the policy denies before anything external is asked"),
    *[
        Edge(outer=guard, inner=inner, why="nothing is read, classified or run for a denied call")
        for guard in (AUTHORIZATION, "guardrail")
        for inner in ("sandbox_audit", "read_before_write", "tool_progress", "tool_error_handling", "custom")
    ],
    *_inside(
        "sandbox_audit",
        ("read_before_write", "tool_progress", "tool_error_handling"),
        "a blocked command touches no file and counts as no attempt",
    ),
    *_inside(
        "read_before_write",
        ("tool_progress", "tool_error_handling"),
        "a refused write returns at once and takes no slot of the progress guard",
    ),
    Edge(outer="tool_progress", inner="tool_error_handling", why="it reads the meta that is stamped further in"),
    Edge(outer="tool_error_handling", inner="custom", why="a fault of the host's own wrapper becomes a visible error"),
)
