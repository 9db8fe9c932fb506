from __future__ import annotations

import hashlib
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware.types import ModelRequest
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from tests.support.agents import STYLES, answers, run
from tests.support.ids import shown
from tests.support.memory_sandbox import World
from tests.support.scripted import call, calls, scripted

from remit.authz import SandboxAuthorizationError, wire
from remit.middlewares import output_preview, tool_output_budget
from remit.middlewares.output_preview import PREVIEW_OVERHEAD, Samples, preview, truncated
from remit.middlewares.output_storage import Stored
from remit.middlewares.receipts import Scope, receipt_of
from remit.middlewares.sandbox import SandboxMiddleware
from remit.middlewares.thread_data import ThreadDataMiddleware
from remit.middlewares.tool_output_budget import ToolOutputBudgetMiddleware
from remit.middlewares.tool_receipt import ToolReceiptMiddleware
from remit.middlewares.transforms import transforms_of
from remit.runtime.config import ToolOutputConfig, VerificationConfig
from remit.runtime.sandboxes import SandboxAccess

LONG = "\n".join(f"line {number} of a long result" for number in range(1_000))
CONFIG = {"configurable": {"thread_id": "t1"}}
ENTRY = {"by": "ToolOutputBudgetMiddleware", "version": "1"}
PATH = re.compile(r"/mnt/user-data/outputs/(\S+)/([\w-]+-[0-9a-f]{12}\.(?:txt|log))(?=,)")


def tool_of(name: str, result: Any, metadata: dict[str, Any] | None = None) -> StructuredTool:
    def body() -> Any:
        return result

    async def abody() -> Any:
        return result

    return StructuredTool.from_function(body, abody, name=name, description="d", metadata=metadata)


class Bench:
    """An agent that calls one tool, with a folder for its thread."""

    def __init__(self, base: Path, *, access: SandboxAccess | None = None, inner: Any = (), **limits: Any) -> None:
        self.base = base
        self.middleware = ToolOutputBudgetMiddleware(ToolOutputConfig(**limits), access=access)
        self.inner = inner

    async def __call__(
        self, result: Any, name: str = "search", *, style: str = "invoke", metadata: dict[str, Any] | None = None
    ) -> ToolMessage:
        model = scripted(calls(call(name)), AIMessage("ok"))
        chain = [self.middleware, ThreadDataMiddleware(base_dir=self.base), *self.inner]
        graph = create_agent(model, [tool_of(name, result, metadata)], middleware=chain, checkpointer=InMemorySaver())
        return answers(await run(graph, style, config=CONFIG))["call_1"]

    @property
    def outputs(self) -> Path:
        return self.base / "users" / "default" / "threads" / "t1" / "user-data" / "outputs"

    def stored(self, message: ToolMessage) -> str:
        """What the file holds that `message` names."""
        found = PATH.search(text_of(message))
        assert found is not None
        return (self.outputs / found[1] / found[2]).read_text()


def in_command(content: Any) -> Command[Any]:
    """As it reaches the conversation as it is: LangGraph makes JSON of what a tool returns as a list."""
    return Command(update={"messages": [ToolMessage(content, tool_call_id="call_1")]})


def text_of(message: ToolMessage) -> str:
    content: Any = message.content
    return content if isinstance(content, str) else str(content[0]["text"])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("style", STYLES)
async def test_a_long_result_is_stored_and_a_preview_takes_its_place(style: str, bench: Bench) -> None:
    artifact = {"rows": 1_000}
    result = ToolMessage(
        LONG, tool_call_id="call_1", id="m1", artifact=artifact, additional_kwargs={"k": 1}, response_metadata={"r": 2}
    )
    message = await bench(result, style=style)
    content = text_of(message)
    assert bench.stored(message) == LONG
    assert len(content) <= 3_000 + PREVIEW_OVERHEAD
    digest = hashlib.sha256(LONG.encode()).hexdigest()
    path = next(iter((bench.outputs / ".tool-results").iterdir())).name
    assert path.startswith("search-")
    first, second, *_ = content.splitlines()
    assert first == (
        f"[The result of search is long and was stored: /mnt/user-data/outputs/.tool-results/{path}, "
        f"{len(LONG):,} characters (about {-(-len(LONG) // 4):,} tokens), sha256 {digest}]"
    )
    assert second.startswith("Preview (text):")
    assert "text of 1,000 lines" in content
    assert "\nline 0 of a long result\n" in content
    assert "\nline 999 of a long result\n" in content
    assert "line 500 of" not in content
    assert f"Access: read /mnt/user-data/outputs/.tool-results/{path} " in content
    assert transforms_of(message) == [{"kind": "externalized", **ENTRY}]
    assert (message.id, message.artifact, message.response_metadata) == ("m1", artifact, {"r": 2})
    assert message.additional_kwargs["k"] == 1
    assert result.content == LONG


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(lambda text: text, id="text"),
        pytest.param(lambda text: in_command([text]), id="list-of-text"),
        pytest.param(lambda text: [{"type": "text", "text": text}], id="block"),
        pytest.param(lambda text: in_command(text), id="command"),
    ],
)
async def test_shapes(style: str, wrapped: Any, bench: Bench) -> None:
    message = await bench(wrapped(LONG), style=style)
    assert isinstance(message.content, str)
    assert bench.stored(message) == LONG


async def test_parts_are_joined_and_media_stay(bench: Bench) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    content: Any = [{"type": "text", "text": LONG}, image, "the end"]
    message = await bench(in_command(content))
    assert bench.stored(message) == f"{LONG}\nthe end"
    assert message.content[1:] == [image]


async def test_media_alone_stay(bench: Bench) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    message = await bench([image])
    assert (message.content, message.additional_kwargs) == ([image], {})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "json", "json": {"rows": ["x" * 100] * 400}},
        {"type": "document", "source": {"type": "text", "data": "x" * 40_000}},
        {"type": "text-plain", "text": "x" * 40_000},
    ],
    ids=["json", "document", "text-plain"],
)
async def test_structured_blocks_count(block: dict[str, Any], bench: Bench) -> None:
    message = await bench([block])
    assert len(text_of(message)) <= 3_000 + PREVIEW_OVERHEAD
    assert "xxxx" in bench.stored(message)


async def test_every_message_of_a_command(bench: Bench) -> None:
    def several() -> Any:
        return Command(
            update={
                "messages": [
                    ToolMessage(LONG, tool_call_id="call_1"),
                    HumanMessage(LONG),
                    ToolMessage("short", tool_call_id="other"),
                    ToolMessage(LONG, tool_call_id="another"),
                ]
            }
        )

    request = ToolCallRequest(call("search"), None, {"thread_data": {"outputs_path": str(bench.outputs)}}, None)  # type: ignore[arg-type]
    result = bench.middleware.wrap_tool_call(request, lambda _: several())
    one, human, short, other = result.update["messages"]  # type: ignore[union-attr,index]
    assert (human.content, short.content) == (LONG, "short")
    assert bench.stored(one) == bench.stored(other) == LONG


@pytest.mark.parametrize(
    ("name", "metadata", "extension"),
    [
        ("bash", None, "log"),
        ("bash_tool", None, "log"),
        ("web_fetch", None, "log"),
        ("web_search", None, "txt"),
        ("run", {wire.CAPABILITIES: {"executes_command": "script"}}, "log"),
        ("broken", {wire.CAPABILITIES: {"flies": True}}, "txt"),
    ],
)
async def test_the_extension(name: str, metadata: dict[str, Any] | None, extension: str, bench: Bench) -> None:
    await bench(LONG, name, metadata=metadata)
    (file,) = (bench.outputs / ".tool-results").iterdir()
    assert re.fullmatch(rf"{name}-[0-9a-f]{{12}}\.{extension}", file.name)


@pytest.mark.parametrize(
    ("limits", "size", "kind"),
    [
        pytest.param({}, 12_000, None, id="at-the-limit"),
        pytest.param({}, 12_001, "externalized", id="over-the-limit"),
        pytest.param({"enabled": False}, 200_000, None, id="disabled"),
        pytest.param({"externalize_min_chars": 0}, 30_000, None, id="not-stored"),
        pytest.param({"externalize_min_chars": 0}, 30_001, "truncated", id="not-stored-and-long"),
        pytest.param({"externalize_min_chars": 0, "fallback_max_chars": 0}, 200_000, None, id="no-limits"),
        pytest.param({"tool_overrides": {"search": 100}}, 101, "externalized", id="override"),
        pytest.param({"tool_overrides": {"search": 50_000}}, 30_001, "truncated", id="override-above-the-fallback"),
        pytest.param({"tool_overrides": {"search": 0}}, 29_000, None, id="override-stores-nothing"),
        pytest.param({"tool_overrides": {"search": 0}}, 31_000, "truncated", id="override-stores-nothing-and-long"),
        pytest.param({"tool_overrides": {"other": 10}}, 12_000, None, id="override-of-another"),
        pytest.param({"exempt_tools": ("search",)}, 200_000, None, id="exempt"),
        pytest.param({"storage_subdir": "kept"}, 12_001, "externalized", id="another-folder"),
    ],
)
async def test_limits(limits: dict[str, Any], size: int, kind: str | None, tmp_path: Path) -> None:
    bench = Bench(tmp_path, **limits)
    text = "x" * size
    message = await bench(text)
    assert [entry["kind"] for entry in transforms_of(message)] == ([kind] if kind else [])
    if kind is None:
        assert message.content == text
        assert not bench.outputs.exists()
    elif kind == "truncated":
        assert len(message.content) <= 30_000
    else:
        assert bench.stored(message) == text


@pytest.mark.parametrize(
    ("name", "metadata", "limits", "exempt"),
    [
        ("read_file", None, {}, True),
        ("read_file_tool", None, {}, True),
        ("open", {wire.CAPABILITIES: {"reads_file": "path"}}, {}, True),
        ("open", {wire.CAPABILITIES: {"reads_file": "path"}}, {"tool_overrides": {"open": 500}}, False),
        ("open", {wire.CAPABILITIES: {"reads_file": "path"}}, {"exempt_tools": ()}, False),
        ("read_file", None, {"exempt_tools": ()}, False),
        ("read_file_2", None, {}, False),
    ],
)
async def test_readers_of_files(
    name: str, metadata: dict[str, Any] | None, limits: dict[str, Any], exempt: bool, tmp_path: Path
) -> None:
    message = await Bench(tmp_path, **limits)(LONG, name, metadata=metadata)
    assert (message.content == LONG) is exempt


class TestWhereItIsStored:
    @pytest.mark.parametrize("style", STYLES)
    async def test_in_the_sandbox_that_the_call_opened(self, style: str, tmp_path: Path) -> None:
        world = World()
        bench = Bench(tmp_path, access=world.access, inner=[SandboxMiddleware(world.access)])
        message = await _call_with_sandbox(bench, world, style)
        sandbox = world.sandbox("t1", "default")
        (path,) = sandbox.files
        assert path in text_of(message)
        assert sandbox.files[path].decode() == LONG
        assert not bench.outputs.exists()

    async def test_on_the_host_while_there_is_no_sandbox(self, tmp_path: Path) -> None:
        world = World()
        bench = Bench(tmp_path, access=world.access, inner=[SandboxMiddleware(world.access)])
        assert bench.stored(await bench(LONG)) == LONG
        assert world.provider.made == {}
        assert world.asked == 0

    async def test_on_the_host_when_the_sandbox_sees_it(self, tmp_path: Path) -> None:
        world = World()
        world.provider.uses_thread_data_mounts = True
        bench = Bench(tmp_path, access=world.access, inner=[SandboxMiddleware(world.access)])
        message = await _call_with_sandbox(bench, world, "invoke")
        assert bench.stored(message) == LONG
        assert world.sandbox("t1", "default").files == {}

    @pytest.mark.parametrize("style", ["invoke", "ainvoke"])
    @pytest.mark.parametrize(
        "fault", [SandboxAuthorizationError("no"), RuntimeError("a bug")], ids=["denied", "broken"]
    )
    async def test_cut_when_the_sandbox_may_not_be_used(self, style: str, fault: Exception, tmp_path: Path) -> None:
        def gate(_: Any) -> None:
            if world.asked > 1:
                raise fault

        world = World(gate)
        bench = Bench(tmp_path, access=world.access, inner=[SandboxMiddleware(world.access)])
        message = await _call_with_sandbox(bench, world, style, LONG * 3)
        assert [entry["kind"] for entry in transforms_of(message)] == ["truncated"]
        assert len(message.content) <= 30_000
        assert not bench.outputs.exists()

    async def test_cut_when_the_folder_is_a_trap(self, bench: Bench, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        bench.outputs.mkdir(parents=True)
        (bench.outputs / ".tool-results").symlink_to(elsewhere)
        message = await bench(LONG * 3)
        assert [entry["kind"] for entry in transforms_of(message)] == ["truncated"]
        assert len(message.content) <= 30_000
        assert list(elsewhere.iterdir()) == []
        assert (await bench("x" * 20_000)).content == "x" * 20_000
        uncut = Bench(tmp_path, fallback_max_chars=0)
        assert (await uncut(LONG * 3)).content == LONG * 3

    async def test_cut_without_a_thread_folder(self) -> None:
        model = scripted(calls(call("search")), AIMessage("ok"))
        chain = [ToolOutputBudgetMiddleware(ToolOutputConfig())]
        graph = create_agent(model, [tool_of("search", LONG * 3)], middleware=chain)
        message = answers(await run(graph, "ainvoke"))["call_1"]
        assert [entry["kind"] for entry in transforms_of(message)] == ["truncated"]


async def _call_with_sandbox(bench: Bench, world: World, style: str, text: str = LONG) -> ToolMessage:
    async def abash(runtime: ToolRuntime) -> str:
        await world.access.aensure(runtime)
        return text

    def bash(runtime: ToolRuntime) -> str:
        world.access.ensure(runtime)
        return text

    tool = StructuredTool.from_function(bash, abash, name="bash", description="d")
    model = scripted(calls(call("bash")), AIMessage("ok"))
    chain = [bench.middleware, ThreadDataMiddleware(base_dir=bench.base), *bench.inner]
    graph = create_agent(model, [tool], middleware=chain, checkpointer=InMemorySaver())
    return answers(await run(graph, style, config=CONFIG))["call_1"]


class TestTheHistory:
    def sent(self, *messages: Any, **limits: Any) -> list[Any]:
        seen: list[Any] = []
        middleware = ToolOutputBudgetMiddleware(ToolOutputConfig(**limits))
        request: ModelRequest[Any] = ModelRequest(model=scripted(), messages=list(messages))
        middleware.wrap_model_call(request, lambda changed: seen.append(changed) or "done")
        self.same = seen[0] is request
        return list(seen[0].messages)

    def test_long_results_are_cut_in_the_request_alone(self) -> None:
        old = ToolMessage(LONG * 3, tool_call_id="1", id="m", name="search")
        others = [HumanMessage(LONG * 3), AIMessage("x"), ToolMessage(LONG, tool_call_id="2")]
        cut, *rest = self.sent(old, *others)
        assert len(cut.content) <= 30_000
        assert cut.content.startswith("line 0 of")
        assert cut.content.endswith("line 999 of a long result")
        assert transforms_of(cut) == [{"kind": "truncated", **ENTRY}]
        assert (cut.id, cut.name, old.content) == ("m", "search", LONG * 3)
        assert all(new is before for new, before in zip(rest, others, strict=True))

    def test_nothing_to_do_is_the_same_request(self) -> None:
        self.sent(HumanMessage("x"), ToolMessage(LONG, tool_call_id="1"))
        assert self.same

    @pytest.mark.parametrize(
        "limits", [{"enabled": False}, {"fallback_max_chars": 0}, {"exempt_tools": ("n",)}], ids=repr
    )
    def test_what_is_left_alone(self, limits: dict[str, Any]) -> None:
        self.sent(ToolMessage(LONG * 3, tool_call_id="1", name="n"), **limits)
        assert self.same

    def test_a_preview_is_not_cut_again(self) -> None:
        kwargs = {wire.TOOL_TRANSFORMS: [{"kind": "externalized", **ENTRY}]}
        limits = {"fallback_max_chars": 100}
        self.sent(ToolMessage("x" * 3_000, tool_call_id="1", additional_kwargs=kwargs), **limits)
        assert self.same
        self.sent(ToolMessage("x" * 8_000, tool_call_id="1", additional_kwargs=kwargs), **limits)
        assert not self.same, "and nothing longer passes for one"

    async def test_through_an_agent(self) -> None:
        model = scripted(AIMessage("ok"))
        graph = create_agent(model, [], middleware=[ToolOutputBudgetMiddleware(ToolOutputConfig())])
        history = [
            HumanMessage("x"),
            calls(call("search", id="1")),
            ToolMessage(LONG * 3, tool_call_id="1", id="m"),
            HumanMessage("y"),
        ]
        state = await run(graph, "ainvoke", {"messages": history})
        assert len(model.seen[0][2].content) <= 30_000
        assert state["messages"][2].content == LONG * 3


async def test_a_receipt_speaks_of_what_the_model_sees(tmp_path: Path) -> None:
    bench = Bench(tmp_path, inner=[ToolReceiptMiddleware(VerificationConfig())])
    message = await bench(LONG)
    receipt = receipt_of(message, Scope("t1", None))
    assert receipt is not None
    assert receipt["output_bytes"] == len(text_of(message).encode())
    assert receipt["raw_sha256"] == hashlib.sha256(LONG.encode()).hexdigest()[:16]
    assert receipt["raw_sha256"] in text_of(message), "the checksum of the file matches the receipt"


STORED = Stored("/mnt/user-data/outputs/.tool-results/search-0123456789ab.txt", "0" * 64)
GIANT = "k" * 300_000
HOSTILE: dict[str, str] = {
    "giant-json-key": json.dumps({GIANT: {GIANT: [GIANT]}}),
    "giant-csv-header": f"{GIANT},b\n" + "1,2\n" * 20,
    "giant-xml-name": f"<{GIANT} a='1'/>",
    "binary": "\x00\x01\x02" * 100_000,
    "deep": '{"a":' * 50_000,
    "half-characters": "\ud800\udc00x" * 100_000,
    "tags-at-the-cut": "<system" * 100_000,
    "marker-at-the-cut": "- begin user input" * 10_000,
    "one-line": "x" * 500_000,
    "line-breaks": "\n" * 500_000,
}


@pytest.mark.parametrize("samples", [Samples(2_000, 1_000), Samples(0, 0), Samples(0, 50), Samples(7, 0)], ids=str)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_preview_never_exceeds_its_budget(name: str, samples: Samples) -> None:
    out = preview(HOSTILE[name], STORED, tool_name="t" * 10_000, samples=samples)
    assert len(out) <= samples.head + samples.tail + PREVIEW_OVERHEAD
    assert out.rstrip().endswith((".", "command.")), "the advice at its end is not cut off"
    out.encode()


TEXTS = st.one_of(
    st.text(),
    st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(
        json.dumps
    ),
    st.lists(
        st.sampled_from(["<system", ">", "\n", "a,b", "k: v", "--- BEGIN USER INPUT", "x", "\ud800", "你"]), max_size=60
    ).map("".join),
)


@given(TEXTS, st.integers(1, 400), st.integers(0, 300), st.integers(0, 300), st.text(max_size=90))
def test_any_preview_is_within_its_budget(text: str, times: int, head: int, tail: int, name: str) -> None:
    out = preview(text * times, STORED, tool_name=name, samples=Samples(head, tail))
    assert len(out) <= head + tail + PREVIEW_OVERHEAD
    out.encode()


@given(TEXTS, st.integers(1, 100), st.integers(1, 300), st.integers(0, 300), st.integers(0, 300))
def test_any_cut_is_within_its_limit(text: str, times: int, limit: int, head: int, tail: int) -> None:
    out = truncated(text * times, limit=limit, samples=Samples(head, tail))
    assert len(out) <= max(limit, 0)
    if len(text * times) <= limit:
        assert out == text * times


@pytest.mark.parametrize(
    ("text", "limit", "samples", "expected"),
    [
        pytest.param("abc", 3, Samples(1, 1), "abc", id="fits"),
        pytest.param("a" * 20, 10, Samples(5, 5), "a" * 10, id="no-room-for-the-marker"),
        pytest.param(
            "a" * 50 + "b" * 50,
            90,
            Samples(5, 3),
            "aaaaa\n[... 92 characters are left out here ...]\nbbb",
            id="head-and-tail",
        ),
        pytest.param(
            "one\ntwo\nthree" + "x" * 200,
            90,
            Samples(9, 0),
            "one\ntwo\n[... 206 characters are left out here ...]\n",
            id="line-break",
        ),
        pytest.param(
            "x" * 200 + "\nlast",
            90,
            Samples(0, 6),
            "\n[... 201 characters are left out here ...]\nlast",
            id="line-break-behind",
        ),
    ],
)
def test_cuts(text: str, limit: int, samples: Samples, expected: str) -> None:
    assert truncated(text, limit=limit, samples=samples) == expected


def test_the_whole_text_when_it_fits_in_the_samples() -> None:
    out = preview("a\nb\n" * 10, STORED, tool_name="x", samples=Samples(50, 50))
    assert "[The whole text]\na\nb\n" in out


def test_advice_about_long_lines() -> None:
    assert "very long lines" in preview("x" * 30_000, STORED, tool_name="x", samples=Samples(10, 10))
    assert "very long lines" not in preview("x\n" * 30_000, STORED, tool_name="x", samples=Samples(10, 10))


@pytest.mark.parametrize("style", ["invoke", "ainvoke"])
async def test_a_bug_costs_the_preview_and_not_the_budget(
    style: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(tool_output_budget, "preview", broken)
    message = await bench(LONG * 3, style=style)
    assert len(message.content) <= 30_000
    assert message.content.startswith("line 0 of")


@pytest.mark.parametrize(
    "result",
    [
        None,
        "x" * 50_000,
        Command(),
        Command(update=None),
        Command(update={"messages": None}),
        Command(update=[]),
        Command(update=object()),
        [],
        5,
    ],
    ids=lambda result: shown(result)[:40],
)
def test_odd_results_pass(result: Any, bench: Bench) -> None:
    request = ToolCallRequest({"name": None, "id": None, "args": None}, None, None, None)  # type: ignore[typeddict-item,arg-type]
    assert bench.middleware.wrap_tool_call(request, lambda _: result) is result


@pytest.mark.parametrize(
    "content",
    [None, b"\xff" * 50_000, {"a": "x" * 50_000}, ["x" * 50_000, None, 5, {"text": 3}, {1: {2}}], 5],
    ids=lambda c: shown(c)[:20],
)
def test_odd_content_passes(content: Any, bench: Bench) -> None:
    message = ToolMessage.model_construct(
        content=content, tool_call_id="1", artifact=None, additional_kwargs={}, status="success"
    )
    request = ToolCallRequest(call("x"), None, {"thread_data": {"outputs_path": str(bench.outputs)}}, None)  # type: ignore[arg-type]
    result: Any = bench.middleware.wrap_tool_call(request, lambda _: message)
    assert len(repr(result.content)) <= 3_000 + 2 * PREVIEW_OVERHEAD


def test_a_pause_of_the_graph_passes(bench: Bench) -> None:
    def handler(_: Any) -> Any:
        raise GraphInterrupt(())

    request = ToolCallRequest(call("x"), None, {}, None)  # type: ignore[arg-type]
    with pytest.raises(GraphInterrupt):
        bench.middleware.wrap_tool_call(request, handler)


async def test_work_that_blocks_leaves_the_event_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    real = tool_output_budget.store_on_host

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return real(*args)

    monkeypatch.setattr(tool_output_budget, "store_on_host", noted)
    await bench(LONG, style="ainvoke")
    assert threads == [False]


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_constant_holds_the_longest_frame(size: int) -> None:
    assert output_preview.PREVIEW_OVERHEAD == 4_096
    out = preview("- x: [1]\n" * 100 + "y" * (size % 5_000), STORED, tool_name="n" * size, samples=Samples(0, 0))
    assert len(out) < PREVIEW_OVERHEAD


def test_the_declaration_names_every_setting(bench: Bench) -> None:
    declared = bench.middleware.release_policy_parameters()
    assert declared.keys() >= ToolOutputConfig.model_fields.keys()
    assert declared["preview_overhead_chars"] == PREVIEW_OVERHEAD
    json.dumps(declared)
