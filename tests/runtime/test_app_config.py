"""`remit.yaml`: strict, every problem at once, each with file, line, key and advice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from remit.authz import ConfigError, load_config
from remit.runtime.config import AppConfig, app_config_schema, load_app_config

GOOD = """\
version: 1
models:
  - name: small
    use: openai:gpt-small
    api_key_env: OPENAI_API_KEY
  - {name: offline, use: scripted}
sandbox: {use: local, network: false, environment: {TOKEN: abc}}
tool_output:
  externalize_min_chars: 500
  storage_subdir: .results
  tool_overrides: {bash: 100}
  exempt_tools: [read_file]
circuit_breaker: {recovery_timeout_sec: 5}
uploads: {max_files_per_context_section: 3}
"""


@pytest.fixture(autouse=True)
def _no_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("REMIT_"):
            monkeypatch.delenv(name)


def load(tmp_path: Path, text: str) -> AppConfig:
    (tmp_path / "remit.yaml").write_text(text, encoding="utf-8")
    return load_app_config(tmp_path / "remit.yaml")


def test_a_good_file(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert [model.name for model in config.models] == ["small", "offline"]
    assert config.sandbox.environment == {"TOKEN": "abc"}
    assert (config.tool_output.externalize_min_chars, config.tool_output.storage_subdir) == (500, ".results")
    assert config.tool_output.tool_overrides == {"bash": 100}
    assert config.tool_output.exempt_tools == ("read_file",)
    assert config.circuit_breaker.recovery_timeout_sec == 5.0
    assert config.uploads.max_files_per_context_section == 3
    assert config.base_dir == tmp_path
    assert config.source == str(tmp_path / "remit.yaml")
    with pytest.raises(ValueError, match="frozen"):
        config.version = 2  # type: ignore[assignment,misc]
    with pytest.raises(ValueError, match="frozen"):
        config.sandbox.network = True  # type: ignore[misc]


def test_defaults() -> None:
    config = load_app_config({})
    assert config.model_dump(mode="json", exclude={"authz", "base_dir", "source", "models", "tools"}) == {
        "version": 1,
        "authz_file": None,
        "sandbox": {
            "use": "bubblewrap",
            "config": {},
            "lazy_init": True,
            "network": False,
            "command_timeout_sec": 600,
            "max_memory_mb": 2048,
            "max_cpu_sec": 600,
            "max_processes": 256,
            "max_file_mb": 1024,
            "bash_output_max_chars": 20_000,
            "read_file_output_max_chars": 50_000,
            "ls_output_max_chars": 20_000,
            "write_file_max_bytes": 81_920,
            "environment": {},
        },
        "tool_output": {
            "enabled": True,
            "externalize_min_chars": 12_000,
            "preview_head_chars": 2_000,
            "preview_tail_chars": 1_000,
            "fallback_max_chars": 30_000,
            "fallback_head_chars": 8_000,
            "fallback_tail_chars": 3_000,
            "storage_subdir": ".tool-results",
            "exempt_tools": ["read_file", "read_file_tool"],
            "tool_overrides": {},
        },
        "circuit_breaker": {"failure_threshold": 5, "recovery_timeout_sec": 60.0},
        "llm_call": {
            "max_concurrent_calls": 0,
            "retry_max_attempts": 3,
            "retry_base_delay_ms": 1_000,
            "retry_cap_delay_ms": 8_000,
            "burst_retry_base_delay_ms": 5_000,
            "retry_after_cap_ms": 60_000,
        },
        "read_before_write": {"enabled": True, "elide_blocked_payloads": True, "elide_min_chars": 2_000},
        "tool_progress": {
            "enabled": False,
            "stagnation_threshold": 3,
            "warn_escalation_count": 2,
            "inject_assessment": True,
            "jaccard_similarity_threshold": 0.8,
            "min_word_count_for_similarity": 10,
            "exempt_tools": ["ask_clarification", "write_todos", "present_files", "task"],
            "max_tracked_threads": 100,
        },
        "verification": {"receipts_enabled": True, "receipts_render_mode": "delegation_only"},
        "uploads": {"max_files_per_context_section": 10},
        "tool_search": {"enabled": False},
        "skills": {"path": None, "read_tools": ["read_file"]},
    }
    assert config.authz.enabled is False


def test_the_file_and_its_name_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.yaml").write_text("uploads: {max_files_per_context_section: 7}\n")
    (tmp_path / "remit.yaml").write_text("uploads: {max_files_per_context_section: 8}\n")
    monkeypatch.chdir(tmp_path)
    assert load_app_config().uploads.max_files_per_context_section == 8
    monkeypatch.setenv("REMIT_CONFIG", str(tmp_path / "other.yaml"))
    assert load_app_config().uploads.max_files_per_context_section == 7


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_app_config(tmp_path / "remit.yaml")
    assert str(tmp_path / "remit.yaml") in str(caught.value)


MISTAKES = [
    ("version: 1", "version: 2", ":1: version: must be 1"),
    ("models:", "model:", ":2: model: unknown key 'model'; did you mean 'models'?"),
    ("use: openai:gpt-small", "uses: x", ":4: models[0].uses: unknown key 'uses'; did you mean 'use'?"),
    ("name: offline", "name: small", ": two models are named 'small'"),
    ("use: local", "use: ''", ":7: sandbox.use: "),
    ("network: false", "network: 'no'", ":7: sandbox.network: must be a valid boolean"),
    ("TOKEN: abc", "'TO KEN': abc", ":7: sandbox.environment: 'TO KEN' is no name of an environment variable"),
    (
        "externalize_min_chars: 500",
        "externalize_min_char: 500",
        ":9: tool_output.externalize_min_char: unknown key 'externalize_min_char'; did you mean 'externalize_min_chars'?",
    ),
    ("externalize_min_chars: 500", "externalize_min_chars: -1", ":9: tool_output.externalize_min_chars: "),
    ("externalize_min_chars: 500", "externalize_min_chars: '500'", ":9: tool_output.externalize_min_chars: must be"),
    ("storage_subdir: .results", "storage_subdir: ../x", ":10: tool_output.storage_subdir: '../x' must be one folder"),
    ("storage_subdir: .results", "storage_subdir: ..", ":10: tool_output.storage_subdir: '..' must be one folder"),
    ("storage_subdir: .results", "storage_subdir: a/b", ":10: tool_output.storage_subdir: 'a/b' must be one folder"),
    ("bash: 100", "bash: many", ":11: tool_output.tool_overrides.bash: must be a valid integer"),
    ("[read_file]", "read_file", ":12: tool_output.exempt_tools: must be a valid tuple"),
    ("recovery_timeout_sec: 5", "recovery_timeout_sec: soon", ":13: circuit_breaker.recovery_timeout_sec: "),
    (
        "max_files_per_context_section: 3",
        "max_files_per_context_section: 0",
        ":14: uploads.max_files_per_context_section: must be greater than or equal to 1",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=[f"{m[1]}" for m in MISTAKES])
def test_every_mistake_has_a_place_and_advice(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(tmp_path / "remit.yaml") in str(caught.value)
    assert message in str(caught.value)


def test_all_mistakes_come_at_once_in_order(tmp_path: Path) -> None:
    text = GOOD.replace("version: 1", "version: 3").replace("network: false", "netwrk: false")
    text = text.replace("max_files_per_context_section: 3", "max_files_per_context_section: none")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert [problem.line for problem in caught.value.problems] == [1, 7, 14]


@pytest.mark.parametrize(
    "text", ["[]\n", "just text\n", "a: 1\na: 2\n", "a: [\n"], ids=["list", "text", "twice", "broken"]
)
def test_no_proper_mapping(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"remit\.yaml"):
        load(tmp_path, text)


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "").sandbox == load_app_config({}).sandbox


def test_secrets_are_not_quoted_back(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            tmp_path,
            "uploads: {max_files_per_context_section: hunter2}\nmodels: [{name: m, use: x, api_key: hunter2}]\n",
        )
    assert "hunter2" not in str(caught.value)
    assert "unknown key 'api_key'" in str(caught.value)


OVERRIDES: list[tuple[str, str, Any]] = [
    ("REMIT_SANDBOX__USE", "bubblewrap", lambda c: c.sandbox.use == "bubblewrap"),
    ("REMIT_SANDBOX__NETWORK", "true", lambda c: c.sandbox.network is True),
    ("REMIT_SANDBOX__ENVIRONMENT", '{"A": "b"}', lambda c: c.sandbox.environment == {"A": "b"}),
    ("REMIT_TOOL_OUTPUT__EXEMPT_TOOLS", '["a", "b"]', lambda c: c.tool_output.exempt_tools == ("a", "b")),
    ("REMIT_TOOL_OUTPUT__ENABLED", "false", lambda c: c.tool_output.enabled is False),
    ("REMIT_LLM_CALL__RETRY_MAX_ATTEMPTS", "1", lambda c: c.llm_call.retry_max_attempts == 1),
    ("REMIT_CIRCUIT_BREAKER__RECOVERY_TIMEOUT_SEC", "2", lambda c: c.circuit_breaker.recovery_timeout_sec == 2.0),
    ("REMIT_SKILLS__PATH", "skills", lambda c: c.skills.path == "skills"),
]


@pytest.mark.parametrize(("name", "value", "holds"), OVERRIDES, ids=[o[0] for o in OVERRIDES])
def test_the_environment_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, holds: Any
) -> None:
    assert not holds(load(tmp_path, GOOD))
    monkeypatch.setenv(name, value)
    assert holds(load(tmp_path, GOOD))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("REMIT_SANDBOX__NETWRK", "true", "is no setting; did you mean 'REMIT_SANDBOX__NETWORK'?"),
        ("REMIT_SANDBX__NETWORK", "true", "is no setting; did you mean 'REMIT_SANDBOX__NETWORK'?"),
        ("REMIT_SANDBOX__NETWORK", "perhaps", "must be a valid boolean"),
        ("REMIT_UPLOADS__MAX_FILES_PER_CONTEXT_SECTION", "0", "must be greater than or equal to 1"),
        ("REMIT_TOOL_OUTPUT__EXEMPT_TOOLS", "[broken", "invalid JSON"),
        ("REMIT_TOOL_OUTPUT__STORAGE_SUBDIR", "../x", "must be one folder name"),
    ],
)
def test_a_bad_variable_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD)
    assert str(caught.value).startswith(name)
    assert message in str(caught.value)


AUTHZ = """\
authorization:
  enabled: true
  default_role: user
  provider: {use: casbin, config: {policies: [roles.yaml]}}
"""


def test_the_policy_lies_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "settings"
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "authz.yaml").write_text(AUTHZ)
    monkeypatch.chdir(tmp_path)
    config = load(folder, "authz_file: policies/authz.yaml\n")
    assert (config.authz.enabled, config.authz.default_role) == (True, "user")
    assert config.authz.base_dir == folder / "policies"


def test_a_policy_that_is_not_there_is_no_policy_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"authz\.yaml"):
        load(tmp_path, "authz_file: authz.yaml\n")


def test_a_broken_policy_is_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "authz.yaml").write_text(AUTHZ.replace("enabled: true", "enabled: maybe"))
    with pytest.raises(ConfigError, match=r"authz\.yaml:2: authorization\.enabled"):
        load(tmp_path, "authz_file: authz.yaml\n")


def test_policy_settings_in_the_wrong_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'authorization'"):
        load(tmp_path, AUTHZ)


def test_policy_settings_from_the_host() -> None:
    authz = load_config({"authorization": {"enabled": False, "default_role": "guest"}})
    assert load_app_config({"authz_file": "nowhere.yaml"}, authz=authz).authz is authz


def test_models_by_name(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert [config.model_named(name) and config.model_named(name).name for name in (None, "offline", "no")] == [  # type: ignore[union-attr]
        "small",
        "offline",
        None,
    ]
    assert load_app_config({}).model_named(None) is None


def test_a_problem_of_a_later_moment_has_its_line(tmp_path: Path) -> None:
    problem = load(tmp_path, GOOD).problem(("sandbox", "use"), "cannot run here", "choose another")
    assert str(ConfigError(problem)) == f"{tmp_path / 'remit.yaml'}:7: sandbox.use: cannot run here; choose another"


def test_two_configurations_are_never_the_same() -> None:
    """They are keys of caches: equal content with another policy object must not share anything."""
    one, other = load_app_config({}), load_app_config({})
    assert one != other
    assert len({one, other}) == 2


def test_the_schema_accepts_what_we_accept_and_refuses_what_we_refuse() -> None:
    jsonschema.Draft202012Validator.check_schema(app_config_schema())
    validator = jsonschema.Draft202012Validator(app_config_schema())
    assert validator.is_valid({"sandbox": {"use": "local"}, "models": [{"name": "m", "use": "scripted"}]})
    assert not validator.is_valid({"sandbx": {}})
    assert not validator.is_valid({"sandbox": {"network": "yes"}})
