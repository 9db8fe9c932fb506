"""Enforcement points inside of an agent: the middlewares around model calls and tool calls.

Names are resolved at first use: LangChain is imported then and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remit.authz.lazy import lazy_names

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
    "Approvals": ".approvals",
    "DanglingToolCallMiddleware": ".dangling_tool_call",
    "GuardrailMiddleware": ".guardrail",
    "InputSanitizationMiddleware": ".input_sanitization",
    "LLMErrorHandlingMiddleware": ".llm_error_handling",
    "ReadBeforeWriteMiddleware": ".read_before_write",
    "SandboxAuditMiddleware": ".sandbox_audit.middleware",
    "SandboxMiddleware": ".sandbox",
    "ThreadDataMiddleware": ".thread_data",
    "ToolErrorHandlingMiddleware": ".tool_error_handling",
    "ToolOutputBudgetMiddleware": ".tool_output_budget",
    "ToolProgressMiddleware": ".tool_progress",
    "ToolReceiptMiddleware": ".tool_receipt",
    "ToolResultSanitizationMiddleware": ".tool_result_sanitization",
    "UploadsMiddleware": ".uploads",
    "append_tool_transform": ".transforms",
    "build_lead_runtime_middlewares": ".builders",
    "build_middlewares": ".builders",
    "build_subagent_runtime_middlewares": ".builders",
    "canonical_hash": "remit.runtime.release",
    "collect_release_policies": ".release",
    "guard": ".guards",
    "normalize_tool_result": ".tool_result_meta",
    "provenance_kwargs": ".provenance",
    "resolve_runtime_user_id": "remit.runtime.identity",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
