"""Agents whose tools get receipts, and a look at what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from tests.support.scripted import ScriptedChatModel, scripted

from remit.authz import wire
from remit.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from remit.middlewares.tool_receipt import ToolReceiptMiddleware
from remit.runtime.config import AppConfig, load_app_config

KEY = "5e" * 32


def settings(**sections: Any) -> AppConfig:
    """A configuration of the given sections."""
    return load_app_config({"version": 1, **sections})


def receipted(
    tools: Sequence[Any], *steps: Any, mode: str = "always", between: Sequence[Any] = (), **options: Any
) -> tuple[Any, ScriptedChatModel]:
    """An agent with receipts outermost and error handling innermost, and its model.

    Args:
        tools: Its tools.
        steps: What the model does.
        mode: When the ledger is shown.
        between: Middlewares between the two.
        options: For `create_agent`; `outside` are middlewares around all of them.
    """
    outside = options.pop("outside", ())
    config = settings()
    model = scripted(*steps)
    middleware = [
        *outside,
        ToolReceiptMiddleware(config.verification, render_mode=mode),
        *between,
        ToolErrorHandlingMiddleware(config),
    ]
    return create_agent(model, tools, middleware=middleware, **options), model


def receipt(message: ToolMessage) -> dict[str, Any]:
    """What stands under the receipt's key, valid or not."""
    return message.additional_kwargs.get(wire.TOOL_RECEIPT, {})


def ledger_of(messages: Sequence[Any]) -> str | None:
    """The ledger in a request to the model; None when there is none."""
    found = [m for m in messages if isinstance(m, HumanMessage) and wire.TOOL_RECEIPT_CONTEXT in m.additional_kwargs]
    assert len(found) < 2
    return str(found[0].content) if found else None


def snapshot_on(message: AIMessage) -> Any:
    """What stands under the snapshot's key, valid or not."""
    return message.additional_kwargs.get(wire.TOOL_RECEIPT_SNAPSHOT)
