"""remit on a world: the policy files an operator would have written, and the requests an agent would have made."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.worlds import Query, World
from remit.authz.types import AuthzDecision, AuthzRequest, Principal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remit.providers.casbin import CasbinAuthorizationProvider

Shape = Literal["five-part", "three-part"]

CONDITION = "r.ctx.args.amount <= 100 and r.ctx.args.currency == 'EUR'"
ARGS = {"amount": 80, "currency": "EUR", "to": "alice"}

THREE_PART = """\
[request_definition]
r = sub, obj, act

[policy_definition]
p = sub, obj, act, eft

[role_definition]
g = _, _

[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))

[matchers]
m = g(r.sub, p.sub) && {match} && r.act == p.act
"""


def write(
    world: World, folder: Path, shape: Shape = "five-part", *, condition: str = "", named_users: bool = False
) -> dict[str, Any]:
    """Write `world` as policy files into `folder`.

    Args:
        condition: Put into every allow row (five-part only).
        named_users: Link every user to their role in the policy as well, and give every second one a row of their own.

    Returns:
        The keyword arguments of the Casbin provider that serves them.
    """
    lines: list[str]
    if shape == "five-part":
        lines = [
            f"p, role:{g.role}, tool, {g.tool}, call, {g.effect}, {_quoted(condition) if g.effect == 'allow' else ''}"
            for g in world.grants
        ]
        lines += [f"g, role:{child}, role:{parent}" for child, parent in world.parents.items()]
        if named_users:
            lines += [f"g, user:{user}, role:{role}" for user, role in world.users.items()]
            lines += [f"p, user:{user}, tool, own_{user}, call, allow," for user in list(world.users)[::2]]
        made: dict[str, Any] = {}
    else:
        lines = [f"p, {g.role}, {g.tool}, call, {g.effect}" for g in world.grants]
        lines += [f"g, {child}, {parent}" for child, parent in world.parents.items()]
        match = "keyMatch(r.obj, p.obj)" if "patterns" in world.name else "r.obj == p.obj"
        (folder / "model.conf").write_text(THREE_PART.format(match=match), encoding="utf-8")
        made = {"model": "model.conf", "request": ["{role}", "{target}", "{action}"]}
    (folder / "policy.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made | {"policies": ["policy.csv"], "base_dir": folder}


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="remit-bench-") as name:
        yield Path(name)


def provider(world: World, shape: Shape = "five-part", **options: Any) -> CasbinAuthorizationProvider:
    """The Casbin provider over `world`, its files gone again."""
    from remit.providers.casbin import CasbinAuthorizationProvider

    with folder() as place:
        return CasbinAuthorizationProvider(**write(world, place, shape, **options))


def principal(world: World, user: str) -> Principal:
    return Principal(user_id=user, role=world.users[user])


def requests(world: World, queries: Iterable[Query], args: dict[str, Any] | None = None) -> list[AuthzRequest]:
    context = {"args": args} if args is not None else {}
    return [AuthzRequest(principal(world, q.user), "tool", "call", q.tool, context) for q in queries]


def insist(world: World, decide: Any, *, args: dict[str, Any] | None = None) -> None:
    """A fast wrong answer is worth nothing: every request of the world must be answered rightly.

    Raises:
        AssertionError: One was not.
    """
    for want, queries in ((True, world.allowed), (False, world.denied)):
        for request in requests(world, queries, args):
            answer: AuthzDecision = decide(request)
            if answer.allow is not want:
                raise AssertionError(f"{world.name}: {request.principal.user_id} {request.target}: {answer}")


def _quoted(condition: str) -> str:
    return '"' + condition.replace('"', '""') + '"' if condition else ""
