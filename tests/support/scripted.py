"""A chat model that plays a script, offline: it records what was bound and what it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

Step = AIMessage | Callable[[list[BaseMessage]], AIMessage]


def call(name: str, args: dict[str, Any] | None = None, id: str = "call_1") -> dict[str, Any]:
    """One tool call as a model would write it."""
    return {"name": name, "args": args or {}, "id": id, "type": "tool_call"}


def calls(*tool_calls: dict[str, Any]) -> AIMessage:
    """A model turn that calls tools."""
    return AIMessage(content="", tool_calls=list(tool_calls))


def tool_names(tools: Sequence[Any]) -> list[str]:
    """Names as a model provider would read them off what is bound."""
    names = []
    for tool in tools:
        if isinstance(tool, dict) and "function" not in tool and "name" not in tool and "type" in tool:
            names.append(tool.get("title") or tool["type"])
        else:
            names.append(convert_to_openai_tool(tool)["function"]["name"])
    return names


class ScriptedChatModel(BaseChatModel):
    """Answers with the steps of `script` in order, then with ``done``. Rewinds with `restart`."""

    script: list[Any] = Field(default_factory=list)
    bound: list[list[str]] = Field(default_factory=list)
    """Tool names of each call, in order; empty when nothing was bound."""
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    _position: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def restart(self, *steps: Step) -> None:
        """Play `steps`, or the same script again."""
        if steps:
            self.script = list(steps)
        self._position = 0

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(bound_names=tool_names(tools), **kwargs)

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        self.bound.append(list(kwargs.get("bound_names", [])) + tool_names(kwargs.get("tools", [])))
        self.seen.append(list(messages))
        if self._position >= len(self.script):
            return AIMessage("done")
        step = self.script[self._position]
        self._position += 1
        return step(messages) if callable(step) else step.model_copy(deep=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message = self._next(messages, kwargs)
        chunk = AIMessageChunk(
            content=message.content,
            id=message.id,
            tool_call_chunks=[
                {"name": c["name"], "args": _json(c["args"]), "id": c["id"], "index": index, "type": "tool_call_chunk"}
                for index, c in enumerate(message.tool_calls)
            ],
        )
        yield ChatGenerationChunk(message=chunk)


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def scripted(*steps: Step) -> ScriptedChatModel:
    """A model that plays `steps`."""
    return ScriptedChatModel(script=list(steps))
