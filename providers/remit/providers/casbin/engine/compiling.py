"""From a policy set to what answers requests: the index, the evaluator or, on request, pycasbin itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from remit.authz.errors import PolicyError, Problem
from remit.providers.casbin.engine.closures import Closures, Names, NotCompilable, Run
from remit.providers.casbin.engine.column_door import ColumnDoor, NativeDoor, SoleTargetDoor
from remit.providers.casbin.engine.decisions import Condition, Decisions
from remit.providers.casbin.engine.evaluator import Evaluator
from remit.providers.casbin.engine.fallback import MOST_ROWS, PycasbinEngine
from remit.providers.casbin.engine.functions import BUILTINS
from remit.providers.casbin.engine.index import Index
from remit.providers.casbin.engine.matcher import Branch, CommonShape, common_shape, take_apart
from remit.providers.casbin.engine.roles import RoleGraph
from remit.providers.casbin.engine.splicing import check_patterns, reads_text_as_object, spliced_trees
from remit.providers.casbin.engine.template_door import Engine, TemplateDoor
from remit.providers.casbin.engine.templates import Template
from remit.providers.casbin.rules import PolicySet, Rule

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A policy that can answer."""

    door: ColumnDoor | TemplateDoor
    conditions: Mapping[int, Condition]
    problems: tuple[Problem, ...]
    """Warnings."""


def compile_policy(
    policy_set: PolicySet,
    rules: Sequence[Rule],
    version: str,
    request: Sequence[str] | None,
    *,
    allow_slow: bool,
    functions: Functions,
) -> Compiled:
    """What decides by `rules`, which are in Casbin's order.

    Raises:
        PolicyError: The policy cannot be put in force.
    """
    return _Compiler(policy_set, rules, version, functions).compile(request, allow_slow)


class _Compiler:
    def __init__(self, policy_set: PolicySet, rules: Sequence[Rule], version: str, functions: Functions) -> None:
        self.policy_set, self.model, self.rules, self.functions = policy_set, policy_set.model, rules, functions
        self.values = [rule.values for rule in rules]
        self.warnings: list[Problem] = []
        self.errors: list[Problem] = []
        self.check_width()
        policy = self.model.policy
        column = policy.index("eft") if "eft" in policy else None
        effects = ["allow"] * len(rules) if column is None else [values[column] for values in self.values]
        self.check_effects(effects)
        self.decisions = Decisions(rules, effects, version, self.model.effect)
        domains = frozenset(name for name, width in self.model.roles.items() if width == 3)
        self.names = Names(self.model.request, policy, self.graphs(), domains, functions)

    def check_width(self) -> None:
        width = len(self.model.policy)
        if not set(map(len, self.values)) <= {width}:
            for number, values in enumerate(self.values):
                if len(values) != width:
                    self.unreadable(number, f"{len(values)} fields for {width} columns")
            self.stop_on_errors()

    def check_effects(self, effects: Sequence[str]) -> None:
        known = {"allow", "deny", "ask"} if self.model.native else {"allow", "deny"}
        if not known.issuperset(effects):
            for number, effect in enumerate(effects):
                if effect not in known:
                    self.unreadable(number, f"unknown effect {effect!r}")
            self.stop_on_errors()

    def compile(self, request: Sequence[str] | None, allow_slow: bool) -> Compiled:
        if clash := sorted(self.functions.keys() & {*BUILTINS, *self.model.roles, "eval"}):
            self.refuse(f"the function {clash[0]!r} would replace one of Casbin's own", "give it another name")
        template = self.template(request)
        conditions = self.conditions()
        branches = take_apart(self.model.tree, self.names)
        shape = common_shape(branches, self.names, template.sole.get("target") if template else None)
        door: ColumnDoor | TemplateDoor
        if template is not None:
            door = self.foreign(template, branches, shape, conditions, allow_slow)
        elif shape is not None:
            door = NativeDoor(self.index(shape, conditions), self.policy_set.roles)
        else:
            self.refuse("remit's own matcher was not recognised", "restore the shipped model")
        self.stop_on_errors()
        return Compiled(door, conditions, tuple(self.warnings))

    def refuse(self, message: str, advice: str, code: str = "not-compilable", key: str = "m") -> NoReturn:
        raise PolicyError(Problem(self.model.file, self.model.matcher_line, message, advice, code, key))

    def unreadable(self, number: int, reason: str) -> None:
        rule = self.rules[number]
        self.errors.append(Problem(rule.file, rule.line, reason, code="unreadable-rule", key=rule.key))

    def stop_on_errors(self) -> None:
        if self.errors:
            raise PolicyError(set(self.errors))

    def graphs(self) -> dict[str, dict[str, RoleGraph]]:
        pairs: dict[str, dict[str, list[tuple[str, str]]]] = {name: {} for name in self.model.roles}
        for link in self.policy_set.links:
            member, role, *domain = link.values
            pairs[link.gtype].setdefault(domain[0] if domain else "", []).append((member, role))
        graphs = {
            name: {domain: RoleGraph(links) for domain, links in domains.items()} for name, domains in pairs.items()
        }
        for name, domains in graphs.items():
            for graph in domains.values():
                if (far := graph.too_long_for_casbin()) is not None:
                    self.warn_long_chain(name, *far)
        return graphs

    def warn_long_chain(self, gtype: str, member: str, role: str) -> None:
        link = next(link for link in self.policy_set.links if link.gtype == gtype and link.values[0] == member)
        message = f"{role!r} is more than nine links above {member!r}, where Casbin stops looking; remit does not"
        advice = "shorten the chain if Casbin itself reads this policy too"
        self.warnings.append(
            Problem(link.file, link.line, message, advice, "long-role-chain", link.key, severity="warning")
        )

    def template(self, request: Sequence[str] | None) -> Template | None:
        columns = self.model.request
        if request is None:
            if self.model.native:
                return None
            example = ["{role}", "{target}", "{action}"]
            self.refuse(
                f"nothing says what the request columns {', '.join(columns)} are",
                f"set 'request' in the provider's configuration, one template per column, for example {example}",
                "request-templates",
                "r",
            )
        try:
            return Template(request, columns)
        except ValueError as error:
            self.refuse(str(error), "correct 'request' in the provider's configuration", "request-templates", "r")

    def conditions(self) -> dict[int, Condition]:
        found: dict[int, Condition] = {}
        if not self.model.native:
            return found
        column = self.model.policy.index("cond")
        for number, values in enumerate(self.values):
            if text := values[column]:
                from remit.providers.casbin.conditions import compile_condition

                try:
                    found[number] = condition = compile_condition(text)
                    self.decisions.reads[number] = condition.reads
                except ValueError as error:
                    self.unreadable(number, f"the condition {text!r} {error}")
        return found

    def index(self, shape: CommonShape, conditions: Mapping[int, Condition]) -> Index:
        links = RoleGraph() if shape.role is None else self.names.graph(shape.role, "")
        return Index(self.values, shape, links, self.decisions, conditions, self.unreadable)

    def foreign(
        self,
        template: Template,
        branches: Sequence[Branch],
        shape: CommonShape | None,
        conditions: Mapping[int, Condition],
        allow_slow: bool,
    ) -> ColumnDoor | TemplateDoor:
        if not self.rules and not self.model.native:
            self.refuse("there are no rules", "write at least one row of type p", "empty-policy", "p")
        spliced = spliced_trees(self.model, self.values, self.functions, self.unreadable)
        trees = [self.model.tree, *(tree for tree, _ in spliced.values())]
        self.check_objects(template, spliced)
        reads_call = any(self.names.fields(tree) & template.objects for tree in trees)
        if shape is not None and not reads_call:
            index = self.index(shape, conditions)
            if SoleTargetDoor.fits(index, template):
                return SoleTargetDoor(index, template, self.policy_set.roles)
            engine: Engine = index
        elif self.model.native:
            self.refuse("a compared column of remit's own model is given an object", "use {ctx} for ctx alone")
        else:
            engine = self.general(branches, spliced, allow_slow)
        pure = all(self.names.pure(tree) for tree in trees)
        return TemplateDoor(engine, template, self.policy_set.roles, pure=pure, reads_call=reads_call)

    def check_objects(self, template: Template, spliced: Mapping[str, tuple[ast.expr, list[int]]]) -> None:
        what = "holds text under this template and has no attributes"
        if (name := reads_text_as_object(self.model.tree, self.names, template.objects)) is not None:
            self.refuse(f"{name} {what}", "give it the template {ctx}", "request-templates")
        for tree, numbers in spliced.values():
            if (name := reads_text_as_object(tree, self.names, template.objects)) is not None:
                for number in numbers:
                    self.unreadable(number, f"{name} {what}")

    def general(
        self, branches: Sequence[Branch], spliced: Mapping[str, tuple[ast.expr, list[int]]], allow_slow: bool
    ) -> Engine:
        grants = [effect == "allow" for effect in self.decisions.effects]
        check_patterns(branches, self.values, spliced, self.names, grants, self.unreadable)
        self.stop_on_errors()
        try:
            runs: dict[bool, dict[str, Run]] = {
                side: {
                    text: Closures(self.names, grants=side, spliced={}).condition(tree)
                    for text, (tree, _) in spliced.items()
                }
                for side in (True, False)
            }
            self.check_rows_alone(branches)
            return Evaluator(branches, self.values, self.names, self.decisions, runs)
        except NotCompilable as reason:
            return self.slow(str(reason), allow_slow)

    def check_rows_alone(self, branches: Sequence[Branch]) -> None:
        """Report rules on which a condition that reads no request raises: it would do so at every decision."""
        for branch in branches:
            for part in branch.rest:
                if not self.names.fields(part) and not _calls(part, "eval"):
                    run = Closures(self.names, grants=False, spliced={}).condition(part)
                    for number, values in enumerate(self.values):
                        try:
                            run((), values)
                        except Exception as error:
                            self.unreadable(number, f"{type(error).__name__}: {error}")
        self.stop_on_errors()

    def slow(self, reason: str, allowed: bool) -> PycasbinEngine:
        if not allowed:
            self.refuse(
                f"the matcher cannot be compiled: {reason}",
                f"rewrite it, or set 'allow_slow: true' to run it on pycasbin with at most {MOST_ROWS} rows",
            )
        message = f"decisions are slow, since the matcher cannot be compiled: {reason}"
        self.warnings.append(
            Problem(self.model.file, self.model.matcher_line, message, "rewrite it", "slow-engine", "m", "warning")
        )
        return PycasbinEngine(self.model, self.decisions, self.policy_set.links, self.functions)


def _calls(tree: ast.expr, function: str) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == function]
