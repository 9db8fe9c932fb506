"""What a run did to a thread's files, and whether what it made was delivered.

Stored tool results are feedback for the model and no work of the run: both questions leave their folder out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from remit.runtime.paths import AREAS, OUTPUTS, TOOL_RESULTS_DIRNAME, VIRTUAL_ROOT, ThreadPaths, normal_virtual_path

MAX_ENTRIES: Final = 20_000
MAX_DEPTH: Final = 32
MACHINERY: Final = frozenset({".git", "node_modules", "__pycache__", ".venv"})
"""Folders of tools, wherever they lie: what happens in them is no work of the run either."""
_OUTPUTS: Final = f"{VIRTUAL_ROOT}/{OUTPUTS}/"


class Look(NamedTuple):
    """What tells one version of a file from the next, without reading it."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a thread at one moment, by virtual path."""

    files: Mapping[str, Look]
    complete: bool = True
    """Whether all files are in it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Virtual paths of what happened between two snapshots, each sorted."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Written again, with other content or with the same."""
    deleted: tuple[str, ...] = ()
    complete: bool = True
    """Whether both snapshots held all files. Otherwise only what is certain stands here."""

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.deleted)


def scan(paths: ThreadPaths, *, exclude: str = TOOL_RESULTS_DIRNAME) -> Snapshot:
    """The files of a thread, in folders at most `MAX_DEPTH` deep; of its files and folders at most `MAX_ENTRIES` are
    looked at. Links are neither followed nor listed.

    Args:
        paths: The thread's folders; those that do not exist are empty.
        exclude: `tool_output.storage_subdir`, a folder below the outputs.
    """
    walk = _Walk(exclude)
    files = {
        path: Look(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        for path, status in walk.files(paths)
    }
    return Snapshot(MappingProxyType(files), walk.complete)


def changes(before: Snapshot, after: Snapshot) -> Changes:
    """What happened between two snapshots of one thread."""
    old, new = before.files, after.files
    return Changes(
        # a file that is missing from a snapshot that is not complete may have been there
        created=tuple(sorted(new.keys() - old.keys())) if before.complete else (),
        changed=tuple(sorted(path for path in old.keys() & new.keys() if old[path] != new[path])),
        deleted=tuple(sorted(old.keys() - new.keys())) if after.complete else (),
        complete=before.complete and after.complete,
    )


def undelivered(found: Changes, artifacts: Iterable[str], *, exclude: str = TOOL_RESULTS_DIRNAME) -> tuple[str, ...]:
    """Outputs that a run made or changed and did not present.

    Args:
        found: What the run did.
        artifacts: Virtual paths that it presented.
        exclude: `tool_output.storage_subdir`.
    """
    presented = {path for artifact in artifacts if (path := _output(artifact, exclude)) is not None}
    made = (_output(path, exclude) for path in (*found.created, *found.changed))
    return tuple(sorted({path for path in made if path is not None} - presented))


def missing(paths: ThreadPaths, artifacts: Iterable[str], *, exclude: str = TOOL_RESULTS_DIRNAME) -> tuple[str, ...]:
    """What a run presented and nobody can fetch: no regular file below the outputs, or a stored tool result.

    Args:
        paths: The thread's folders.
        artifacts: Virtual paths that it presented.
        exclude: `tool_output.storage_subdir`.
    """
    return tuple(artifact for artifact in artifacts if not _is_there(paths, _output(artifact, exclude)))


def _output(artifact: object, exclude: str) -> str | None:
    """The normal form of a virtual path below the outputs; None for every other."""
    if not isinstance(artifact, str):
        return None
    try:
        path = normal_virtual_path(artifact)
    except ValueError:
        return None
    if not path.startswith(_OUTPUTS) or path.startswith(f"{_OUTPUTS}{exclude}/"):
        return None
    return path


def _is_there(paths: ThreadPaths, path: str | None) -> bool:
    """Whether the regular file is there, on a way without links."""
    if path is None:
        return False
    *folders, name = path.removeprefix(_OUTPUTS).split("/")
    with ExitStack() as stack:
        folder: int | None = None
        for part in (str(paths.user_data), OUTPUTS, *folders):
            folder = stack.enter_context(_opened(part, folder))
            if folder is None:
                return False
        try:
            return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except (OSError, ValueError):
            return False


class _Walk:
    """Goes through a thread's files along descriptors, so that no folder can be exchanged for a link on the way.

    Args:
        exclude: Folder below the outputs that is left out.
    """

    def __init__(self, exclude: str) -> None:
        self.complete = True
        self._excluded = f"{_OUTPUTS}{exclude}"
        self._left = MAX_ENTRIES

    def files(self, paths: ThreadPaths) -> Iterator[tuple[str, os.stat_result]]:
        """Virtual path and status of the regular files, in a fixed order."""
        with _opened(str(paths.user_data), None) as root:
            if root is not None:
                for area in AREAS:
                    yield from self._below(area, root, f"{VIRTUAL_ROOT}/{area}", 0)

    def _below(self, name: str, parent: int, virtual: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        with _opened(name, parent) as folder:
            if folder is None:
                return
            with os.scandir(folder) as entries:
                found = sorted(islice(entries, self._left + 1), key=lambda entry: entry.name)
            if len(found) > self._left or (found and depth > MAX_DEPTH):
                self.complete = False
                return
            self._left -= len(found)
            for entry in found:
                path = f"{virtual}/{entry.name}"
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # gone in the meantime
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield path, status
                elif stat.S_ISDIR(status.st_mode) and entry.name not in MACHINERY and path != self._excluded:
                    yield from self._below(entry.name, folder, path, depth + 1)


@contextmanager
def _opened(name: str, parent: int | None) -> Iterator[int | None]:
    """A descriptor of a folder; None when it is not there, is none, or may not be read."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except (OSError, ValueError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
