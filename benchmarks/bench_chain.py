"""What the chain costs: conversations with a lead agent against the same ones with a bare `create_agent`.

A turn is one question, one tool call and an answer of a model that costs nothing. Both agents have the same tools. Time
is processor time of the whole process, threads included; a round is one whole conversation on each side.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Row

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

ROLES = """version: 1
roles:
  user:
    tools: {allow: "*", ask: [send_email]}
    sandbox: {allow: true}
"""
CONTEXT = {"user_id": "bench", "user_role": "user"}


def rows(seconds: float) -> Iterator[Row]:
    with _deployment() as lead:
        for turns, stored, bound in ((20, False, 2.5), (20, True, 2.2), (200, True, 2.2)):
            rounds = max(3, int(seconds * 20 / turns * 4)) if turns < 100 else 3
            ratio, us, base_us, bytes_ratio, checkpoints = _compare(lead, turns, stored=stored, rounds=rounds)
            where = "SQLite checkpointer" if stored else "no checkpointer"
            yield Row(
                group="chain",
                name=f"one turn of {turns}, {where}, against create_agent",
                value=ratio,
                bound=bound,
                us=us,
                note=f"create_agent {base_us:.0f} us",
            )
            if stored:
                yield Row(group="chain", name=f"bytes written in {turns} turns", value=bytes_ratio, bound=2.0)
                yield Row(
                    group="chain",
                    name=f"checkpoints that the chain adds to a turn of {turns}",
                    value=checkpoints,
                    unit="nodes",
                    bound=4,
                )
        yield Row(
            group="chain",
            name="graph nodes that the chain adds",
            value=_nodes(lead),
            unit="nodes",
            bound=4,
            note="run once a run",
        )


@contextmanager
def _deployment() -> Iterator[Callable[..., Any]]:
    """A way to make lead agents of one deployment: a policy on disk, the local sandbox, the default chain."""
    from remit.authz.config import load_config
    from remit.harness import AgentOptions, Services, make_lead_agent
    from remit.runtime.config import load_app_config

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "roles.yaml").write_text(ROLES, encoding="utf-8")
        provider = {"use": "casbin", "config": {"policies": [str(folder / "roles.yaml")]}}
        authz = load_config({"authorization": {"enabled": True, "default_role": "user", "provider": provider}})
        config = load_app_config({"sandbox": {"use": "local"}}, authz=authz)
        services = Services.from_config(config)
        stack.callback(services.access.provider.close)

        def lead(model: Any, tool: BaseTool, checkpointer: Any) -> Any:
            options = AgentOptions(model=model, tools=[tool], checkpointer=checkpointer)
            return make_lead_agent(services=services, options=options)

        yield lead


def _bare(model: Any, tool: BaseTool, checkpointer: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(model, [tool], checkpointer=checkpointer)


def _compare(
    lead: Callable[..., Any], turns: int, *, stored: bool, rounds: int
) -> tuple[float, float, float, float, float]:
    """Ratio of the times, microseconds per turn of both sides, ratio of the bytes, checkpoints more per turn."""
    _converse(lead, 2, stored=stored), _converse(_bare, 2, stored=stored)
    ratios, times, base_times, sizes, added = [], [], [], [], []
    for index in range(rounds):
        gc.collect()
        sides = [lead, _bare] if index % 2 else [_bare, lead]
        spent = {side: _converse(side, turns, stored=stored) for side in sides}
        ratios.append(spent[lead][0] / spent[_bare][0])
        times.append(spent[lead][0] / turns)
        base_times.append(spent[_bare][0] / turns)
        sizes.append(spent[lead][1] / max(1, spent[_bare][1]))
        added.append((spent[lead][2] - spent[_bare][2]) / turns)
    return (
        statistics.median(ratios),
        statistics.median(times) / 1e3,
        statistics.median(base_times) / 1e3,
        statistics.median(sizes),
        statistics.median(added),
    )


def _converse(make: Callable[..., Any], turns: int, *, stored: bool) -> tuple[float, int, int]:
    """Nanoseconds of processor time, bytes and checkpoints that one conversation takes."""
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver

    with ExitStack() as stack:
        saver = None
        if stored:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "checkpoints.db"
            saver = stack.enter_context(SqliteSaver.from_conn_string(str(path)))
        graph = make(_model(), _tool(), saver)
        config: Any = {"configurable": {"thread_id": f"t{next(_THREADS)}"}}
        messages: list[Any] = []
        start = time.process_time_ns()
        for index in range(turns):
            question = HumanMessage(f"question {index}")
            state = graph.invoke({"messages": [*messages, question]}, config, context=dict(CONTEXT))
            messages = [] if stored else state["messages"]
        spent = time.process_time_ns() - start
        if saver is None:
            return spent, 0, 0
        return spent, _written(saver), saver.conn.execute("select count(*) from checkpoints").fetchone()[0]


_THREADS = itertools.count()


def _written(saver: Any) -> int:
    count = 0
    for table, columns in (("checkpoints", ("checkpoint", "metadata")), ("writes", ("value",))):
        total = " + ".join(f"coalesce(sum(length({column})), 0)" for column in columns)
        count += saver.conn.execute(f"select {total} from {table}").fetchone()[0]  # noqa: S608 - names stand above
    return count


def _nodes(lead: Callable[..., Any]) -> int:
    def nodes(make: Callable[..., Any]) -> int:
        return len(make(_model(), _tool(), None).nodes)

    return nodes(lead) - nodes(_bare)


def _tool() -> BaseTool:
    from langchain_core.tools import StructuredTool

    def look_up(topic: str) -> str:
        """Look something up."""
        return f"what is known about {topic}: nothing much, and that twice over"

    return StructuredTool.from_function(look_up)


def _model() -> Any:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Free(BaseChatModel):
        """Calls the tool after a question, and answers after its result."""

        @property
        def _llm_type(self) -> str:
            return "free"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            if isinstance(messages[-1], HumanMessage):
                call = {"name": "look_up", "args": {"topic": "the weather"}, "id": f"c{len(messages)}"}
                message = AIMessage("", tool_calls=[{**call, "type": "tool_call"}])
            else:
                message = AIMessage("That is all there is to say about it.")
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Free()
