"""`remit chain`: the table that builds the chain, as an operator reads it."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from tests.support.cli import Cli

from remit.middlewares.chain import SLOTS


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "authz.yaml").write_text(
        "version: 1\nauthorization:\n  enabled: true\n  default_role: guest\n"
        "  provider: {use: casbin, config: {policies: [roles.yaml]}}\n",
        encoding="utf-8",
    )
    file = tmp_path / "remit.yaml"
    file.write_text("authz_file: authz.yaml\ntool_progress: {enabled: true}\n", encoding="utf-8")
    return file


def numbers(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines() if line[:4].strip()]


def test_the_chain_of_the_defaults(cli: Cli) -> None:
    ran = cli("chain")
    assert ran.code == 0
    assert numbers(ran.out) == ["1", "2", "3", "4", "5", "6", "7", "8", "13a", "10", "11", "13b"]


def test_the_chain_of_these_settings(cli: Cli, settings: Path) -> None:
    ran = cli("chain", settings)
    assert numbers(ran.out) == ["1", "2", "3", "4", "5", "6", "7", "8", "13a", "9a", "10", "11", "12", "13b"]
    assert "  9a  AuthorizationMiddleware" in ran.out
    assert "(authorization.enabled)" in ran.out


def test_a_subagent_has_no_uploads(cli: Cli, settings: Path) -> None:
    assert "UploadsMiddleware" not in cli("chain", settings, "--scope", "subagent").out


def test_what_is_absent_and_why(cli: Cli) -> None:
    ran = cli("chain", "--all", "--why")
    assert numbers(ran.out) == [slot.number for slot in SLOTS]
    assert "(absent: guardrails.enabled)" in ran.out
    assert "      before guardrail: the policy denies before anything external is asked" in ran.out


def test_json(cli: Cli, settings: Path) -> None:
    found = cli("chain", settings, "--format", "json").json
    assert [row["slot"] for row in found["slots"]][:2] == ["input_sanitization", "tool_output_budget"]
    assert {"outer": "authorization", "inner": "sandbox_audit"} in [
        {key: edge[key] for key in ("outer", "inner")} for edge in found["order"]
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "tool_outputs: {}\n", "1: tool_outputs: unknown key 'tool_outputs'; did you mean 'tool_output'?", id="key"
        ),
        pytest.param("\nsandbox: {lazy_init: maybe}\n", "2: sandbox.lazy_init: must be a valid boolean", id="value"),
        pytest.param("- a\n", "must be a mapping of sections", id="list"),
        pytest.param("sandbox: [\n", "is not valid YAML", id="syntax"),
    ],
)
def test_broken_settings(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "remit.yaml"
    file.write_text(text, encoding="utf-8")
    ran = cli("chain", file)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_no_settings_where_some_are_named(cli: Cli, tmp_path: Path) -> None:
    ran = cli("chain", tmp_path / "nope.yaml")
    assert ran.code == 2
    assert "nope.yaml" in ran.err


def test_the_schema_of_the_settings(cli: Cli) -> None:
    schema = cli("schema", "remit").json
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"version": 1, "tool_output": {"enabled": False}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tool_outputs": {}}, schema)
