"""A chat model that says what its settings tell it to, offline: for demonstrations and trials of a deployment."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Annotated, Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

ENDED: Final = "The script has ended."
_PIECES: Final = re.compile(r"\s*\S+\s*$|\s*\S+")


class ScriptedCall(BaseModel):
    """A call of a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(min_length=1)]
    args: dict[str, Any] = Field(default_factory=dict)
    id: Annotated[str, Field(min_length=1)] | None = None
    """Instead of one that says which turn and which call it is."""


class ScriptedTurn(BaseModel):
    """What the model says when it is its turn: words, calls, or both."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    say: str = ""
    call: Annotated[
        tuple[ScriptedCall, ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else (value,)),
    ] = ()
    """One call or a list of them."""

    @model_validator(mode="after")
    def _says_something(self) -> ScriptedTurn:
        if not self.say and not self.call:
            raise ValueError("a turn needs `say` or `call`")
        return self


class ScriptedChatModel(BaseChatModel):
    """Answers with turn N of `turns` when it has spoken N times in the conversation, and says so when they are over.

    It has no memory of its own: the same conversation always gets the same answer, in whatever process and however many
    conversations run at once. Tools may be bound to it and change nothing.
    """

    turns: Annotated[
        tuple[ScriptedTurn, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = ()
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """The model with tools, as a provider would be told of them."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    def _turn(self, messages: list[BaseMessage]) -> AIMessage:
        spoken = sum(isinstance(message, AIMessage) for message in messages)
        if spoken >= len(self.turns):
            return AIMessage(ENDED)
        turn = self.turns[spoken]
        return AIMessage(
            turn.say,
            tool_calls=[
                {
                    "name": call.name,
                    "args": json.loads(json.dumps(call.args)),  # a copy: whoever gets the message may change it
                    "id": call.id or f"call_{spoken}_{position}",
                    "type": "tool_call",
                }
                for position, call in enumerate(turn.call)
            ],
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._turn(messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message = self._turn(messages)
        for piece in _PIECES.findall(message.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        last = AIMessageChunk(  # always: a stream without a chunk is an error
            content="",
            tool_call_chunks=[
                {
                    "name": call["name"],
                    "args": json.dumps(call["args"]),
                    "id": call["id"],
                    "index": index,
                    "type": "tool_call_chunk",
                }
                for index, call in enumerate(message.tool_calls)
            ],
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk
