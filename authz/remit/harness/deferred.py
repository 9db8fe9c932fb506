"""`tool_search`: how a model finds the tools that its agent did not list.

The catalogue is made of tools that Layer 1 let through. Every search asks the policy again what this caller may see, so
that a graph that serves many callers, or a policy that changed since it was built, gives nothing away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command
from pydantic import BaseModel, Field

from remit.authz import wire
from remit.authz.enforcer import Enforcer
from remit.harness.catalogue import Catalogue, Entry
from remit.middlewares.neutralize import neutralize
from remit.runtime.capabilities import is_mcp
from remit.runtime.release import canonical_json

TOOL_SEARCH: Final = "tool_search"
MAX_DESCRIPTION: Final = 1000
_DESCRIPTION: Final = (
    "Find tools that are not listed. Query: words that describe what you need; '+word' must occur; "
    "'select:name_a,name_b' takes exactly these. At most five are found."
)


@dataclass(frozen=True)
class DeferredTools:
    """What one build leaves to be found."""

    catalogue: Catalogue
    tool_search: BaseTool
    """Exempt from a second decision as this very object: the guard compares it, never its name."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the tools that are found by search."""
        return self.catalogue.names


class _Query(BaseModel):
    query: str = Field(description="What to look for.")


def defer(tools: Sequence[Any], *, enabled: bool, enforcer: Enforcer) -> DeferredTools | None:
    """Make the catalogue and its search, or None when there is nothing to defer.

    Args:
        tools: Tools that Layer 1 let through.
        enabled: Whether tools of MCP servers are found by search at all.
        enforcer: Decides what a caller may see when it searches.
    """
    hidden = [tool for tool in tools if isinstance(tool, BaseTool) and is_mcp(tool)] if enabled else []
    if not hidden:
        return None
    catalogue = Catalogue(hidden)
    return DeferredTools(catalogue, _search_tool(catalogue, enforcer))


def _search_tool(catalogue: Catalogue, enforcer: Enforcer) -> BaseTool:
    names = sorted(catalogue.names)

    def search(query: str, runtime: ToolRuntime) -> Command[Any]:
        principal = enforcer.principal(runtime.context)
        return _found(catalogue, query, enforcer.filter(principal, "tool", names), runtime.tool_call_id)

    async def asearch(query: str, runtime: ToolRuntime) -> Command[Any]:
        principal = enforcer.principal(runtime.context)
        return _found(catalogue, query, await enforcer.afilter(principal, "tool", names), runtime.tool_call_id)

    return StructuredTool.from_function(
        func=search, coroutine=asearch, name=TOOL_SEARCH, description=_DESCRIPTION, args_schema=_Query
    )


def _found(catalogue: Catalogue, query: str, visible: Sequence[str], call_id: str | None) -> Command[Any]:
    found = catalogue.search(query, frozenset(visible))
    text = "\n".join(map(_shown, found)) if found else "No tool fits. Try other words, or go on without."
    message = ToolMessage(text, name=TOOL_SEARCH, tool_call_id=call_id or "")
    promoted = [{"catalog_hash": catalogue.hash, "name": entry.name} for entry in found]
    return Command(update={"messages": [message], **({wire.PROMOTED: promoted} if promoted else {})})


def _shown(entry: Entry) -> str:
    """One found tool as JSON: what its server wrote about it is as untrusted as a web page."""
    schema = dict(entry.schema)
    schema["description"] = str(schema.get("description", ""))[:MAX_DESCRIPTION]
    return neutralize(canonical_json(schema))
