"""Problems as SARIF 2.1.0, the format that code hosts show beside the changed lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from remit.authz.errors import Problem

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(problems: Sequence[Problem], *, tool_version: str, path_of: Callable[[str], str]) -> dict[str, Any]:
    """A SARIF log with one run.

    Args:
        problems: In the order in which the results shall stand.
        tool_version: The release that found them.
        path_of: From a problem's `file` to a relative path with forward slashes.
    """
    codes = sorted({problem.code for problem in problems})
    index = {code: position for position, code in enumerate(codes)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "remit",
                        "version": tool_version,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "results": [_result(problem, index[problem.code], path_of(problem.file)) for problem in problems],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    return {"id": code, "shortDescription": {"text": code.replace("-", " ")}}


def _result(problem: Problem, rule_index: int, path: str) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if problem.line:
        location["region"] = {"startLine": problem.line}
    key = f"{problem.key}: " if problem.key else ""
    advice = f"; {problem.advice}" if problem.advice else ""
    return {
        "ruleId": problem.code,
        "ruleIndex": rule_index,
        "level": problem.severity,
        "message": {"text": f"{key}{problem.message}{advice}"},
        "locations": [{"physicalLocation": location}],
    }
