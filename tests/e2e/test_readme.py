"""What `README.md` shows is pasted and run, as printed."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from tests.support.readme import README, block, blocks

from remit.authz import AuthzRequest, Principal, load_config, resolve_authorization_provider
from remit.cli import main
from remit.cli._scripted_model import Script, ScriptedModel


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with the starter policy where the README puts it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    assert main(["init", "policies"]) == 0
    return tmp_path


def test_five_lines_around_an_agent(workspace: Path) -> None:
    ran: list[str] = []

    @tool
    def web_search(query: str) -> str:
        """Search the web."""
        ran.append("web_search")
        return "found"

    @tool
    def wipe_disk() -> str:
        """No policy of ours knows this one."""
        ran.append("wipe_disk")
        return "gone"

    calls = [
        {"name": "web_search", "args": {"query": "x"}, "id": "1"},
        {"name": "wipe_disk", "args": {}, "id": "2"},
    ]
    script = Script([lambda: AIMessage("", tool_calls=calls), lambda: AIMessage("done")])
    names: dict[str, Any] = {
        "create_agent": create_agent,
        "model": ScriptedModel(script=script),
        "tools": [web_search, wipe_disk],
        "context": {"user_id": "alice", "user_role": "guest"},
    }
    exec(block("python", "guard(enforcer)]"), names)  # noqa: S102 - the README's own text
    exec(block("python", "mail the report").replace('"user_role": "user"', '"user_role": "guest"'), names)  # noqa: S102
    assert ran == ["web_search"]
    assert script.shown == [("web_search",), ("web_search",)]


def test_a_lead_agent(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from remit.harness.sandbox.local import LocalSandbox

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the shell audit let a command through")

    monkeypatch.setattr(LocalSandbox, "execute_command", never)
    (workspace / "remit.yaml").write_text(block("yaml", "authz_file:"), encoding="utf-8")
    exec(block("python", "make_lead_agent"), {})  # noqa: S102 - the README's own text
    said = capsys.readouterr().out
    assert "tool Command blocked" in said
    assert said.splitlines()[-1] == "ai I wrote a note. The command was refused."
    (note,) = workspace.rglob("notes.md")
    assert note.read_text(encoding="utf-8") == "first note\n"


@pytest.fixture
def my_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The README's provider, installed as a reader would: a package, and the entry point of its distribution."""
    package = tmp_path / "site" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "table.py").write_text(block("python", "class ToolTable"), encoding="utf-8")
    metadata = tmp_path / "site" / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    section, line = block("toml", "remit.providers").splitlines()
    group = section.removeprefix('[project.entry-points."').removesuffix('"]')
    name, value = line.split(" = ")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {value.strip(chr(34))}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    importlib.invalidate_caches()
    yield tmp_path / "site"
    for module in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[module]


@pytest.mark.parametrize("use", ["my_package.table:ToolTable", "tool-table"], ids=["class-path", "entry-point"])
def test_provider_in_one_file(my_package: Path, tmp_path: Path, use: str) -> None:
    text = block("yaml", "my_package.table:ToolTable").replace("my_package.table:ToolTable", use)
    (tmp_path / "authz.yaml").write_text(text, encoding="utf-8")
    provider = resolve_authorization_provider(load_config(tmp_path / "authz.yaml"))
    assert provider is not None

    def allowed(role: str, tool_name: str) -> bool:
        return provider.authorize(AuthzRequest(Principal(role=role), "tool", "call", tool_name)).allow

    assert allowed("user", "send_email") is True
    assert allowed("guest", "send_email") is False
    assert provider.filter_resources(Principal(role="guest"), "tool", ["send_email", "web_search"]) == ["web_search"]


@pytest.mark.slow
def test_conformance_kit_on_that_provider(my_package: Path, tmp_path: Path) -> None:
    (tmp_path / "test_table.py").write_text(block("python", "ProviderContract"), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_table.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(my_package)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout
    assert int(ended.stdout.splitlines()[-1].split()[0]) > 150


EXIT_CODES = {"check": 3, "explain": 3}  # the README asks about a guest and bash


def commands() -> list[str]:
    text = next(text for text in blocks("") if "remit lint" in text)
    return [line.partition("#")[0].strip() for line in text.splitlines()]


@pytest.mark.parametrize("command", commands())
def test_commands_on_the_starter_policy(command: str, workspace: Path) -> None:
    program, *arguments = shlex.split(command)
    assert program == "remit"
    assert main(arguments) == EXIT_CODES.get(arguments[0], 0)


def test_rule_with_a_condition_is_one_the_loader_takes(workspace: Path) -> None:
    (row,) = [cell for cell in README.read_text("utf-8").split("`") if cell.startswith("p, role:")]
    policy = workspace / "policies" / "policy.csv"
    policy.write_text(f"{policy.read_text('utf-8')}\n{row}\n", encoding="utf-8")
    base = ("check", "--policy", "policies", "--role", "guest", "tool:call:pay")
    assert main([*base, "--arg", "amount=100"]) == 0
    assert main([*base, "--arg", "amount=101"]) == 3
