"""The tiny policy world that a provider under test must be given, and what it must answer in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from remit.authz import wire
from remit.authz.types import EMPTY, AuthzRequest, Principal

Answer = Literal["allow", "deny", "ask"]

ROLES: Final = ("reader", "writer", "admin", "blocked")
RESOURCES: Final = ("tool", "model", "route")


@dataclass(frozen=True, slots=True)
class When:
    """A condition on one argument: it holds when the argument is there, has a fitting type and compares so."""

    argument: str
    operator: Literal["<=", "=="]
    value: int | str

    def __str__(self) -> str:
        return f"args.{self.argument} {self.operator} {self.value!r}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the world, to be written down in the policy language of the provider under test.

    Names are exact and case-sensitive. Deny beats ask, ask beats allow, and what no rule allows is denied.
    """

    effect: Answer
    role: str
    resource: str
    action: str
    target: str
    when: When | None = None
    """A missing argument, or one of another type, lets an allow rule not apply and a deny rule apply."""

    def __str__(self) -> str:
        condition = f" when {self.when}" if self.when else ""
        return f"{self.effect:5} {self.role:8} {self.resource}:{self.action} {self.target}{condition}"


def _allow(role: str, *tools: str) -> tuple[Rule, ...]:
    return tuple(Rule("allow", role, "tool", "call", tool) for tool in tools)


ACCENTED: Final = "caf\u00e9_search"  # NFC; its decomposed twin is another name

_RULES: Final[tuple[Rule, ...]] = (
    *_allow("reader", "search", "read_file", ACCENTED),
    *_allow("writer", "search", "read_file", "write_file"),
    *_allow("admin", "search", "read_file", "write_file", "wipe_disk"),
    Rule("deny", "admin", "tool", "call", "wipe_disk"),
    *_allow("blocked", "search", "read_file"),
    Rule("deny", "blocked", "tool", "call", "search"),
    Rule("allow", "writer", "tool", "call", "transfer", When("amount", "<=", 100)),
    Rule("allow", "reader", "tool", "call", "fetch"),
    Rule("deny", "reader", "tool", "call", "fetch", When("topic", "==", "payroll")),
    Rule("ask", "writer", "tool", "call", "send_mail"),
    Rule("allow", "admin", "tool", "call", "send_mail"),
    Rule("ask", "admin", "tool", "call", "send_mail"),
    Rule("ask", "blocked", "tool", "call", "send_mail"),
    Rule("deny", "blocked", "tool", "call", "send_mail"),
    Rule("allow", "reader", "model", "list", "small"),
    Rule("allow", "reader", "model", "use", "small"),
    Rule("allow", "reader", "model", "list", "large"),
    Rule("allow", "writer", "model", "list", "small"),
    Rule("allow", "writer", "model", "use", "small"),
    Rule("allow", "writer", "model", "list", "large"),
    Rule("allow", "writer", "model", "use", "large"),
    Rule("allow", "reader", "route", "read", "threads:read"),
    Rule("allow", "writer", "route", "read", "threads:read"),
    Rule("allow", "writer", "route", "write", "threads:write"),
)
_ASK_TOOLS: Final = frozenset({"send_mail"})
_CONDITIONAL_TOOLS: Final = frozenset({"transfer", "fetch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Which part of the world the provider under test knows.

    A policy language without conditions on arguments, without "ask", or a provider for tools alone says so here; the
    rules and the cases that need it are then left out, and the report says which.

    Example:
        ``World(asks=False, resources=("tool",))``
    """

    conditions: bool = True
    """Rules may look at arguments of the call."""
    asks: bool = True
    """Rules may require that a human approves."""
    resources: tuple[str, ...] = RESOURCES
    """Resource types the provider knows; ``"tool"`` is not optional."""

    def __post_init__(self) -> None:
        if isinstance(self.resources, str) or "tool" not in self.resources or set(self.resources) - set(RESOURCES):
            raise ValueError(f"resources must hold 'tool' and nothing beyond {RESOURCES}, got {self.resources!r}")

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule the provider must be given. It must be given no other."""
        return tuple(
            rule
            for rule in _RULES
            if rule.resource in self.resources
            and (self.asks or rule.target not in _ASK_TOOLS)
            and (self.conditions or rule.target not in _CONDITIONAL_TOOLS)
        )

    @property
    def roles(self) -> tuple[str, ...]:
        """Every role that exists. No role inherits from another."""
        return ROLES

    @property
    def tools(self) -> tuple[str, ...]:
        """Every tool name that a rule mentions, in the order of the rules."""
        return tuple(dict.fromkeys(rule.target for rule in self.rules if rule.resource == "tool"))

    @property
    def features(self) -> frozenset[str]:
        """What a case may need: ``conditions``, ``asks`` and the resource types."""
        names = {"conditions"} if self.conditions else set()
        return frozenset(names | ({"asks"} if self.asks else set()) | set(self.resources))

    def __str__(self) -> str:
        """The world as a table, one rule a line."""
        return "\n".join(
            ["roles: " + ", ".join(self.roles), "what no rule allows is denied; deny beats ask beats allow", ""]
            + [str(rule) for rule in self.rules]
        )


@dataclass(frozen=True, slots=True)
class Question:
    """One request in words: easy to write down, easy to read in a failure."""

    role: str | None
    target: str
    resource: str = "tool"
    action: str = "call"
    args: Mapping[str, Any] | None = None
    """None: the call carries an empty set of arguments."""
    user: str | None = "u-1"
    is_internal: bool = False
    attributes: Mapping[str, Any] = field(default=EMPTY)
    extra: Mapping[str, Any] = field(default=EMPTY)
    """Further members of the request's context; a member given here replaces the usual one."""

    def principal(self) -> Principal:
        return Principal(user_id=self.user, role=self.role, is_internal=self.is_internal, attributes=self.attributes)

    def request(self) -> AuthzRequest:
        """The request as an enforcement point would build it."""
        context: dict[str, Any] = {}
        if self.resource == "tool":
            context = {
                wire.CTX_ARGS: {} if self.args is None else self.args,
                wire.CTX_TOOL_CALL_ID: "call-1",
                wire.THREAD_ID: "thread-1",
                wire.RUN_ID: "run-1",
                wire.IS_SUBAGENT: False,
                wire.CTX_AGENT_ID: None,
                wire.CTX_TIMESTAMP: "2026-01-01T00:00:00+00:00",
            }
        return AuthzRequest(self.principal(), self.resource, self.action, self.target, {**context, **self.extra})

    def __str__(self) -> str:
        target = self.target if len(self.target) <= 60 else f"{self.target[:40]}… ({len(self.target)} characters)"
        parts = [f"role {self.role!r}", f"{self.resource}:{self.action}", ascii(target)]
        if self.args:
            parts.append(f"args {_short(self.args)}")
        if self.user != "u-1":
            parts.append(f"user {self.user!r}")
        if self.is_internal:
            parts.append("internal")
        if self.attributes:
            parts.append(f"attributes {dict(self.attributes)!r}")
        return " ".join(parts)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
