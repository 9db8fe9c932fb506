"""Every kind of tool that LangChain knows, each made anew on demand and noting down what its body received."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from langchain.agents import create_agent
from langchain.tools import InjectedState, InjectedStore, InjectedToolCallId, ToolRuntime
from langchain_core._api.beta_decorator import LangChainBetaWarning
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, Tool, ToolException, tool
from langgraph.types import Command
from pydantic import BaseModel, Field, field_validator
from pydantic.v1 import BaseModel as BaseModelV1
from tests.support.scripted import scripted

Ran = list[Any]


class Kind(NamedTuple):
    """One kind of tool."""

    make: Callable[[Ran], BaseTool]
    args: dict[str, Any]
    ran: list[Any]
    """What a good call leaves behind."""
    only_async: bool = False


KINDS: dict[str, Kind] = {}


def kind(args: dict[str, Any], ran: list[Any], *, only_async: bool = False) -> Callable[[Any], Any]:
    """Register a maker under its function's name."""

    def register(make: Callable[[Ran], BaseTool]) -> Callable[[Ran], BaseTool]:
        KINDS[make.__name__] = Kind(make, args, ran, only_async)
        return make

    return register


@kind({"x": "5"}, [("body", 5, 3)])
def decorated(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, y: int = 3) -> str:
        """A subject."""
        ran.append(("body", x, y))
        return f"got {x}"

    return subject


@kind({"x": "5"}, [("body", 5)], only_async=True)
def decorated_async(ran: Ran) -> BaseTool:
    @tool
    async def subject(x: int) -> str:
        """A subject."""
        ran.append(("body", x))
        return f"got {x}"

    return subject


@kind({"x": 5}, [("body", 5)])
def sync_and_async(ran: Ran) -> BaseTool:
    def subject(x: int) -> str:
        """A subject."""
        ran.append(("body", x))
        return "got"

    async def asubject(x: int) -> str:
        ran.append(("body", x))
        return "got"

    return StructuredTool.from_function(subject, coroutine=asubject, name="subject")


class Plain(BaseTool):
    name: str = "subject"
    description: str = "A subject."
    ran: Any = None

    def _run(self, x: int) -> str:
        self.ran.append(("body", x))
        return "got"


@kind({"x": 5}, [("body", 5)])
def subclass(ran: Ran) -> BaseTool:
    return Plain(ran=ran)


class Both(Plain):
    async def _arun(self, x: int) -> str:
        self.ran.append(("body", x))
        return "got"


@kind({"x": 5}, [("body", 5)])
def subclass_with_async(ran: Ran) -> BaseTool:
    return Both(ran=ran)


class Managed(BaseTool):
    name: str = "subject"
    description: str = "A subject."
    ran: Any = None

    def _run(self, x: int, config: RunnableConfig, run_manager: CallbackManagerForToolRun | None = None) -> str:
        self.ran.append(("body", x, run_manager is not None, "configurable" in config or config is not None))
        return "got"


@kind({"x": 5}, [("body", 5, True, True)])
def subclass_with_config_and_run_manager(ran: Ran) -> BaseTool:
    return Managed(ran=ran)


@kind({"__arg1": "text"}, [("body", "text")])
def single_input(ran: Ran) -> BaseTool:
    return Tool(name="subject", description="A subject.", func=lambda text: ran.append(("body", text)) or "got")


@kind({"x": 5}, [("body", 5, 2)])
def injected_state(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """A subject."""
        ran.append(("body", x, len(state["messages"])))
        return "got"

    return subject


@kind({"x": 5}, [("body", 5, 2)])
def injected_state_field(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, messages: Annotated[list[Any], InjectedState("messages")]) -> str:
        """A subject."""
        ran.append(("body", x, len(messages)))
        return "got"

    return subject


@kind({"x": 5}, [("body", 5, True)])
def injected_store(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, store: Annotated[Any, InjectedStore()]) -> str:
        """A subject."""
        ran.append(("body", x, store is not None))
        return "got"

    return subject


@kind({"x": 5}, [("body", 5, "call_1")])
def runtime(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, runtime: ToolRuntime) -> str:
        """A subject."""
        ran.append(("body", x, runtime.tool_call_id))
        return "got"

    return subject


@kind({"x": 5}, [("body", 5, "call_1")])
def injected_call_id(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        """A subject."""
        ran.append(("body", x, tool_call_id))
        return "got"

    return subject


@kind({"x": 5}, [("body", 5)])
def command_result(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """A subject."""
        ran.append(("body", x))
        return Command(update={"messages": [ToolMessage("by command", tool_call_id=tool_call_id)]})

    return subject


@kind({"x": 5}, [("body", 5)])
def content_and_artifact(ran: Ran) -> BaseTool:
    @tool(response_format="content_and_artifact")
    def subject(x: int) -> tuple[str, dict[str, int]]:
        """A subject."""
        ran.append(("body", x))
        return "content", {"artifact": x}

    return subject


@kind({"x": 5}, [("body", 5)])
def return_direct(ran: Ran) -> BaseTool:
    @tool(return_direct=True)
    def subject(x: int) -> str:
        """A subject."""
        ran.append(("body", x))
        return "direct"

    return subject


def _failing(ran: Ran, **options: Any) -> BaseTool:
    def subject(x: int) -> str:
        """A subject."""
        ran.append(("body", x))
        raise ToolException("no luck")

    return StructuredTool.from_function(subject, **options)


@kind({"x": 5}, [("body", 5)])
def handled_error(ran: Ran) -> BaseTool:
    return _failing(ran, handle_tool_error=True)


@kind({"x": 5}, [("body", 5)])
def error_handler(ran: Ran) -> BaseTool:
    return _failing(ran, handle_tool_error=lambda exc: f"handled {exc}")


@kind({"x": "many"}, [])
def handled_validation_error(ran: Ran) -> BaseTool:
    def subject(x: int) -> str:
        """A subject."""
        ran.append(("body", x))
        return "got"

    return StructuredTool.from_function(subject, handle_validation_error="use a number")


class Aliased(BaseModel):
    target: str = Field(alias="recipient")

    @field_validator("target")
    @classmethod
    def _lower(cls, value: str) -> str:
        return value.lower()


@kind({"recipient": "EVE"}, [("body", "eve")])
def alias_and_validator(ran: Ran) -> BaseTool:
    return StructuredTool.from_function(
        lambda target: ran.append(("body", target)) or "got",
        name="subject",
        description="A subject.",
        args_schema=Aliased,
    )


class Point(BaseModel):
    x: int
    y: int = 0


@kind({"points": [{"x": "1"}], "by_name": {"a": {"x": 2, "y": 3}}}, [("body", [(1, 0)], (2, 3))])
def nested_models(ran: Ran) -> BaseTool:
    @tool
    def subject(points: list[Point], by_name: dict[str, Point]) -> str:
        """A subject."""
        a = by_name["a"]
        ran.append(("body", [(point.x, point.y) for point in points], (a.x, a.y)))
        return "got"

    return subject


class OldSchema(BaseModelV1):
    x: int
    y: int = 2


@kind({"x": "5"}, [("body", 5, 2)])
def pydantic_v1(ran: Ran) -> BaseTool:
    return StructuredTool(
        name="subject",
        description="A subject.",
        args_schema=OldSchema,
        func=lambda x, y: ran.append(("body", x, y)) or "got",
    )


@kind({"x": 5, "free": {"a": [1]}}, [("body", 5, {"a": [1]}, "call_1")])
def json_schema_with_runtime(ran: Ran) -> BaseTool:
    def subject(x: int, free: Any, runtime: ToolRuntime) -> str:
        ran.append(("body", x, free, runtime.tool_call_id))
        return "got"

    schema = {"type": "object", "properties": {"x": {"type": "integer"}, "free": {}}, "required": ["x"]}
    return StructuredTool(name="subject", description="A subject.", args_schema=schema, func=subject)


@kind({}, [("body",)])
def no_arguments(ran: Ran) -> BaseTool:
    @tool
    def subject() -> str:
        """A subject."""
        ran.append(("body",))
        return "got"

    return subject


class Open(BaseTool):
    name: str = "subject"
    description: str = "A subject."
    args_schema: Any = Field(default={"type": "object", "properties": {"x": {"type": "integer"}}})
    ran: Any = None

    def _run(self, **kwargs: Any) -> str:
        self.ran.append(("body", kwargs))
        return "got"


@kind({"x": 5, "z": 1}, [("body", {"x": 5, "z": 1})])
def open_keywords(ran: Ran) -> BaseTool:
    return Open(ran=ran)


@kind({"x": 5, "tenant": "forged"}, [("body", 5, "own")])
def injected_argument(ran: Ran) -> BaseTool:
    @tool
    def subject(x: int, tenant: Annotated[str, InjectedToolArg] = "own") -> str:
        """A subject."""
        ran.append(("body", x, tenant))
        return "got"

    return subject


def _as_tool(runnable: Any, **options: Any) -> BaseTool:
    with warnings.catch_warnings(action="ignore", category=LangChainBetaWarning):
        return runnable.as_tool(name="subject", description="A subject.", **options)


class Question(BaseModel):
    x: int


@kind({"x": 5}, [("body", 5)])
def runnable_as_tool(ran: Ran) -> BaseTool:
    def body(question: dict[str, int]) -> str:
        ran.append(("body", question["x"]))
        return "got"

    return _as_tool(RunnableLambda(body), args_schema=Question)


@kind({"messages": [{"role": "user", "content": "hi"}]}, [("body", "hi")])
def agent_as_tool(ran: Ran) -> BaseTool:
    def note(messages: Any) -> Any:
        from langchain_core.messages import AIMessage

        ran.append(("body", messages[-1].content))
        return AIMessage("inner done", id="fixed")

    class Input(BaseModel):
        messages: list[dict[str, Any]]

    inner = create_agent(scripted(note, note), [])
    chain = inner | (lambda state: state["messages"][-1].content)
    return _as_tool(chain, args_schema=Input)


class OwnRun(BaseTool):
    """A class that reaches its body without LangChain's `run`."""

    name: str = "subject"
    description: str = "A subject."
    ran: Any = None

    def _run(self, x: int) -> str:
        self.ran.append(("body", x))
        return "got"

    def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        return ToolMessage(self._run(**tool_input), name=self.name, tool_call_id=kwargs.get("tool_call_id") or "")

    async def arun(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        return self.run(tool_input, *args, **kwargs)


@kind({"x": 5}, [("body", 5)])
def own_run(ran: Ran) -> BaseTool:
    return OwnRun(ran=ran)


class OwnInvoke(BaseTool):
    """A class with an `invoke` that does not reach LangChain's."""

    name: str = "subject"
    description: str = "A subject."
    ran: Any = None

    def _run(self, x: int) -> str:
        self.ran.append(("body", x))
        return "got"

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return ToolMessage(self._run(**input["args"]), name=self.name, tool_call_id=input["id"])

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self.invoke(input, config)


@kind({"x": 5}, [("body", 5)])
def own_invoke(ran: Ran) -> BaseTool:
    return OwnInvoke(ran=ran)


class Wrapping(Plain):
    """A class whose doors do something and then go LangChain's way."""

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        self.ran.append("invoke")
        return super().invoke(input, config, **kwargs)

    def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        self.ran.append("run")
        return super().run(tool_input, *args, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        self.ran.append("invoke")
        return await super().ainvoke(input, config, **kwargs)

    async def arun(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        self.ran.append("run")
        return await super().arun(tool_input, *args, **kwargs)


@kind({"x": 5}, ["invoke", "run", ("body", 5)])
def wrapping_doors(ran: Ran) -> BaseTool:
    return Wrapping(ran=ran)
