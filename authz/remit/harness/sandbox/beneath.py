"""Opening, reading and walking what lies below a folder, and nothing else, while somebody else changes it.

Every step of a path is opened relative to the folder before it and never through a symbolic link, so that there is no
moment between a check and a use. Only the standard library is imported: the search process starts with this module.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final, Literal, NamedTuple

Kind = Literal["folder", "file", "link", "other"]

MAX_DEPTH: Final = 64
"""Folders deeper below the start are not walked: each level holds one descriptor open."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 1 << 20


class NotPlain(OSError):
    """A symbolic link, or something that is neither a file nor a folder, where one of them was expected."""


class Entry(NamedTuple):
    """Something below a folder."""

    parts: tuple[str, ...]
    """Names from the start of the walk to it."""
    kind: Kind


class Budget:
    """How many entries a walk may still look at."""

    __slots__ = ("left",)

    def __init__(self, entries: int) -> None:
        self.left = entries


@contextmanager
def opened_root(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of the folder `path`, whose last part must be no symbolic link."""
    root = os.open(path, _FOLDER)
    try:
        yield root
    finally:
        os.close(root)


def open_folder(root: int, parts: Sequence[str], *, create: bool = False) -> int:
    """A descriptor of the folder `parts` below `root`.

    Args:
        root: Descriptor of a folder. It stays open.
        parts: Names, none of them ``.`` or ``..``.
        create: Whether folders that are missing are made.

    Raises:
        NotPlain: One of them is a symbolic link or no folder.
        OSError: It does not exist, or cannot be opened.
    """
    current = os.dup(root)
    try:
        for part in parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(_name(part), 0o755, dir_fd=current)
            inner = _step(current, _name(part))
            os.close(current)
            current = inner
    except BaseException:
        os.close(current)
        raise
    return current


def _name(part: str) -> str:
    if part in ("", ".", "..") or "/" in part:
        raise ValueError(f"{part!r} is no name")
    return part


def _step(folder: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.ENOTDIR, errno.ELOOP):
            raise NotPlain(errno.ENOTDIR, f"{name!r} is {_description(folder, name)}") from exc
        raise


def _description(folder: int, name: str) -> str:
    """What `name` is, for a message: by now it may be something else."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return "no folder"
    return describe(mode)


def describe(mode: int) -> str:
    """What a file of that mode is."""
    if stat.S_ISLNK(mode):
        return "a symbolic link, which is not followed"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a file" if stat.S_ISREG(mode) else "no regular file"


def read_beneath(root: int, parts: Sequence[str], limit: int) -> bytes:
    """Content of the regular file `parts` below `root`.

    Raises:
        NotPlain: It is no regular file, or the way to it leads through a symbolic link.
        OSError: It cannot be read, or is longer than `limit` bytes (``EFBIG``).
    """
    folder = open_folder(root, parts[:-1])
    try:
        return read_in(folder, parts[-1], limit)
    finally:
        os.close(folder)


def read_in(folder: int, name: str, limit: int) -> bytes:
    """`read_beneath` for a name in an open folder."""
    mode = os.stat(_name(name), dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISREG(mode):  # opening a device can already have an effect
        raise NotPlain(errno.EINVAL, f"is {describe(mode)}")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.open(name, flags, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise NotPlain(errno.EINVAL, f"is {describe(mode)}")
        out = bytearray()
        while chunk := os.read(file, _CHUNK):
            out += chunk
            if len(out) > limit:
                raise OSError(errno.EFBIG, f"is longer than {limit} bytes")
        return bytes(out)
    finally:
        os.close(file)


def walk(
    root: int,
    *,
    depth: int,
    budget: Budget,
    enter: Callable[[tuple[str, ...]], bool] = lambda parts: True,
) -> Iterator[Entry]:
    """Everything below `root`, each folder before what is in it, by name.

    Args:
        root: Descriptor of a folder. It stays open.
        depth: Levels; 1 is what is directly in it.
        budget: Counts down; the walk ends when it is used up.
        enter: Whether to go into a folder.
    """
    waiting: list[tuple[int, tuple[str, ...], Iterator[tuple[str, Kind]]]] = []
    depth = min(depth, MAX_DEPTH)
    try:
        start = os.dup(root)
        waiting.append((start, (), iter(())))
        waiting[0] = (start, (), iter(_entries(start, budget)))
        while waiting:
            folder, above, names = waiting[-1]
            name, kind = next(names, ("", "other"))
            if not name:
                os.close(waiting.pop()[0])
                continue
            parts = (*above, name)
            yield Entry(parts, kind)
            if kind == "folder" and len(parts) < depth and enter(parts):
                try:
                    inner = _step(folder, name)
                except OSError:  # gone, swapped or closed to us since it was listed
                    continue
                waiting.append((inner, parts, iter(())))
                waiting[-1] = (inner, parts, iter(_entries(inner, budget)))
    finally:
        for folder, _, _ in waiting:
            os.close(folder)


def _entries(folder: int, budget: Budget) -> list[tuple[str, Kind]]:
    with os.scandir(folder) as found:
        entries = [(entry.name, _kind(entry)) for entry in islice(found, max(budget.left, 0))]
    budget.left -= len(entries)
    return sorted(entries)


def _kind(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"
