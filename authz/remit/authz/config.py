"""The settings of `authz.yaml`: typed, frozen, strict. Every error names file, line and key, and all come at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, field_validator

from remit.authz.documents import Document, DocumentError, read_document
from remit.authz.errors import ConfigError, Problem
from remit.authz.settings import Section, plain, problems_of, with_environment
from remit.authz.vocabulary import RESOURCES, flaw

__all__ = [
    "AuthorizationConfig",
    "GuardrailsConfig",
    "LedgerConfig",
    "OncePerConfig",
    "ProviderConfig",
    "VocabularyConfig",
    "config_schema",
    "load_config",
    "state_dir",
]

T = TypeVar("T")

OTHER_VARIABLES: Final = frozenset({"REMIT_AUTHZ_FILE", "REMIT_CONFIG", "REMIT_STATE_DIR", "REMIT_POLICY_URL"})


class ProviderConfig(Section):
    """Which class answers, and what its constructor gets."""

    use: Annotated[str, Field(min_length=1)]
    """Entry-point name (`casbin`) or class path (`package.module:Class`)."""
    config: Mapping[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the class. Nested `{use, config}` values are built first."""


class VocabularyConfig(Section):
    """What this deployment adds to the vocabulary."""

    resources: tuple[str, ...] = ()
    """Extra resource types, beside those that remit knows."""

    @field_validator("resources", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("resources")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if (reason := flaw(name)) is not None:
                raise ValueError(f"the resource type {name!r} {reason}")
            if name in RESOURCES:
                raise ValueError(f"the resource type {name!r} is known already; leave it out")
        return value


class GuardrailsConfig(Section):
    """An explicit guardrail, asked after the policy for every tool call."""

    enabled: bool = False
    fail_closed: bool = True
    """Whether a failing guardrail denies."""
    passport: str | None = None
    """Sent to the guardrail as `agent_id`."""
    provider: ProviderConfig | None = None


class LedgerConfig(Section):
    """Where decisions are recorded."""

    sink: Literal["file", "none"] = "file"
    path: Annotated[str, Field(min_length=1)] = "decisions.jsonl"
    """Relative to `REMIT_STATE_DIR`, never to the policy folder."""
    sample_allow: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """Share of allowed decisions that are recorded. Denials always are."""
    mask: tuple[str, ...] = ()
    """Names of arguments and attributes whose values are never recorded."""
    required: bool = False
    """Whether a decision that cannot be recorded is a denial."""

    @field_validator("mask", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class _Authorization(Section):
    enabled: bool = False
    """Off means absent: no provider is imported and nothing is filtered or denied."""
    fail_closed: bool = True
    """Whether a failing provider denies. False is an explicit choice and is logged."""
    default_role: str | None = None
    """Role of a caller who has none. Checked against the policy at start."""
    deadline_ms: Annotated[int, Field(ge=1, le=600_000)] = 2000
    """Milliseconds that a blocking or remote provider may take for one answer."""
    provider: ProviderConfig | None = None
    vocabulary: VocabularyConfig = VocabularyConfig()

    @field_validator("default_role")
    @classmethod
    def _role(cls, value: str | None) -> str | None:
        if value is not None and (reason := flaw(value)) is not None:
            raise ValueError(f"the role {value!r} {reason}")
        return value


class _File(Section):
    """The shape of `authz.yaml`."""

    version: Literal[1] = 1
    authorization: _Authorization = _Authorization()
    guardrails: GuardrailsConfig = GuardrailsConfig()
    ledger: LedgerConfig = LedgerConfig(sink="none")


class AuthorizationConfig(_Authorization):
    """A validated `authz.yaml`: the keys of `authorization:` plus its sibling sections.

    Equality and hash go by identity: one configuration object stands for one loaded file.
    """

    guardrails: GuardrailsConfig = GuardrailsConfig()
    ledger: LedgerConfig = LedgerConfig(sink="none")
    base_dir: Path = Path()
    """Folder that relative paths are relative to."""
    source: str = "<mapping>"
    """The file, as it was named to `load_config`."""

    _document: Document | None = PrivateAttr(default=None)

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def problem(self, path: Iterable[str | int], message: str, advice: str = "", *, code: str = "invalid") -> Problem:
        """A `Problem` at the key `path` of the file this configuration came from."""
        document = self._document or Document(None, self.source)
        return document.problem(path, message, advice, code=code)


class OncePerConfig(Generic[T]):
    """What is made once for a configuration object and goes with it. A failure to make it is not remembered."""

    def __init__(self, make: Callable[[AuthorizationConfig], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[AuthorizationConfig, T] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def __call__(self, config: AuthorizationConfig) -> T:
        found = self._made.get(config)
        if found is None:
            with self._lock:
                found = self._made.get(config)
                if found is None:
                    found = self._made[config] = self._make(config)
        return found


def config_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `authz.yaml`, for editors."""
    schema = _File.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "authz.yaml"}


def state_dir() -> Path:
    """Where remit keeps what it writes: `REMIT_STATE_DIR`, else `.remit` below the working directory."""
    return Path(os.environ.get("REMIT_STATE_DIR") or ".remit")


def load_config(path_or_mapping: str | os.PathLike[str] | Mapping[str, Any]) -> AuthorizationConfig:
    """Validate a configuration.

    Environment variables override single keys: ``REMIT_AUTHORIZATION__FAIL_CLOSED=false``, double underscores between
    the levels, lists and mappings as JSON.

    Args:
        path_or_mapping: The file, or a mapping of the same shape; then relative paths start at the working directory.

    Raises:
        ConfigError: Every problem at once, with file, line and key.
    """
    if isinstance(path_or_mapping, Mapping):
        document, base = Document(plain(path_or_mapping), "<mapping>"), Path.cwd()
    else:
        path = Path(path_or_mapping)
        try:
            document = read_document(path, file=str(path))
        except DocumentError as exc:
            raise ConfigError(exc.problems) from exc
        base = path.resolve().parent
    if document.data is None:
        raise ConfigError(
            document.problem((), "is empty", "state at least `authorization: {enabled: false}`", code="empty")
        )
    if not isinstance(document.data, dict):
        raise ConfigError(document.problem((), "must be a mapping with the section `authorization`", code="type"))
    data, overridden = with_environment(document.data, _SECTIONS, other=OTHER_VARIABLES)
    try:
        parsed = _File.model_validate(data)
    except ValidationError as exc:
        raise ConfigError(problems_of(exc, document, _File, overridden)) from exc
    section = parsed.authorization
    if section.enabled and section.provider is None:
        raise ConfigError(
            document.problem(
                ("authorization",),
                "authorization is enabled but names no provider",
                "add `provider: {use: casbin, config: {...}}`",
                code="missing",
            )
        )
    if parsed.guardrails.enabled and parsed.guardrails.provider is None:
        raise ConfigError(
            document.problem(
                ("guardrails",),
                "guardrails are enabled but name no provider",
                "add `provider: {use: allowlist, config: {...}}`",
                code="missing",
            )
        )
    config = AuthorizationConfig(
        **{name: getattr(section, name) for name in _Authorization.model_fields},
        guardrails=parsed.guardrails,
        ledger=parsed.ledger,
        base_dir=base,
        source=document.file,
    )
    config._document = document
    return config


_SECTIONS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {"authorization": _Authorization, "guardrails": GuardrailsConfig, "ledger": LedgerConfig}
)
