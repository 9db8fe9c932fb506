"""The registry of conformance cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from remit.authz.testing.session import NotClaimed, Session, named
from remit.authz.testing.world import World

Body = Callable[[Session], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that every provider must do.

    `body` yields complaints; none means that the provider conforms.
    """

    id: str
    """``family/name``."""
    title: str
    """The promise, as a sentence about the provider."""
    body: Body
    needs: frozenset[str] = frozenset()
    """Features of the world (`World.features`) without which the case does not apply."""

    @property
    def family(self) -> str:
        return self.id.partition("/")[0]

    def missing(self, world: World) -> str | None:
        """Why this case does not apply in `world`, or None."""
        lacking = sorted(self.needs - world.features)
        return f"the world was declared without {', '.join(lacking)}" if lacking else None

    def complaints(self, session: Session) -> list[str]:
        """Everything that is wrong, in the order it was found.

        Raises:
            NotClaimed: The provider does not offer the capability in question.
        """
        found: list[str] = []
        try:
            for complaint in self.body(session):
                found.append(complaint)
        except NotClaimed:
            raise
        except AssertionError as exc:
            found.append(str(exc))
        except Exception as exc:
            found.append(f"raised {named(exc)}")
        return found


_CASES: dict[str, Case] = {}


def add(id: str, title: str, body: Body, *, needs: Iterable[str] = ()) -> None:
    """Register one case.

    Raises:
        ValueError: The id is taken.
    """
    if id in _CASES:
        raise ValueError(f"case {id!r} is registered twice")
    _CASES[id] = Case(id, title, body, frozenset(needs))


def case(id: str, *, needs: Iterable[str] = ()) -> Callable[[Body], Body]:
    """Register the decorated function; its docstring is the title."""

    def register(body: Body) -> Body:
        add(id, (body.__doc__ or "").strip(), body, needs=needs)
        return body

    return register


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case of the kit, family by family."""
    from remit.authz.testing import families

    families.load()
    return tuple(_CASES.values())
