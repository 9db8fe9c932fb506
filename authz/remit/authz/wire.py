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

# State channels.
PRINCIPAL_DIGEST: Final = "remit_principal_digest"

# Message metadata.
TOOL_META: Final = "deerflow_tool_meta"
CONTENT_KIND: Final = "deerflow_content_kind"
TOOL_TRANSFORMS: Final = "deerflow_tool_transforms"
MCP_TAG: Final = "deerflow_mcp"
ORIGINAL_USER_CONTENT: Final = "original_user_content"

# Key of `AuthzDecision.metadata`: dotted paths (``args.amount``, ``principal.attributes.team``) that the condition of
# the deciding rule read. The decision log writes their values, unless they are masked.
DECISION_READS: Final = "reads"

# Keys of `AuthzRequest.context`, which conditions read as `r.ctx.…`.
CTX_ARGS: Final = "args"
CTX_TOOL_CALL_ID: Final = "tool_call_id"
CTX_AGENT_ID: Final = "agent_id"
CTX_TIMESTAMP: Final = "timestamp"
