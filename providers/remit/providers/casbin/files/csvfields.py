"""What a field of a policy row may hold, by its column."""

from __future__ import annotations

from collections.abc import Callable, Collection

from remit.authz.vocabulary import flaw
from remit.providers.casbin.files.effects import Effects
from remit.providers.casbin.native import EVERYONE, ROLE, subject
from remit.providers.casbin.rules import CasbinModel

Found = str | tuple[str, str, str]
"""The final text of a field, or (code, message, advice)."""
FieldCheck = Callable[[str], Found]


class Fields:
    """The checks of one file under one model.

    Args:
        free_text: Policy columns that hold an expression.
        every_name: Look at the characters of every name; False when the whole text is known to be clean ASCII.
    """

    def __init__(self, model: CasbinModel, free_text: Collection[str], *, every_name: bool) -> None:
        self._native, self._free_text, self._every_name = model.native, free_text, every_name
        self._effects = Effects(model.native)

    def check_of(self, column: str) -> FieldCheck | None:
        """What turns a value into its final text; None when any text but the empty one will do as it is."""
        if column == "eft":
            return self._effects.check
        if self._native:
            own = {
                "sub": self.subject,
                "res": self.plain_name,
                "act": self.plain_name,
                "cond": self.condition,
                "member": self.member,
                "role": self.role,
            }
            if column in own:
                return own[column]
        if column in self._free_text:
            return self.expression
        return self.name if self._every_name else None

    def name(self, text: str) -> Found:
        if not text:
            return ("empty-field", "an empty field", "write a name; an empty one never matches what it should")
        if self._every_name and (reason := flaw(text)) is not None:
            return ("name", f"{text!r} {reason}", "correct the name")
        return text

    def plain_name(self, text: str) -> Found:
        if "*" in text and text != EVERYONE:
            return ("pattern-here", f"{text!r} is no pattern here", "write '*' alone, or a name")
        return self.name(text)

    def subject(self, text: str) -> Found:
        found = self.name(text)
        if not isinstance(found, str):
            return found
        who = subject(text)
        if who.problem:
            return ("subject", who.problem, who.advice)
        return ROLE + text if who.bare else who.name

    def role(self, text: str) -> Found:
        found = self.subject(text)
        if isinstance(found, str) and not found.startswith(ROLE):
            return ("subject", f"{text!r} is no role", "the second field of g names a role, role:NAME")
        return found

    def member(self, text: str) -> Found:
        """A bare name stays bare: only the whole policy set knows whether it is a role."""
        found = self.name(text)
        if not isinstance(found, str):
            return found
        who = subject(text)
        if who.problem:
            return ("subject", who.problem, who.advice)
        if who.name == EVERYONE:
            return ("subject", "'*' cannot be given a role", "write the rules for '*' in p rows")
        return who.name

    def expression(self, text: str) -> Found:
        return self.condition(text) if text else self.name(text)

    def condition(self, text: str) -> Found:
        if text and self._every_name and (reason := flaw(text.replace("\t", " "))) is not None:
            return ("name", f"{text!r} {reason}", "write it as an escape, for example '\\u200b'")
        return text
