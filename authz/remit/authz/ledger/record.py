"""One decision as one line of JSON. Everything here runs on the writer's thread, except `snapshot`.

A record is flat: its values are scalars or lists of scalars, only ``values`` is an object (path -> value). It has every
key that a decision has, absent things as null, so that columns line up; ``values``, ``masked`` and ``left_out``
appear when there is something to say. Lines are pure ASCII without control characters: whatever a model or a client
put into a name is escaped, and no name can begin a line of its own.

No argument is written in the clear, with one exception: what the *deciding rule's condition* read, so that the decision
can be replayed. Such a value is withheld, and its path listed under ``masked``, when the operator masks its name, when
its name speaks of a secret, when it is no scalar (or list of scalars), or when it is long.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from remit.authz import wire
from remit.authz.types import AuthzDecision, AuthzRequest, Principal

VERSION: Final = 1
"""Of the record's shape; key ``v``."""
MAX_TEXT_CHARS: Final = 512
MAX_VALUE_CHARS: Final = 256
MAX_REASONS: Final = 16
MAX_LAZY_BYTES: Final = 4096
HASH_BYTES: Final = 16

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|api[-_]?key|private[-_]?key|access[-_]?key|credential|authorization|cookie",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_canonical = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class Masks:
    """Which values are never written.

    Args:
        names: Names of arguments or attributes (``body``), or dotted paths (``args.mail.body``), with ``*`` as in
            file names. Case is ignored. A name also covers everything below it.
    """

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = tuple(name.lower() for name in names)

    def covers(self, keys: Sequence[str]) -> bool:
        """Whether the value at `keys` (``("args", "mail", "body")``) is withheld."""
        parts = [key.lower() for key in keys]
        if any(_SECRET.search(part) for part in parts):
            return True
        spelled = [*parts, *(".".join(parts[:end]) for end in range(2, len(parts) + 1))]
        return any(fnmatchcase(text, name) for name in self._names for text in spelled)


class Digested(NamedTuple):
    """What a record says about the arguments of a call."""

    hash: str | None
    values: Mapping[str, Any]
    masked: tuple[str, ...] = ()


NO_ARGUMENTS: Final = Digested(None, {})


@dataclass(frozen=True, slots=True)
class Recorder:
    """Turns decisions into lines.

    Args:
        key: Secret of this log. Hashes of arguments are keyed with it: without the key nobody can try likely values.
        masks: Which values are never written.
    """

    key: bytes
    masks: Masks

    def snapshot(self, request: AuthzRequest, decision: AuthzDecision) -> bytes | Digested:
        """The arguments of `request` as they are now. Runs where the caller stands.

        Small arguments are only serialised, for `line` to digest; large ones are digested at once, so that waiting
        records stay small.
        """
        args = request.context.get(wire.CTX_ARGS)
        if args is None:
            return NO_ARGUMENTS if wire.DECISION_READS not in decision.metadata else b"null"
        data = _serialised(args)
        return data if len(data) <= MAX_LAZY_BYTES else self.digest(data, request, decision)

    def digest(self, data: bytes, request: AuthzRequest, decision: AuthzDecision) -> Digested:
        """Keyed hash of the canonical form of `data`, and the values that the deciding condition read."""
        try:
            args = json.loads(data)
        except (ValueError, RecursionError):  # a number of thousands of digits, nesting beyond reason
            return Digested(self.hash(data), {})
        found = None if args is None else self.hash(_canonical(args).encode("ascii"))
        paths = decision.metadata.get(wire.DECISION_READS, ())
        values: dict[str, Any] = {}
        masked = []
        for path in map(str, paths if isinstance(paths, tuple) else ()):
            keys = _keys(path)
            value = _value(keys, args, request)
            if value is None:
                continue
            if self.masks.covers(keys) or not _storable(value):
                masked.append(path)
            else:
                values[path] = value
        return Digested(found, values, tuple(masked))

    def hash(self, data: bytes) -> str:
        return blake2b(data, key=self.key, digest_size=HASH_BYTES).hexdigest()

    def line(
        self,
        time_ns: int,
        guard: str,
        request: AuthzRequest,
        decision: AuthzDecision,
        latency_ns: int,
        args: bytes | Digested,
        left_out: int = 0,
    ) -> bytes:
        """The finished line of one decision, line feed included."""
        if isinstance(args, bytes):
            args = self.digest(args, request, decision)
        principal, context = request.principal, request.context
        record: dict[str, Any] = {
            "v": VERSION,
            "kind": "decision",
            "time": timestamp(time_ns),
            "guard": guard,
            "decision": "allow" if decision.allow else "ask" if decision.asks else "deny",
            "failure": is_failure(decision),
            "reasons": [self._text(reason.code) for reason in decision.reasons[:MAX_REASONS]] or [decision.code],
            "policy_id": self._text(decision.policy_id),
            "policy_version": self._text(decision.policy_version),
            "user_id": self._text(principal.user_id),
            "role": self._text(principal.role),
            "is_internal": principal.is_internal,
            "resource": self._text(request.resource),
            "action": self._text(request.action),
            "target": self._text(request.target),
            "args_hash": args.hash,
            "thread_id": self._text(context.get(wire.THREAD_ID)),
            "run_id": self._text(context.get(wire.RUN_ID)),
            "tool_call_id": self._text(context.get(wire.CTX_TOOL_CALL_ID)),
            "latency_us": round(latency_ns / 1000, 1),
        }
        if args.values:
            record["values"] = args.values
        if args.masked:
            record["masked"] = args.masked
        if left_out:
            record["left_out"] = left_out
        return to_line(record)

    def _text(self, value: Any) -> str | int | None:
        """`value` for a record: long text is cut and told apart by a hash, other objects are named by their type."""
        if value is None or type(value) is int:
            return value
        if not isinstance(value, str):
            return f"<{type(value).__name__}>"
        text = str.__str__(value)
        if len(text) <= MAX_TEXT_CHARS:
            return text
        whole = self.hash(text.encode("utf-8", "surrogatepass"))
        return f"{text[:MAX_TEXT_CHARS]}...({len(text)} characters, {whole})"


def is_failure(decision: AuthzDecision) -> bool:
    """Whether `decision` stands for a provider that failed."""
    return decision.metadata.get("failure") is True


def count_line(kind: str, count: int) -> bytes:
    """A line that accounts for decisions without a line of their own.

    Args:
        kind: ``dropped`` (lost to a full queue or a failing disk) or ``left_out`` (sampled out).
        count: How many since the last such line.
    """
    return to_line({"v": VERSION, "kind": kind, "time": timestamp(time.time_ns()), "count": count})


def to_line(record: Mapping[str, Any]) -> bytes:
    """`record` as one line: the encoder escapes whatever is not printable ASCII."""
    return _encode(record).encode("ascii") + b"\n"


def timestamp(time_ns: int) -> str:
    """ISO 8601 in UTC, microseconds."""
    moment = _EPOCH + timedelta(microseconds=time_ns // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _serialised(args: Any) -> bytes:
    from pydantic_core import to_json

    try:
        return to_json(args, inf_nan_mode="strings", bytes_mode="base64")
    except Exception:  # lone surrogates, foreign objects: slower, but total
        return json.dumps(_plain(args, 0), sort_keys=True).encode("ascii")


def _plain(value: Any, depth: int) -> Any:
    if depth > 32:
        return "<too deep>"
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 1024 else f"<int of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    return f"<{type(value).__name__}>"


_KEY = re.compile(r"""\.?([^.\[\]]+)|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]""")


@lru_cache(maxsize=4096)
def _keys(path: str) -> tuple[str, ...]:
    """The parts of a path as conditions spell it: ``args.mail['reply to']``."""
    try:
        return tuple(plain or ast.literal_eval(quoted) for plain, quoted in _KEY.findall(path))
    except (ValueError, SyntaxError):  # what a provider of somebody else's calls a path
        return ()


def _value(keys: Sequence[str], args: Any, request: AuthzRequest) -> Any:
    """What `request` holds at `keys`, None when there is nothing; `args` are its arguments as they were."""
    head, *rest = keys or ("",)
    value: Any = args if head == wire.CTX_ARGS else request.context.get(head)
    if head == "principal":
        if not rest or rest[0] not in Principal.__slots__:
            return None
        value, rest = getattr(request.principal, rest[0]), rest[1:]
    for key in rest:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _storable(value: Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else (value,)
    if not all(item is None or isinstance(item, (str, int, bool, float)) for item in items):
        return False
    if any(isinstance(item, float) and item - item != 0 for item in items):
        return False
    return len(_encode(value)) <= MAX_VALUE_CHARS
