"""The rules of a policy set, column by column: checks look at a value once, however many rows repeat it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter

from remit.providers.casbin.files.effects import ASK, DENY
from remit.providers.casbin.rules import CasbinModel, Rule


class Table:
    """All rules of one policy set under one model."""

    def __init__(
        self, model: CasbinModel, rules: Sequence[Rule], columns: Sequence[Sequence[str]] | None = None
    ) -> None:
        self.model, self.rules = model, rules
        self._columns = columns
        self._distinct: dict[str, set[str]] = {}
        self._text: dict[str, str] = {}

    def column(self, name: str) -> Sequence[str]:
        """The values of one column, one per rule."""
        if self._columns is None:
            self._columns = list(zip(*map(itemgetter(0), self.rules), strict=True)) or [()] * len(self.model.policy)
        return self._columns[self.model.policy.index(name)]

    def distinct(self, name: str) -> set[str]:
        """The different values of one column; empty when the model has none of that name."""
        if name not in self.model.policy:
            return set()
        if name not in self._distinct:
            self._distinct[name] = set(self.column(name))
        return self._distinct[name]

    def text(self, name: str) -> str:
        """The different values of one column as one text, to look for a character in all of them at once."""
        if name not in self._text:
            different = self.distinct(name)
            # in the order of the rows where that costs no repetition: it walks through memory instead of jumping
            self._text[name] = "\n".join(self.column(name) if 2 * len(different) > len(self.rules) else different)
        return self._text[name]

    def having(self, name: str, values: Collection[str]) -> Iterator[Rule]:
        """The rules that have one of `values` in the column `name`, in order."""
        if values:
            for rule, value in zip(self.rules, self.column(name), strict=True):
                if value in values:
                    yield rule

    def restricts(self, rule: Rule) -> bool:
        """True for a rule that takes away: deny, or ask."""
        return "eft" in self.model.policy and rule.values[self.model.policy.index("eft")] in (DENY, ASK)
