"""Checks over the `p` rows: what they say twice, what nobody can ask for, what would be read in another way."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import islice

from remit.providers.casbin.checks.patterns import SUSPICIOUS, PatternFlaw, pattern_flaws
from remit.providers.casbin.checks.shape import Shape
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.files.effects import ALLOW, ASK, DENY, WORDS
from remit.providers.casbin.files.expression import Checker, Flaw, parse
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.rules import CasbinModel, Effect, Rule

_ACTION_COLUMNS = frozenset({"act", "action", "verb", "method"})
_WHOLE_NUMBER = re.compile(r"[0-9]+")
_SAMPLE = 1000
_AT_ONCE = 10_000  # rows that are looked at in one go: no other thread decides anything meanwhile


def check_rows(table: Table, shape: Shape, functions: Collection[str], findings: Findings) -> set[str]:
    """Report everything that is wrong with the rules under any model.

    Returns:
        Request columns whose attributes some rule text reads.
    """
    _check_effects(table, findings)
    _check_verdicts_elsewhere(table, shape, findings)
    _check_repetitions(table, findings)
    _check_priorities(table, findings)
    _check_stars(table, shape, findings)
    _check_patterns(table, shape, findings)
    _check_unused_condition(table, shape, findings)
    return _check_rule_texts(table, shape, functions, findings)


def report(rule: Rule, severe: bool, code: str, message: str, advice: str, findings: Findings) -> None:
    """Say something about one rule."""
    say = findings.error if severe else findings.warning
    say(code, rule.file, rule.line, message, advice, rule.key)


def _check_effects(table: Table, findings: Findings) -> None:
    effects = table.distinct("eft")
    effect = table.model.effect
    if effect is Effect.ALLOW_OVERRIDE and DENY in effects:
        for rule in table.having("eft", {DENY}):
            message = "this row denies, but the effect of the model looks at allow rows only"
            advice = f"state the effect {Effect.ALLOW_AND_DENY.value!r} in the model, or delete the row"
            report(rule, True, "ignored-deny", message, advice, findings)
    if effects and not effects & {ALLOW, ASK} and effect is not Effect.DENY_OVERRIDE and not findings.failed:
        first = table.rules[0]
        findings.warning("nothing-allowed", first.file, 0, "no rule allows anything", "add a row with 'allow'")


def _check_verdicts_elsewhere(table: Table, shape: Shape, findings: Findings) -> None:
    """Words such as ``deny`` in a column that is no verdict: whoever wrote them believes that they deny."""
    columns = table.model.policy
    if "eft" in columns:
        return
    for name in columns:
        unread = name not in shape.used and name != "priority"
        if not (unread or name in _ACTION_COLUMNS or name == columns[-1]):
            continue
        words = {value for value in table.distinct(name) if value.casefold() in WORDS}
        for rule in table.having(name, words):
            word = rule.values[columns.index(name)]
            message = f"{word!r} in the column {name!r} is no verdict: this row allows"
            advice = (
                "add a column 'eft' to the model, or delete the row" if unread else "it is read as an action; add 'eft'"
            )
            report(rule, unread, "verdict-elsewhere", message, advice, findings)


def _check_repetitions(table: Table, findings: Findings) -> None:
    """Rows that are equal, or equal but for their effect."""
    names = [name for name in table.model.policy if name != "eft"]
    telling = [name for name in names if len(set(table.column(name)[:_SAMPLE])) > 16] or names
    count = len(table.rules)
    if any(len(table.distinct(name)) == count for name in telling):
        return
    different: set[tuple[str, ...]] = set()
    rows = zip(*(table.column(name) for name in telling), strict=True)
    while some := list(islice(rows, _AT_ONCE)):
        different.update(some)
    if len(different) == count:
        return
    first: dict[tuple[str, ...], dict[str, Rule]] = {}
    effects = table.column("eft") if "eft" in table.model.policy else [ALLOW] * count
    keys = zip(*(table.column(name) for name in names), strict=True)
    for rule, key, effect in zip(table.rules, keys, effects, strict=True):
        seen = first.setdefault(key, {})
        if effect in seen:
            message = f"repeats {seen[effect].policy_id}"
            report(rule, False, "duplicate-row", message, "delete one of them", findings)
        elif seen:
            other_effect, other = next(iter(seen.items()))
            message = f"says {effect} where {other.policy_id} says {other_effect}"
            report(
                rule,
                False,
                "contradiction",
                message,
                f"{_winner(table.model, effect, other_effect)}; keep one",
                findings,
            )
        seen.setdefault(effect, rule)


def _winner(model: CasbinModel, one: str, other: str) -> str:
    if model.effect in (Effect.PRIORITY, Effect.SUBJECT_PRIORITY):
        return "the one with the higher priority wins"
    if model.effect is Effect.ALLOW_OVERRIDE:
        return "allow wins"
    return f"{DENY if DENY in (one, other) else ASK} wins"


def _check_priorities(table: Table, findings: Findings) -> None:
    odd = {value for value in table.distinct("priority") if _WHOLE_NUMBER.fullmatch(value) is None}
    for rule in table.having("priority", odd):
        value = rule.values[table.model.policy.index("priority")]
        report(rule, True, "priority", f"the priority {value!r} is no whole number", "write 1, 2, 3, …", findings)


def _check_stars(table: Table, shape: Shape, findings: Findings) -> None:
    """A lone ``*`` where the matcher compares it as a name."""
    domains = {name for names in shape.domains.values() for name in names}
    compared = set(shape.equal) | {column for uses in shape.roles.values() for column, _ in uses}
    for name in sorted(compared - shape.star - set(shape.patterns)):
        if "*" not in table.distinct(name):
            continue
        for rule in table.having(name, {"*"}):
            message = f"'*' in the column {name!r} is a name like any other under this matcher"
            advice = f"add 'p.{name} == \"*\"' to the matcher, or write a row for each name"
            report(rule, name in domains and table.restricts(rule), "literal-star", message, advice, findings)


def _check_patterns(table: Table, shape: Shape, findings: Findings) -> None:
    read_by = shape.patterns | {name: {"timeMatch"} for name in shape.times}
    for name, functions in sorted(read_by.items()):
        for function in sorted(functions):
            flaws: dict[str, list[PatternFlaw]] = {}
            for value in worth_reading(function, table, name):
                whole = value == "*" and name in shape.star
                if not whole and (found := list(pattern_flaws(function, value))):
                    flaws[value] = found
            _report_patterns(table, name, flaws, findings)
    for function, pattern in shape.constants:
        for flaw in pattern_flaws(function, pattern):
            say = findings.error if flaw.in_allow == "error" else findings.warning
            say(flaw.code, table.model.file, table.model.matcher_line, flaw.message, flaw.advice, "m")


def worth_reading(function: str, table: Table, name: str) -> Iterable[str]:
    """The values of a column that can be wrong as a pattern of `function`."""
    values = table.distinct(name)
    marks = SUSPICIOUS.get(function)
    if marks is None:
        return values
    present = [mark for mark in marks if mark in table.text(name)]
    if not present:
        return ()
    return [value for value in values if any(mark in value for mark in present)]


def _report_patterns(table: Table, name: str, flaws: dict[str, list[PatternFlaw]], findings: Findings) -> None:
    at = table.model.policy.index(name)
    for rule in table.having(name, flaws):
        restricts = table.restricts(rule)
        for flaw in flaws[rule.values[at]]:
            severity = flaw.in_deny if restricts else flaw.in_allow
            if severity is not None:
                report(rule, severity == "error", flaw.code, flaw.message, flaw.advice, findings)


def _check_unused_condition(table: Table, shape: Shape, findings: Findings) -> None:
    if table.model.native or "cond" in shape.used:
        return
    for rule in table.having("cond", table.distinct("cond") - {""}):
        message = "this model does not read the condition of a row"
        report(
            rule, True, "condition-needs-native", message, "use remit's own model for rules with conditions", findings
        )


def _check_rule_texts(table: Table, shape: Shape, functions: Collection[str], findings: Findings) -> set[str]:
    """The texts that ``eval`` splices into the matcher."""
    objects: set[str] = set()
    for name in sorted(shape.rules):
        flaws: dict[str, Flaw] = {}
        for text in table.distinct(name):
            flaw, read = _rule_text(text, table.model, functions)
            objects |= read
            if flaw is not None:
                flaws[text] = flaw
        for rule in table.having(name, flaws):
            flaw = flaws[rule.values[table.model.policy.index(name)]]
            report(rule, True, "rule-text", f"in the column {name!r}: {flaw.message}", flaw.advice, findings)
    return objects


def _rule_text(text: str, model: CasbinModel, functions: Collection[str]) -> tuple[Flaw | None, set[str]]:
    tree = parse(text)
    if isinstance(tree, Flaw):
        return tree, set()
    if isinstance(parse(f"({text})"), Flaw):  # Casbin puts brackets around it; nothing may escape from them
        return Flaw(f"{text!r} is no complete expression", "check brackets and quotes"), set()
    checker = Checker(model.request, model.policy, model.roles, functions, spliced=True)
    flaws = checker.check(tree, text)
    return (flaws[0] if flaws else None), checker.objects
