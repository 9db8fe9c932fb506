"""Reserved names are written once, in `remit.authz.wire`, and declared in the registry. A scan of the source says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from remit.authz import wire
from remit.runtime.reserved import REGISTRY, SERVER_PREFIXES, Kind

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("authz", "middlewares", "providers")
HOME = "authz/remit/authz/wire.py"

RESERVED = re.compile(r"(?:deerflow_|remit_|__)[A-Za-z][A-Za-z0-9_]*")
DUNDER = re.compile(r"__\w+__")
FOREIGN = re.compile(r"__pregel_\w+")
"""LangGraph's own keys of `configurable`; nobody but it writes them, and clients' copies are dropped by the prefix."""

NO_KEYS = {
    "remit_probe": "name of a tool that is made to look at LangChain and thrown away",
    "remit_fused": "attribute of a class",
    "remit_masked": "attribute of a class",
    "remit_power": "attribute of a class",
    "remit_view": "slot of a class",
    "remit_seal": "field of the payload of an interrupt, which a signature covers",
    "__arg": "beginning of the name of an argument that has none",
    "__arg1": "name of an argument that has none",
    "__data": "slot of a class",
    "__open": "slot of a class",
}
"""Literals that look like reserved keys and are none, each with what it is."""

NOT_IN_THE_REGISTRY = {
    wire.MCP_TAG: "a tool's own metadata, which clients do not send",
    wire.MCP_SOURCE: "a tool's own metadata, which clients do not send",
    wire.CAPABILITIES: "a tool's own metadata, which clients do not send",
    wire.DECISION_READS: "metadata of a decision",
    wire.CTX_ARGS: "context of a request to a provider",
    wire.CTX_TOOL_CALL_ID: "context of a request to a provider",
    wire.CTX_AGENT_ID: "context of a request to a provider",
}


parsed = cache(ast.parse)


def reserved_literals(source: str) -> Iterator[tuple[int, str]]:
    """Lines and values of the string literals in `source` that look like a reserved key."""
    tree = parsed(source)
    named = {id(node.args[0]) for node in ast.walk(tree) if _makes_context_variable(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in named:
            value = node.value
            if RESERVED.fullmatch(value) and not DUNDER.fullmatch(value) and not FOREIGN.fullmatch(value):
                yield node.lineno, value


def _makes_context_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "ContextVar" and bool(node.args)


def keys_read(source: str) -> Iterator[tuple[int, str]]:
    """Lines and values of the literals by which `source` reads or writes a mapping: ``x["key"]``, ``x.get("key")``."""
    for node in ast.walk(parsed(source)):
        found: ast.AST | None = None
        if isinstance(node, ast.Subscript):
            found = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            found = node.args[0] if node.func.attr in {"get", "pop", "setdefault"} else None
        if isinstance(found, ast.Constant) and isinstance(found.value, str):
            yield node.lineno, found.value


@cache
def sources() -> tuple[tuple[str, str], ...]:
    paths = [path for root in SOURCE_ROOTS for path in sorted((ROOT / root).rglob("*.py"))]
    named = [(path.relative_to(ROOT).as_posix(), path) for path in paths]
    return tuple((name, path.read_text("utf-8")) for name, path in named if name != HOME)


def wire_keys() -> dict[str, str]:
    return {name: value for name, value in vars(wire).items() if name.isupper() and isinstance(value, str)}


def test_no_reserved_literal_outside_its_home() -> None:
    found = [
        f"{name}:{line}: {value!r}"
        for name, text in sources()
        for line, value in reserved_literals(text)
        if value not in NO_KEYS
    ]
    assert found == [], "write it in remit/authz/wire.py and declare it in remit/runtime/reserved.py"


def test_no_metadata_or_context_key_is_spelled_out() -> None:
    """A key of ours that a second place spells out is one that a change of `wire` would miss."""
    keys = {key for kind, key in REGISTRY if kind in (Kind.METADATA, Kind.CONTEXT) and "_" in key}
    keys -= {"user_id", "run_id", "thread_id", "agent_name", "error_type", "error_reason", "sandbox_id"}
    found = [f"{name}:{line}: {key!r}" for name, text in sources() for line, key in keys_read(text) if key in keys]
    assert found == []


def test_every_key_is_declared() -> None:
    declared = {key for _, key in REGISTRY}
    missing = {name: value for name, value in wire_keys().items() if value not in declared | NOT_IN_THE_REGISTRY.keys()}
    assert missing == {}, "declare it in remit/runtime/reserved.py"


def test_every_exception_is_still_one() -> None:
    literals = {value for _, text in sources() for _, value in reserved_literals(text)}
    assert NO_KEYS.keys() <= literals
    assert NOT_IN_THE_REGISTRY.keys() <= set(wire_keys().values())
    assert NOT_IN_THE_REGISTRY.keys().isdisjoint(key for _, key in REGISTRY)


def test_keys_are_written_once() -> None:
    """Two names for one key are two things that a reader takes for different ones."""
    by_value: dict[str, list[str]] = {}
    for name, value in wire_keys().items():
        by_value.setdefault(value, []).append(name)
    assert {value: names for value, names in by_value.items() if len(names) > 1} == {
        "timestamp": ["MESSAGE_TIMESTAMP", "CTX_TIMESTAMP"],
    }


PLANTED = [
    'message.additional_kwargs["deerflow_planted"] = 1',
    'context = {"__planted": principal}',
    'return {"remit_planted": state}',
    'if key == "deerflow_tool_meta": pass',
    'KEY: Final = "__run_journal"',
    'f(kind, "remit_planted_2")',
    'x = ContextVar("remit_var", default="remit_planted")',
]
INNOCENT = [
    '"""Docstring: deerflow_planted is a key."""',
    'raise ValueError("the key remit_planted is unknown")',
    'getattr(tool, "__wrapped__", None)',
    'configurable.get("__pregel_resuming")',
    'x = ContextVar("remit_var", default=None)',
    "from remit_planted import x",
    'x = "remit"',
    'x = "__"',
]


@pytest.mark.parametrize("line", PLANTED)
def test_the_scan_finds(line: str) -> None:
    assert [value for _, value in reserved_literals(line)]


@pytest.mark.parametrize("line", INNOCENT)
def test_the_scan_leaves_alone(line: str) -> None:
    assert list(reserved_literals(line)) == []


@pytest.mark.parametrize("line", ['x["hide_from_ui"]', 'x.get("hide_from_ui")', 'x.pop("hide_from_ui", None)'])
def test_the_scan_of_keys_finds(line: str) -> None:
    assert [key for _, key in keys_read(line)] == ["hide_from_ui"]


def test_the_scan_reads_the_whole_source() -> None:
    names = [name for name, _ in sources()]
    assert "authz/remit/runtime/reserved.py" in names
    assert "middlewares/remit/middlewares/guardrail.py" in names
    assert len(names) > 100


def test_prefixes_of_the_scan_are_those_of_the_sanitiser() -> None:
    assert all(RESERVED.fullmatch(f"{prefix}x") for prefix in SERVER_PREFIXES)
