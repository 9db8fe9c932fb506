"""The values that a condition can speak of: names of the request, literals, and canonical views of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from remit.authz import wire
from remit.authz.documents import did_you_mean
from remit.authz.types import FrozenDict, Principal
from remit.providers.casbin.conditions.syntax import ConditionError, Source
from remit.providers.casbin.conditions.views import host_of, length_of, lower_of, path_of, scheme_of, text_of, trim_of

Kind = Literal["any", "text", "path", "host", "number", "bool"]


class Asked(Protocol):
    """What evaluation looks at: an `AuthzRequest`, or a stand-in that has only a principal."""

    @property
    def principal(self) -> Principal: ...
    @property
    def context(self) -> Mapping[str, Any]: ...


Get = Callable[[Asked], Any]


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


@dataclass(frozen=True, slots=True)
class Term:
    """One side of a comparison: how to get its value, which is None where it is unknown."""

    kind: Kind
    get: Get
    source: Source
    node: ast.expr
    const: Any = NOTHING
    """The value of a literal."""
    readers: Mapping[str, Get] = FrozenDict()
    """Every name that is read -> how."""
    call: bool = False
    """Does it read anything that belongs to the call, and not to the principal?"""
    folded: bool = False
    """Has case been taken away?"""
    verbatim: bool = False
    """Did the operator say that this is text, even where it is compared with something like a path?"""

    @property
    def written(self) -> str:
        return self.source.written(self.node)

    @property
    def offset(self) -> int:
        return self.source.offset(self.node)

    @property
    def fixed(self) -> bool:
        return self.const is not NOTHING


def literal(value: Any, source: Source, node: ast.expr) -> Term:
    """A str, int, float or bool that the operator wrote."""
    kind: Kind = "text" if type(value) is str else "bool" if type(value) is bool else "number"
    value = text_of(value) if kind == "text" else value
    return Term(kind, lambda _: value, source, node, const=value)


def viewed(term: Term, kind: Kind, view: Callable[[Any], Any], *, folded: bool = False) -> Term:
    """`term` seen through `view`."""
    get = term.get
    return replace(term, kind=kind, get=lambda asked: view(get(asked)), folded=term.folded or folded)


def as_path(term: Term) -> Term:
    return term if term.kind == "path" else viewed(term, "path", path_of)


def maybe_path(term: Term) -> Term:
    """`term` as it is compared with text that begins with a slash: as a path, unless the operator said otherwise."""
    return as_path(term) if term.kind == "any" or (term.kind == "text" and not term.verbatim) else term


def as_host(term: Term) -> Term:
    return term if term.kind == "host" else viewed(term, "host", host_of)


def as_folded(term: Term) -> Term:
    return viewed(term, "text" if term.kind == "any" else term.kind, lower_of, folded=True)


def _length(term: Term) -> Term:
    return replace(viewed(term, "number", length_of), folded=False)


VIEWS: Final[Mapping[str, Callable[[Term], Term]]] = {
    "path": as_path,
    "host": as_host,
    "scheme": lambda term: replace(viewed(term, "text", scheme_of, folded=True), verbatim=True),
    "lower": as_folded,
    "trim": lambda term: viewed(term, "text", trim_of),
    "text": lambda term: replace(viewed(term, "text", text_of), verbatim=True),
    "len": _length,
}
"""Functions from a value to a value."""

_PRINCIPAL = ("user_id", "role", "oauth_provider", "oauth_id", "channel_user_id", "is_internal")
_CALL = (
    wire.CTX_TOOL_CALL_ID,
    wire.THREAD_ID,
    wire.RUN_ID,
    wire.IS_SUBAGENT,
    wire.CTX_AGENT_ID,
    wire.CTX_TIMESTAMP,
)
_KNOWN = (f"{wire.CTX_ARGS}.NAME", "principal.attributes.NAME", *(f"principal.{name}" for name in _PRINCIPAL), *_CALL)
_START = f"names begin with r.ctx, for example r.ctx.{wire.CTX_ARGS}.NAME"


def is_name(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))


def read(node: ast.expr, source: Source) -> Term:
    """The name that `node` spells, as a term.

    Raises:
        ConditionError: No such name exists.
    """
    keys = _keys(node, source)
    if keys[:2] != ["r", "ctx"]:
        what = f"the name {source.written(node)!r} is not known"
        raise ConditionError(what, _start(keys), offset=source.offset(node))
    path = keys[2:]
    match path:
        case [wire.CTX_ARGS, *rest] if rest:
            get = _of_call(path)
        case ["principal", "attributes", *rest] if rest:
            get = _of_attributes(rest)
        case ["principal", field] if field in _PRINCIPAL:
            get = _of_principal(field)
        case [field] if field in _CALL:
            get = _of_call(path)
        case _:
            written, known = source.written(node), [f"r.ctx.{name}" for name in _KNOWN]
            what = f"the name {written!r} is not known"
            raise ConditionError(what, did_you_mean(written, known), offset=source.offset(node))
    return Term("any", get, source, node, readers=FrozenDict({_dotted(path): get}), call=path[0] != "principal")


def _start(keys: list[str]) -> str:
    head = keys[1] if keys[0] == "r" and len(keys) > 1 else keys[0]
    if head in ("ctx", wire.CTX_ARGS, "principal", "attributes", *_CALL):
        ours = {"ctx": "r.ctx", "attributes": "r.ctx.principal.attributes"}.get(head, f"r.ctx.{head}")
        return f"did you mean {ours}?"
    if keys[0] == "p" or head in ("sub", "res", "obj", "act"):
        return "the columns of the row decide about those; a condition reads r.ctx only"
    return _START


def _keys(node: ast.expr, source: Source) -> list[str]:
    keys: list[str] = []
    here = node
    while not isinstance(here, ast.Name):
        if isinstance(here, ast.Attribute):
            keys.append(here.attr)
            here = here.value
        elif isinstance(here, ast.Subscript):
            index = here.slice
            if not isinstance(index, ast.Constant) or type(index.value) is not str or not index.value:
                advice = "put the name in quotes, r.ctx.args['a name']; items of lists cannot be named"
                raise ConditionError("brackets hold the name of an argument", advice, offset=source.offset(index))
            keys.append(text_of(index.value) or "")
            here = here.value
        else:
            what = f"{source.written(node)!r} reads from something that is no name"
            raise ConditionError(what, _START, offset=source.offset(node))
        if len(keys) > _MAX_KEYS:
            raise ConditionError(f"names go {_MAX_KEYS} levels deep", "read less deep", offset=source.offset(node))
    return [here.id, *reversed(keys)]


_MAX_KEYS = 12


def _dotted(path: list[str]) -> str:
    return "".join(f".{key}" if key.isidentifier() else f"[{key!r}]" for key in path)[1:]


def _of_call(path: list[str]) -> Get:
    if len(path) == 2:  # the usual case, without a loop
        first, second = path

        def argument(asked: Asked) -> Any:
            args = asked.context.get(first)
            return args.get(second) if type(args) is dict or type(args) is FrozenDict else _item(args, second)

        return argument

    def get(asked: Asked) -> Any:
        value: Any = asked.context
        for key in path:
            value = _item(value, key)
        return value

    return get


def _of_attributes(path: list[str]) -> Get:
    if len(path) == 1:
        (name,) = path
        return lambda asked: asked.principal.attributes.get(name)

    def get(asked: Asked) -> Any:
        value: Any = asked.principal.attributes
        for key in path:
            value = _item(value, key)
        return value

    return get


def _of_principal(field: str) -> Get:
    return lambda asked: getattr(asked.principal, field)


def _item(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return dict.get(container, key)  # never a `__missing__`, which could invent a value
    if isinstance(container, Mapping):
        return container[key] if key in container else None  # noqa: SIM401 - `get` may call `__missing__`
    return None
