"""Enforcement points inside of an agent: the middlewares around model calls and tool calls.

Names are resolved at first use: LangChain is imported then and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.middlewares.approvals import Approvals
    from remit.middlewares.builders import (
        build_lead_runtime_middlewares,
        build_middlewares,
        build_subagent_runtime_middlewares,
    )
    from remit.middlewares.dangling_tool_call import DanglingToolCallMiddleware
    from remit.middlewares.guardrail import GuardrailMiddleware
    from remit.middlewares.guards import guard
    from remit.middlewares.input_sanitization import InputSanitizationMiddleware
    from remit.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
    from remit.middlewares.provenance import provenance_kwargs
    from remit.middlewares.read_before_write import ReadBeforeWriteMiddleware
    from remit.middlewares.release import collect_release_policies
    from remit.middlewares.sandbox import SandboxMiddleware
    from remit.middlewares.sandbox_audit.middleware import SandboxAuditMiddleware
    from remit.middlewares.thread_data import ThreadDataMiddleware
    from remit.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
    from remit.middlewares.tool_output_budget import ToolOutputBudgetMiddleware
    from remit.middlewares.tool_progress import ToolProgressMiddleware
    from remit.middlewares.tool_receipt import ToolReceiptMiddleware
    from remit.middlewares.tool_result_meta import normalize_tool_result
    from remit.middlewares.tool_result_sanitization import ToolResultSanitizationMiddleware
    from remit.middlewares.transforms import append_tool_transform
    from remit.middlewares.uploads import UploadsMiddleware
    from remit.runtime.identity import resolve_runtime_user_id
    from remit.runtime.release import canonical_hash

__all__ = [
    "Approvals",
    "DanglingToolCallMiddleware",
    "GuardrailMiddleware",
    "InputSanitizationMiddleware",
    "LLMErrorHandlingMiddleware",
    "ReadBeforeWriteMiddleware",
    "SandboxAuditMiddleware",
    "SandboxMiddleware",
    "ThreadDataMiddleware",
    "ToolErrorHandlingMiddleware",
    "ToolOutputBudgetMiddleware",
    "ToolProgressMiddleware",
    "ToolReceiptMiddleware",
    "ToolResultSanitizationMiddleware",
    "UploadsMiddleware",
    "append_tool_transform",
    "build_lead_runtime_middlewares",
    "build_middlewares",
    "build_subagent_runtime_middlewares",
    "canonical_hash",
    "collect_release_policies",
    "guard",
    "normalize_tool_result",
    "provenance_kwargs",
    "resolve_runtime_user_id",
]

_HOME = {
    "Approvals": "remit.middlewares.approvals",
    "DanglingToolCallMiddleware": "remit.middlewares.dangling_tool_call",
    "GuardrailMiddleware": "remit.middlewares.guardrail",
    "InputSanitizationMiddleware": "remit.middlewares.input_sanitization",
    "LLMErrorHandlingMiddleware": "remit.middlewares.llm_error_handling",
    "ReadBeforeWriteMiddleware": "remit.middlewares.read_before_write",
    "SandboxAuditMiddleware": "remit.middlewares.sandbox_audit.middleware",
    "SandboxMiddleware": "remit.middlewares.sandbox",
    "ThreadDataMiddleware": "remit.middlewares.thread_data",
    "ToolErrorHandlingMiddleware": "remit.middlewares.tool_error_handling",
    "ToolOutputBudgetMiddleware": "remit.middlewares.tool_output_budget",
    "ToolProgressMiddleware": "remit.middlewares.tool_progress",
    "ToolReceiptMiddleware": "remit.middlewares.tool_receipt",
    "ToolResultSanitizationMiddleware": "remit.middlewares.tool_result_sanitization",
    "UploadsMiddleware": "remit.middlewares.uploads",
    "append_tool_transform": "remit.middlewares.transforms",
    "build_lead_runtime_middlewares": "remit.middlewares.builders",
    "build_middlewares": "remit.middlewares.builders",
    "build_subagent_runtime_middlewares": "remit.middlewares.builders",
    "canonical_hash": "remit.runtime.release",
    "collect_release_policies": "remit.middlewares.release",
    "guard": "remit.middlewares.guards",
    "normalize_tool_result": "remit.middlewares.tool_result_meta",
    "provenance_kwargs": "remit.middlewares.provenance",
    "resolve_runtime_user_id": "remit.runtime.identity",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
