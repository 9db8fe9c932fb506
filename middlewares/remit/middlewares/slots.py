"""What the table of the chain is made of: slots, reasons for their order, and what a chain is built from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from remit.authz.enforcer import Enforcer
from remit.middlewares.approvals import Approvals
from remit.middlewares.fusion import Middleware
from remit.runtime.config import AppConfig

if TYPE_CHECKING:
    from remit.authz.provider import GuardrailProvider
    from remit.middlewares.sandbox import Projection
    from remit.runtime.sandboxes import SandboxAccess

Scope = Literal["lead", "bootstrap", "embedded", "subagent"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


class ChainOrderError(RuntimeError):
    """Middlewares stand in an order that would change what they do. Every broken edge is named at once."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What decides which slots a chain has; known before anything is built."""

    config: AppConfig
    scope: Scope
    authorization: bool
    """Whether a policy decides."""
    guardrail: bool
    """Whether an explicit guardrail is asked as well."""
    custom: bool = False
    """Whether the host passes middlewares of its own."""

    @classmethod
    def of(cls, config: AppConfig, scope: Scope) -> Conditions:
        """As the settings alone say."""
        return cls(
            config=config,
            scope=scope,
            authorization=config.authz.enabled,
            guardrail=config.authz.guardrails.enabled,
        )


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a chain is built from."""

    config: AppConfig
    scope: Scope
    enforcer: Enforcer
    access: SandboxAccess
    guardrail: GuardrailProvider | None = None
    """The explicit guardrail, asked after the policy."""
    approvals: Approvals | None = None
    passport: str | None = None
    """The operator's id for this agent."""
    model_name: str | None = None
    """Under which the policy knows the agent's model; None when the host chose it."""
    infrastructure_tools: tuple[object, ...] = ()
    """Tools that this build generated from a filtered catalogue."""
    projection: Projection | None = None
    """Puts the thread's skills where its sandbox sees them."""
    custom: tuple[Middleware, ...] = ()
    """Middlewares of the host."""

    @property
    def conditions(self) -> Conditions:
        return Conditions(
            config=self.config,
            scope=self.scope,
            authorization=self.enforcer.enabled,
            guardrail=self.guardrail is not None,
            custom=bool(self.custom),
        )

    @property
    def owner(self) -> bool:
        """Whether this agent owns the thread's environment: subagents and the bootstrap agent do not."""
        return self.scope in ("lead", "embedded")


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One place in the chain."""

    id: str
    number: str
    """As the requirement text counts, with a letter where one item is several slots."""
    home: str
    """``module:Class`` below `remit.middlewares`; empty for the slot of the host's own middlewares."""
    make: Callable[[Build, Slot], Sequence[Middleware]]
    when: Callable[[Conditions], bool] = lambda given: True
    condition: str = "always"
    """`when` in words."""
    scopes: tuple[Scope, ...] = SCOPES
    hooks: tuple[str, ...]
    """Hooks that it uses, by their synchronous names."""
    channels: tuple[str, ...] = ()
    """State channels that it owns."""
    tools: tuple[str, ...] = ()
    """Tools that it brings."""

    @property
    def title(self) -> str:
        """The class name, or what stands for it."""
        return self.home.rpartition(":")[2] or "middlewares of the host"

    def fits(self, given: Conditions) -> bool:
        """Whether a chain under these conditions has it."""
        return given.scope in self.scopes and self.when(given)

    def load(self) -> Any:
        """The class. Modules of slots that a chain does not have are not imported."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"remit.middlewares.{module}"), name)


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One reason why the order matters: `outer` comes before `inner` when both are there."""

    outer: str
    inner: str
    why: str
    adjacent: bool = False
    """Whether nothing may stand between them."""


def check_order(ids: Sequence[str], edges: Iterable[Edge], *, by: str = "the table of slots") -> None:
    """Compare an order with every edge.

    Args:
        ids: Slot ids, outermost first.
        edges: The reasons.
        by: Who made the order, for the message.

    Raises:
        ChainOrderError: Naming both slots, where they stand, and why that is wrong.
    """
    problems = [f"{one} stands there twice" for one in sorted({one for one in ids if ids.count(one) > 1})]
    at = {one: index for index, one in enumerate(ids)}
    for edge in edges:
        if edge.outer in at and edge.inner in at:
            gap = at[edge.inner] - at[edge.outer]
            if gap < 1 or (edge.adjacent and gap != 1):
                place = "directly before" if edge.adjacent else "before"
                problems.append(
                    f"{edge.outer} (index {at[edge.outer]}) must come {place} {edge.inner} "
                    f"(index {at[edge.inner]}): {edge.why}"
                )
    if problems:
        raise ChainOrderError(f"order of {by}: " + "; ".join(problems))
