"""What tools can do, by their own declaration."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from remit.authz import wire
from remit.authz.errors import ConfigError
from remit.runtime.capabilities import BUILT_IN, Capabilities, capabilities_of, declare, is_mcp


def made(name: str = "mine", **metadata: Any) -> BaseTool:
    tool = StructuredTool.from_function(lambda text="": text, name=name, description="A tool.")
    tool.metadata = metadata or None
    return tool


FILES = Capabilities(reads_file="path", uses_sandbox=True)
CASES: list[tuple[str, Any, str, Capabilities]] = [
    ("declares nothing", made(), "", Capabilities()),
    ("built-in by its name", made("read_file"), "", FILES),
    ("the name of the object counts", made("read_file"), "bash", FILES),
    ("no object: what the model wrote", None, "bash", Capabilities(executes_command="command", uses_sandbox=True)),
    ("no object, unknown", None, "mine", Capabilities()),
    ("a declaration replaces the default", made("bash", remit_capabilities={}), "", Capabilities()),
    (
        "an argument of another name",
        made(remit_capabilities={"executes_command": "script"}),
        "",
        Capabilities(executes_command="script"),
    ),
    (
        "true is the usual argument",
        made(remit_capabilities={"reads_file": True, "writes_file": True, "executes_command": True}),
        "",
        Capabilities(reads_file="path", writes_file="path", executes_command="command"),
    ),
    ("false is none", made(remit_capabilities={"writes_file": False}), "", Capabilities()),
    ("flags", made(remit_capabilities={"delegates": True}), "", Capabilities(delegates=True)),
    ("a server's tool is remote", made(deerflow_mcp=True), "", Capabilities(remote_content=True)),
    (
        "whatever it declares",
        made(deerflow_mcp=True, remit_capabilities={"remote_content": False, "reads_file": True}),
        "",
        Capabilities(reads_file="path", remote_content=True),
    ),
    ("a tag that is no tag", made(deerflow_mcp="yes"), "", Capabilities()),
    ("a provider's own tool", {"type": "web_search"}, "web_search", Capabilities(remote_content=True)),
]


@pytest.mark.parametrize(("tool", "name", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_capabilities(tool: Any, name: str, wanted: Capabilities) -> None:
    assert capabilities_of(tool, name) == wanted


def test_built_in_names() -> None:
    found = {name: sorted(field for field in FIELDS if getattr(held, field)) for name, held in BUILT_IN.items()}
    assert found == {
        "bash": ["executes_command", "uses_sandbox"],
        "read_file": ["reads_file", "uses_sandbox"],
        "write_file": ["uses_sandbox", "writes_file"],
        "str_replace": ["uses_sandbox", "writes_file"],
        "ls": ["uses_sandbox"],
        "glob": ["uses_sandbox"],
        "grep": ["uses_sandbox"],
        "web_fetch": ["remote_content"],
        "web_search": ["remote_content"],
        "image_search": ["remote_content"],
        "web_capture": ["remote_content"],
        "task": ["delegates"],
    }


FIELDS = ("reads_file", "writes_file", "executes_command", "remote_content", "delegates", "uses_sandbox")
BAD = [
    {"reads_files": "path"},
    {"reads_file": ""},
    {"reads_file": 1},
    {"remote_content": "yes"},
    {"delegates": 1},
    {"uses_sandbox": None},
    ["reads_file"],
    "reads_file",
]


@pytest.mark.parametrize("held", BAD, ids=repr)
def test_a_declaration_that_is_not_understood(held: Any) -> None:
    """Never taken for `no capabilities`: an unaudited command would be the price of a spelling mistake."""
    with pytest.raises(ConfigError, match="'mine'"):
        capabilities_of(made(**{wire.CAPABILITIES: held}))


def test_declaring_adds() -> None:
    tool = made(tag="kept")
    assert declare(tool, reads_file="file") is tool
    declare(tool, executes_command=True)
    assert tool.metadata == {"tag": "kept", wire.CAPABILITIES: {"reads_file": "file", "executes_command": True}}
    assert capabilities_of(tool) == Capabilities(reads_file="file", executes_command="command")
    with pytest.raises(ConfigError, match="known: reads_file"):
        declare(tool, run="x")
    assert capabilities_of(tool) == Capabilities(reads_file="file", executes_command="command"), "nothing half done"


def test_is_mcp() -> None:
    assert is_mcp(made(deerflow_mcp=True))
    assert not any(is_mcp(other) for other in (made(), made(deerflow_mcp=1), None, {"metadata": {wire.MCP_TAG: True}}))
