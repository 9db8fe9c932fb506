"""A chat model that says what it is told to, offline: the demo's agent must do the same every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

Turn = Callable[[], AIMessage]


class Script:
    """What the model will say, turn by turn, and what it was shown at each.

    A turn is a function, called when its time has come, so that the world may change between two turns of a run.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.shown: list[tuple[str, ...]] = []


class ScriptedModel(BaseChatModel):
    """Answers with turn N of `script` when it has spoken N times in the conversation so far."""

    script: Any
    """A `Script`. Untyped because pydantic would copy it, and copies of the model must share it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(shown=tuple(getattr(tool, "name", None) or str(tool) for tool in tools))

    def _generate(
        self, messages: list[BaseMessage], *args: Any, shown: tuple[str, ...] = (), **kwargs: Any
    ) -> ChatResult:
        self.script.shown.append(shown)
        spoken = sum(isinstance(message, AIMessage) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=self.script.turns[spoken]())])
