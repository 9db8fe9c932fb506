"""The request templates of a policy set: given by the operator, or by the names of the model's columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from remit.providers.casbin.engine.templates import Template
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.rules import CasbinModel

_DEFAULTS: Final = {
    **dict.fromkeys(("sub", "subject", "role"), "{role}"),
    **dict.fromkeys(("user", "user_id", "uid"), "{user_id}"),
    **dict.fromkeys(("res", "resource"), "{resource}"),
    **dict.fromkeys(("obj", "object", "target", "tool"), "{target}"),
    **dict.fromkeys(("act", "action"), "{action}"),
    **dict.fromkeys(("ctx", "context"), "{ctx}"),
}
_CONTEXT: Final = "{ctx}"


def resolve_templates(
    model: CasbinModel, request: Any, objects: Collection[str], findings: Findings
) -> tuple[str, ...]:
    """One template per request column of `model`; empty under remit's own model, which needs none.

    Args:
        request: What the configuration gives, or None. Without it the column names decide, if each is a usual one.
        objects: Request columns whose attributes some expression reads.
    """

    def error(message: str, advice: str) -> None:
        findings.error("request-template", model.file, 0, message, advice, "request")

    if model.native:
        if request is not None:
            error("request templates are for models of your own", "take 'request' out of the configuration")
        return ()
    if request is None:
        return _defaults(model, objects, findings)
    if isinstance(request, str) or not isinstance(request, Sequence) or not all(isinstance(t, str) for t in request):
        error(
            "must be a list of texts", 'write one template per column, for example ["{role}", "{target}", "{action}"]'
        )
        return ()
    if len(request) != len(model.request):
        columns = ", ".join(model.request)
        error(f"{len(request)} templates for {len(model.request)} request columns", f"write one for each of {columns}")
        return ()
    for column, text in zip(model.request, request, strict=True):
        try:
            Template([text], [column])
        except ValueError as exc:
            message, _, advice = str(exc).partition("; ")
            error(
                f"for the column {column!r}: {message}",
                advice or "known: {role} {user_id} {resource} {action} {target}",
            )
            continue
        if column in objects and text != _CONTEXT:
            error(f"attributes of 'r.{column}' are read, but {text!r} gives text", f"use {_CONTEXT!r}")
        elif column not in objects and text == _CONTEXT:
            findings.warning(
                "request-template",
                model.file,
                0,
                f"'r.{column}' is the whole context, but no attribute of it is read",
                f"write r.{column}.args.NAME in the matcher, or use another template",
                "request",
            )
    return tuple(request)


def _defaults(model: CasbinModel, objects: Collection[str], findings: Findings) -> tuple[str, ...]:
    chosen = [_DEFAULTS.get(name.casefold(), "") for name in model.request]
    chosen = ["" if name in objects and t != _CONTEXT else t for name, t in zip(model.request, chosen, strict=True)]
    unclear = [name for name, template in zip(model.request, chosen, strict=True) if not template]
    if unclear or len(set(chosen)) < len(chosen) or "{target}" not in chosen:
        reason = (
            f"nothing says what {', '.join(map(repr, unclear))} is"
            if unclear
            else "its columns do not say what is asked"
        )
        sample = ", ".join(
            f'"{template or "{attributes." + name + "}"}"' for name, template in zip(model.request, chosen, strict=True)
        )
        message = f"this model needs request templates: {reason}"
        findings.error(
            "request-template", model.file, 0, message, f"write, for example, request: [{sample}]", "request"
        )
        return ()
    blended = [word for word in ("resource", "action") if f"{{{word}}}" not in chosen]
    if blended:
        sample = ", ".join(f'"{template}"' for template in chosen)
        message = f"without request templates [{sample}] is used, so rules hold for every {' and every '.join(blended)}"
        advice = 'state them, for example with "{resource}/{target}"'
        findings.warning("default-request", model.file, 0, message, advice, "request")
    return tuple(chosen)
