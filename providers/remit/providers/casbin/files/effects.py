"""The words a rule may state as its effect, and what to say about others."""

from __future__ import annotations

from typing import Final

ALLOW: Final = "allow"
DENY: Final = "deny"
ASK: Final = "ask"

_MEANT: Final = {
    **dict.fromkeys(("permit", "permitted", "grant", "granted", "accept", "allowed", "yes", "true", "1"), ALLOW),
    **dict.fromkeys(("reject", "rejected", "block", "blocked", "forbid", "forbidden", "denied", "refuse"), DENY),
    **dict.fromkeys(("no", "false", "0", "disallow", "prohibit"), DENY),
    **dict.fromkeys(("confirm", "approve", "approval", "review", "prompt", "asks"), ASK),
}
WORDS: Final = frozenset(
    {ALLOW, DENY, ASK, "allowed", "denied", "permitted", "forbid", "forbidden", "disallow", "prohibit"}
)
"""Words that read as a verdict wherever they stand; usual names of actions (block, approve, grant) are left out."""


class Effects:
    """The accepted words under one model.

    Args:
        native: True under remit's own model, which knows ``ask``.
    """

    def __init__(self, native: bool) -> None:
        self.accepted = (ALLOW, DENY, ASK) if native else (ALLOW, DENY)

    def check(self, text: str) -> str | tuple[str, str, str]:
        """`text`, or (code, message, advice) when it is none of the accepted words."""
        if text in self.accepted:
            return text
        if text == ASK:
            return ("ask-needs-native", "'ask' is unknown under this model", "use remit's own model for rules that ask")
        accepted = " or ".join(map(repr, self.accepted)) if len(self.accepted) < 3 else "'allow', 'deny' or 'ask'"
        folded = text.casefold()
        meant = folded if folded in self.accepted else _MEANT.get(folded) or _one_edit_from(folded, self.accepted)
        hint = f"; did you mean {meant!r}?" if meant in self.accepted else ""
        return ("unknown-effect", f"unknown effect {text!r}" if text else "an empty effect", f"write {accepted}{hint}")


def _one_edit_from(word: str, choices: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(word, choices, n=1, cutoff=0.6)
    return close[0] if close else None
