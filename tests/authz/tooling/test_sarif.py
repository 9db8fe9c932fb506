"""SARIF 2.1.0: the shape that code hosts accept, and what they show."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from remit.authz.errors import Problem
from remit.authz.tooling.sarif import sarif

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
INDEX = {"type": "integer", "minimum": 0}

SHAPE: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"const": "remit"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {"id": {"type": "string"}, "shortDescription": TEXT},
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": INDEX,
                                "level": {"enum": ["error", "warning"]},
                                "message": TEXT,
                                "locations": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "additionalProperties": False,
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation"],
                                                "additionalProperties": False,
                                                "properties": {
                                                    "artifactLocation": {
                                                        "type": "object",
                                                        "required": ["uri"],
                                                        "additionalProperties": False,
                                                        "properties": {
                                                            "uri": {
                                                                "type": "string",
                                                                "pattern": "^(?![A-Za-z][A-Za-z0-9+.-]*:)[^/\\\\ ][^\\\\ ]*$",
                                                            }
                                                        },
                                                    },
                                                    "region": {
                                                        "type": "object",
                                                        "required": ["startLine"],
                                                        "additionalProperties": False,
                                                        "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The part of the SARIF 2.1.0 schema that we use, closed, so that a misspelled property is noticed."""


def of(*problems: Problem) -> dict[str, Any]:
    log = sarif(problems, tool_version="1.2.3", path_of=lambda file: f"policies/{file}")
    jsonschema.validate(log, SHAPE)
    return log


def test_results_point_at_their_rule_and_place() -> None:
    log = of(
        Problem("policy.csv", 3, "unknown effect 'dney'", "did you mean 'deny'?", "unknown-effect"),
        Problem("roles.yaml", 7, "is repeated", "", "duplicate", "roles.user", "warning"),
        Problem("with blank.csv", 0, "is empty", "", "unknown-effect"),
    )
    run = log["runs"][0]
    assert run["tool"]["driver"]["version"] == "1.2.3"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["duplicate", "unknown-effect"]
    got = [
        (
            result["ruleId"],
            result["ruleIndex"],
            result["level"],
            result["message"]["text"],
            result["locations"][0]["physicalLocation"],
        )
        for result in run["results"]
    ]
    assert got == [
        (
            "unknown-effect",
            1,
            "error",
            "unknown effect 'dney'; did you mean 'deny'?",
            {"artifactLocation": {"uri": "policies/policy.csv"}, "region": {"startLine": 3}},
        ),
        (
            "duplicate",
            0,
            "warning",
            "roles.user: is repeated",
            {"artifactLocation": {"uri": "policies/roles.yaml"}, "region": {"startLine": 7}},
        ),
        ("unknown-effect", 1, "error", "is empty", {"artifactLocation": {"uri": "policies/with%20blank.csv"}}),
    ]


def test_a_clean_policy_is_a_run_without_results() -> None:
    assert of()["runs"][0]["results"] == []


@pytest.mark.parametrize("uri", ["/etc/policy.csv", "file:///etc/policy.csv", "C:/policy.csv", "a b.csv", "a\\b.csv"])
def test_the_shape_refuses_locations_that_hosts_cannot_resolve(uri: str) -> None:
    log = of(Problem("policy.csv", 1, "x"))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] = uri
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SHAPE)
