"""What a tool can do, declared in its own metadata: middlewares recognise tools by this and not by their names.

```python
declare(tool, reads_file="path")                      # the argument that names the file
my_tool = StructuredTool(..., metadata={wire.CAPABILITIES: {"executes_command": "script"}})
```

The built-in tools of the requirement text have the capabilities of `BUILT_IN` when they declare none, so that a host's
own ``bash`` is audited like ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from remit.authz import wire
from remit.authz.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of one tool. Those that concern an argument hold its name."""

    reads_file: str | None = None
    """Argument with the path of the file that is read."""
    writes_file: str | None = None
    """Argument with the path of the file that is written or changed."""
    executes_command: str | None = None
    """Argument with the shell command."""
    remote_content: bool = False
    """Whether results hold text that somebody outside wrote: web pages, answers of MCP servers."""
    delegates: bool = False
    """Whether the call hands work to a subagent."""
    uses_sandbox: bool = False
    """Whether the call needs a sandbox."""


_NONE: Final = Capabilities()
_FILE_READER: Final = Capabilities(reads_file="path", uses_sandbox=True)
_FILE_WRITER: Final = Capabilities(writes_file="path", uses_sandbox=True)
_REMOTE: Final = Capabilities(remote_content=True)
_DEFAULT_ARGUMENT: Final = MappingProxyType(
    {"reads_file": "path", "writes_file": "path", "executes_command": "command"}
)

BUILT_IN: Final[Mapping[str, Capabilities]] = MappingProxyType(
    {
        "bash": Capabilities(executes_command="command", uses_sandbox=True),
        "read_file": _FILE_READER,
        "write_file": _FILE_WRITER,
        "str_replace": _FILE_WRITER,
        "ls": Capabilities(uses_sandbox=True),
        "glob": Capabilities(uses_sandbox=True),
        "grep": Capabilities(uses_sandbox=True),
        "web_fetch": _REMOTE,
        "web_search": _REMOTE,
        "image_search": _REMOTE,
        "web_capture": _REMOTE,
        "task": Capabilities(delegates=True),
    }
)
"""Name -> capabilities of a tool that declares none."""


def declare(tool: Any, **capabilities: str | bool) -> Any:
    """Write capabilities into the metadata of `tool`, beside those it has, and hand it back.

    Args:
        tool: A LangChain tool.
        capabilities: Fields of `Capabilities`. True for one that concerns an argument means ``path`` or ``command``.

    Raises:
        ConfigError: A capability that does not exist, or one of the wrong type.
    """
    held = {**(_declared(tool) or {}), **capabilities}
    _parsed(held, getattr(tool, "name", "tool"))
    tool.metadata = {**(tool.metadata or {}), wire.CAPABILITIES: held}
    return tool


def capabilities_of(tool: Any, name: str = "") -> Capabilities:
    """Capabilities of a tool as registered.

    Args:
        tool: The object, or None for a name without one.
        name: As the model wrote it; used when there is no object.

    Raises:
        ConfigError: What is declared is not understood.
    """
    metadata = getattr(tool, "metadata", None)
    if not isinstance(metadata, Mapping):
        metadata = {}
    own_name = getattr(tool, "name", None)
    held = metadata.get(wire.CAPABILITIES)
    found = (
        BUILT_IN.get(own_name if isinstance(own_name, str) else name, _NONE)
        if held is None
        else _parsed(held, str(own_name or name))
    )
    if metadata.get(wire.MCP_TAG) is True and not found.remote_content:
        found = Capabilities(**{**{f.name: getattr(found, f.name) for f in fields(found)}, "remote_content": True})
    return found


def is_mcp(tool: Any) -> bool:
    """Whether `tool` came from an MCP server."""
    metadata = getattr(tool, "metadata", None)
    return isinstance(metadata, Mapping) and metadata.get(wire.MCP_TAG) is True


def _declared(tool: Any) -> dict[str, Any] | None:
    metadata = getattr(tool, "metadata", None)
    held = metadata.get(wire.CAPABILITIES) if isinstance(metadata, Mapping) else None
    return dict(held) if isinstance(held, Mapping) else None


def _parsed(held: Any, name: str) -> Capabilities:
    if not isinstance(held, Mapping):
        raise ConfigError(f"tool {name!r}: {wire.CAPABILITIES} must be a mapping, got {type(held).__name__}")
    out: dict[str, Any] = {}
    for key, value in held.items():
        if key in _DEFAULT_ARGUMENT:
            if value is True:
                value = _DEFAULT_ARGUMENT[key]
            if value is False:
                value = None
            good = value is None or (isinstance(value, str) and bool(value))
        else:
            good = key in _FLAGS and isinstance(value, bool)
        if not good:
            known = ", ".join(field.name for field in fields(Capabilities))
            raise ConfigError(f"tool {name!r}: capability {key!r}: {value!r} is not understood; known: {known}")
        out[key] = value
    return Capabilities(**out)


_FLAGS: Final = frozenset({"remote_content", "delegates", "uses_sandbox"})
