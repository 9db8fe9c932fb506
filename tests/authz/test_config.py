"""`authz.yaml`: strict, all problems at once, each with file, line, key and advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from remit.authz import AuthorizationConfig, ConfigError, load_config
from remit.authz.config import config_schema

GOOD = """\
version: 1
authorization:
  enabled: true
  fail_closed: true
  default_role: guest
  deadline_ms: 1500
  provider:
    use: casbin
    config: {policies: [policy.csv]}
  vocabulary: {resources: [report]}
guardrails: {enabled: false}
ledger: {sink: file, mask: [password]}
"""


@pytest.fixture(autouse=True)
def no_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("REMIT_"):
            monkeypatch.delenv(name)


def load(tmp_path: Path, text: str) -> AuthorizationConfig:
    (tmp_path / "authz.yaml").write_text(text)
    return load_config(tmp_path / "authz.yaml")


def test_a_good_file(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert (config.enabled, config.fail_closed, config.default_role, config.deadline_ms) == (True, True, "guest", 1500)
    assert config.provider is not None
    assert config.provider.use == "casbin"
    assert config.provider.config == {"policies": ["policy.csv"]}
    assert config.vocabulary.resources == ("report",)
    assert config.ledger.mask == ("password",)
    assert config.base_dir == tmp_path
    with pytest.raises(ValueError, match="frozen"):
        config.enabled = False  # type: ignore[misc]


def test_defaults_are_off_and_closed() -> None:
    config = load_config({"authorization": {}})
    assert (config.enabled, config.fail_closed, config.ledger.sink) == (False, True, "none")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "enabled: true",
            'enabled: "false"',
            ":3: authorization.enabled: must be a valid boolean; write true or false",
        ),
        ("enabled: true", "enabled: no", ":3: authorization.enabled: must be a valid boolean"),
        ("enabled: true", "enabled: 1", ":3: authorization.enabled: must be a valid boolean"),
        (
            "fail_closed: true",
            "fail_close: false",
            ":4: authorization.fail_close: unknown key 'fail_close'; did you mean 'fail_closed'?",
        ),
        ("default_role: guest", "default_role: 7", ":5: authorization.default_role: must be a valid string"),
        (
            "default_role: guest",
            'default_role: " guest"',
            ":5: authorization.default_role: the role ' guest' has white space",
        ),
        ("deadline_ms: 1500", "deadline_ms: 0", ":6: authorization.deadline_ms: must be greater than or equal to 1"),
        ("use: casbin", "uses: casbin", ":8: authorization.provider.uses: unknown key 'uses'; did you mean 'use'?"),
        ("[report]", "[tool]", ":10: authorization.vocabulary.resources: the resource type 'tool' is known already"),
        ("[report]", "[rep ort\u200b]", ":10: authorization.vocabulary.resources: the resource type"),
        ("sink: file", "sink: kafka", ":12: ledger.sink: must be 'file' or 'none'"),
        ("mask: [password]", "mask: password", ":12: ledger.mask: must be a valid tuple"),
        (
            "guardrails: {enabled: false}",
            "guardrails: {enabled: true}",
            ":11: guardrails: guardrails are enabled but name no provider",
        ),
        ("version: 1", "version: 2", ":1: version: must be 1"),
        ("guardrails:", "guardrail:", ":11: guardrail: unknown key 'guardrail'; did you mean 'guardrails'?"),
    ],
)
def test_every_mistake_has_a_place_and_advice(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(tmp_path / "authz.yaml") + message in str(caught.value)


def test_all_mistakes_come_at_once_in_order(tmp_path: Path) -> None:
    text = GOOD.replace("deadline_ms: 1500", "deadline_ms: -1").replace("enabled: true", "enabld: true")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert [p.line for p in caught.value.problems] == [3, 6]


def test_enabled_without_a_provider(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"authz.yaml:1: authorization: authorization is enabled but names no provider"
    ):
        load(tmp_path, "authorization: {enabled: true}\n")


@pytest.mark.parametrize("text", ["", "[]\n", "just text\n"], ids=["empty", "list", "text"])
def test_no_mapping(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        load(tmp_path, text)


def test_secrets_are_not_quoted_back(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "authorization: {deadline_ms: hunter2-secret}\n")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "attribute", "want"),
    [
        ("REMIT_AUTHORIZATION__FAIL_CLOSED", "false", "fail_closed", False),
        ("REMIT_AUTHORIZATION__ENABLED", "false", "enabled", False),
        ("REMIT_AUTHORIZATION__DEFAULT_ROLE", "user", "default_role", "user"),
        ("REMIT_AUTHORIZATION__DEADLINE_MS", "70", "deadline_ms", 70),
    ],
)
def test_the_environment_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, attribute: str, want: Any
) -> None:
    monkeypatch.setenv(name, value)
    assert getattr(load(tmp_path, GOOD), attribute) == want


def test_the_environment_overrides_lists_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_LEDGER__MASK", '["token", "pin"]')
    assert load(tmp_path, GOOD).ledger.mask == ("token", "pin")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("REMIT_AUTHORIZATION__ENABLD", "true", "is no setting; did you mean 'REMIT_AUTHORIZATION__ENABLED'?"),
        ("REMIT_AUTHORIZATION__ENABLED", "perhaps", "must be a valid boolean"),
        ("REMIT_AUTHORIZATION__DEADLINE_MS", "soon", "must be a valid integer"),
        ("REMIT_AUTHORIZATION__DEADLINE_MS", "0", "must be greater than or equal to 1"),
        ("REMIT_LEDGER__MASK", "[broken", "invalid JSON"),
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


def test_the_schema_accepts_what_we_accept_and_refuses_what_we_refuse() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())
    validator = jsonschema.Draft202012Validator(config_schema())
    assert validator.is_valid({"authorization": {"enabled": True, "provider": {"use": "casbin"}}})
    assert not validator.is_valid({"authorization": {"enabld": True}})
    assert not validator.is_valid({"authorization": {"enabled": "true"}})
