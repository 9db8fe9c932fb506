"""Policies that stock Casbin and remit read alike, and Casbin's answer to a request, for comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import casbin
from casbin.persist import Adapter
from casbin.util import builtin_operators as operators

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.providers.casbin.engine.functions import compile_match
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.files.model import parse_model
from remit.providers.casbin.rules import Link, PolicySet, Rule
from remit.providers.casbin.snapshot import PolicySnapshot

ALLOW = "some(where (p.eft == allow))"
DENY = "!some(where (p.eft == deny))"
BOTH = "some(where (p.eft == allow)) && !some(where (p.eft == deny))"
PRIORITY = "priority(p.eft) || deny"
SUBJECT_PRIORITY = "subjectPriority(p.eft) || deny"
RBAC = "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act"

Answer = tuple[bool, list[str]]
"""What `enforce_ex` returns: the decision and the row that explains it."""

_STRICT = ("keyMatch2", "keyMatch3", "keyMatch4", "keyMatch5", "regexMatch")


def model_text(
    request: str = "sub, obj, act",
    policy: str = "sub, obj, act, eft",
    matcher: str = RBAC,
    effect: str = BOTH,
    roles: Iterable[str] = ("g = _, _",),
) -> str:
    """A `model.conf`."""
    section = "".join(f"{line}\n" for line in roles)
    role_definition = f"[role_definition]\n{section}" if section else ""
    return (
        f"[request_definition]\nr = {request}\n[policy_definition]\np = {policy}\n{role_definition}"
        f"[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}\n"
    )


def policy_set(
    text: str,
    rows: Iterable[Sequence[str]],
    links: Mapping[str, Iterable[Sequence[str]]] | Iterable[Sequence[str]] = (),
    *,
    functions: Iterable[str] = (),
    roles: Iterable[str] = (),
) -> PolicySet:
    """A policy set of these rows, line 1 first. `links` without names are of type `g`."""
    findings = Findings()
    model = parse_model(text, "model.conf", findings, list(functions))
    assert model is not None, findings.problems()
    named = links if isinstance(links, Mapping) else {"g": links}
    made = [(gtype, tuple(values)) for gtype, many in named.items() for values in many]
    return PolicySet(
        model=model,
        rules=tuple(Rule(tuple(row), "policy.csv", line) for line, row in enumerate(rows, 1)),
        links=tuple(Link(values, "links.csv", line, gtype) for line, (gtype, values) in enumerate(made, 1)),
        roles=frozenset(roles),
    )


class _Rows(Adapter):
    def __init__(self, policies: PolicySet) -> None:
        self.policies = policies

    def load_policy(self, model: Any) -> None:
        for rule in self.policies.rules:
            model["p"]["p"].policy.append(list(rule.values))
        for link in self.policies.links:
            model["g"][link.gtype].policy.append(list(link.values))


def enforcer(policies: PolicySet, functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """Stock Casbin over the same rows."""
    model = casbin.Enforcer.new_model(text=policies.model.text)
    made = casbin.Enforcer(model, _Rows(policies))
    for name, function in (functions or {}).items():
        made.add_function(name, function)
    return made


def asked(made: Any, values: Sequence[Any]) -> Answer | None:
    """Casbin's answer, or None where it raises."""
    try:
        allowed, row = made.enforce_ex(*values)
    except Exception:
        return None
    return bool(allowed), list(row)


def narrowed(made: Any, values: Sequence[Any], negated: bool = False) -> Answer | None:
    """Casbin's answer if its matching functions read patterns strictly in rows that allow. None where it raises.

    Casbin's own loop, with the functions chosen row by row.
    """
    own = {**made.fm.get_functions()}
    strict = own if negated else {**own, **{name: _strict(name) for name in _STRICT}}
    try:
        model = made.model
        effector, effects, explained = made.eft, set(), []
        for row in model["p"]["p"].policy:
            tokens = model["p"]["p"].tokens
            row_values = dict(zip(tokens, row, strict=True))
            eft = row_values.get("p_eft", "allow")
            functions = dict(strict if eft == "allow" else own)
            for key, assertion in (model["g"] or {}).items():
                functions[key] = operators.generate_g_function(assertion.rm)
            text = model["m"]["m"].value
            if casbin.util.has_eval(text):
                names = casbin.util.get_eval_value(text)
                text = casbin.util.replace_eval(text, [casbin.util.escape_assertion(row_values[n]) for n in names])
            names = {**dict(zip(model["r"]["r"].tokens, values, strict=True)), **row_values}
            if made._get_expression(text, functions).eval(names):
                effects.add({"allow": 0, "deny": 2}[eft])
                explained = row
                if effector.intermediate_effect(effects) != 1:
                    break
            else:
                effects.add(1)
        return effector.final_effect(effects) == 0, list(explained)
    except Exception:
        return None


def _strict(name: str) -> Callable[[str, str], bool]:
    return lambda value, pattern: compile_match(name, pattern, strict=True)(value)


def row_of(snapshot: PolicySnapshot, decision: AuthzDecision) -> list[str]:
    """The values of the rule that a decision names; nothing when it names none."""
    if decision.policy_id is None:
        return []
    line = int(decision.policy_id.partition(":")[2])
    return list(snapshot.policy_set.rules[line - 1].values)


def request(
    subject: str, target: str, action: str = "call", *, resource: str = "tool", context: Any = None, **attributes: Any
) -> AuthzRequest:
    """A request by a principal whose role, user id and attribute `sub` all are `subject`."""
    principal = Principal(user_id=subject, role=subject, attributes={"sub": subject, **attributes})
    return AuthzRequest(principal, resource, action, target, context or {})


def silence() -> None:
    """Keep Casbin's loggers quiet: it warns about every denied request."""
    for name in ("casbin", "casbin.enforcer", "casbin.policy", "casbin.role"):
        logging.getLogger(name).disabled = True
