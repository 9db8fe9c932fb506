"""The condition language: a typed, three-valued subset of Python expressions over a call's arguments."""

from __future__ import annotations

from remit.providers.casbin.conditions.language import FUNCTIONS, Condition, ConditionError, compile_condition

__all__ = ["FUNCTIONS", "Condition", "ConditionError", "compile_condition"]
