"""Requests as operators type them: ``tool:call:bash``, with arguments as ``name=value``."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from remit.authz import wire
from remit.authz.documents import did_you_mean
from remit.authz.types import EMPTY, AuthzRequest, Principal
from remit.authz.vocabulary import RESOURCES


class Asked(NamedTuple):
    """What is asked for, without who asks."""

    resource: str
    action: str
    target: str

    def __str__(self) -> str:
        return ":".join(self)


def parse_asked(text: str, *, resources: Collection[str] = ()) -> Asked:
    """Read ``resource:action:target``. The target keeps its colons (``route:read:threads:read``).

    A resource type or action that no enforcement point ever asks for is refused: a typo would be denied as well, and
    look like an answer.

    Args:
        text: As typed.
        resources: Resource types of the deployment's own, whose actions are free.

    Raises:
        ValueError: Not three parts, or an unknown resource type or action. The message is for operators.
    """
    parts = text.split(":", 2)
    if len(parts) < 3 or not all(parts):
        raise ValueError(
            f"the request {text!r} is not of the form RESOURCE:ACTION:TARGET; for example {_example(parts[0])}"
        )
    asked = Asked(*parts)
    if asked.resource in resources:
        return asked
    actions = RESOURCES.get(asked.resource)
    if actions is None:
        advice = did_you_mean(asked.resource, [*RESOURCES, *resources])
        raise ValueError(f"the request {text!r} names the unknown resource type {asked.resource!r}; {advice}")
    if actions and asked.action not in actions:
        advice = did_you_mean(asked.action, actions)
        raise ValueError(f"the request {text!r} names an action that {asked.resource!r} does not have; {advice}")
    return asked


def _example(resource: str) -> str:
    if resource not in RESOURCES or resource == "tool":
        return "tool:call:bash"
    if resource == "route":
        return "route:read:threads:read"
    return f"{resource}:{RESOURCES[resource][0]}:{'*' if resource == 'sandbox' else 'NAME'}"


def parse_value(text: str) -> Any:
    """The JSON value that `text` spells, else `text` itself: ``5`` is a number, ``"5"`` and ``five`` are texts.

    Raises:
        ValueError: JSON that cannot be taken as it stands: a number without a finite value, a key that stands twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)
    except _Unusable as exc:
        raise ValueError(str(exc)) from None
    except (ValueError, RecursionError):
        return text


def parse_pairs(pairs: Iterable[str], *, option: str) -> dict[str, Any]:
    """``["path=/tmp", "limit=5"]`` as a dict; values as `parse_value`.

    Args:
        pairs: As typed.
        option: Name of the option they came from, for the message.

    Raises:
        ValueError: No ``=``, no name before it, a name that stands twice, or an unusable value.
    """
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"{option} {pair!r} is not of the form NAME=VALUE; for example {option} path=/tmp/a.txt")
        if name in out:
            raise ValueError(f"{option} {name!r} is given twice; keep one of them")
        try:
            out[name] = parse_value(text)
        except ValueError as exc:
            raise ValueError(f"{option} {name!r}: {exc}") from None
    return out


def build_request(principal: Principal, asked: Asked, args: Mapping[str, Any] = EMPTY) -> AuthzRequest:
    """The request as an enforcement point would make it: a tool call always carries its arguments, if only none."""
    context = {wire.CTX_ARGS: dict(args)} if args or asked.resource == "tool" else {}
    return AuthzRequest(principal, asked.resource, asked.action, asked.target, context)


class _Unusable(Exception):
    """Valid JSON that has no usable value. No `ValueError`, so that it is not taken for a syntax error."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _Unusable("a key stands twice in the JSON object; keep one of them")
    return out


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unusable(f"the number {text} is too large; write it in quotes to pass it as text")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(text)  # NaN and Infinity are no JSON: taken as text
