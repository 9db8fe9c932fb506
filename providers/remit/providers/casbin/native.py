"""remit's own model: its text, and what subjects look like under it."""

from __future__ import annotations

from typing import Final, NamedTuple

from remit.authz.vocabulary import flaw

SHIPPED_MODEL: Final = """\
[request_definition]
r = sub, res, obj, act, ctx

[policy_definition]
p = sub, res, obj, act, eft, cond

[role_definition]
g = _, _

[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))

[matchers]
m = (p.sub == "*" || g(r.sub, p.sub)) && (p.res == "*" || r.res == p.res) && \\
    (p.obj == "*" || globMatch(r.obj, p.obj)) && (p.act == "*" || r.act == p.act)
"""
"""The model used when the configuration names none. `policies/model.conf` states the same definitions."""

ROLE: Final = "role:"
USER: Final = "user:"
EVERYONE: Final = "*"


class Subject(NamedTuple):
    """A subject as a rule spells it, in the one form that decisions compare."""

    name: str
    """``role:admin``, ``user:alice`` or ``*``; for a bare name, the name itself."""
    bare: bool = False
    """True when no namespace was written."""
    problem: str = ""
    advice: str = ""


def subject(text: str) -> Subject:
    """Read a subject. `problem` is set when it names nobody."""
    if text == EVERYONE:
        return Subject(text)
    space, colon, name = text.partition(":")
    if not colon:
        if "*" in text:
            return Subject(
                text, problem=f"{text!r} is no pattern here", advice="write '*' alone for everyone, or a name"
            )
        return Subject(text, bare=True)
    if space not in ("role", "user"):
        close = space.strip().casefold().removesuffix("s")
        if close in ("role", "user"):
            advice = f"did you mean {f'{close}:{name.strip()}'!r}?"
        else:
            advice = f"write {f'role:{text}'!r} or {f'user:{text}'!r}"
        return Subject(text, problem=f"unknown kind of subject {space!r} in {text!r}", advice=advice)
    if (reason := flaw(name)) is not None:
        return Subject(text, problem=f"the name after {space + ':'!r} {reason}", advice=f"write {space}:NAME")
    if "*" in name:
        return Subject(text, problem=f"{text!r} is no pattern here", advice="write '*' alone for everyone, or a name")
    return Subject(text)
