"""Reading a Casbin `model.conf` strictly: what Casbin would cut, skip or misread is refused with its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Final

from remit.providers.casbin.checks.shape import free_branches, names_in, shape_of
from remit.providers.casbin.files.conf import Definition, read_definitions
from remit.providers.casbin.files.expression import Checker, Flaw, parse, shown_as_casbin
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.native import SHIPPED_MODEL
from remit.providers.casbin.rules import CasbinModel, Effect

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROLE = re.compile(r"_(?:\s*,\s*_){1,2}")
_LIKE_EFFECT: Final = frozenset({"effect", "eff", "effekt", "verdict", "decision", "permission", "access"})
_NEEDS_EFFECT_COLUMN: Final = (Effect.DENY_OVERRIDE, Effect.ALLOW_AND_DENY, Effect.PRIORITY, Effect.SUBJECT_PRIORITY)


def parse_model(text: str, file: str, findings: Findings, functions: Collection[str] = ()) -> CasbinModel | None:
    """The model that `text` defines, or None after reporting every reason why there is none.

    Args:
        file: Its name in problems.
        functions: Names of the deployment's own matcher functions.
    """
    own = Findings()  # what else was wrong so far must not keep this file from being read to its end
    definitions = read_definitions(text, file, own)
    model = None if definitions is None else _build(definitions, text, file, own, functions)
    findings.take(own)
    return None if own.failed else model


@lru_cache(maxsize=1)
def shipped_model() -> CasbinModel:
    """The model used when the configuration names none."""
    findings = Findings()
    model = parse_model(SHIPPED_MODEL, "model.conf", findings)
    if model is None:  # INVARIANT: the shipped text parses; a test says so
        raise AssertionError(findings.problems())
    return model


def _build(
    found: dict[str, Definition], text: str, file: str, findings: Findings, functions: Collection[str]
) -> CasbinModel | None:
    request = _columns(found["r"], file, findings)
    policy = _columns(found["p"], file, findings)
    roles = _roles(found, file, findings)
    effect = _effect(found["e"], file, findings)
    matcher = found["m"]
    tree = parse(matcher.value)
    if isinstance(tree, Flaw):
        _report(tree, matcher, file, findings)
        return None
    if any(problem.key in {*roles, "r", "p"} for problem in findings.problems() if problem.severity == "error"):
        return None  # unknown columns and functions would only repeat what was said
    checker = Checker(request, policy, roles, functions)
    for flaw in checker.check(tree, matcher.value):
        _report(flaw, matcher, file, findings)
    if findings.failed or effect is None:
        return None
    model = CasbinModel(
        file=file,
        request=request,
        policy=policy,
        roles=roles,
        effect=effect,
        matcher=matcher.value,
        matcher_line=matcher.line,
        tree=tree,
        text=text,
        native=False,
    )
    if _is_native(model, text):
        return replace(model, native=True)
    _warn(model, found, findings)
    return model


def _report(flaw: Flaw, definition: Definition, file: str, findings: Findings) -> None:
    findings.error(flaw.code, file, definition.line_of(flaw.token), flaw.message, flaw.advice, definition.key)


def _columns(definition: Definition, file: str, findings: Findings) -> tuple[str, ...]:
    out: list[str] = []
    for name in (part.strip() for part in definition.value.split(",")):
        if _COLUMN.fullmatch(name) is None:
            comment = any(mark in name for mark in "#;")
            findings.error(
                "comment" if comment else "column-name",
                file,
                definition.line_of(name),
                f"unknown column {name!r}" if name else "an empty column name",
                "put the comment on a line of its own" if comment else "a column is a word of letters, digits and '_'",
                definition.key,
            )
        elif name in out:
            findings.error(
                "column-name", file, definition.line_of(name), f"column {name!r} is named twice", key=definition.key
            )
        out.append(name)
    return tuple(out)


def _roles(found: dict[str, Definition], file: str, findings: Findings) -> dict[str, int]:
    roles: dict[str, int] = {}
    for key, definition in found.items():
        if key[0] != "g":
            continue
        if _ROLE.fullmatch(definition.value) is None:
            conditional = "(" in definition.value
            findings.error(
                "role-definition",
                file,
                definition.line,
                f"{definition.value!r} is no role definition"
                if not conditional
                else "roles with conditions are not supported",
                "write '_, _', or '_, _, _' for roles per domain",
                key,
            )
        roles[key] = definition.value.count("_")
    return roles


def _effect(definition: Definition, file: str, findings: Findings) -> Effect | None:
    wanted = definition.value.replace("p_eft", "p.eft")
    for effect in Effect:
        if wanted == effect.value:
            return effect
    tight = {"".join(effect.value.split()): effect.value for effect in Effect}
    near = tight.get("".join(wanted.split()))
    advice = f"write exactly {near!r}" if near else "known: " + "; ".join(effect.value for effect in Effect)
    if "#" in wanted:
        findings.error(
            "comment", file, definition.line_of("#"), "an in-line comment", "put it on a line of its own", "e"
        )
    else:
        findings.error(
            "unknown-effect-expression", file, definition.line, f"unknown effect {definition.value!r}", advice, "e"
        )
    return None


def _is_native(model: CasbinModel, text: str) -> bool:
    if text == SHIPPED_MODEL:
        return True
    own = shipped_model()
    same = (model.request, model.policy, model.roles, model.effect) == (own.request, own.policy, own.roles, own.effect)
    return same and ast.dump(model.tree) == ast.dump(own.tree)


def _warn(model: CasbinModel, found: dict[str, Definition], findings: Findings) -> None:
    _warn_effect(model, found, findings)
    shape = shape_of(model.tree)
    for name in model.policy:
        if name not in shape.used and name not in ("eft", "priority"):
            _report_unused(name, model, found["p"], findings)
    read = {name[2:] for name in names_in(model.tree) if name.startswith("r_")}
    for name in model.request:
        if name not in read and name not in ("ctx", "context") and not shape.rules:
            findings.warning(
                "unused-column",
                model.file,
                found["r"].line_of(name),
                f"the matcher never reads {'r.' + name!r}, so rules hold for every value of it",
                "compare it in the matcher, or take it out",
                "r",
            )
    for gtype in model.roles:
        if gtype not in shape.called:
            findings.warning(
                "unused-role-definition",
                model.file,
                found[gtype].line,
                f"the matcher never calls {gtype}(), so rows of type {gtype!r} change nothing",
                "call it in the matcher, or take it out",
                gtype,
            )
    if model.effect is Effect.SUBJECT_PRIORITY and "g" not in model.roles:
        findings.error(
            "role-definition",
            model.file,
            found["e"].line,
            "subjectPriority needs roles",
            "define g in [role_definition]",
            "e",
        )
    _warn_free_branches(model, found["m"], findings)


def _report_unused(name: str, model: CasbinModel, definition: Definition, findings: Findings) -> None:
    line = definition.line_of(name)
    if "eft" not in model.policy and name.casefold() in _LIKE_EFFECT:
        message = f"the column {name!r} is never read, so a row that says deny there allows"
        findings.error("no-effect-column", model.file, line, message, "call the column 'eft'", "p")
    else:
        message = f"the matcher never reads the column {name!r}"
        findings.warning("unused-column", model.file, line, message, "use it in the matcher, or take it out", "p")


def _warn_effect(model: CasbinModel, found: dict[str, Definition], findings: Findings) -> None:
    if "eft" in model.policy or model.effect not in _NEEDS_EFFECT_COLUMN:
        return
    advice = "add a column 'eft' to [policy_definition], or use some(where (p.eft == allow))"
    if model.effect is Effect.DENY_OVERRIDE:
        findings.error(
            "no-effect-column",
            model.file,
            found["e"].line,
            "no column is called 'eft', so everything is allowed",
            advice,
            "e",
        )
    else:
        findings.warning(
            "no-effect-column",
            model.file,
            found["e"].line,
            "no column is called 'eft', so no row can deny",
            advice,
            "e",
        )


def _warn_free_branches(model: CasbinModel, matcher: Definition, findings: Findings) -> None:
    for branch, reads_request, fixed in free_branches(model.tree):
        shown = " && ".join(shown_as_casbin(condition) for condition in branch)
        line = matcher.line_of(shown.replace("'", '"')) if len(branch) == 1 else matcher.line
        if not reads_request:
            findings.error(
                "grants-everything",
                model.file,
                line,
                f"{shown!r} holds for every request",
                "take it out of the matcher",
                "m",
            )
        elif fixed:
            findings.warning(
                "grants-without-rule",
                model.file,
                line,
                f"{shown!r} grants everything without any rule, to whoever can take that name",
                "write a rule for it instead",
                "m",
            )
