"""`make_lead_agent`: from settings and policy on disk to a running agent, on the one way that all agents take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool
from tests.support.agents import STYLES, answers, code, run
from tests.support.leads import Deployment, who
from tests.support.scripted import call, calls, scripted

from remit.authz import load_config, wire
from remit.authz.errors import ConfigError, ModelAuthorizationError
from remit.harness import AgentOptions, Services, assemble, make_lead_agent
from remit.harness.deferred import TOOL_SEARCH
from remit.middlewares.slots import SCOPES
from remit.providers.casbin import CasbinAuthorizationProvider
from remit.runtime.config import load_app_config

GUEST = ["web_search", "read_file"]
BUILT_IN = ["bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace", "present_files", "list_uploads"]
ROLES = """version: 1
roles:
  guest:
    tools: {allow: [web_search, read_file]}
  searcher:
    tools: {allow: [mcp__mail__search, mcp__mail__send], deny: [mcp__hr__salary]}
  user:
    tools: {allow: "*"}
    sandbox: {allow: true}
    models: {allow: [small]}
"""


@tool
def web_search(query: str) -> str:
    """Search the web."""
    return f"pages about {query}"


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def mcp(name: str, description: str) -> BaseTool:
    def body(text: str = "") -> str:
        return f"{name} ran"

    made = StructuredTool.from_function(body, name=name, description=description)
    made.metadata = {wire.MCP_TAG: True}
    return made


MCP = [
    mcp("mcp__hr__salary", "Look up the salary of an employee."),
    mcp("mcp__mail__search", "Search the mails of an employee."),
    mcp("mcp__mail__send", "Send a mail."),
]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path, ROLES, default_role="guest")
    yield made
    made.close()


@pytest.fixture
def searching(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path, ROLES, default_role="guest", tool_search={"enabled": True})
    yield made
    made.close()


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("fixed", [True, False], ids=["built-for-the-caller", "built-for-all"])
async def test_every_path_shows_the_same_tools(deployment: Deployment, scope: Any, fixed: bool) -> None:
    context = who("guest") if fixed else None
    made, model = deployment.agent(tools=[web_search, pay], scope=scope, context=context)
    await run(made.graph, "ainvoke", context=who("guest"))
    assert sorted(model.bound[0]) == sorted(GUEST)
    if fixed:
        assert [one.name for one in made.tools] == ["read_file", "web_search"]
        assert made.hidden == tuple(name for name in [*BUILT_IN, "pay"] if name not in GUEST)


async def test_both_layers_ask_one_provider(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, Any]] = []
    decide, list_ = CasbinAuthorizationProvider.authorize, CasbinAuthorizationProvider.filter_resources

    def authorize(self: Any, request: Any) -> Any:
        asked.append(("call", id(self), request.principal))
        return decide(self, request)

    def filter_resources(self: Any, principal: Any, *rest: Any) -> Any:
        asked.append(("list", id(self), principal))
        return list_(self, principal, *rest)

    monkeypatch.setattr(CasbinAuthorizationProvider, "authorize", authorize)
    monkeypatch.setattr(CasbinAuthorizationProvider, "filter_resources", filter_resources)
    made, _ = deployment.agent(calls(call("web_search", {"query": "x"})), tools=[web_search], context=who("guest"))
    state = await run(made.graph, "ainvoke", context=who("guest"))
    assert answers(state)["call_1"].text == "pages about x"
    assert {kind for kind, _, _ in asked} == {"list", "call"}
    assert {instance for _, instance, _ in asked} == {id(deployment.services.enforcer.provider)}
    assert len({principal for _, _, principal in asked}) == 1


@pytest.mark.parametrize("style", STYLES)
async def test_a_hidden_tool_is_refused_and_its_name_kept(deployment: Deployment, style: str) -> None:
    made, model = deployment.agent(
        calls(call("pay", {"amount": 5})), calls(call("made_up", {}, "call_2")), tools=[web_search, pay]
    )
    state = await run(made.graph, style, context=who("guest"))
    found = answers(state)
    assert code(found["call_1"]) == "authz.no_policy"
    assert code(found["call_2"]) in {"authz.no_policy", "authz.unknown_tool"}
    told = " ".join(message.text for message in model.seen[-1])
    assert "bash" not in told
    assert "write_file" not in told


@pytest.mark.parametrize("style", STYLES)
async def test_search_finds_what_the_caller_may_use(searching: Deployment, style: str) -> None:
    made, model = searching.agent(
        calls(call(TOOL_SEARCH, {"query": "employee"}, "c1")),
        calls(call(TOOL_SEARCH, {"query": "select:mcp__hr__salary,mcp__mail__send"}, "c2")),
        calls(call(TOOL_SEARCH, {"query": ".*"}, "c3")),
        tools=[web_search, *MCP],
    )
    state = await run(made.graph, style, context=who("searcher"))
    assert TOOL_SEARCH in model.bound[0]
    found = answers(state)
    assert "mcp__mail__search" in found["c1"].text
    assert "mcp__mail__send" in found["c2"].text
    assert all("salary" not in message.text.casefold() for message in found.values())
    assert [item["name"] for item in state["promoted"]] == ["mcp__mail__search", "mcp__mail__send"]
    assert {item["catalog_hash"] for item in state["promoted"]} == {made.deferred.catalogue.hash}


def test_the_catalogue_is_made_of_what_layer_1_let_through(searching: Deployment) -> None:
    made, _ = searching.agent(tools=MCP, context=who("searcher"))
    assert made.deferred is not None
    assert made.deferred.names == {"mcp__mail__search", "mcp__mail__send"}
    none, _ = searching.agent(tools=MCP, context=who("guest"))
    assert none.deferred is None
    assert TOOL_SEARCH not in [one.name for one in none.tools]


@tool(TOOL_SEARCH)
def impostor(query: str) -> str:
    """An ordinary tool that happens to have this name."""
    return "the impostor ran"


@pytest.mark.parametrize("style", STYLES)
async def test_an_ordinary_tool_of_that_name_is_decided(searching: Deployment, style: str) -> None:
    made, model = searching.agent(calls(call(TOOL_SEARCH, {"query": "x"})), tools=[impostor])
    state = await run(made.graph, style, context=who("guest"))
    assert code(answers(state)["call_1"]) == "authz.no_policy"
    assert TOOL_SEARCH not in model.bound[0]


def test_an_ordinary_tool_beside_the_generated_one_is_refused(searching: Deployment) -> None:
    with pytest.raises(ConfigError, match="two tools are named 'tool_search'"):
        searching.agent(tools=[impostor, *MCP])


@pytest.mark.parametrize("style", STYLES)
async def test_the_guardrail_is_asked_about_the_generated_search(tmp_path: Path, style: str) -> None:
    made = Deployment(tmp_path, ROLES, default_role="guest")
    rails = {"enabled": True, "provider": {"use": "allowlist", "config": {"denied_tools": [TOOL_SEARCH]}}}
    provider = {"use": "casbin", "config": {"policies": [str(tmp_path / "roles.yaml")]}}
    authz = load_config(
        {
            "authorization": {"enabled": True, "default_role": "guest", "provider": provider},
            "guardrails": rails,
        }
    )
    config = load_app_config({"sandbox": {"use": "local"}, "tool_search": {"enabled": True}}, authz=authz)
    made.services = Services.from_config(config)
    agent, _ = made.agent(calls(call(TOOL_SEARCH, {"query": "mail"})), tools=MCP)
    state = await run(agent.graph, style, context=who("searcher"))
    assert answers(state)["call_1"].status == "error"
    assert "mcp__mail" not in answers(state)["call_1"].text
    made.close()


@pytest.mark.parametrize("style", STYLES)
async def test_disabled_leaves_tools_and_order(tmp_path: Path, style: str) -> None:
    config = load_app_config({"sandbox": {"use": "local"}})
    services = Services.from_config(config)
    model = scripted(calls(call("pay", {"amount": 5})))

    @tool("pay")
    def own(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    # A tool of its own: the others are armed by now, and an armed tool runs behind a guard only.
    made = assemble(services, AgentOptions(model=model, tools=[own, web_search], context=who("guest")))
    assert [one.name for one in made.tools] == [*BUILT_IN, "pay", "web_search"]
    assert made.tools[-2] is own
    state = await run(made.graph, style, context=who("nobody"))
    assert answers(state)["call_1"].text == "paid 5"
    services.access.provider.close()


async def test_the_model_is_asked_for_by_name(deployment: Deployment, tmp_path: Path) -> None:
    turns = [{"call": {"name": "web_search", "args": {"query": "x"}}}, {"say": "found it"}]
    models = [
        {"name": "big", "use": "scripted", "config": {"turns": [{"say": "big"}]}},
        {"name": "small", "use": "scripted", "config": {"turns": turns}},
    ]
    config = load_app_config({"sandbox": {"use": "local"}, "models": models}, authz=deployment.authz)
    graph = make_lead_agent(config, options=AgentOptions(tools=[web_search], context=who("user")))
    state = await run(graph, "ainvoke", context=who("user"))
    assert [message.text for message in state["messages"] if message.type == "ai"][-1] == "found it"
    with pytest.raises(ConfigError, match="services were made from another configuration"):
        make_lead_agent(config, services=deployment.services)


@pytest.mark.parametrize(
    ("use", "problem"),
    [
        ("nowhere.at.all:thing", "'nowhere.at.all:thing' cannot be loaded: ModuleNotFoundError"),
        ("math:nothing", "'math:nothing' cannot be loaded: AttributeError"),
        ("math:pi", "'math:pi' is no tool but a float"),
    ],
)
def test_a_tool_that_cannot_be_loaded(tmp_path: Path, use: str, problem: str) -> None:
    file = tmp_path / "remit.yaml"
    file.write_text(f"version: 1\nsandbox: {{use: local}}\ntools:\n  - use: {use}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        make_lead_agent(load_app_config(file), options=AgentOptions(model=scripted()))
    assert problem in str(raised.value)
    assert f"{file}:4: tools[0].use:" in str(raised.value)


@pytest.mark.parametrize("what", ["policy folder", "policy file", "decision log"])
def test_a_policy_that_agents_could_write_is_refused(tmp_path: Path, what: str) -> None:
    reach = tmp_path / "state" / "users" / "ada"
    reach.mkdir(parents=True)
    folder = reach if what == "policy folder" else tmp_path
    policies = reach if what == "policy file" else folder
    (policies / "roles.yaml").write_text(ROLES, encoding="utf-8")
    ledger = "users/ada/log.jsonl" if what == "decision log" else "log.jsonl"
    (folder / "authz.yaml").write_text(
        "version: 1\nauthorization:\n  enabled: true\n  default_role: guest\n"
        f"  provider: {{use: casbin, config: {{policies: [{policies / 'roles.yaml'}]}}}}\n"
        f"ledger: {{sink: file, path: {ledger}}}\n",
        encoding="utf-8",
    )
    config = load_app_config({"sandbox": {"use": "local"}}, authz=load_config(folder / "authz.yaml"))
    with pytest.raises(ConfigError, match=f"the {what} .* lies where agents can write"):
        Services.from_config(config)


@pytest.mark.parametrize("style", STYLES)
async def test_whoever_runs_a_shared_agent_must_be_permitted_its_model(
    deployment: Deployment, tmp_path: Path, style: str
) -> None:
    """One agent for everybody, whose model one of them may use: the others' text never reaches it."""
    roles = ROLES.replace("models: {allow: [small]}", "models: {allow: [small, big]}").replace(
        "  searcher:", "    models: {allow: [small]}\n  searcher:"
    )
    deployment.roles.write_text(roles, encoding="utf-8")
    deployment.services.enforcer.provider.reload()  # type: ignore[union-attr]
    models = [
        {"name": "small", "use": "scripted", "config": {"turns": [{"say": "small"}]}},
        {"name": "big", "use": "scripted", "config": {"turns": [{"say": "big"}]}},
    ]
    config = load_app_config({"sandbox": {"use": "local"}, "models": models}, authz=deployment.authz)
    services = Services.from_config(config)
    big = make_lead_agent(services=services, options=AgentOptions(model_name="big", context=who("user")))
    assert (await run(big, style, context=who("user")))["messages"][-1].text == "big"
    with pytest.raises(ModelAuthorizationError, match=r"role 'guest' may use no model .*tried 'big'"):
        await run(big, style, context=who("guest"))
    small = make_lead_agent(services=services)
    assert (await run(small, style, context=who("guest")))["messages"][-1].text == "small"
    with pytest.raises(ModelAuthorizationError, match="malformed_identity"):
        await run(small, style, context={**who("guest"), "user_role": 7})
    services.access.provider.close()
