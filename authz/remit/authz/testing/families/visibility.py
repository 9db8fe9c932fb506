"""The filter: what a principal may ever use, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from remit.authz.testing.cases import Body, add, case
from remit.authz.testing.session import Session, caught
from remit.authz.testing.world import ACCENTED, Question

_NAMES: Final = ["search", "read_file", ACCENTED, "write_file", "wipe_disk", "brand_new_tool"]
_SHOWN: Final[tuple[tuple[str, list[str]], ...]] = (
    ("reader", ["search", "read_file", ACCENTED]),
    ("writer", ["search", "read_file", "write_file"]),
    ("admin", ["search", "read_file", "write_file"]),
    ("blocked", ["read_file"]),
)
_ARGUMENT_SETS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"amount": 1},
    {"amount": 5_000},
    {"topic": "weather"},
    {"topic": "payroll"},
    {"q": "x"},
)


def _showing(role: str, candidates: list[str], shown: list[str], resource: str = "tool") -> Body:
    def body(s: Session) -> Iterator[str]:
        answer = s.filter(role, list(candidates), resource)
        if answer != shown:
            yield f"role {role!r} sees {answer!r} of {candidates!r}, expected {shown!r}"

    return body


def _add(id: str, title: str, body: Body, *needs: str) -> None:
    add(f"visibility/{id}", title, body, needs=needs)


for _role, _shown in _SHOWN:
    _add(f"{_role}-sees", f"shows a {_role} exactly {_shown}", _showing(_role, _NAMES, _shown))
_add(
    "order-kept",
    "keeps the order of the candidates",
    _showing("writer", ["write_file", "wipe_disk", "search", "read_file"], ["write_file", "search", "read_file"]),
)
_add(
    "duplicates-kept",
    "keeps every copy of a granted name",
    _showing("reader", ["search", "wipe_disk", "search", "wipe_disk", "search"], ["search", "search", "search"]),
)
_add("nothing-asked", "answers an empty list with an empty list", _showing("reader", [], []))
_add("nothing-granted", "shows nothing of what is not granted", _showing("reader", ["wipe_disk", "write_file"], []))
_add("one-granted", "shows a single granted name", _showing("reader", ["search"], ["search"]))
_add(
    "models-by-list",
    "asks about model:list when it filters models",
    _showing("reader", ["large", "small", "gigantic", "search"], ["large", "small"], "model"),
    "model",
)
_add(
    "models-of-nobody",
    "shows no model to a role without rules on models",
    _showing("admin", ["large", "small"], [], "model"),
    "model",
)
_add(
    "routes-by-verb",
    "asks about the verb behind the colon when it filters routes",
    _showing("reader", ["threads:read", "threads:write", "runs:create"], ["threads:read"], "route"),
    "route",
)
_add(
    "routes-of-a-writer",
    "shows a writer both routes",
    _showing("writer", ["threads:write", "threads:delete", "threads:read"], ["threads:write", "threads:read"], "route"),
    "route",
)
_add(
    "asked-is-visible",
    "shows what needs approval, and hides it where it is denied",
    _showing("writer", ["send_mail", "wipe_disk"], ["send_mail"]),
    "asks",
)
_add(
    "asked-and-allowed-is-visible",
    "shows what is allowed and asked at once",
    _showing("admin", ["send_mail", "wipe_disk"], ["send_mail"]),
    "asks",
)
_add("asked-and-denied-is-hidden", "hides what is asked and denied", _showing("blocked", ["send_mail"], []), "asks")
_add(
    "condition-counts-as-satisfiable",
    "shows a tool that is allowed under some arguments",
    _showing("writer", ["transfer", "fetch"], ["transfer"]),
    "conditions",
)
_add(
    "conditional-deny-hides-nothing",
    "shows a tool that is denied under some arguments only",
    _showing("reader", ["fetch", "transfer"], ["fetch"]),
    "conditions",
)


@case("visibility/equals-authorize")
def equals_authorize(s: Session) -> Iterator[str]:
    """shows exactly what authorize allows, where no condition and no ask is involved"""
    for role in s.world.roles:
        allowed = [name for name in _NAMES if s.authorize(Question(role, name)).allow is True]
        shown = s.filter(role, list(_NAMES))
        if shown != allowed:
            yield f"role {role!r} sees {shown!r}, but may call {allowed!r}"


@case("visibility/covers-every-argument-set")
def covers_every_argument_set(s: Session) -> Iterator[str]:
    """shows every tool that authorize allows or asks about under any arguments"""
    tools = [*s.world.tools, "brand_new_tool"]
    for role in s.world.roles:
        shown = s.filter(role, list(tools))
        for name in tools:
            for args in _ARGUMENT_SETS:
                answer = s.authorize(Question(role, name, args=args))
                if (answer.allow is True or answer.asks) and name not in shown:
                    yield f"role {role!r} may call {name!r} with {args!r}, but does not see it"


@case("visibility/hides-what-never-is-allowed")
def hides_what_never_is_allowed(s: Session) -> Iterator[str]:
    """hides every tool that no rule grants or that a rule denies without condition"""
    granted = {(rule.role, rule.target) for rule in s.world.rules if rule.effect != "deny"}
    denied = {(rule.role, rule.target) for rule in s.world.rules if rule.effect == "deny" and rule.when is None}
    tools = [*s.world.tools, "brand_new_tool", "small", "threads:read"]
    for role in s.world.roles:
        for name in s.filter(role, list(tools)):
            if (role, name) not in granted or (role, name) in denied:
                yield f"role {role!r} sees {name!r}, which it may never call"


@case("visibility/adds-nothing")
def adds_nothing(s: Session) -> Iterator[str]:
    """adds no name that was not a candidate, however much it is granted"""
    for role in s.world.roles:
        for candidates in ([], ["wipe_disk"], ["read_file"], ["nothing", "of", "this"]):
            added = set(s.filter(role, list(candidates))) - set(candidates)
            if added:
                yield f"role {role!r}: {sorted(added)!r} was added to {candidates!r}"


@case("visibility/shuffled")
def shuffled(s: Session) -> Iterator[str]:
    """keeps any order and any multiplicity"""
    shuffle = random.Random(7)  # noqa: S311 - a repeatable order, no secret
    for role, shown in _SHOWN:
        for _ in range(10):
            candidates = shuffle.choices(_NAMES, k=20)
            expected = [name for name in candidates if name in shown]
            answer = s.filter(role, list(candidates))
            if answer != expected:
                yield f"role {role!r} sees {answer!r} of {candidates!r}, expected {expected!r}"


@case("visibility/huge")
def huge(s: Session) -> Iterator[str]:
    """filters 10,000 candidates as it filters ten"""
    candidates = [f"tool_{index}" for index in range(10_000)]
    places = {17: "search", 5_000: "wipe_disk", 5_001: "read_file", 9_999: "search"}
    for place, name in places.items():
        candidates[place] = name
    answer = s.filter("reader", list(candidates))
    if answer != ["search", "read_file", "search"]:
        yield f"of 10,000 names a reader sees {len(answer)}: {answer[:5]!r}, expected 'search', 'read_file', 'search'"


@case("visibility/same-name-thousands-of-times")
def same_name(s: Session) -> Iterator[str]:
    """keeps 10,000 copies of one name"""
    answer = s.filter("reader", ["search", "wipe_disk"] * 5_000)
    if answer != ["search"] * 5_000:
        yield f"5,000 times 'search' became {len(answer)} names"


@case("visibility/unknown-roles")
def unknown_roles(s: Session) -> Iterator[str]:
    """shows nothing to a role that does not exist"""
    for role in ("intruder", None, "*", "READER", "r\u0435ader", "role:reader", "user:u-1", "reader,admin"):
        shown, error = caught(s.filter, role, list(_NAMES))
        if error is None and shown != []:
            yield f"role {role!r} sees {shown!r}"


@case("visibility/unknown-resources")
def unknown_resources(s: Session) -> Iterator[str]:
    """shows nothing of a resource type that no rule mentions"""
    for resource in ("galaxy", "*", "tools", "TOOL", "skill", "sandbox"):
        for role in s.world.roles:
            shown, error = caught(s.filter, role, list(_NAMES), resource)
            if error is None and shown != []:
                yield f"role {role!r} sees {shown!r} of {resource!r}"


@case("visibility/claims-are-no-roles")
def claims_are_no_roles(s: Session) -> Iterator[str]:
    """shows no more to a user called like a role, an internal caller or one with telling attributes"""
    for claim in (
        Question("reader", "-", user="admin"),
        Question("reader", "-", user="role:writer"),
        Question("reader", "-", is_internal=True),
        Question("reader", "-", attributes={"role": "writer"}),
    ):
        shown = s.provider.filter_resources(claim.principal(), "tool", list(_NAMES))
        if shown != ["search", "read_file", ACCENTED]:
            yield f"{claim}: sees {shown!r}"
