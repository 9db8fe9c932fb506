"""The catalogue: its file, and the comparison of a policy with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.table_provider import Row

from remit.authz.errors import ConfigError
from remit.authz.tooling.catalog import Catalog, load_catalog, names_outside

GOOD = """\
version: 1
tools: [bash, read_file, web_search]
models:
  - small
  - large
skills: []
"""


def load(tmp_path: Path, text: str) -> Catalog:
    path = tmp_path / "catalog.yaml"
    path.write_text(text, encoding="utf-8")
    return load_catalog(path, file="catalog.yaml")


def test_names_are_read_by_resource_type(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).names == {
        "tool": {"bash", "read_file", "web_search"},
        "model": {"small", "large"},
        "skill": set(),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "catalog.yaml: must be a mapping", id="empty"),
        pytest.param("version: 3\n", "catalog.yaml:1: version: unknown version 3", id="version"),
        pytest.param("tool: [a]\n", "catalog.yaml:1: tool: unknown key 'tool'; did you mean 'tools'?", id="key"),
        pytest.param("tools: a\n", "catalog.yaml:1: tools: must be a list of names, got str 'a'", id="text"),
        pytest.param("tools:\n", "catalog.yaml:1: tools: must be a list of names, got nothing", id="null"),
        pytest.param("tools:\n - 7\n", "catalog.yaml:2: tools[0]: must be a name, got int 7", id="number"),
        pytest.param(
            "tools:\n - a\n - ' b'\n", "catalog.yaml:3: tools[1]: the name ' b' has white space", id="unclean"
        ),
        pytest.param("tools: [a, b, a]\n", "catalog.yaml:1: tools[2]: the name 'a' stands here twice", id="twice"),
        pytest.param("tools: [a\n", "catalog.yaml:2: is not valid YAML", id="yaml"),
    ],
)
def test_mistake_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(message)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: no such file"):
        load_catalog(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("resource", "target", "finding"),
    [
        pytest.param("tool", "bash", None, id="known-name"),
        pytest.param("tool", "read_*", None, id="pattern-that-covers-one"),
        pytest.param("tool", "*", None, id="everything"),
        pytest.param("tool", None, None, id="no-target"),
        pytest.param(None, "bsh", None, id="any-resource-type"),
        pytest.param("route", "threads:read", None, id="type-that-is-not-catalogued"),
        pytest.param("tool", "bsh", "did you mean 'bash'?", id="typo"),
        pytest.param("tool", "write_*", "known: bash, read_file, web_search", id="pattern-that-covers-none"),
        pytest.param("skill", "deploy", "correct the name, or add it to the catalogue", id="type-without-names"),
    ],
)
def test_names_outside(tmp_path: Path, resource: str | None, target: str | None, finding: str | None) -> None:
    found = names_outside(load(tmp_path, GOOD), [Row("guest", resource, target, "allow", 7)])
    assert [problem.advice for problem in found] == ([] if finding is None else [finding])
    for problem in found:
        assert (problem.file, problem.line, problem.code, problem.severity) == (
            "table.txt",
            7,
            "not-in-catalog",
            "error",
        )
        assert repr(target) in problem.message


def test_name_that_several_rules_of_a_line_use_is_reported_once(tmp_path: Path) -> None:
    rows = [Row(role, "tool", "bsh", "allow", line) for role, line in (("a", 2), ("b", 2), ("a", 1))]
    found = names_outside(load(tmp_path, GOOD), rows)
    assert [problem.line for problem in found] == [1, 2]
