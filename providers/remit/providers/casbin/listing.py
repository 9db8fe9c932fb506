"""The rules of a policy, told so that tools need not know the model: what each is about and what it covers."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from remit.authz.vocabulary import EVERYTHING
from remit.providers.casbin.engine.functions import BUILTINS, Match, compile_match
from remit.providers.casbin.engine.tracing import written
from remit.providers.casbin.rules import CasbinModel, PolicySet

Effect = Literal["allow", "deny", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRule:
    """One rule."""

    policy_id: str
    text: str
    """As in the trace of a decision."""
    effect: Effect
    resource: str | None
    """The one resource type it is about; None when it is about several or the model has no column for it."""
    target: str | None
    """The name or pattern it is about; None when it is about everything or the model has no column for it."""
    function: str | None
    """The function that reads `target` as a pattern; None when it is a name."""

    def matches(self, name: str) -> bool:
        """Whether the rule is about the thing called `name`."""
        if self.target is None or self.target == name:
            return True
        if self.function is None:
            return False
        return _match(self.function, self.target, self.effect == "allow")(name)


@lru_cache(maxsize=1024)
def _match(function: str, pattern: str, strict: bool) -> Match:
    return compile_match(function, pattern, strict=strict)


def list_rules(policy_set: PolicySet) -> tuple[ListedRule, ...]:
    """Every rule of `policy_set`, in the order of files and lines."""
    model = policy_set.model
    templates = dict(zip(model.request, policy_set.request, strict=False))
    resource = _column(model, templates, "{resource}", "res")
    target = _column(model, templates, "{target}", "obj")
    function = None if target is None else _function(model, model.policy[target])
    effect = model.policy.index("eft") if "eft" in model.policy else None
    return tuple(
        ListedRule(
            policy_id=rule.policy_id,
            text=written(rule),
            effect="allow" if effect is None else cast(Effect, rule.values[effect]),
            resource=_stated(rule.values, resource),
            target=_stated(rule.values, target),
            function=function,
        )
        for rule in policy_set.rules
    )


def _column(model: CasbinModel, templates: dict[str, str], placeholder: str, native: str) -> int | None:
    """The policy column that stands for `placeholder`: the one named like the request column that is nothing else."""
    names = [native] if model.native else [name for name, template in templates.items() if template == placeholder]
    return next((model.policy.index(name) for name in names if name in model.policy), None)


def _function(model: CasbinModel, column: str) -> str | None:
    """The built-in function that reads `column` as a pattern in the matcher."""
    for node in ast.walk(model.tree):
        match node:
            case ast.Call(func=ast.Name(id=function), args=[_, ast.Name(id=name)]) if name == f"p_{column}":
                if function in BUILTINS and BUILTINS[function].pattern is not None:
                    return function
    return None


def _stated(values: tuple[str, ...], column: int | None) -> str | None:
    return None if column is None or values[column] == EVERYTHING else values[column]
