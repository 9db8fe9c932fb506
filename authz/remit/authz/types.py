"""The values that every decision is made of. All are immutable and safe to share between threads and tasks.

Construction sits on the hot path next to a sub-microsecond decision: `Principal` and `AuthzRequest` are filled as
drafts before they are frozen, and the strings found clean are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import is_ as _is
from typing import Any, Final, Literal, NoReturn, cast

from remit.authz.vocabulary import flaw

__all__ = [
    "EMPTY",
    "AuthzDecision",
    "AuthzReason",
    "AuthzRequest",
    "Explanation",
    "FrozenDict",
    "Obligation",
    "Principal",
    "RuleTrace",
    "deep_freeze",
]


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change. Hashable when its values are."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is frozen; build a new one")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # dict sets it to None; order must not matter
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return (FrozenDict, (dict(self),))


EMPTY: Final = FrozenDict()


def deep_freeze(value: Any) -> Any:
    """`value` with mappings as `FrozenDict`, lists as tuples and sets as frozensets, all the way down.

    Other objects are kept as they are: attributes are JSON values by contract.

    Raises:
        TypeError: A mapping has a key that is not a string.
        ValueError: `value` holds itself, or is nested too deeply to be looked through.
    """
    try:
        return _frozen(value)
    except RecursionError:
        raise ValueError("attributes are nested too deeply, or hold themselves") from None


def _frozen(value: Any) -> Any:
    if type(value) in _ATOMS or value is EMPTY:
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"attribute names must be str, got {type(key).__name__} {key!r}")
        items = {key: _frozen(item) for key, item in value.items()}
        # a FrozenDict may have been made around a list
        done = type(value) is FrozenDict and all(items[key] is item for key, item in value.items())
        return value if done else FrozenDict(items)
    if isinstance(value, (list, tuple)):
        frozen = tuple(map(_frozen, value))
        return value if type(value) is tuple and all(map(_is, frozen, value)) else frozen
    if isinstance(value, (set, frozenset)):
        return value if type(value) is frozenset else frozenset(map(_frozen, value))
    return value


def _frozen_mapping(name: str, value: Any) -> Mapping[str, Any]:
    """`value` deep-frozen.

    Raises:
        TypeError: It is no Mapping with str keys.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a Mapping, got {type(value).__name__}")
    frozen: FrozenDict = deep_freeze(value)
    return frozen


_ATOMS = frozenset({str, int, float, bool, type(None), bytes})

# Strings already found clean. Bounded: emptied when full, and long strings are never remembered.
_CLEAN: set[str] = set()
_CLEAN_MAX = 65_536


def _identity(name: str, value: Any) -> str | None:
    """`value` as an exact, clean str, or None for the empty string.

    Raises:
        TypeError: Not a str.
        ValueError: White space around it, invisible characters, or not NFC. Identity is never repaired.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str or None, got {type(value).__name__}")
    text = str.__str__(value)  # a subclass may compare as it likes; decisions see the exact type only
    if not text:
        return None
    if (reason := flaw(text)) is not None:
        raise ValueError(f"{name} {text!r} {reason}; identity is never repaired, correct it at the source")
    _remember(text)
    return text


def _remember(text: str) -> None:
    if len(text) <= 256:
        if len(_CLEAN) >= _CLEAN_MAX:
            _CLEAN.clear()
        _CLEAN.add(text)


@dataclass(frozen=True, slots=True, init=False)
class Principal:
    """Who asks. Built once at the trust boundary, from server-owned context only.

    An empty string becomes None. Nothing is repaired.

    Raises:
        TypeError: A field is not a str (``is_internal``: not a bool; ``attributes``: not a Mapping with str keys).
        ValueError: A string has surrounding white space, control or format characters, or is not NFC.
    """

    user_id: str | None = None
    role: str | None = None
    oauth_provider: str | None = None
    oauth_id: str | None = None
    channel_user_id: str | None = None
    is_internal: bool = False
    attributes: Mapping[str, Any] = field(default=EMPTY)
    """JSON values that conditions may read as ``r.ctx.principal.attributes.NAME``; deep-frozen."""

    def __new__(
        cls,
        user_id: str | None = None,
        role: str | None = None,
        oauth_provider: str | None = None,
        oauth_id: str | None = None,
        channel_user_id: str | None = None,
        is_internal: bool = False,
        attributes: Mapping[str, Any] = EMPTY,
    ) -> Principal:
        if user_id is not None and (type(user_id) is not str or user_id not in _CLEAN):
            user_id = _identity("user_id", user_id)
        if role is not None and (type(role) is not str or role not in _CLEAN):
            role = _identity("role", role)
        if oauth_provider is not None:
            oauth_provider = _identity("oauth_provider", oauth_provider)
        if oauth_id is not None:
            oauth_id = _identity("oauth_id", oauth_id)
        if channel_user_id is not None:
            channel_user_id = _identity("channel_user_id", channel_user_id)
        if is_internal is not False and is_internal is not True:
            raise TypeError(f"is_internal must be a bool, got {type(is_internal).__name__}")
        if attributes is not EMPTY:
            attributes = _frozen_mapping("attributes", attributes)
        draft = _PrincipalDraft()
        draft.user_id = user_id
        draft.role = role
        draft.oauth_provider = oauth_provider
        draft.oauth_id = oauth_id
        draft.channel_user_id = channel_user_id
        draft.is_internal = is_internal
        draft.attributes = attributes
        draft.__class__ = Principal  # type: ignore[assignment]  # same slots
        return cast("Principal", draft)

    def __init_subclass__(cls) -> None:
        raise TypeError("Principal cannot be subclassed: a subclass could answer differently at every look")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Principal, tuple(getattr(self, name.name) for name in fields(self)))


class _PrincipalDraft:
    """A `Principal` while it is made. With the same slots, its class can be exchanged for the frozen one.

    Writing seven slots through a frozen class's descriptors costs three times as much as the decision itself.
    """

    __slots__ = ("attributes", "channel_user_id", "is_internal", "oauth_id", "oauth_provider", "role", "user_id")
    user_id: str | None
    role: str | None
    oauth_provider: str | None
    oauth_id: str | None
    channel_user_id: str | None
    is_internal: bool
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, init=False)
class AuthzRequest:
    """May `principal` do `action` on the `target` of type `resource`?

    Raises:
        TypeError: `principal` is not a `Principal`, or `context` not a Mapping.
        ValueError: `resource`, `action` or `target` is empty or not a str.
    """

    principal: Principal
    resource: str
    action: str
    target: str
    context: Mapping[str, Any] = field(default=EMPTY)
    """What conditions may read as ``r.ctx.…``: ``args`` (the call's arguments as JSON) and ids. Copied, one level."""

    def __new__(
        cls, principal: Principal, resource: str, action: str, target: str, context: Mapping[str, Any] = EMPTY
    ) -> AuthzRequest:
        if type(principal) is not Principal:
            raise TypeError(f"principal must be a Principal, got {type(principal).__name__}")
        if not (
            type(resource) is str and resource and type(action) is str and action and type(target) is str and target
        ):
            resource, action, target = _name("resource", resource), _name("action", action), _name("target", target)
        if context is not EMPTY and type(context) is not FrozenDict:
            if not isinstance(context, Mapping):
                raise TypeError(f"context must be a Mapping, got {type(context).__name__}")
            context = FrozenDict(context)
        draft = _RequestDraft()
        draft.principal = principal
        draft.resource = resource
        draft.action = action
        draft.target = target
        draft.context = context
        draft.__class__ = AuthzRequest  # type: ignore[assignment]  # same slots
        return cast("AuthzRequest", draft)

    def __init_subclass__(cls) -> None:
        raise TypeError("AuthzRequest cannot be subclassed: a subclass could answer differently at every look")

    def __reduce__(self) -> tuple[Any, ...]:
        return (AuthzRequest, tuple(getattr(self, name.name) for name in fields(self)))


class _RequestDraft:
    """An `AuthzRequest` while it is made; see `_PrincipalDraft`."""

    __slots__ = ("action", "context", "principal", "resource", "target")
    principal: Principal
    resource: str
    action: str
    target: str
    context: Mapping[str, Any]


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a non-empty str, got {value!r}")
    return str.__str__(value)


@dataclass(frozen=True, slots=True)
class AuthzReason:
    """Why. `code` is namespaced (``authz.denied``); `message` is for operators and never shown to the model."""

    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Obligation:
    """What the enforcement point must do before it may act on the decision. An unknown type is a denial."""

    type: str
    id: str = ""
    properties: Mapping[str, Any] = field(default=EMPTY)

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or not self.type:
            raise TypeError(f"an obligation's type must be a non-empty str, got {self.type!r}")
        object.__setattr__(self, "properties", _frozen_mapping("properties", self.properties))


APPROVAL: Final = "approval"


@dataclass(frozen=True, slots=True)
class AuthzDecision:
    """One answer of a policy brain.

    It has no truth value: ``if decision:`` raises, since every object is true and a denial must not be.

    Raises:
        TypeError: `allow` is not exactly True or False, a reason or obligation has another type, or `metadata` is no
            Mapping.
        ValueError: `allow` is True although an obligation asks for approval.
    """

    allow: bool
    reasons: tuple[AuthzReason, ...] = ()
    policy_id: str | None = None
    """The rule that decided, for example ``policy.csv:42``."""
    policy_version: str | None = None
    obligations: tuple[Obligation, ...] = ()
    metadata: Mapping[str, Any] = field(default=EMPTY)
    asks: bool = field(init=False, repr=False, compare=False, default=False)
    """True when a human must approve. Such a decision has ``allow=False``: who knows no approvals denies."""

    def __post_init__(self) -> None:
        if self.allow is not True and self.allow is not False:
            raise TypeError(f"allow must be True or False, got {type(self.allow).__name__} {self.allow!r}")
        set_ = object.__setattr__
        set_(self, "reasons", _tuple_of(AuthzReason, "reasons", self.reasons))
        set_(self, "obligations", _tuple_of(Obligation, "obligations", self.obligations))
        set_(self, "metadata", _frozen_mapping("metadata", self.metadata))
        if any(o.type == APPROVAL for o in self.obligations):
            if self.allow:
                raise ValueError("a decision that requires approval must have allow=False")
            set_(self, "asks", True)

    def __bool__(self) -> bool:
        raise TypeError("a decision has no truth value; use `decision.allow is True`")

    @property
    def code(self) -> str:
        """The first reason's code, or ``authz.allowed`` / ``authz.denied``."""
        return self.reasons[0].code if self.reasons else ("authz.allowed" if self.allow else "authz.denied")


def _tuple_of(kind: type, name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    out = tuple(values)
    for value in out:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must hold {kind.__name__}, got {type(value).__name__}")
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrace:
    """One rule that matched, or nearly matched, a request."""

    policy_id: str
    text: str
    """The rule as the operator wrote it."""
    effect: Literal["allow", "deny", "ask"]
    outcome: Literal["decides", "applies", "overridden", "condition-false", "condition-unknown"]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The trace of one decision, for operators. Never shown to a model."""

    request: AuthzRequest
    decision: AuthzDecision
    subjects: tuple[str, ...] = ()
    """Every subject (user, roles, inherited roles) in whose name rules were looked up."""
    rules: tuple[RuleTrace, ...] = ()
    changes: tuple[str, ...] = ()
    """The smallest changes of the policy that would allow the request, each as a line to add or remove."""
    notes: tuple[str, ...] = ()
