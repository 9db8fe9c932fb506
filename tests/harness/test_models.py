"""Every model that is made is asked about first; what cannot be made says where and why."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_openai import ChatOpenAI
from tests.support.blocking import no_blocking_calls
from tests.support.ledger import listening

from remit.authz.errors import ConfigError, ModelAuthorizationError
from remit.authz.registry import shared_provider
from remit.harness.models import abuild_model, build_model
from remit.harness.scripted import ScriptedChatModel
from remit.runtime.config import AppConfig, load_app_config

ROLES = """\
version: 1
roles:
  guest: {models: {allow: [small]}}
  user: {models: {allow: [big, small]}}
  nobody: {tools: {allow: [search]}}
"""
AUTHZ = """\
authorization:
  enabled: true
  fail_closed: %s
  default_role: %s
  provider: {use: casbin, config: {policies: [roles.yaml]}}
"""
REMIT = """\
authz_file: authz.yaml
models:
  - name: big
    use: scripted
    config: {turns: [{say: big}]}
  - name: small
    use: scripted
    config: {turns: [{say: small}]}
"""
GUEST, USER, NOBODY = ({"user_id": "u", "user_role": role} for role in ("guest", "user", "nobody"))
Build = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["sync", "async"])
def build(request: pytest.FixtureRequest) -> Build:
    async def make(config: AppConfig, name: str | None = None, **options: Any) -> Any:
        options = {"context": USER, "purpose": "lead", **options}
        if request.param == "sync":
            return build_model(config, name, **options)
        return await abuild_model(config, name, **options)

    return make


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., AppConfig]:
    """A deployment with two models and a Casbin policy."""

    def make(text: str = REMIT, *, closed: bool = True, default_role: str = "null", roles: str = ROLES) -> AppConfig:
        (tmp_path / "roles.yaml").write_text(roles)
        (tmp_path / "authz.yaml").write_text(AUTHZ % (str(closed).lower(), default_role))
        (tmp_path / "remit.yaml").write_text(text)
        return load_app_config(tmp_path / "remit.yaml")

    return make


class TestThePolicyDecides:
    @pytest.mark.parametrize("purpose", ["lead", "subagent", "title", "summarization", "memory"])
    async def test_a_denied_model_is_replaced_whatever_it_is_for(self, purpose: str, build: Build, world: Any) -> None:
        with listening("remit.authz") as said:
            model = await build(world(), "big", context=GUEST, purpose=purpose)
        assert model.invoke("hello").text == "small"
        assert said.saying("model 'big' is denied to role 'guest': using 'small'")

    async def test_an_allowed_model(self, build: Build, world: Any) -> None:
        assert (await build(world(), "small")).model_name == "small"
        assert (await build(world())).model_name == "big"

    async def test_listed_is_not_usable(self, build: Build, world: Any, tmp_path: Path) -> None:
        """What may be listed is asked about once more before it is used."""
        config = world(roles="version: 1\nroles:\n  guest: {}\n")
        (tmp_path / "policy.csv").write_text(
            "p, guest, model, big, list, allow\np, guest, model, small, list, allow\np, guest, model, small, use, allow\n"
        )
        (tmp_path / "authz.yaml").write_text((AUTHZ % ("true", "null")).replace("[roles.yaml]", "[policy.csv]"))
        config = load_app_config(tmp_path / "remit.yaml")
        assert (await build(config, "big", context=GUEST)).model_name == "small"

    async def test_none_is_allowed(self, build: Build, world: Any) -> None:
        with pytest.raises(ModelAuthorizationError, match="role 'nobody' may use no model"):
            await build(world(), "big", context=NOBODY)

    async def test_none_is_allowed_and_the_operator_chose_fail_open(self, build: Build, world: Any) -> None:
        with listening("remit.authz") as said:
            assert (await build(world(closed=False), "big", context=NOBODY)).model_name == "big"
        assert said.saying("KEPT (fail_closed: false)")

    @pytest.mark.parametrize("context", [None, {}], ids=["none", "empty"])
    async def test_an_agent_for_every_caller_gets_what_the_default_role_may_use(
        self, context: Any, build: Build, world: Any
    ) -> None:
        assert (await build(world(default_role="guest"), "big", context=context)).model_name == "small"
        with pytest.raises(ModelAuthorizationError):
            await build(world(), "big", context=context)

    async def test_the_given_instance_decides(self, build: Build, world: Any) -> None:
        config = world()
        asked: list[Any] = []

        class Watching:
            name, blocking = "watching", False

            def __init__(self) -> None:
                self.inner = shared_provider(config.authz)

            def authorize(self, request: Any) -> Any:
                asked.append((request.resource, request.action, request.target))
                return self.inner.authorize(request)

            async def aauthorize(self, request: Any) -> Any:
                return self.authorize(request)

            def filter_resources(self, *args: Any) -> Any:
                return self.inner.filter_resources(*args)

        await build(config, "big", context=GUEST, provider=Watching())
        assert asked == [("model", "use", "big"), ("model", "use", "small")]

    async def test_disabled_authorization_asks_nobody(self, build: Build) -> None:
        config = load_app_config({"models": [{"name": "m", "use": "scripted"}]})
        assert isinstance(await build(config, context={"user_role": ["malformed"]}), ScriptedChatModel)


class TestNames:
    @pytest.mark.parametrize("purpose", ["lead", "bootstrap", "embedded", "subagent"])
    async def test_an_unknown_name_in_a_request_is_the_first_model(
        self, purpose: str, build: Build, world: Any
    ) -> None:
        with listening("remit.harness") as said:
            assert (await build(world(), "bog", purpose=purpose)).model_name == "big"
        assert said.saying("there is no model 'bog': using 'big' (did you mean 'big'?)")

    async def test_the_first_model_is_asked_about_too(self, build: Build, world: Any) -> None:
        assert (await build(world(), "no such model", context=GUEST)).model_name == "small"

    async def test_an_unknown_name_in_the_settings_is_an_error(self, build: Build, world: Any, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as refused:
            await build(world(), "smal", purpose="title")
        assert str(refused.value) == (
            f"{tmp_path}/remit.yaml:2: models: there is no model 'smal' for title; did you mean 'small'?"
        )

    async def test_no_model_at_all(self, build: Build) -> None:
        with pytest.raises(ConfigError, match=r"models: there is no model; add one"):
            await build(load_app_config({}))


def provider_model(**fields: Any) -> AppConfig:
    return load_app_config({"models": [{"name": "m", "use": "openai:gpt-x", **fields}]})


class TestProviders:
    async def test_parameters_and_key(self, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_KEY", " k-1 ")
        config = provider_model(api_key_env="MY_KEY", config={"temperature": 0.5, "base_url": "http://127.0.0.1:1/v1"})
        model = await build(config)
        assert isinstance(model, ChatOpenAI)
        assert (model.model_name, model.temperature, model.openai_api_base) == ("gpt-x", 0.5, "http://127.0.0.1:1/v1")
        assert model.openai_api_key.get_secret_value() == "k-1"

    @pytest.mark.parametrize(
        ("purpose", "config", "retries"),
        [("lead", {}, 0), ("subagent", {}, 0), ("title", {}, None), ("lead", {"max_retries": 4}, 4)],
    )
    async def test_only_one_of_chain_and_client_tries_again(
        self, purpose: str, config: Any, retries: int | None, build: Build, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_KEY", "k")
        model = await build(provider_model(api_key_env="MY_KEY", config=config), purpose=purpose)
        assert model.max_retries == retries

    @pytest.mark.parametrize("value", [None, "", "  "], ids=["unset", "empty", "blank"])
    async def test_a_missing_key(
        self, value: str | None, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MY_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("MY_KEY", value)
        (tmp_path / "remit.yaml").write_text("models:\n  - name: m\n    use: openai:x\n    api_key_env: MY_KEY\n")
        with pytest.raises(ConfigError) as refused:
            await build(load_app_config(tmp_path / "remit.yaml"))
        assert str(refused.value) == (
            f"{tmp_path}/remit.yaml:4: models[0].api_key_env: the environment variable 'MY_KEY' is not set, and model 'm' "
            "needs it; set MY_KEY to the key of the provider"
        )

    async def test_a_key_that_was_never_named(self, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(ConfigError, match=r"models\[0\]: model 'm' cannot be made: .*api_key_env"):
            await build(provider_model())

    async def test_a_provider_whose_package_is_missing(self, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
        config = load_app_config({"models": [{"name": "m", "use": "mistralai:x"}]})
        with pytest.raises(ConfigError, match=r"'mistralai' is not installed; run `pip install langchain-mistralai`"):
            await build(config)

    async def test_an_unknown_provider(self, build: Build) -> None:
        config = load_app_config({"models": [{"name": "m", "use": "opanai:x"}]})
        with pytest.raises(ConfigError, match=r"'opanai' is no provider that LangChain knows; did you mean 'openai'\?"):
            await build(config)

    @pytest.mark.parametrize("use", ["gpt-5", "openai:", ":x", "scripted:x"])
    async def test_what_is_no_model_string(self, use: str, build: Build) -> None:
        with pytest.raises(ConfigError, match=r"models\[0\]\.use: "):
            await build(load_app_config({"models": [{"name": "m", "use": use}]}))

    @pytest.mark.parametrize("key", ["model", "model_provider", "configurable_fields", "config_prefix"])
    async def test_parameters_that_would_let_a_request_choose_the_model(self, key: str, build: Build) -> None:
        with pytest.raises(ConfigError, match=rf"models\[0\]\.config\.{key}: '{key}' may not be set here"):
            await build(provider_model(config={key: "any"}))

    @pytest.mark.parametrize("key", ["api_key", "openai_api_key", "aws_secret_access_key", "auth_token", "password"])
    async def test_secrets_in_the_file(self, key: str, build: Build) -> None:
        with pytest.raises(ConfigError, match=r"is a secret, and secrets do not stand in this file") as refused:
            await build(provider_model(config={key: "sk-very-secret"}))
        assert "very" not in str(refused.value)

    @pytest.mark.parametrize("value", ["EMPTY", "none", "not-needed"])
    async def test_a_word_in_place_of_a_key(self, value: str, build: Build) -> None:
        assert (await build(provider_model(config={"api_key": value}))).openai_api_key.get_secret_value() == value

    async def test_wrong_parameters_name_their_key_and_hide_the_others(
        self, build: Build, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_KEY", "sk-very-secret")
        config = provider_model(api_key_env="MY_KEY", config={"temperature": "warm"})
        with pytest.raises(
            ConfigError, match=r"models\[0\]\.config\.temperature: input should be a valid number"
        ) as refused:
            await build(config)
        assert "very" not in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__

    async def test_a_wrong_script(self, build: Build, tmp_path: Path) -> None:
        (tmp_path / "remit.yaml").write_text(
            "models:\n  - name: m\n    use: scripted\n    config:\n      turns:\n        - say: hi\n        - sai: x\n"
        )
        with pytest.raises(ConfigError, match=r"remit\.yaml:7: models\[0\]\.config\.turns\[1\]\.sai: extra inputs"):
            await build(load_app_config(tmp_path / "remit.yaml"))

    async def test_a_foreign_parameter_of_a_script(self, build: Build) -> None:
        config = load_app_config({"models": [{"name": "m", "use": "scripted", "config": {"turn": []}}]})
        with pytest.raises(ConfigError, match=r"config\.turn: 'turn' is no parameter .* did you mean 'turns'\?"):
            await build(config)


async def test_the_event_loop_is_not_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k")
    made_on: list[int] = []

    def init(*args: Any, **kwargs: Any) -> Any:
        made_on.append(threading.get_ident())
        return init_chat_model(*args, **kwargs)

    monkeypatch.setattr("langchain.chat_models.init_chat_model", init)
    config = provider_model(api_key_env="MY_KEY")
    with no_blocking_calls():
        await abuild_model(config, None, context=USER, purpose="lead")
    assert made_on != [threading.get_ident()]


def test_no_client_is_imported_before_it_is_needed() -> None:
    code = "import sys, remit.harness.models; assert 'langchain_openai' not in sys.modules; assert 'openai' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
