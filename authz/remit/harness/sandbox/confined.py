"""A thread's files under their virtual paths: what every file operation of the built-in environments goes through.

The files lie on the host, and code inside of the environment may change them at any moment: links may appear, folders
may be swapped. Symbolic links are never followed, not even those that stay inside, so that a file has one path and a
rule about that path holds. Uploads and skills are read-only.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from remit.harness.sandbox.beneath import Budget, NotPlain, describe, open_folder, opened_root, read_beneath, walk
from remit.harness.sandbox.globs import Glob
from remit.harness.sandbox.search_worker import Place
from remit.harness.sandbox.searching import matching_lines
from remit.runtime.paths import (
    OUTPUTS,
    UPLOADS,
    VIRTUAL_ROOT,
    VIRTUAL_SKILLS,
    WORKSPACE,
    ThreadPaths,
    normal_virtual_path,
)
from remit.runtime.sandboxes import GrepMatch, SandboxFileError

MAX_PATH: Final = 1_024
"""Characters: far below what the system takes, with the folders of the host before it."""
MAX_READ_BYTES: Final = 64 << 20
MAX_WRITE_BYTES: Final = 64 << 20
MAX_LISTED: Final = 10_000
"""Entries that one listing looks at."""
MAX_WALKED: Final = 100_000
"""Entries that one search by name looks at."""
MAX_SEARCHED: Final = 20_000
"""Files that one search by content looks into."""

_NEW_FILE: Final = 0o644


class Area(NamedTuple):
    """A folder of the host under its virtual path."""

    virtual: str
    host: Path
    writable: bool


class _Target(NamedTuple):
    """An area and the names from there on."""

    area: Area
    parts: tuple[str, ...]

    def virtual(self, more: tuple[str, ...] = ()) -> str:
        return "/".join((self.area.virtual, *self.parts, *more))


def areas_of(paths: ThreadPaths) -> tuple[Area, ...]:
    """The folders of a thread that an environment shows."""
    return (
        Area(f"{VIRTUAL_ROOT}/{WORKSPACE}", paths.workspace, writable=True),
        Area(f"{VIRTUAL_ROOT}/{UPLOADS}", paths.uploads, writable=False),
        Area(f"{VIRTUAL_ROOT}/{OUTPUTS}", paths.outputs, writable=True),
        Area(VIRTUAL_SKILLS, paths.skills, writable=False),
    )


class ConfinedFiles:
    """File operations on the folders of one thread.

    Every method raises `SandboxFileError` for a path outside of them or through a symbolic link, and FileNotFoundError
    for a file that does not exist.

    Args:
        paths: The folders.
    """

    def __init__(self, paths: ThreadPaths) -> None:
        self.areas = areas_of(paths)

    def read_bytes(self, path: str) -> bytes:
        """The file as it is; at most `MAX_READ_BYTES`."""
        target = self._file(path)
        with _reported(path), opened_root(target.area.host) as root:
            return read_beneath(root, target.parts, MAX_READ_BYTES)

    def write_bytes(self, path: str, content: bytes, *, append: bool = False) -> None:
        """Write or append; folders are made. An overwritten file is replaced in one step and keeps its mode."""
        target = self._file(path)
        if not target.area.writable:
            raise SandboxFileError(f"{target.area.virtual!r} is read-only; write below {VIRTUAL_ROOT}/{WORKSPACE}")
        if len(content) > MAX_WRITE_BYTES:
            raise SandboxFileError(f"{path!r}: {len(content)} bytes are more than the limit of {MAX_WRITE_BYTES}")
        with _reported(path), opened_root(target.area.host) as root:
            folder = open_folder(root, target.parts[:-1], create=True)
            try:
                (_append if append else _replace)(folder, target.parts[-1], content)
            finally:
                os.close(folder)

    def list_dir(self, path: str, *, depth: int = 2) -> list[str]:
        """Virtual paths below `path`, folders with a trailing slash, sorted; `MAX_LISTED` entries are looked at."""
        if depth < 1:
            raise SandboxFileError(f"a listing has a depth of at least 1, not {depth}")
        target = self._folder(path)
        if target is None:
            return sorted(f"{area.virtual}/" for area in self._areas_below(path))
        budget = Budget(MAX_LISTED)
        with _reported(path), _opened(target) as folder:
            return sorted(
                target.virtual(entry.parts) + ("/" if entry.kind == "folder" else "")
                for entry in walk(folder, depth=depth, budget=budget)
            )

    def glob(self, pattern: str, *, path: str, limit: int) -> list[str]:
        """Virtual paths of the files that match, sorted, at most `limit`; `MAX_WALKED` entries are looked at."""
        if pattern.startswith("/"):
            path, pattern = _split_absolute(pattern)
        wanted = _glob(pattern)
        found: list[str] = []
        budget = Budget(MAX_WALKED)
        for target in self._targets(path):
            with _reported(path), _opened(target) as folder:
                found += (
                    target.virtual(entry.parts)
                    for entry in walk(folder, depth=64, budget=budget, enter=wanted.may_lie_below)
                    if entry.kind == "file" and wanted.matches(entry.parts)
                )
        return sorted(found)[: max(limit, 0)]

    def grep(self, pattern: str, *, path: str, include: str | None, limit: int) -> list[GrepMatch]:
        """Lines that match, by file and line, at most `limit`.

        Hidden files and folders are left out unless `path` or `include` names them, and so are binary files, files
        of more than 8 MiB, and what lies beyond `MAX_SEARCHED` files.

        Args:
            pattern: Regular expression in the syntax of Python's `re`.
            path: A folder or a file.
            include: Pattern of the files to search; without a slash it is about their names alone.
            limit: At most so many.
        """
        wanted = _glob(include or "**")
        by_name = include is not None and "/" not in include
        names: list[str] = []
        places: list[Place] = []
        with ExitStack() as stack:
            budget = Budget(MAX_WALKED)
            for target in self._targets(path):
                stack.enter_context(_reported(path))
                root = stack.enter_context(opened_root(target.area.host))
                for parts in _files(root, target, wanted, by_name=by_name, budget=budget):
                    if len(places) == MAX_SEARCHED:
                        break
                    places.append((root, parts))
                    names.append("/".join((target.area.virtual, *parts)))
            found = matching_lines(places, pattern, limit=max(limit, 1))
        return [GrepMatch(names[index], line, text) for index, line, text in found]

    def _targets(self, path: str) -> list[_Target]:
        target = self._folder(path)
        if target is not None:
            return [target]
        return [_Target(area, ()) for area in self._areas_below(path) if area.host.is_dir()]

    def _areas_below(self, path: str) -> list[Area]:
        prefix = _normal(path).rstrip("/") + "/"
        return [area for area in self.areas if area.virtual.startswith(prefix)]

    def _file(self, path: str) -> _Target:
        target = self._folder(path)
        if target is None or not target.parts:
            raise SandboxFileError(f"{path!r} is a folder")
        return target

    def _folder(self, path: str) -> _Target | None:
        """Where `path` lies; None for a folder above the areas."""
        whole = _normal(path)
        for area in self.areas:
            if whole == area.virtual or whole.startswith(area.virtual + "/"):
                parts = tuple(part for part in whole[len(area.virtual) :].split("/") if part)
                return _Target(area, parts)
        if self._areas_below(path):
            return None
        raise SandboxFileError(f"{path!r} lies outside of the sandbox; files are below {VIRTUAL_ROOT}")


@contextmanager
def _opened(target: _Target) -> Iterator[int]:
    with opened_root(target.area.host) as root:
        folder = open_folder(root, target.parts)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _reported(path: str) -> Iterator[None]:
    """What the system says about `path`, as an error of the environment."""
    try:
        yield
    except FileNotFoundError as exc:
        raise FileNotFoundError(f"{path!r} does not exist") from exc
    except NotPlain as exc:
        raise SandboxFileError(f"{path!r}: {exc.strerror}") from exc
    except OSError as exc:
        reason = "is too long" if exc.errno == errno.ENAMETOOLONG else exc.strerror or type(exc).__name__
        raise SandboxFileError(f"{path!r}: {reason}") from exc
    except UnicodeEncodeError as exc:
        raise SandboxFileError(f"the path {path!r} holds half of a character") from exc


def _normal(path: str) -> str:
    if len(path) > MAX_PATH:
        raise SandboxFileError(f"the path {path[:50]!r}... is too long: {len(path)} characters")
    try:
        return normal_virtual_path(path)
    except ValueError as exc:
        raise SandboxFileError(str(exc)) from exc


def _glob(pattern: str) -> Glob:
    try:
        return Glob(pattern)
    except ValueError as exc:
        raise SandboxFileError(str(exc)) from exc


def _split_absolute(pattern: str) -> tuple[str, str]:
    """The folder that an absolute pattern begins with, and the rest."""
    parts = pattern.split("/")
    plain = next((index for index, part in enumerate(parts) if any(char in part for char in "*?[{")), len(parts) - 1)
    return "/".join(parts[:plain]) or "/", "/".join(parts[plain:])


def _files(root: int, target: _Target, wanted: Glob, *, by_name: bool, budget: Budget) -> Iterator[tuple[str, ...]]:
    """Names from the area on of the files below `target`, or of `target` itself."""
    try:
        folder = open_folder(root, target.parts)
    except NotPlain:
        parent = open_folder(root, target.parts[:-1])
        try:
            mode = os.stat(target.parts[-1], dir_fd=parent, follow_symlinks=False).st_mode
        finally:
            os.close(parent)
        if not stat.S_ISREG(mode):
            raise
        yield target.parts
        return
    try:

        def enter(parts: tuple[str, ...]) -> bool:
            return not parts[-1].startswith(".") if by_name else wanted.may_lie_below(parts)

        for entry in walk(folder, depth=64, budget=budget, enter=enter):
            if entry.kind == "file" and wanted.matches(entry.parts[-1:] if by_name else entry.parts):
                yield (*target.parts, *entry.parts)
    finally:
        os.close(folder)


def _replace(folder: int, name: str, content: bytes) -> None:
    mode = _NEW_FILE
    with suppress(FileNotFoundError):
        there = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(there):
            raise NotPlain(errno.EINVAL, f"is {describe(there)}")
        mode = stat.S_IMODE(there) & 0o777
    fresh = f".{secrets.token_hex(12)}.part"
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        _write(file, content)
        os.fchmod(file, mode)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        raise
    finally:
        os.close(file)


def _append(folder: int, name: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        there = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(there):
            raise NotPlain(errno.EINVAL, f"is {describe(there)}")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.open(name, flags, _NEW_FILE, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise NotPlain(errno.EINVAL, f"is {describe(mode)}")
        _write(file, content)
    finally:
        os.close(file)


def _write(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
