"""The state of a thread: its channels, who may write them, and how two writes become one.

Every reducer is total (whatever was put into a channel, it answers with a valid value), bounded, and associative, so
that it does not matter how writes are grouped. Channels that only the server writes are taken out of a run's input by
an annotation that the registry of reserved names decides about (`remit.runtime.reserved`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Annotated, Any, Final, NotRequired, TypedDict

from langchain.agents.middleware.types import AgentState

from remit.runtime.reserved import protected_channels

MAX_ARTIFACTS: Final = 1000
MAX_IMAGES: Final = 50
MAX_PROMOTIONS: Final = 512
MAX_DELEGATIONS: Final = 50
MAX_SKILLS: Final = 8
MAX_DESCRIPTION: Final = 500
TERMINAL: Final = frozenset({"completed", "failed", "cancelled", "timed_out", "denied"})
"""Statuses of a delegation that has ended."""


class SandboxState(TypedDict):
    """The environment of the thread."""

    sandbox_id: str


class ThreadData(TypedDict):
    """Folders of the thread on the host."""

    workspace_path: str
    uploads_path: str
    outputs_path: str


class UploadedFile(TypedDict):
    """A file that came with the latest message."""

    filename: str
    size: int
    """Bytes."""
    path: str
    """Virtual path."""
    extension: str


class Promotion(TypedDict):
    """A deferred tool whose schema the model may see, in the catalogue of that hash."""

    catalog_hash: str
    name: str


class Delegation(TypedDict, total=False):
    """Work that was handed to a subagent. `id` and `created_at` together name it."""

    id: str
    created_at: str
    run_id: str | None
    description: str
    subagent_type: str
    status: str
    result_brief: str | None
    result_sha256: str | None
    result_ref: str | None
    stop_reason: str | None


class SkillReference(TypedDict, total=False):
    """A skill whose file was read in this thread."""

    name: str
    path: str
    description: str
    loaded_at: str


class ViewedImage(TypedDict):
    """An image that was shown to the model; never its bytes."""

    mime_type: str
    size: int
    actual_path: str


def keep_last(old: Any, new: Any) -> Any:
    """The new value, unless it is None."""
    return old if new is None else new


def keep_sandbox(old: Any, new: Any) -> Any:
    """The newest environment that is one."""
    return _sandbox(new) or _sandbox(old)


def _sandbox(value: Any) -> SandboxState | None:
    held = value.get("sandbox_id") if isinstance(value, Mapping) else None
    return SandboxState(sandbox_id=held) if isinstance(held, str) and held else None


def _latest(items: Iterable[Any], key: Callable[[Any], Hashable | None], limit: int) -> list[Any]:
    """The last `limit` distinct items, each at the place of its last occurrence; those without a key are dropped."""
    found: dict[Hashable, Any] = {}
    for item in items:
        if (name := key(item)) is not None:
            found.pop(name, None)
            found[name] = item
    kept = list(found.values())
    return kept[-limit:]


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _text(value: Any, name: str) -> str | None:
    held = value.get(name) if isinstance(value, Mapping) else None
    return held if isinstance(held, str) and held else None


def join_artifacts(old: Any, new: Any) -> list[str]:
    """Paths that were presented, the newest last, each once."""
    return _latest(_items(old) + _items(new), lambda path: path if isinstance(path, str) else None, MAX_ARTIFACTS)


def join_promoted(old: Any, new: Any) -> list[Promotion]:
    """Deferred tools that were promoted, the newest last, each once per catalogue."""

    def key(item: Any) -> Hashable | None:
        pair = _text(item, "catalog_hash"), _text(item, "name")
        return None if None in pair else pair

    return _latest(_items(old) + _items(new), key, MAX_PROMOTIONS)


def join_skills(old: Any, new: Any) -> list[SkillReference]:
    """Skills that were read, the newest last, each once per path."""
    kept = _latest(_items(old) + _items(new), lambda item: _text(item, "path"), MAX_SKILLS)
    return [
        SkillReference(
            name=_text(item, "name") or "",
            path=item["path"],
            description=(_text(item, "description") or "")[:MAX_DESCRIPTION],
            loaded_at=_text(item, "loaded_at") or "",
        )
        for item in kept
    ]


def join_images(old: Any, new: Any) -> dict[str, ViewedImage]:
    """Images that were shown, the newest last, each once per path."""
    pairs = [pair for value in (old, new) if isinstance(value, Mapping) for pair in value.items()]

    def key(pair: tuple[Any, Any]) -> Hashable | None:
        return pair[0] if isinstance(pair[0], str) and isinstance(pair[1], Mapping) else None

    return dict(_latest(pairs, key, MAX_IMAGES))


def join_delegations(old: Any, new: Any) -> list[Delegation]:
    """Delegations by the time they began, the newest `MAX_DELEGATIONS`; one that has ended never becomes open again."""
    found: dict[tuple[str, str], Delegation] = {}
    for item in _items(old) + _items(new):
        name, began = _text(item, "id"), _text(item, "created_at")
        if name is None or began is None:
            continue
        known = found.get((began, name))
        if known is None or _has_ended(item) or not _has_ended(known):
            found[began, name] = item
    return [found[key] for key in sorted(found)[-MAX_DELEGATIONS:]]


def _has_ended(item: Mapping[str, Any]) -> bool:
    return _text(item, "status") in TERMINAL  # by way of `_text`, since a status may be anything, unhashable too


@protected_channels
class ThreadState(AgentState[Any]):
    """Every channel of a thread beside the conversation."""

    sandbox: NotRequired[Annotated[SandboxState | None, keep_sandbox]]
    thread_data: NotRequired[Annotated[ThreadData | None, keep_last]]
    title: NotRequired[Annotated[str | None, keep_last]]
    summary_text: NotRequired[Annotated[str | None, keep_last]]
    uploaded_files: NotRequired[Annotated[list[UploadedFile] | None, keep_last]]
    artifacts: NotRequired[Annotated[list[str], join_artifacts]]
    todos: NotRequired[Annotated[list[Any] | None, keep_last]]
    goal: NotRequired[Annotated[dict[str, Any] | None, keep_last]]
    background_tasks: NotRequired[Annotated[list[Any] | None, keep_last]]
    viewed_images: NotRequired[Annotated[dict[str, ViewedImage], join_images]]
    promoted: NotRequired[Annotated[list[Promotion], join_promoted]]
    delegations: NotRequired[Annotated[list[Delegation], join_delegations]]
    skill_context: NotRequired[Annotated[list[SkillReference], join_skills]]
