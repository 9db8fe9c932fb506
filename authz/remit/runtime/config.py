"""The settings of `remit.yaml`: everything about a deployment but its policy, which `authz_file` names.

Typed, frozen, strict: an unknown key is refused with file, line and a suggestion, and all problems come at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, field_validator, model_validator

from remit.authz.config import AuthorizationConfig, load_config
from remit.authz.documents import Document, DocumentError, read_document
from remit.authz.errors import ConfigError, Problem
from remit.authz.settings import Section, plain, problems_of, with_environment
from remit.runtime.paths import TOOL_RESULTS_DIRNAME

T = TypeVar("T")

CONFIG_VARIABLE: Final = "REMIT_CONFIG"
DEFAULT_FILE: Final = "remit.yaml"

Listed = Annotated[tuple[T, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]


class ToolOutputConfig(Section):
    """How much of a tool's result goes into the conversation."""

    enabled: bool = True
    externalize_min_chars: Count = 12_000
    """Longer results are stored in a file, and a synopsis takes their place. 0 stores nothing."""
    preview_head_chars: Count = 2_000
    preview_tail_chars: Count = 1_000
    fallback_max_chars: Count = 30_000
    """Longer results that cannot be stored are cut. 0 cuts nothing."""
    fallback_head_chars: Count = 8_000
    fallback_tail_chars: Count = 3_000
    storage_subdir: str = TOOL_RESULTS_DIRNAME
    """Folder below the thread's outputs: one name, no path."""
    exempt_tools: Listed[str] = ("read_file", "read_file_tool")
    tool_overrides: Mapping[str, Count] = Field(default_factory=dict)
    """Tool name -> its own `externalize_min_chars`."""

    @field_validator("storage_subdir")
    @classmethod
    def _one_name(cls, value: str) -> str:
        if not re.fullmatch(r"\.?[A-Za-z0-9_-][A-Za-z0-9._-]*", value):
            raise ValueError(f"{value!r} must be one folder name of letters, digits, '.', '_' and '-'")
        return value


class CircuitBreakerConfig(Section):
    """When calls to a model that keeps failing are answered without trying."""

    failure_threshold: Positive = 5
    recovery_timeout_sec: Annotated[float, Field(ge=0, le=86_400)] = 60

    @field_validator("recovery_timeout_sec", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return float(value) if type(value) is int else value


class LlmCallConfig(Section):
    """Retries and concurrency of model calls, for the whole process."""

    max_concurrent_calls: Count = 0
    """Calls at the same time; 0 is no limit."""
    retry_max_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    retry_base_delay_ms: Count = 1_000
    retry_cap_delay_ms: Count = 8_000
    burst_retry_base_delay_ms: Count = 5_000
    retry_after_cap_ms: Count = 60_000
    """Longest wait that a provider's Retry-After is granted; a longer one ends the retries."""


class ReadBeforeWriteConfig(Section):
    """Files are changed only in the version that was read."""

    enabled: bool = True
    elide_blocked_payloads: bool = True
    """Whether the content of a refused write is left out of later requests to the model."""
    elide_min_chars: Count = 2_000


class ToolProgressConfig(Section):
    """When a tool that brings nothing new is stopped."""

    enabled: bool = False
    stagnation_threshold: Positive = 3
    warn_escalation_count: Positive = 2
    inject_assessment: bool = True
    jaccard_similarity_threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.8
    min_word_count_for_similarity: Count = 10
    exempt_tools: Listed[str] = ("ask_clarification", "write_todos", "present_files", "task")
    max_tracked_threads: Positive = 100


class VerificationConfig(Section):
    """Evidence of what tools really did."""

    receipts_enabled: bool = True
    receipts_render_mode: Literal["always", "delegation_only"] = "delegation_only"


class UploadsConfig(Section):
    """Files that come with a message."""

    max_files_per_context_section: Positive = 10


class SandboxConfig(Section):
    """Where commands run and files lie."""

    use: Annotated[str, Field(min_length=1)] = "bubblewrap"
    """`bubblewrap`, `local` (no isolation, for development), or a class path."""
    config: Mapping[str, Any] = Field(default_factory=dict)
    """Keyword arguments of a class of your own."""
    lazy_init: bool = True
    """Whether an environment is made at first use instead of at the start of a run."""
    network: bool = False
    """Whether commands in `bubblewrap` reach the network."""
    command_timeout_sec: Annotated[int, Field(ge=1, le=86_400)] = 600
    max_memory_mb: Positive = 2_048
    max_cpu_sec: Positive = 600
    max_processes: Positive = 256
    max_file_mb: Positive = 1_024
    bash_output_max_chars: Positive = 20_000
    read_file_output_max_chars: Positive = 50_000
    ls_output_max_chars: Positive = 20_000
    write_file_max_bytes: Positive = 81_920
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Variables of every command; their values are masked in output."""

    @field_validator("environment")
    @classmethod
    def _names(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name of an environment variable")
        return value


class ModelConfig(Section):
    """A model that agents may be given, under a name that the policy knows."""

    name: Annotated[str, Field(min_length=1)]
    use: Annotated[str, Field(min_length=1)]
    """`provider:model` as LangChain's `init_chat_model` takes it, or `scripted`."""
    config: Mapping[str, Any] = Field(default_factory=dict)
    """Parameters of the model: `temperature`, `base_url`, …; for `scripted` its `turns`."""
    api_key_env: str | None = None
    """Environment variable with the key; keys never stand in this file."""


class ToolConfig(Section):
    """A tool of your own, by class path of the object or of a function that returns one or several."""

    use: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]


class ToolSearchConfig(Section):
    """Whether tools of MCP servers are found by search instead of being listed."""

    enabled: bool = False


class SkillReadConfig(Section):
    """Skills on disk."""

    path: str | None = None
    """Folder with one folder per skill, relative to this file."""
    read_tools: Listed[str] = ("read_file",)
    """Tools whose successful read of a skill's file counts as loading the skill."""


class _File(Section):
    """The shape of `remit.yaml`."""

    version: Literal[1] = 1
    authz_file: str | None = None
    """The policy's `authz.yaml`, relative to this file; without it authorization is disabled."""
    models: Listed[ModelConfig] = ()
    tools: Listed[ToolConfig] = ()
    sandbox: SandboxConfig = SandboxConfig()
    tool_output: ToolOutputConfig = ToolOutputConfig()
    circuit_breaker: CircuitBreakerConfig = CircuitBreakerConfig()
    llm_call: LlmCallConfig = LlmCallConfig()
    read_before_write: ReadBeforeWriteConfig = ReadBeforeWriteConfig()
    tool_progress: ToolProgressConfig = ToolProgressConfig()
    verification: VerificationConfig = VerificationConfig()
    uploads: UploadsConfig = UploadsConfig()
    tool_search: ToolSearchConfig = ToolSearchConfig()
    skills: SkillReadConfig = SkillReadConfig()

    @model_validator(mode="after")
    def _names_differ(self) -> _File:
        names = [model.name for model in self.models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two models are named {twice[0]!r}")
        return self


class AppConfig(_File):
    """A validated `remit.yaml` with the policy settings that it names. Equality and hash go by identity."""

    authz: AuthorizationConfig = Field(default_factory=lambda: load_config({"authorization": {"enabled": False}}))
    """Loaded from `authz_file`."""
    base_dir: Path = Path()
    """Folder that relative paths are relative to."""
    source: str = "<mapping>"

    _document: Document | None = PrivateAttr(default=None)

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def problem(self, path: tuple[str | int, ...], message: str, advice: str = "", *, code: str = "invalid") -> Problem:
        """A `Problem` at the key `path` of the file this configuration came from."""
        document = self._document or Document(None, self.source)
        return document.problem(path, message, advice, code=code)

    def model_named(self, name: str | None) -> ModelConfig | None:
        """The model of that name; the first one for None. None when there is no such model."""
        if name is None:
            return self.models[0] if self.models else None
        return next((model for model in self.models if model.name == name), None)


def app_config_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `remit.yaml`, for editors."""
    schema = _File.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "remit.yaml"}


def load_app_config(
    path_or_mapping: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    authz: AuthorizationConfig | None = None,
) -> AppConfig:
    """Validate a configuration.

    Args:
        path_or_mapping: The file, or a mapping of the same shape; then relative paths start at the working directory.
            None is the file named by ``REMIT_CONFIG``, else ``remit.yaml``.
        authz: Instead of the file that `authz_file` names.

    Raises:
        ConfigError: Every problem at once, with file, line and key.
    """
    if path_or_mapping is None:
        path_or_mapping = os.environ.get(CONFIG_VARIABLE) or DEFAULT_FILE
    if isinstance(path_or_mapping, Mapping):
        document, base = Document(plain(path_or_mapping), "<mapping>"), Path.cwd()
    else:
        path = Path(path_or_mapping)
        try:
            document = read_document(path, file=str(path))
        except DocumentError as exc:
            raise ConfigError(exc.problems) from exc
        base = path.resolve().parent
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        raise ConfigError(document.problem((), "must be a mapping of sections", code="type"))
    sections = {name: info.annotation for name, info in _File.model_fields.items() if name != "version"}
    data, overridden = with_environment(data, sections)
    try:
        parsed = _File.model_validate(data)
    except ValidationError as exc:
        raise ConfigError(problems_of(exc, document, _File, overridden)) from exc
    if authz is None and parsed.authz_file is not None:
        authz = load_config(base / parsed.authz_file)
    loaded: dict[str, Any] = {name: getattr(parsed, name) for name in _File.model_fields}
    if authz is not None:
        loaded["authz"] = authz
    config = AppConfig(**loaded, base_dir=base, source=document.file)
    config._document = document
    return config
