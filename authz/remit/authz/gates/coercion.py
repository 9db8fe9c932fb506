"""A short cut through LangChain's coercion of tool arguments, for the plainest and commonest kind of tool.

Every call coerces its arguments once, before it is decided; the way through the tool's own code costs several times
what the validation itself does. The short cut is taken for tools with an ordinary pydantic schema and nothing injected,
after both ways were seen to give the same for the tool's first call.
"""

from __future__ import annotations

from typing import Any, Final

Coerced = tuple[tuple[Any, ...], dict[str, Any]]

_SYNTHETIC: Final = frozenset({"args", "kwargs"})
"""Fields that pydantic makes up for ``*args`` and ``**kwargs``: they have defaults that are never passed on."""


class ShortCut:
    """What a tool's own coercion gives, without its detours.

    Args:
        schema: The tool's argument model.
        optional: Per field, in order: whether its default is passed on when the caller leaves it out.
    """

    __slots__ = ("_optional", "_schema", "proved")

    def __init__(self, schema: Any, optional: dict[str, bool]) -> None:
        self._schema = schema
        self._optional = optional
        self.proved = False

    def coerce(self, sent: dict[str, Any]) -> Coerced:
        """`sent`, validated: what was given, by name or alias, and explicit defaults.

        Raises:
            ValidationError: As the tool itself would.
        """
        model = self._schema.model_validate(sent)
        given = model.model_fields_set
        return (), {
            name: getattr(model, name)
            for name, default in self._optional.items()
            if default or name in sent or name in given
        }

    def agrees(self, sent: dict[str, Any], coerced: Coerced) -> bool:
        """Whether it gives what the tool's own coercion gave for the same input, types included."""
        try:
            mine = self.coerce(sent)
            return bool(mine == coerced) and all(
                type(mine[1][name]) is type(value) for name, value in coerced[1].items()
            )
        except Exception:  # whatever a validator raises at its second call, or values that cannot be compared
            return False


def short_cut(tool: Any, kind: type, injected: frozenset[str]) -> ShortCut | None:
    """The short cut for `tool`, whose class before arming is `kind`; None where only the tool's own way is right."""
    from langchain_core.tools import BaseTool
    from pydantic import BaseModel

    if injected or any(getattr(kind, name) is not getattr(BaseTool, name) for name in _OWN_WAY):
        return None
    schema = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)) or not schema.model_fields:
        return None
    if schema.model_dump is not BaseModel.model_dump or schema.__pydantic_decorators__.model_serializers:
        return None
    if schema.model_computed_fields or schema.__pydantic_root_model__:
        return None
    if schema.model_config.get("extra") == "allow" or schema.model_config.get("serialize_by_alias"):
        return None
    if any(field.exclude or field.exclude_if for field in schema.model_fields.values()):
        return None
    return ShortCut(
        schema,
        {name: not field.is_required() and name not in _SYNTHETIC for name, field in schema.model_fields.items()},
    )


_OWN_WAY: Final = ("_to_args_and_kwargs", "_parse_input")
