"""The JSON Schema of `roles.yaml`, for editors."""

from __future__ import annotations

from typing import Any

from remit.providers.casbin.files.rolesfile import EFFECT_KEYS, SECTIONS

_ROUTE = r"^(\*|[^:\s][^\s]*:[^\s]*)$"
_NAME = r"^\S(.*\S)?$"


def roles_schema() -> dict[str, Any]:
    """The schema, as JSON Schema 2020-12.

    It accepts what the loader accepts, but for what no schema can say (cycles, look-alikes, names without a role).
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "remit roles.yaml",
        "type": "object",
        "required": ["roles"],
        "additionalProperties": False,
        "properties": {
            "version": {"const": 1, "description": "Version of this format."},
            "roles": {
                "type": "object",
                "description": "What each role may do.",
                "propertyNames": {"$ref": "#/$defs/name"},
                "additionalProperties": {"$ref": "#/$defs/role"},
            },
            "unlisted": {
                "enum": ["allow", "deny"],
                "default": "deny",
                "description": "What a role may do where neither it nor a role it inherits from mentions the resource.",
            },
            "users": {
                "type": "object",
                "description": "Roles of single users, by user id.",
                "propertyNames": {"$ref": "#/$defs/name"},
                "additionalProperties": {"$ref": "#/$defs/roles"},
            },
        },
        "$defs": {
            "name": {"type": "string", "pattern": _NAME},
            "roles": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/name"}},
            "names": {
                "description": 'A list of names and patterns; "*" or true for everything, false or [] for nothing.',
                "anyOf": [
                    {"const": "*"},
                    {"type": "boolean"},
                    {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/name"}},
                ],
            },
            "everything": {
                "description": "Sandboxes have no names: true or false.",
                "anyOf": [
                    {"const": "*"},
                    {"type": "boolean"},
                    {"type": "array", "maxItems": 1, "items": {"const": "*"}},
                ],
            },
            "permissions": {
                "description": 'Permissions such as "threads:read" or "threads:*".',
                "anyOf": [
                    {"const": "*"},
                    {"type": "boolean"},
                    {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": _ROUTE}},
                ],
            },
            "exact": {
                "description": "Exact rule ids of the command audit.",
                "anyOf": [
                    {"const": False},
                    {
                        "type": "array",
                        "uniqueItems": True,
                        "items": {"allOf": [{"$ref": "#/$defs/name"}, {"pattern": r"^[^*?\[{\\]*$"}]},
                    },
                ],
            },
            "role": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "inherits": {"$ref": "#/$defs/roles", "description": "Roles whose rules hold for this one too."},
                    **{key: _section(key) for key in SECTIONS},
                },
            },
        },
    }


def _section(key: str) -> dict[str, Any]:
    form = {"sandbox": "everything", "routes": "permissions"}.get(key, "names")
    words = dict.fromkeys(EFFECT_KEYS, form)
    if key == "commands":
        words["allow"] = "exact"
    if extra := SECTIONS[key].extra:
        words[extra] = "names"
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {word: {"$ref": f"#/$defs/{name}"} for word, name in words.items()},
    }
