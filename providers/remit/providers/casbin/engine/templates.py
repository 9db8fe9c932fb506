"""Request templates: how a request of ours becomes the request of somebody else's Casbin model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from remit.authz.types import Principal
from remit.authz.vocabulary import EVERYTHING, unsafe_target
from remit.providers.casbin.engine.lookups import Undetermined

PLACEHOLDERS: Final = ("role", "user_id", "resource", "action", "target", "ctx", "attributes.NAME")
_PART = re.compile(r"\{([^{}]*)\}|([^{}]+)|([{}])")


class Refused(Exception):
    """A request that cannot be put into the model's terms: it is denied with this reason.

    Args:
        code: Reason code.
        message: For operators.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Fields:
    """A mapping whose keys are read as attributes, the way matchers write them: ``r.ctx.args.path``.

    Args:
        data: What to read.
        open: A name that is missing is not known yet, instead of absent.
    """

    __slots__ = ("__data", "__open")

    def __init__(self, data: Mapping[str, Any], *, open: bool = False) -> None:
        self.__data, self.__open = data, open

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        if name not in self.__data and self.__open:
            raise Undetermined(name)
        value = self.__data[name]
        return Fields(value) if isinstance(value, Mapping) else value

    def __contains__(self, name: object) -> bool:
        if name not in self.__data and self.__open:
            raise Undetermined(str(name))
        return name in self.__data


def context_fields(principal: Principal, context: Mapping[str, Any] | None) -> Fields:
    """What ``{ctx}`` stands for: the request's context and, under ``principal``, who asks. None: not known yet."""
    who = {
        "user_id": principal.user_id,
        "role": principal.role,
        "oauth_provider": principal.oauth_provider,
        "oauth_id": principal.oauth_id,
        "channel_user_id": principal.channel_user_id,
        "is_internal": principal.is_internal,
        "attributes": principal.attributes,
    }
    return Fields({**(context or {}), "principal": who}, open=context is None)


Asked = tuple[Principal, str, str, str]
"""Who, resource, action, target."""
_Read = Callable[[Asked], str]


def _role(asked: Asked) -> str:
    if asked[0].role is None:
        raise Refused("authz.unknown_role", "the principal has no role")
    return asked[0].role


def _user(asked: Asked) -> str:
    if asked[0].user_id is None:
        raise Refused("authz.invalid_request", "the principal has no user id")
    return asked[0].user_id


def _attribute(name: str) -> _Read:
    def read(asked: Asked) -> str:
        value = asked[0].attributes.get(name)
        if type(value) is not str:
            what = "is missing" if value is None else f"is {type(value).__name__}, not text"
            raise Refused("authz.invalid_request", f"the attribute {name!r} of the principal {what}")
        if (reason := unsafe_target(value)) is not None:  # it may be matched by patterns, like a target
            raise Refused("authz.invalid_request", f"the attribute {name!r} of the principal {reason}")
        return value

    return read


_READ: Final[dict[str, _Read]] = {
    "role": _role,
    "user_id": _user,
    "resource": lambda asked: asked[1],
    "action": lambda asked: asked[2],
    "target": lambda asked: asked[3],
}


class Template:
    """One template per request column.

    Args:
        texts: The templates.
        columns: Names of the model's request columns.

    Raises:
        ValueError: A template cannot be read, or their number is not that of the columns.
    """

    __slots__ = ("_fields", "_texts", "attributes", "fields_of", "objects", "sole", "uses")

    def __init__(self, texts: Sequence[str], columns: Sequence[str]) -> None:
        if len(texts) != len(columns):
            raise ValueError(f"{len(texts)} templates for {len(columns)} request columns ({', '.join(columns)})")
        self._texts = tuple(texts)
        self._fields = tuple(self._field(text) for text in texts)
        self.uses = frozenset(name for _, names in self._fields for name in names)
        """Every placeholder that occurs."""
        self.attributes = tuple(sorted(name[11:] for name in self.uses if name.startswith("attributes.")))
        self.fields_of = {
            use: tuple(i for i, (_, names) in enumerate(self._fields) if use in names) for use in self.uses
        }
        """Placeholder -> the request columns that it occurs in."""
        self.objects = frozenset(self.fields_of.get("ctx", ()))
        """Request columns that hold an object and not text."""
        self.sole = {
            texts[i][1:-1]: i for i, (_, names) in enumerate(self._fields) if texts[i] == f"{{{''.join(names)}}}"
        }
        """Placeholders that are all of some request column -> that column."""

    @staticmethod
    def _field(text: str) -> tuple[Callable[[Asked], Any] | None, tuple[str, ...]]:
        parts = [found.groups() for found in _PART.finditer(text)]
        if not parts:
            raise ValueError("an empty template")
        if any(stray for _, _, stray in parts):
            raise ValueError(f"a bracket without its partner in {text!r}")
        names = tuple(name for name, _, _ in parts if name is not None)
        for name in names:
            if name not in _READ and name != "ctx" and not (name.startswith("attributes.") and name[11:]):
                close = difflib.get_close_matches(name, PLACEHOLDERS[:-1], n=1)
                hint = (
                    f"did you mean {{{close[0]}}}?" if close else "known: " + " ".join(f"{{{p}}}" for p in PLACEHOLDERS)
                )
                raise ValueError(f"unknown placeholder {{{name}}} in {text!r}; {hint}")
        if "ctx" in names:
            if text != "{ctx}":
                raise ValueError(f"{{ctx}} is an object and must stand alone, not in {text!r}")
            return None, names
        return _renderer(text, parts), names

    def values(self, asked: Asked, context: Mapping[str, Any] | None) -> list[Any]:
        """The model's request for what is asked.

        Args:
            context: Of the call; None when there is no call yet.

        Raises:
            Refused: A value is missing or could be mistaken for another.
        """
        return [context_fields(asked[0], context) if render is None else render(asked) for render, _ in self._fields]

    def around(self, use: str) -> tuple[int, str, str] | None:
        """(column, text before, text after) if `use` is the only placeholder of one column, and in no other."""
        columns = self.fields_of.get(use, ())
        if len(columns) != 1 or self._fields[columns[0]][1] != (use,):
            return None
        before, _, after = self._texts[columns[0]].partition(f"{{{use}}}")
        return columns[0], before, after

    def check_roles(
        self,
        principal: Principal,
        values: Sequence[Any],
        known: frozenset[str],
        knows: Callable[[int, str], bool],
    ) -> None:
        """Make sure that the policy speaks of the principal's role, where ``{role}`` is used at all.

        Raises:
            Refused: It does not.
        """
        for field in self.fields_of.get("role", ()):
            if principal.role not in known and not knows(field, values[field]):
                raise Refused("authz.unknown_role", f"the policy knows no role {principal.role!r}")


def _reader(name: str) -> _Read:
    return _READ[name] if name in _READ else _attribute(name[11:])


def _renderer(text: str, parts: Iterable[tuple[str | Any, ...]]) -> Callable[[Asked], str]:
    pieces: list[tuple[_Read | None, str]] = [
        (_reader(name), name) if name is not None else (None, literal or "") for name, literal, _ in parts
    ]
    if len(pieces) == 1:
        read, name = pieces[0]
        if read is None:
            return lambda asked: name
        if name == "target":  # a target may be called "*" (a sandbox is): rules for everything hold for it, others not
            return read

        def sole(asked: Asked) -> str:
            value = read(asked)
            if value == EVERYTHING:
                raise Refused("authz.invalid_request", f"{{{name}}} is '*', which is no name")
            return value

        return sole
    for (one, before), (other, after) in pairwise(pieces):
        if one is not None and other is not None:
            raise ValueError(f"nothing separates {{{before}}} from {{{after}}} in {text!r}")

    def joined(asked: Asked) -> str:
        out = []
        for at, (read, name) in enumerate(pieces):
            if read is None:
                out.append(name)
                continue
            value = read(asked)
            if value == EVERYTHING and name != "target":
                raise Refused("authz.invalid_request", f"{{{name}}} is '*', which is no name")
            if at + 2 < len(pieces):
                end = pieces[at + 1][1]  # "a:b" + ":" + "c" must not read like "a" + ":" + "b:c"
                if (value + end).index(end) != len(value):
                    message = f"{{{name}}} holds {end!r}, which separates it from what follows in {text!r}"
                    raise Refused("authz.invalid_request", message)
            out.append(value)
        return "".join(out)

    return joined
