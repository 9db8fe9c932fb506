"""Other engines on the same worlds, for comparison. None of them is held to a bound.

pycasbin and cedarpy are installed with the group `bench`. The policy evaluator of the agent governance toolkit lives
in an environment of its own, since it pins other versions: name its interpreter in REMIT_BENCH_AGENT_OS_PYTHON.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import subjects
from benchmarks.floor import Decide, floor
from benchmarks.measure import Row, paired
from benchmarks.processes import NotInstalled, ask
from benchmarks.worlds import SIZES, World, world

AGENT_OS = "REMIT_BENCH_AGENT_OS_PYTHON"


def rows(seconds: float, say: Callable[[str], None]) -> Iterator[Row]:
    """Every peer that is installed; `say` is told which is not, and why."""
    for size in SIZES:
        yield _row("pycasbin", size, pycasbin(world(size)), seconds)
    try:
        import cedarpy  # noqa: F401
    except ImportError:
        say("cedarpy: skipped, not installed (group bench)")
    else:
        for size in SIZES:
            yield _row("cedarpy, one policy per role", size, cedar(world(size)), seconds)
    python = os.environ.get(AGENT_OS)
    if not python:
        say(f"agent-os-kernel: skipped, {AGENT_OS} names no interpreter that has it")
        return
    for size in SIZES[:2]:
        try:
            taken = ask("agent_os_child", size, python=python)
        except NotInstalled as exc:
            say(f"agent-os-kernel: skipped, {exc}")
            return
        yield Row(
            group="peers",
            name=f"agent-os-kernel, {size} rules",
            value=taken["ratio"],
            us=taken["us"],
            note="own environment, own floor",
        )


def pycasbin(tested: World) -> Decide:
    """The enforcer as it comes, with the three-part model."""
    import casbin

    with subjects.folder() as place:
        subjects.write(tested, place, "three-part")
        enforcer = casbin.Enforcer(str(place / "model.conf"), str(place / "policy.csv"))
    role_of = tested.users
    enforce: Callable[[str, str, str], bool] = enforcer.enforce
    return lambda user, tool, action: enforce(role_of[user], tool, action)


def cedar(tested: World) -> Decide:
    """One permit and one forbid per role over groups of tools: the shape that suits Cedar best."""
    import cedarpy

    def entity(kind: str, name: str, parents: list[tuple[str, str]]) -> dict[str, Any]:
        return {
            "uid": {"type": kind, "id": name},
            "attrs": {},
            "parents": [{"type": k, "id": n} for k, n in parents],
        }

    roles = sorted({grant.role for grant in tested.grants})
    policies = "\n".join(
        f'{verb}(principal in Role::"{role}", action == Action::"call", resource in Group::"{effect} {role}");'
        for role in roles
        for verb, effect in (("permit", "allow"), ("forbid", "deny"))
    )
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for grant in tested.grants:
        groups[grant.tool].append(("Group", f"{grant.effect} {grant.role}"))
    entities = [entity("User", user, [("Role", role)]) for user, role in tested.users.items()]
    entities += [entity("Role", r, [("Role", tested.parents[r])] if r in tested.parents else []) for r in roles]
    entities += [entity("Tool", tool, member_of) for tool, member_of in groups.items()]
    policy_set = cedarpy.PolicySet.from_str(policies)
    known = cedarpy.Entities.from_json_str(json.dumps(entities))

    def decide(user: str, tool: str, action: str) -> bool:
        asked = {"principal": f'User::"{user}"', "action": f'Action::"{action}"', "resource": f'Tool::"{tool}"'}
        allowed: bool = cedarpy.is_authorized(asked, policy_set, known).allowed
        return allowed

    return decide


def _row(engine: str, size: str, decide: Decide, seconds: float) -> Row:
    base = world(size)
    for query, want in ((base.allowed[0], True), (base.denied[0], False), (base.denied[1], False)):
        if decide(query.user, query.tool, "call") is not want:
            raise AssertionError(f"{engine}, {size}: wrong about {query}")
    queries = base.requests()
    by_floor = floor(base)
    one = itertools.cycle(queries)

    def subject() -> None:
        user, tool = next(one)
        decide(user, tool, "call")

    def all_by_floor() -> None:
        for user, tool in queries:
            by_floor(user, tool, "call")

    slow = engine == "pycasbin" and size == "100k"  # a second per decision
    result = paired(subject, all_by_floor, base_calls=len(queries), seconds=seconds, most=4 if slow else 10_000)
    return Row(group="peers", name=f"{engine}, {size} rules", value=result.ratio, us=result.us)
