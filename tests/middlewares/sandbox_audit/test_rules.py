"""Every rule shows by its own examples where it begins and where it ends."""

from __future__ import annotations

import re

import pytest

from remit.middlewares.sandbox_audit import RULES, classify
from remit.middlewares.sandbox_audit.rules import BY_ID, Rule

UNREAD = {"malformed", "command-too-long"}
"""Rules whose examples are not commands of a size to be written down; they have tests of their own."""


def test_ids_are_distinct_and_in_one_form() -> None:
    assert len(BY_ID) == len(RULES)
    assert [rule.id for rule in RULES if re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id) is None] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_has_examples_and_a_message_for_the_model(rule: Rule) -> None:
    assert rule.matches or rule.id in UNREAD
    assert rule.message == rule.message.strip().rstrip(".")
    assert rule.message.startswith("it ")
    assert "/" not in rule.message


@pytest.mark.parametrize(("rule", "command"), [(rule, one) for rule in RULES for one in rule.matches], ids=str)
def test_it_matches(rule: Rule, command: str) -> None:
    found = classify(command)
    assert rule.id in {one.rule_id for one in found.findings}, found
    assert found.verdict != "pass"


@pytest.mark.parametrize("command", [one for rule in RULES for one in rule.spares], ids=str)
def test_it_spares(command: str) -> None:
    found = classify(command)
    assert found.verdict == "pass", found


def test_examples_of_a_blocking_rule_are_blocked() -> None:
    for rule in RULES:
        if rule.severity == "block":
            allowed = {one: classify(one).verdict for one in rule.matches if classify(one).verdict != "block"}
            assert set(allowed) <= {"echo ls | sh"}, rule.id  # a text that was looked at, in a way that is not
