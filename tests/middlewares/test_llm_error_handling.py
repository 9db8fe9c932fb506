"""Failing models: tried again, spared, and answered for - through whole agents and a real OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import Field
from tests.support.agents import HELLO, STYLES, run
from tests.support.ledger import listening
from tests.support.model_errors import openai_error, timeout
from tests.support.openai_server import OpenAIServer, answer, openai_server, refusal
from tests.support.scripted import ScriptedChatModel, call, calls

from remit.authz import wire
from remit.authz.errors import ModelAuthorizationError, ProviderError
from remit.harness.models import build_model
from remit.middlewares.dangling_tool_call import DanglingToolCallMiddleware
from remit.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from remit.middlewares.llm_errors import breaker, retry
from remit.middlewares.llm_errors.breaker import BREAKERS
from remit.middlewares.llm_errors.limiter import LIMITER
from remit.runtime.config import CircuitBreakerConfig, LlmCallConfig, load_app_config

CIRCUIT = CircuitBreakerConfig(failure_threshold=2, recovery_timeout_sec=30)


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(retry, "_sleep", found.sleep)
    monkeypatch.setattr(retry, "_asleep", found.asleep)
    monkeypatch.setattr(retry, "_draw", lambda low, high: high)
    monkeypatch.setattr(breaker, "_now", found)
    BREAKERS.reset()
    yield found
    BREAKERS.reset()
    LIMITER.resize(0)
    assert (LIMITER.active, LIMITER.waiting) == (0, 0)


class Failing(ScriptedChatModel):
    """Plays a script in which exceptions stand for calls that fail."""

    model_name: str = "failing"
    attempts: list[Any] = Field(default_factory=list)

    def _next(self, messages: Any, kwargs: Any) -> AIMessage:
        self.attempts.append(threading.get_ident())
        step = self.script[self._position] if self._position < len(self.script) else None
        if isinstance(step, BaseException):
            self._position += 1
            raise step
        return super()._next(messages, kwargs)


class Journal:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def record_middleware(self, tag: str, **event: Any) -> None:
        self.events.append({"tag": tag, **event})


def slot(circuit: CircuitBreakerConfig = CIRCUIT, **settings: Any) -> LLMErrorHandlingMiddleware:
    return LLMErrorHandlingMiddleware(LlmCallConfig(**settings), circuit)


def agent(
    *script: Any, name: str = "failing", tools: Any = (), inner: Any = (), **settings: Any
) -> tuple[Any, Failing]:
    model = Failing(script=list(script), model_name=name)
    return create_agent(model, list(tools), middleware=[slot(**settings), *inner]), model


def failed(state: dict[str, Any]) -> tuple[str, str, str] | None:
    """Type, reason and detail of the fallback that ended a run; None when it did not end with one."""
    kwargs = state["messages"][-1].additional_kwargs
    if wire.ERROR_FALLBACK not in kwargs:
        return None
    assert kwargs[wire.ERROR_FALLBACK] is True
    return kwargs[wire.ERROR_TYPE], kwargs[wire.ERROR_REASON], kwargs[wire.ERROR_DETAIL]


RUNS = [
    pytest.param([openai_error(500), "ok"], 2, [3.0], None, id="server-error-then-success"),
    pytest.param([timeout(), timeout(), "ok"], 3, [3.0, 8.0], None, id="two-timeouts"),
    pytest.param(
        [timeout(), timeout(), timeout(), "never"],
        3,
        [3.0, 8.0],
        ("APITimeoutError", "transient", "APITimeoutError"),
        id="exhausted",
    ),
    pytest.param(
        [openai_error(401, code="invalid_api_key"), "never"],
        1,
        [],
        ("AuthenticationError", "auth", "AuthenticationError (401, invalid_api_key)"),
        id="key-is-wrong",
    ),
    pytest.param(
        [openai_error(429, code="insufficient_quota"), "never"],
        1,
        [],
        ("RateLimitError", "quota", "RateLimitError (429, insufficient_quota)"),
        id="no-credit",
    ),
    pytest.param(
        [openai_error(429, code="limit_burst_rate"), openai_error(429, code="limit_burst_rate"), "never"],
        2,
        [8.0],
        ("RateLimitError", "burst_rate", "RateLimitError (429, limit_burst_rate)"),
        id="burst-is-tried-twice",
    ),
    pytest.param([openai_error(429, headers={"retry-after": "7"}), "ok"], 2, [7.0], None, id="retry-after"),
    pytest.param(
        [openai_error(429, headers={"retry-after": "61"}), "never"],
        1,
        [],
        ("RateLimitError", "transient", "RateLimitError (429)"),
        id="retry-after-beyond-the-cap",
    ),
    pytest.param(
        [openai_error(429, headers={"retry-after": "inf"}), "never"],
        1,
        [],
        ("RateLimitError", "transient", "RateLimitError (429)"),
        id="retry-after-for-ever",
    ),
    pytest.param([openai_error(429, headers={"retry-after": "nan"}), "ok"], 2, [3.0], None, id="retry-after-nan"),
    pytest.param(
        [ValueError("boom sk-1"), "never"], 1, [], ("ValueError", "generic", "ValueError"), id="anything-else"
    ),
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("script", "attempts", "waits", "fallback"), RUNS)
async def test_retries_and_fallbacks(
    script: list[Any], attempts: int, waits: list[float], fallback: Any, style: str, clock: Clock
) -> None:
    graph, model = agent(*[AIMessage(step) if isinstance(step, str) else step for step in script])
    state = await run(graph, style)
    assert len(model.attempts) == attempts
    assert clock.waits == waits
    assert failed(state) == fallback
    assert state["messages"][-1].text == "ok" if fallback is None else "sk-1" not in repr(state["messages"][-1])


class TestWhatIsNoFailureOfTheModel:
    @pytest.mark.parametrize("style", ["invoke", "ainvoke"])
    @pytest.mark.parametrize(
        "error",
        [
            ModelAuthorizationError("big", "guest", ["big"], "authz.denied"),
            ProviderError("the policy cannot be asked"),
            StructuredOutputError("refused"),
            concurrent.futures.CancelledError(),
            KeyboardInterrupt(),
        ],
        ids=lambda error: type(error).__name__,
    )
    async def test_it_stays_what_it_is(self, error: BaseException, style: str) -> None:
        class Raises(AgentMiddleware):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                raise error

            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                raise error

        graph, model = agent(inner=[Raises()])
        if isinstance(error, KeyboardInterrupt):
            middleware = slot()
            with pytest.raises(KeyboardInterrupt):
                middleware.wrap_model_call(Request(model), lambda request: (_ for _ in ()).throw(error))
        else:
            with pytest.raises((type(error), asyncio.CancelledError)):  # a future that ends so is a cancelled one
                await run(graph, style)
        assert model.attempts == []
        assert BREAKERS.of(("scripted", "", "failing")).idle

    @pytest.mark.parametrize("style", ["invoke", "ainvoke"])
    async def test_an_interrupt_pauses_the_run(self, style: str) -> None:
        class Asks(AgentMiddleware):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                interrupt("go on?")
                return handler(request)

            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                interrupt("go on?")
                return await handler(request)

        model = Failing(script=[AIMessage("ok")])
        graph = create_agent(model, [], middleware=[slot(), Asks()], checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "t"}}
        assert "__interrupt__" in await run(graph, style, config=config)
        assert BREAKERS.of(("scripted", "", "failing")).idle
        assert (await run(graph, style, Command(resume="yes"), config=config))["messages"][-1].text == "ok"


class Request:
    """The parts of a model request that the slot looks at, for tests below the graph."""

    def __init__(self, model: Any) -> None:
        self.model, self.runtime = model, None


class TestCircuitBreaker:
    async def test_a_model_that_keeps_failing_is_left_alone_by_every_run(self, clock: Clock) -> None:
        """The breaker belongs to the process: each run below has an agent of its own."""
        for _ in range(2):
            graph, model = agent(timeout(), timeout(), timeout())
            await graph.ainvoke(HELLO)
            assert len(model.attempts) == 3
        graph, model = agent(AIMessage("ok"))
        state = await graph.ainvoke(HELLO)
        assert failed(state) == ("CircuitOpenError", "circuit_open", "CircuitOpenError")
        assert model.attempts == []
        assert failed(await agent(AIMessage("ok"), name="other")[0].ainvoke(HELLO)) is None
        clock.now += 30
        assert failed(await graph.ainvoke(HELLO)) is None

    async def test_a_success_starts_the_count_again(self, clock: Clock) -> None:
        async def once(step: Any) -> Any:
            return failed(await agent(step, retry_max_attempts=1)[0].ainvoke(HELLO))

        for _ in range(4):
            assert (await once(timeout()))[1] == "transient"
            assert await once(AIMessage("ok")) is None
        for _ in range(2):
            await once(timeout())
        clock.now += 30
        assert await once(AIMessage("ok")) is None, "the probe"
        assert (await once(timeout()))[1] == "transient"
        assert await once(AIMessage("ok")) is None, "one failure after a probe that succeeded does not open it"

    @pytest.mark.parametrize("error", [openai_error(401), openai_error(429, code="limit_burst_rate"), ValueError("x")])
    async def test_what_does_not_count(self, error: Exception) -> None:
        for _ in range(4):
            await agent(error, error)[0].ainvoke(HELLO)
        assert BREAKERS.of(("scripted", "", "failing")).idle

    async def test_a_cancelled_probe_does_not_keep_the_model_shut(self, clock: Clock) -> None:
        for _ in range(2):
            await agent(timeout(), timeout(), timeout())[0].ainvoke(HELLO)
        clock.now += 30
        reached, never = asyncio.Event(), asyncio.Event()

        class Hangs(AgentMiddleware):
            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                reached.set()
                await never.wait()

        probe = asyncio.create_task(agent(inner=[Hangs()])[0].ainvoke(HELLO))
        await reached.wait()
        assert failed(await agent(AIMessage("ok"))[0].ainvoke(HELLO))[1] == "circuit_open"
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert failed(await agent(AIMessage("ok"))[0].ainvoke(HELLO)) is None

    async def test_a_call_stops_trying_when_others_found_the_model_broken(self, monkeypatch: Any) -> None:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def pause(seconds: float) -> None:
            waiting.set()
            await go_on.wait()

        monkeypatch.setattr(retry, "_asleep", pause)
        graph, model = agent(timeout(), AIMessage("never"))
        task = asyncio.create_task(graph.ainvoke(HELLO))
        await waiting.wait()
        for _ in range(2):
            await agent(timeout(), retry_max_attempts=1)[0].ainvoke(HELLO)
        go_on.set()
        assert failed(await task)[1] == "transient"
        assert len(model.attempts) == 1

    async def test_two_endpoints_are_two_providers(self) -> None:
        def endpoint(url: str) -> Failing:
            model = Failing(script=[timeout()] * 9)
            model.__dict__["openai_api_base"] = url
            return model

        for _ in range(2):
            one = create_agent(endpoint("http://one/v1"), [], middleware=[slot(retry_max_attempts=1)])
            await one.ainvoke(HELLO)
        assert failed(await one.ainvoke(HELLO))[1] == "circuit_open"
        two = create_agent(endpoint("http://two/v1"), [], middleware=[slot(retry_max_attempts=1)])
        assert failed(await two.ainvoke(HELLO))[1] == "transient"


class TestWaiting:
    async def test_cancelling_during_a_wait_ends_it_at_once(self, monkeypatch: Any) -> None:
        waiting = asyncio.Event()

        async def pause(seconds: float) -> None:
            waiting.set()
            await asyncio.sleep(seconds)

        monkeypatch.setattr(retry, "_asleep", pause)
        graph, model = agent(openai_error(429, headers={"retry-after": "50"}), AIMessage("never"))
        task = asyncio.create_task(graph.ainvoke(HELLO))
        await waiting.wait()
        assert LIMITER.active == 0, "a permit covers one attempt and not the wait"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1)
        assert len(model.attempts) == 1

    @pytest.mark.parametrize("asynchronous", [False, True], ids=["stream", "astream"])
    async def test_the_run_says_that_it_waits(self, asynchronous: bool) -> None:
        graph, _ = agent(openai_error(503), openai_error(429, headers={"retry-after": "2"}), AIMessage("ok"))
        if asynchronous:
            events = [event async for event in graph.astream(HELLO, stream_mode="custom")]
        else:
            events = await asyncio.to_thread(lambda: list(graph.stream(HELLO, stream_mode="custom")))
        assert events == [
            {
                "type": "llm_retry",
                "attempt": 1,
                "max_attempts": 3,
                "wait_ms": 3000,
                "reason": "transient",
                "message": "The model provider did not answer; trying again in 3.0 s (1 of 3).",
            },
            {
                "type": "llm_retry",
                "attempt": 2,
                "max_attempts": 3,
                "wait_ms": 2000,
                "reason": "transient",
                "message": "The model provider did not answer; trying again in 2.0 s (2 of 3).",
            },
        ]


class TestLimit:
    async def test_calls_of_all_agents_share_one_limit(self) -> None:
        inside, most, queued = 0, 0, asyncio.Event()

        class Counts(AgentMiddleware):
            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                nonlocal inside, most
                inside += 1
                most = max(most, inside)
                await queued.wait()
                inside -= 1
                return await handler(request)

        graphs = [agent(AIMessage("ok"), inner=[Counts()], max_concurrent_calls=2)[0] for _ in range(6)]
        tasks = [asyncio.create_task(graph.ainvoke(HELLO)) for graph in graphs]
        while LIMITER.waiting < 4 or inside < 2:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)
        queued.set()
        states = await asyncio.gather(*tasks)
        assert most == 2
        assert [failed(state) for state in states] == [None] * 6

    async def test_the_limit_that_was_configured_last_holds(self) -> None:
        slot(max_concurrent_calls=5)
        assert LIMITER.size == 5
        slot(max_concurrent_calls=2)
        assert LIMITER.size == 2
        slot()
        assert LIMITER.size == 0

    async def test_threads_and_tasks_together(self) -> None:
        agents = [agent(AIMessage("ok"), max_concurrent_calls=1)[0] for _ in range(8)]
        sync = [asyncio.to_thread(graph.invoke, HELLO) for graph in agents[:4]]
        states = await asyncio.gather(*sync, *(graph.ainvoke(HELLO) for graph in agents[4:]))
        assert [state["messages"][-1].text for state in states] == ["ok"] * 8


class TestWhatIsLeftBehind:
    async def test_events_in_the_journal(self) -> None:
        journal = Journal()
        graph, _ = agent(timeout(), AIMessage("ok"))
        await graph.ainvoke(HELLO, context={wire.RUN_JOURNAL: journal})
        graph, _ = agent(openai_error(401, code="invalid_api_key", message="Incorrect API key: sk-proj-1"))
        with listening("remit.middlewares") as said:
            state = await graph.ainvoke(HELLO, context={wire.RUN_JOURNAL: journal})
        common = {"tag": "llm_error", "name": "LLMErrorHandlingMiddleware", "hook": "wrap_model_call"}
        who = {"provider": "scripted", "model": "failing"}
        assert journal.events == [
            {**common, "action": "recovered", "changes": {**who, "attempts": 2}},
            {
                **common,
                "action": "fallback",
                "changes": {
                    **who,
                    "attempts": 1,
                    "reason": "auth",
                    "error_type": "AuthenticationError",
                    "error_detail": "AuthenticationError (401, invalid_api_key)",
                },
            },
        ]
        assert "sk-proj" not in repr(state) + repr(said.messages)

    def test_release_parameters_are_json_and_name_the_settings(self) -> None:
        one, other = slot().release_policy_parameters(), slot(retry_max_attempts=1).release_policy_parameters()
        assert json.loads(json.dumps(one)) == one
        assert one != other

    async def test_every_reason_has_a_text_of_its_own(self) -> None:
        from langchain_openai.chat_models._client_utils import StreamChunkTimeoutError

        texts = set()
        for error in (
            openai_error(402),
            openai_error(403),
            openai_error(429, code="limit_burst_rate"),
            timeout(),
            openai_error(529),
            ValueError("x"),
            StreamChunkTimeoutError(1.0),
        ):
            graph, model = agent(*[error] * 9, name=f"model {len(texts)}")
            state = await graph.ainvoke(HELLO)
            texts.add(state["messages"][-1].text)
        assert len(model.attempts) == 2, "a stream that stops coming is tried twice"
        assert len(texts) == 7
        assert any("split the work" in text for text in texts)


@tool
def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with openai_server() as found:
        yield found


class TestRealEndpoint:
    """An ``openai:`` model of the settings, against a server on this machine."""

    @pytest.fixture
    def graph(self, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("FAKE_KEY", "key-1")
        server.script.clear()
        server.requests.clear()
        server.keys.clear()
        model = {
            "name": "m",
            "use": "openai:m",
            "api_key_env": "FAKE_KEY",
            "config": {"base_url": server.url, "timeout": 5},
        }
        config = load_app_config({"models": [model]})
        chain = [DanglingToolCallMiddleware(), LLMErrorHandlingMiddleware(config.llm_call, config.circuit_breaker)]
        return create_agent(build_model(config, None, context=None, purpose="lead"), [search], middleware=chain)

    @pytest.mark.parametrize("style", STYLES)
    async def test_a_turn_with_a_tool(self, style: str, graph: Any, server: OpenAIServer) -> None:
        server.script += [answer("", call("search", {"query": "a"}, "c1")), answer("it is there")]
        state = await run(graph, style)
        assert [m.text for m in state["messages"]] == ["hello", "", "found a", "it is there"]
        assert server.keys == ["Bearer key-1"] * 2
        assert [m["role"] for m in server.requests[1]["messages"]] == ["user", "assistant", "tool"]

    async def test_a_limit_of_the_rate(self, graph: Any, server: OpenAIServer, clock: Clock) -> None:
        server.script += [refusal(429, "rate_limit_exceeded", retry_after="4"), answer("ok")]
        state = await graph.ainvoke(HELLO)
        assert (state["messages"][-1].text, clock.waits, len(server.requests)) == ("ok", [4.0], 2)

    async def test_a_server_error_and_then_success(self, graph: Any, server: OpenAIServer, clock: Clock) -> None:
        server.script += [refusal(500), refusal(502), answer("ok")]
        state = await graph.ainvoke(HELLO)
        assert (state["messages"][-1].text, clock.waits, len(server.requests)) == ("ok", [3.0, 8.0], 3)

    async def test_a_wrong_key(self, graph: Any, server: OpenAIServer, clock: Clock) -> None:
        server.script += [refusal(401, "invalid_api_key", "Incorrect API key provided: key-1")]
        state = await graph.ainvoke(HELLO)
        reason = failed(state)
        assert reason is not None
        assert reason[1] == "auth"
        assert "401, invalid_api_key" in reason[2]
        assert "key-1" not in repr(state)
        assert (clock.waits, len(server.requests)) == ([], 1)

    async def test_no_server_at_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_KEY", "k")
        with openai_server() as gone:
            url = gone.url
        model = {"name": "m", "use": "openai:m", "api_key_env": "FAKE_KEY", "config": {"base_url": url}}
        config = load_app_config({"models": [model], "llm_call": {"retry_max_attempts": 2}})
        graph = create_agent(
            build_model(config, None, context=None, purpose="lead"),
            [],
            middleware=[LLMErrorHandlingMiddleware(config.llm_call, config.circuit_breaker)],
        )
        reason = failed(await graph.ainvoke(HELLO))
        assert reason is not None
        assert reason[1] == "transient"

    async def test_arguments_that_are_no_json(self, graph: Any, server: OpenAIServer) -> None:
        """The model's malformed call is answered, and the next request is one that strict providers take."""
        broken = answer("", call("search", {}, "c1"))
        broken.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"query": "a'
        good = answer("", call("search", {"query": "b"}, "c2"))
        good.body["choices"][0]["message"]["tool_calls"] += broken.body["choices"][0]["message"]["tool_calls"]
        server.script += [good, answer("ok")]
        state = await graph.ainvoke(HELLO)
        assert state["messages"][-1].text == "ok"
        sent = server.requests[1]["messages"]
        assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool"]
        assert [c["function"]["arguments"] for c in sent[1]["tool_calls"]] == ['{"query": "b"}', "{}"]
        assert {m["tool_call_id"] for m in sent[2:]} == {"c1", "c2"}

    async def test_streamed_messages(self, graph: Any, server: OpenAIServer, clock: Clock) -> None:
        server.script += [refusal(503), answer("", call("search", {"query": "a"}, "c1")), refusal(500), answer("there")]
        said = [message async for message, _ in graph.astream(HELLO, stream_mode="messages")]
        assert "".join(m.text for m in said if m.type == "AIMessageChunk") == "there"
        assert server.requests[0]["stream"] is True
        assert len(clock.waits) == 2


def test_a_tool_turn_after_a_fallback_goes_on() -> None:
    graph, model = agent(timeout(), calls(call("search", {"query": "a"})), AIMessage("ok"), tools=[search])
    assert graph.invoke(HELLO)["messages"][-1].text == "ok"
    assert len(model.attempts) == 3
