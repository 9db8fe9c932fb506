"""What the settings files have in common: strict sections, overrides from the environment, problems with a position."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from remit.authz.documents import Document, did_you_mean, near_miss
from remit.authz.errors import ConfigError, Problem

ENV_PREFIX: Final = "REMIT_"

Location = tuple[str, ...]

_NOTHING: Final[Mapping[Location, str]] = MappingProxyType({})
_ADVICE: Final = MappingProxyType(
    {
        "bool_type": "write true or false, without quotes",
        "bool_parsing": "write true or false",
        "int_type": "write a whole number, without quotes",
        "string_type": "write text; put it in quotes when it looks like a number",
        "missing": "add it",
    }
)


class Section(BaseModel):
    """A part of a settings file: frozen, without coercion, and every unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


def plain(value: Any) -> Any:
    """`value` with its mappings as dicts and its sequences as lists, all the way down."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def with_environment(
    data: dict[str, Any], sections: Mapping[str, Any], *, other: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[Location, str]]:
    """`data` with the environment laid over it, and which variable set which path.

    ``REMIT_SECTION__KEY=value`` overrides one key, lists and mappings as JSON. Variables of sections that belong to
    another file are left to the reader of that file, unless they look like a misspelling of one of `sections`.

    Args:
        data: The document, which stays as it is.
        sections: Name -> annotation of every section.
        other: Further variables that exist, for suggestions.

    Raises:
        ConfigError: A variable names no setting, or its value does not fit.
    """
    mine = {name: text for name, text in os.environ.items() if _concerns(name, sections)}
    if not mine:
        return data, {}
    known = _variables(sections)
    out: dict[str, Any] = plain(data)
    overridden: dict[Location, str] = {}
    problems: list[Problem] = []
    for name in sorted(mine):
        if name not in known:
            problems.append(Problem(name, 0, "is no setting", did_you_mean(name, [*known, *other]), "unknown-key"))
            continue
        path, annotation = known[name]
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        try:
            if mine[name][:1] in ("[", "{"):
                value = adapter.dump_python(adapter.validate_json(mine[name]))
            else:
                value = adapter.validate_python(mine[name], strict=False)
        except ValidationError as exc:
            for error in exc.errors(include_url=False, include_input=False):
                problems.append(Problem(name, 0, sentence(error["msg"]), f"it sets {'.'.join(path)}", "environment"))
            continue
        _put(out, path, value)
        overridden[path] = name
    if problems:
        raise ConfigError(problems)
    return out, overridden


def problems_of(
    exc: ValidationError, document: Document, model: type[BaseModel], overridden: Mapping[Location, str] = _NOTHING
) -> list[Problem]:
    """Every problem of a validation, each at the line of its key or with the variable that set it."""
    out = []
    for error in exc.errors(include_url=False, include_input=False):  # the input may hold a secret
        path = tuple(error["loc"])
        if error["type"] == "extra_forbidden":
            name = str(path[-1])
            advice = did_you_mean(name, _fields_at(model, path[:-1]))
            out.append(document.problem(path, f"unknown key {name!r}", advice, code="unknown-key"))
            continue
        problem = document.problem(
            path, sentence(error["msg"]), _ADVICE.get(error["type"], ""), code=error["type"].replace("_", "-")
        )
        variable = overridden.get(tuple(str(part) for part in path))
        out.append(problem if variable is None else Problem(variable, 0, problem.message, "", problem.code))
    return out


def sentence(message: str) -> str:
    """Pydantic's message in our style: lower case, without its prefix."""
    text = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = text.removeprefix("Input should be ")
    if text != message.removeprefix("Value error, "):
        text = f"must be {text}"
    return text[:1].lower() + text[1:]


def _concerns(name: str, sections: Mapping[str, Any]) -> bool:
    section, nested, _ = name.removeprefix(ENV_PREFIX).lower().partition("__")
    if not name.startswith(ENV_PREFIX):
        return False
    return section in sections or (bool(nested) and bool(near_miss(section, sections)))


def _variables(sections: Mapping[str, Any]) -> dict[str, tuple[Location, Any]]:
    """Variable name -> (path, annotation) of every key that the environment may override."""
    out: dict[str, tuple[Location, Any]] = {}

    def walk(annotation: Any, path: Location) -> None:
        if path[1:]:
            out[ENV_PREFIX + "__".join(path).upper()] = (path, annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, info in annotation.model_fields.items():
                walk(info.annotation, (*path, name))

    for section, annotation in sections.items():
        walk(annotation, (section,))
    return out


def _put(data: dict[str, Any], path: Location, value: Any) -> None:
    for part in path[:-1]:
        inner = data.get(part)
        if not isinstance(inner, dict):
            inner = data[part] = {}
        data = inner
    data[path[-1]] = value


def _fields_at(model: Any, path: tuple[str | int, ...]) -> list[str]:
    for part in path:
        if isinstance(part, int):  # an item of a list: its model stands in the list's annotation
            continue
        info = getattr(model, "model_fields", {}).get(part)
        if info is None:
            return []
        model = _model_in(info.annotation)
    return list(getattr(model, "model_fields", {}))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part))), None)
