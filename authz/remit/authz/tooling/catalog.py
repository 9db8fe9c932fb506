"""The catalogue: the names that a deployment really has, so that a policy that names anything else can be reported.

```yaml
version: 1
tools: [bash, read_file, web_search]
models: [small, large]
```

A resource type that the catalogue does not mention is not checked; an empty list says that there is none of that type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from remit.authz.documents import Document, DocumentError, did_you_mean, read_document
from remit.authz.errors import ConfigError, Problem
from remit.authz.tooling.capabilities import ListedRule
from remit.authz.vocabulary import EVERYTHING, flaw

CATALOG_FILE: Final = "catalog.yaml"

SECTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools": "tool",
        "models": "model",
        "skills": "skill",
        "mcp_servers": "mcp_server",
        "routes": "route",
        "subagents": "subagent",
        "memory": "memory",
        "commands": "command",
    }
)
"""Key of the file -> resource type."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What exists, per resource type."""

    file: str
    names: Mapping[str, frozenset[str]]


def load_catalog(path: Path, *, file: str | None = None) -> Catalog:
    """Read a catalogue.

    Args:
        path: Where it is.
        file: How messages name it; the path itself when None.

    Raises:
        ConfigError: Every problem at once, with file, line and key.
    """
    try:
        document = read_document(path, file=file)
    except DocumentError as exc:
        raise ConfigError(exc.problems) from exc
    if not isinstance(document.data, dict):
        raise ConfigError(document.problem((), "must be a mapping", f"list names under {', '.join(SECTIONS)}"))
    problems: list[Problem] = []
    names: dict[str, frozenset[str]] = {}
    for key, value in document.data.items():
        if key == "version":
            if value != 1 or value is True:
                problems.append(document.problem((key,), f"unknown version {value!r}", "this release reads version 1"))
        elif key not in SECTIONS:
            advice = did_you_mean(key, [*SECTIONS, "version"])
            problems.append(document.problem((key,), f"unknown key {key!r}", advice, code="unknown-key"))
        else:
            names[SECTIONS[key]] = frozenset(_names(document, key, value, problems))
    if problems:
        raise ConfigError(problems)
    return Catalog(document.file, MappingProxyType(names))


def _names(document: Document, key: str, value: Any, problems: list[Problem]) -> Iterable[str]:
    if not isinstance(value, list):
        problems.append(document.problem((key,), f"must be a list of names, got {_kind(value)}", "write [a, b]"))
        return
    for index, name in enumerate(value):
        at = (key, index)
        if not isinstance(name, str):
            problems.append(document.problem(at, f"must be a name, got {_kind(name)}", "write it in quotes"))
        elif (reason := flaw(name)) is not None:
            problems.append(document.problem(at, f"the name {name!r} {reason}", "correct it"))
        elif name in value[:index]:
            problems.append(document.problem(at, f"the name {name!r} stands here twice", "keep one of them"))
        else:
            yield name


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"


def names_outside(catalog: Catalog, rules: Iterable[ListedRule]) -> list[Problem]:
    """Rules whose name is not in the catalogue, or whose pattern covers nothing of it. Sorted, as errors.

    A rule that is about everything, or about a resource type that the catalogue leaves out, is fine.
    """
    problems: set[Problem] = set()
    for rule in rules:
        if rule.resource is None or rule.target is None or rule.target == EVERYTHING:
            continue
        known = catalog.names.get(rule.resource)
        if known is None or rule.target in known or any(map(rule.matches, known)):
            continue
        file, _, line = rule.policy_id.rpartition(":")
        advice = did_you_mean(rule.target, known) if len(known) <= 12 else _nearest(rule.target, known)
        problems.add(
            Problem(
                file or rule.policy_id,
                int(line) if line.isdigit() else 0,
                f"no {rule.resource} of the catalogue {catalog.file} is called or covered by {rule.target!r}",
                advice or "correct the name, or add it to the catalogue",
                "not-in-catalog",
            )
        )
    return sorted(problems)


def _nearest(name: str, known: Iterable[str]) -> str:
    advice = did_you_mean(name, known)
    return advice if advice.startswith("did you mean") else ""
