"""The kit without a test framework: run every case, get a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from remit.authz.errors import AuthzError
from remit.authz.provider import AuthorizationProvider
from remit.authz.testing.cases import Case, all_cases
from remit.authz.testing.session import NotClaimed, Session, named
from remit.authz.testing.world import World

Status = Literal["passed", "failed", "left out"]
Sabotage = Callable[[AuthorizationProvider], object]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one case."""

    case: Case
    status: Status
    complaints: tuple[str, ...] = ()
    """What is wrong, when it failed; why it does not apply, when it was left out."""

    def __str__(self) -> str:
        head = f"{self.status:8}  {self.case.id}: {self.case.title}"
        return "\n".join([head, *(f"            {complaint}" for complaint in self.complaints)])


class NotConforming(AuthzError):
    """A provider failed the conformance kit. The text is the report."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of every case. `print` it, or assert `ok`."""

    provider: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """No case failed and at least one ran."""
        return bool(self.passed) and not self.failed

    @property
    def passed(self) -> tuple[Result, ...]:
        return self._with("passed")

    @property
    def failed(self) -> tuple[Result, ...]:
        return self._with("failed")

    @property
    def left_out(self) -> tuple[Result, ...]:
        return self._with("left out")

    def raise_for_failures(self) -> None:
        """Do nothing when the provider conforms.

        Raises:
            NotConforming: It does not.
        """
        if not self.ok:
            raise NotConforming(str(self))

    def _with(self, status: Status) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.status == status)

    def __str__(self) -> str:
        """Failures first, then what was left out and why, then the count."""
        lines = [str(result) for result in self.failed]
        reasons: dict[str, int] = {}
        for result in self.left_out:
            reason = "; ".join(result.complaints)
            reasons[reason] = reasons.get(reason, 0) + 1
        lines += [f"left out  {count} cases: {reason}" for reason, count in reasons.items()]
        verdict = "conforms" if self.ok else "does not conform"
        lines.append(
            f"{self.provider} {verdict}: {len(self.passed)} passed, {len(self.failed)} failed, "
            f"{len(self.left_out)} left out"
        )
        return "\n".join(lines)


def run_case(case: Case, provider: AuthorizationProvider, world: World, sabotage: Sabotage | None = None) -> Result:
    """Run one case against a fresh `provider`, which is closed afterwards.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    if missing := case.missing(world):
        return Result(case, "left out", (missing,))
    _no_loop()
    session = Session(provider, world, sabotage)
    try:
        found = case.complaints(session)
    except NotClaimed as exc:
        return Result(case, "left out", (f"the provider does not offer {exc}",))
    finally:
        closing = _closed(session)
    complaints = (*found, *closing)
    return Result(case, "failed" if complaints else "passed", complaints)


def _no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "the kit brings event loops of its own and cannot run inside a running event loop; "
        "call it from a plain function"
    )


def _closed(session: Session) -> list[str]:
    try:
        session.close()
    except Exception as exc:
        return [f"closing the provider raised {named(exc)}"]
    return []


def check_provider(
    factory: Callable[[], AuthorizationProvider],
    *,
    world: World | None = None,
    sabotage: Sabotage | None = None,
    cases: Iterable[Case] | None = None,
) -> Report:
    """Run the conformance kit. Takes a few seconds for a provider that only computes.

    Args:
        factory: Makes a fresh provider that knows the rules of `world` and no other. Called once for each case.
        world: What the provider knows; the whole world by default. ``print(World())`` shows it.
        sabotage: Breaks the engine of the provider it is given (closes its server, deletes its data), so that the kit
            can see that errors are raised. Without it these cases are left out.
        cases: Other cases than all, for example one that failed.

    Returns:
        A report; nothing is raised for what the provider does wrong.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    _no_loop()
    world = World() if world is None else world
    results = []
    name = "the provider"
    for case in all_cases() if cases is None else cases:
        if missing := case.missing(world):
            results.append(Result(case, "left out", (missing,)))
            continue
        provider = factory()
        name = f"{type(provider).__name__} {getattr(provider, 'name', '')!r}"
        results.append(run_case(case, provider, world, sabotage))
    return Report(name, tuple(results))
