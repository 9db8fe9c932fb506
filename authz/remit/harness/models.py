"""The one place where models are made: every one of them, whatever it is for, is asked about first."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from typing import Any, Final, cast

from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import ValidationError

from remit.authz.documents import did_you_mean
from remit.authz.errors import ConfigError, Problem
from remit.authz.gates.models import aauthorize_model_name, authorize_model_name
from remit.authz.provider import AuthorizationProvider
from remit.runtime.config import AppConfig, ModelConfig

log = logging.getLogger("remit.harness")

SCRIPTED: Final = "scripted"
AGENTS: Final = frozenset({"lead", "bootstrap", "embedded", "subagent"})
"""Purposes of models that speak for an agent. Their names come with a request, and their calls are tried again by the
chain."""
_RETRYING: Final = frozenset({"openai", "azure_openai", "anthropic", "deepseek", "xai", "together", "groq"})
"""Providers whose clients try again on their own, unless ``max_retries`` is 0."""
_RESERVED: Final = frozenset({"model", "model_provider", "configurable_fields", "config_prefix"})
"""Parameters that would let somebody else choose the model."""
_SECRET: Final = re.compile(r"(?:^|_)(?:api_?key|access_key|secret|token|password)$")
_NO_SECRET: Final = frozenset({"", "empty", "none", "dummy", "unused", "not-needed"})
"""Values in place of a key for servers that want one and look at none."""
MAX_MESSAGE: Final = 300


def build_model(
    config: AppConfig,
    name: str | None,
    *,
    context: Any,
    purpose: str,
    provider: AuthorizationProvider | None = None,
) -> BaseChatModel:
    """The model that a caller gets: the wanted one when the policy permits it, else the first one that it permits.

    Args:
        config: The settings.
        name: Of a model in the settings; None is the first one. A name that an agent's request asks for and that does
            not exist counts as None, with a warning.
        context: Server-owned run context of the caller; None for an agent that is built for every caller, who then gets
            what the default role may use.
        purpose: What it is for: ``lead``, ``subagent``, ``title``, … Every purpose is asked about alike.
        provider: The instance that the build uses already; the one that serves the configuration when None.

    Raises:
        ConfigError: There is no such model, or it cannot be made; with file and line.
        ModelAuthorizationError: The caller may use no model.
    """
    return build_chosen(
        config, choose_model(config, name, context=context, purpose=purpose, provider=provider), purpose
    )


def choose_model(
    config: AppConfig,
    name: str | None,
    *,
    context: Any,
    purpose: str,
    provider: AuthorizationProvider | None = None,
) -> str:
    """The name of the model that `build_model` would make. Whoever calls the model later may have to ask again.

    Raises:
        ConfigError: There is no such model.
        ModelAuthorizationError: The caller may use no model.
    """
    wanted = _wanted(config, name, purpose)
    return authorize_model_name(wanted, context=context, config=config.authz, models=_names(config), provider=provider)


async def abuild_model(
    config: AppConfig,
    name: str | None,
    *,
    context: Any,
    purpose: str,
    provider: AuthorizationProvider | None = None,
) -> BaseChatModel:
    """`build_model` for the event loop: importing a client and reading certificates happen in a thread.

    Raises:
        ConfigError: As there.
        ModelAuthorizationError: As there.
    """
    wanted = _wanted(config, name, purpose)
    chosen = await aauthorize_model_name(
        wanted, context=context, config=config.authz, models=_names(config), provider=provider
    )
    return await asyncio.to_thread(build_chosen, config, chosen, purpose)


def _names(config: AppConfig) -> list[str]:
    return [model.name for model in config.models]


def _wanted(config: AppConfig, name: str | None, purpose: str) -> str:
    default = config.model_named(None)
    if default is None:
        raise ConfigError(
            config.problem(
                ("models",), "there is no model", "add one: `models: [{name: …, use: provider:model}]`", code="no-model"
            )
        )
    if name is None or name == "":
        return default.name
    if config.model_named(name) is not None:
        return name
    advice = did_you_mean(name, _names(config))
    if purpose not in AGENTS:
        raise ConfigError(
            config.problem(("models",), f"there is no model {name!r} for {purpose}", advice, code="no-model")
        )
    log.warning("there is no model %r: using %r (%s)", name[:200], default.name, advice)
    return default.name


def build_chosen(config: AppConfig, name: str, purpose: str) -> BaseChatModel:
    """The model of that name, which the caller has been asked about.

    Raises:
        ConfigError: It cannot be made; with file and line.
    """
    index = next(index for index, model in enumerate(config.models) if model.name == name)
    factory = _Factory(config, index, config.models[index])
    return factory.scripted() if factory.model.use == SCRIPTED else factory.of_a_provider(purpose)


class _Factory:
    """Makes one model, and tells what is wrong with its settings."""

    def __init__(self, config: AppConfig, index: int, model: ModelConfig) -> None:
        self.config, self.index, self.model = config, index, model

    def problem(self, path: tuple[str | int, ...], message: str, advice: str = "") -> Problem:
        return self.config.problem(("models", self.index, *path), message, advice, code="model")

    def scripted(self) -> BaseChatModel:
        from remit.harness.scripted import ScriptedChatModel

        self._refuse_foreign(frozenset({"turns"}))
        try:
            return ScriptedChatModel(model_name=self.model.name, **self._parameters())
        except ValidationError as exc:
            raise ConfigError(self._of_pydantic(exc)) from None

    def of_a_provider(self, purpose: str) -> BaseChatModel:
        provider, colon, name = self.model.use.partition(":")
        if not colon or not provider or not name:
            advice = "write it like 'openai:gpt-5', or 'scripted'"
            raise ConfigError(self.problem(("use",), f"{self.model.use!r} is no 'provider:model'", advice))
        self._refuse_parameters()
        parameters = self._parameters()
        key = self._key()
        if key is not None:
            parameters["api_key"] = key
        if purpose in AGENTS and provider in _RETRYING:
            parameters.setdefault("max_retries", 0)  # two who try again would multiply
        from langchain.chat_models import init_chat_model

        try:
            return cast("BaseChatModel", init_chat_model(name, model_provider=provider, **parameters))
        except ImportError as exc:
            raise ConfigError(self._missing(provider, exc)) from exc
        except ValidationError as exc:  # its text holds the parameters, the key among them
            raise ConfigError(self._of_pydantic(exc)) from None
        except Exception as exc:
            raise ConfigError(self._failed(provider, exc, key)) from None

    def _parameters(self) -> dict[str, Any]:
        return dict(self.model.config)

    def _refuse_foreign(self, known: frozenset[str]) -> None:
        foreign = [
            self.problem(("config", key), f"{key!r} is no parameter of a scripted model", did_you_mean(key, known))
            for key in self.model.config
            if key not in known
        ]
        if foreign:
            raise ConfigError(foreign)

    def _refuse_parameters(self) -> None:
        found: list[Problem] = []
        for key, value in self.model.config.items():
            if key in _RESERVED:
                found.append(
                    self.problem(("config", key), f"{key!r} may not be set here", "write `use: provider:model`")
                )
            elif _SECRET.search(key.casefold()) and str(value).casefold() not in _NO_SECRET:
                found.append(
                    self.problem(
                        ("config", key),
                        f"the value of {key!r} is a secret, and secrets do not stand in this file",
                        "put it into an environment variable and name that one in `api_key_env`",
                    )
                )
        if found:
            raise ConfigError(found)

    def _key(self) -> str | None:
        variable = self.model.api_key_env
        if variable is None:
            return None
        key = os.environ.get(variable, "").strip()
        if not key:
            raise ConfigError(
                self.problem(
                    ("api_key_env",),
                    f"the environment variable {variable!r} is not set, and model {self.model.name!r} needs it",
                    f"set {variable} to the key of the provider",
                )
            )
        return key

    def _missing(self, provider: str, exc: ImportError) -> Problem:
        named = re.search(r"pip install (?:-U )?([A-Za-z0-9_.-]+)", str(exc))
        package = named.group(1).strip("`.'") if named else f"langchain-{provider.replace('_', '-')}"
        return self.problem(
            ("use",), f"the package of the provider {provider!r} is not installed", f"run `pip install {package}`"
        )

    def _failed(self, provider: str, exc: Exception, key: str | None) -> Problem:
        text = str(exc)
        if isinstance(exc, ValueError) and (listed := re.search(r"providers are: ([\w, ]+)", text)):
            return self.problem(
                ("use",),
                f"{provider!r} is no provider that LangChain knows",
                did_you_mean(provider, listed.group(1).split(", ")),
            )
        if key is not None:
            text = text.replace(key, "***")
        first = text.strip().partition("\n")[0][:MAX_MESSAGE]
        advice = "" if key is not None else "when it is about a key, name its environment variable in `api_key_env`"
        return self.problem((), f"model {self.model.name!r} cannot be made: {type(exc).__name__}: {first}", advice)

    def _of_pydantic(self, exc: ValidationError) -> list[Problem]:
        return [
            self.problem(("config", *error["loc"]), error["msg"][:1].lower() + error["msg"][1:])
            for error in exc.errors(include_url=False, include_context=False, include_input=False)
        ]
