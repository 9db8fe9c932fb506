"""Keys that cross a process boundary, each written exactly once.

Front ends and observers of the platforms we serve read these names, so they keep the spelling of the requirement text.
"""

from __future__ import annotations

from typing import Final

# Keys of the run context. A leading double underscore means: server-owned, stripped from client input.
PRINCIPAL: Final = "__principal"
AUTHORIZATION_OUTCOME: Final = "__authorization_outcome"
RUN_JOURNAL: Final = "__run_journal"
USER_ID: Final = "user_id"
USER_ROLE: Final = "user_role"
OAUTH_PROVIDER: Final = "oauth_provider"
OAUTH_ID: Final = "oauth_id"
CHANNEL_USER_ID: Final = "channel_user_id"
IS_INTERNAL: Final = "is_internal"
AUTHZ_ATTRIBUTES: Final = "authz_attributes"
IS_SUBAGENT: Final = "is_subagent"
NON_INTERACTIVE: Final = "non_interactive"
RUN_ID: Final = "run_id"
THREAD_ID: Final = "thread_id"

APP_CONFIG: Final = "app_config"
SANDBOX_ID: Final = "sandbox_id"
AGENT_NAME: Final = "agent_name"
PRE_RUN_MESSAGE_IDS: Final = "__pre_run_message_ids"

# State channels.
PRINCIPAL_DIGEST: Final = "remit_principal_digest"
SANDBOX: Final = "sandbox"
THREAD_DATA: Final = "thread_data"
UPLOADED_FILES: Final = "uploaded_files"
ARTIFACTS: Final = "artifacts"
PROMOTED: Final = "promoted"

# Message metadata: keys of `additional_kwargs`.
TOOL_META: Final = "deerflow_tool_meta"
TOOL_RECEIPT: Final = "deerflow_tool_receipt"
TOOL_RECEIPT_CONTEXT: Final = "deerflow_tool_receipt_context"
TOOL_RECEIPT_SNAPSHOT: Final = "deerflow_tool_receipt_snapshot"
TOOL_TRANSFORMS: Final = "deerflow_tool_transforms"
READ_MARK: Final = "deerflow_read_mark"
WRITE_BLOCK: Final = "deerflow_write_block"
CONTENT_KIND: Final = "deerflow_content_kind"
PRODUCER_KIND: Final = "deerflow_producer_kind"
PRODUCER_ENTITY_ID: Final = "deerflow_producer_entity_id"
ERROR_FALLBACK: Final = "deerflow_error_fallback"
ERROR_TYPE: Final = "error_type"
ERROR_REASON: Final = "error_reason"
ERROR_DETAIL: Final = "error_detail"
ORIGINAL_USER_CONTENT: Final = "original_user_content"
HIDE_FROM_UI: Final = "hide_from_ui"
HUMAN_INPUT_RESPONSE: Final = "human_input_response"
FILES: Final = "files"
MESSAGE_TIMESTAMP: Final = "timestamp"
UPLOADS_SEAL: Final = "remit_uploads_seal"
"""Proof that the block of uploads at the start of a message is the server's."""
SKILL_CONTEXT_ENTRY: Final = "skill_context_entry"
SUBAGENT_STATUS: Final = "subagent_status"
SERVER_SEAL: Final = "remit_server_seal"
"""Proof that this process's deployment wrote the message: see `remit.runtime.signing`."""

# Keys of a tool's own metadata.
MCP_TAG: Final = "deerflow_mcp"
MCP_SOURCE: Final = "deerflow_mcp_source"
CAPABILITIES: Final = "remit_capabilities"

# Key of `AuthzDecision.metadata`: dotted paths (``args.amount``, ``principal.attributes.team``) that the condition of
# the deciding rule read. The decision log writes their values, unless they are masked.
DECISION_READS: Final = "reads"

# Keys of `AuthzRequest.context`, which conditions read as `r.ctx.…`.
CTX_ARGS: Final = "args"
CTX_TOOL_CALL_ID: Final = "tool_call_id"
CTX_AGENT_ID: Final = "agent_id"
CTX_TIMESTAMP: Final = "timestamp"
