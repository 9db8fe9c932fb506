"""The skills that a thread may use, as a folder of its own that its environment sees.

A copy, never links: what an agent does to its view reaches no other thread and not the source. The view is built beside
the old one and put in its place in one step, and only when something changed.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.runtime.paths import ThreadPaths, make_private, thread_paths
from remit.runtime.regular import read_regular
from remit.runtime.release import canonical_hash

log = logging.getLogger("remit.harness")

SKILL_FILE: Final = "SKILL.md"
MAX_SKILL_FILES: Final = 2_000
MAX_SKILL_BYTES: Final = 50 * 1024 * 1024
MAX_DEPTH: Final = 16
MAX_SKILLS: Final = 500

Allowed = Callable[[str], Collection[str]]
"""User id -> names of the skills that this user's threads may see."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STAMP: Final = ".skills.json"
_BESIDE: Final = ".skills-"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class _File(NamedTuple):
    path: str
    """Below the skill's folder."""
    status: tuple[int, ...]
    """Changes whenever the file does."""
    executable: bool


class _Skill(NamedTuple):
    folder: Path
    files: list[_File]


class TooLarge(Exception):
    """A skill has more files, bytes or levels than a skill may have."""


class SkillsProjection:
    """Keeps each thread's view of the skills up to date.

    Args:
        source: Folder with one folder per skill, each with a ``SKILL.md``. None: there are no skills.
        base_dir: Instead of the state folder.
        allowed: Names of the skills to show, or a function from user id to names. None shows all.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | None,
        *,
        base_dir: str | os.PathLike[str] | None = None,
        allowed: Allowed | Collection[str] | None = None,
    ) -> None:
        self.source = None if source is None else Path(source).absolute()
        self.base_dir = base_dir
        self.allowed: Allowed | frozenset[str] | None = (
            allowed if allowed is None or callable(allowed) else frozenset(allowed)
        )
        self._digests: dict[str, tuple[str, str]] = {}
        """Skill -> (what its files look like, digest of what they hold)."""

    def release_policy_parameters(self) -> dict[str, object]:
        """Which skills threads see, and what is in them."""
        if callable(self.allowed):
            return {"allowed": "by user"}
        skills = self._skills(None if self.allowed is None else self.allowed)
        return {
            "allowed": None if self.allowed is None else sorted(self.allowed),
            "skills": {name: self._digest(name, skill) for name, skill in skills.items()},
        }

    def project(self, user_id: str, thread_id: str) -> None:
        """Bring the view of one thread up to date. Does nothing when neither the skills nor the view changed.

        Raises:
            ValueError: An id cannot name a folder.
            OSError: The view cannot be written. The old one is gone then: it may show what must not be seen any more.
        """
        paths = thread_paths(user_id, thread_id, base=self.base_dir)
        allowed = self.allowed(user_id) if callable(self.allowed) else self.allowed
        skills = self._skills(allowed)
        wanted = canonical_hash({name: self._digest(name, skill) for name, skill in skills.items()})
        if not skills and not os.path.lexists(paths.skills):
            return
        make_private(paths.skills.parent)
        with _locked(paths.skills.parent):
            if _stamped(paths) == (wanted, _appearance(paths.skills)):
                return
            try:
                self._rebuild(paths, skills)
            except BaseException:
                shutil.rmtree(paths.skills, ignore_errors=True)
                raise
            _stamp(paths, wanted)

    def _rebuild(self, paths: ThreadPaths, skills: dict[str, _Skill]) -> None:
        folder = paths.skills.parent
        for leftover in folder.glob(f"{_BESIDE}*"):  # of a process that died while it built
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = folder / f"{_BESIDE}{secrets.token_hex(8)}"
        fresh.mkdir(mode=0o700)
        try:
            for name, skill in skills.items():
                _copy(skill, fresh / name)
            _put_in_place(fresh, paths.skills)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _skills(self, allowed: Collection[str] | None) -> dict[str, _Skill]:
        """The skills to show, by name, with their files."""
        if self.source is None:
            return {}
        try:
            with os.scandir(self.source) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            log.warning("the folder of skills %s does not exist; threads see no skills", self.source)
            return {}
        found: dict[str, _Skill] = {}
        for name in names:
            if _NAME.fullmatch(name) is None or (allowed is not None and name not in allowed):
                continue
            if len(found) == MAX_SKILLS:
                log.warning("there are more than %d skills; %r and those after it are left out", MAX_SKILLS, name)
                break
            try:
                skill = _Skill(self.source / name, _files(self.source / name))
            except TooLarge as exc:
                log.warning("the skill %r is left out: %s", name, exc)
                continue
            if any(file.path == SKILL_FILE for file in skill.files):
                found[name] = skill
        return found

    def _digest(self, name: str, skill: _Skill) -> str:
        """Digest of the files' names, modes and content. Content is read when a file looks different than before."""
        looks = canonical_hash([list(file) for file in skill.files])
        known = self._digests.get(name)
        if known is not None and known[0] == looks:
            return known[1]
        digest = hashlib.sha256()
        for file in skill.files:
            data = _content(skill.folder / file.path)
            for part in (file.path.encode("utf-8", "surrogateescape"), bytes([file.executable]), data):
                digest.update(len(part).to_bytes(8, "big") + part)
        self._digests[name] = looks, digest.hexdigest()
        return digest.hexdigest()


def _files(root: Path) -> list[_File]:
    """The regular files below `root`, sorted. Symbolic links and special files are left out.

    Raises:
        TooLarge: There are too many, they are too large, or they lie too deep.
    """
    found: list[_File] = []
    size = 0
    open_folders = [("", 0)]
    while open_folders:
        below, depth = open_folders.pop()
        if depth > MAX_DEPTH:
            raise TooLarge(f"it has more than {MAX_DEPTH} levels of folders")
        with os.scandir(root / below) as entries:
            for entry in entries:
                path = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    open_folders.append((f"{path}/", depth + 1))
                    continue
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    continue
                size += status.st_size
                found.append(_File(path, _looks(status), bool(status.st_mode & 0o100)))
                if len(found) > MAX_SKILL_FILES:
                    raise TooLarge(f"it has more than {MAX_SKILL_FILES} files")
                if size > MAX_SKILL_BYTES:
                    raise TooLarge(f"it has more than {MAX_SKILL_BYTES} bytes")
    return sorted(found)


def _looks(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(path: Path) -> bytes:
    """A regular file, not through a link, and not more of it than a skill may have."""
    data = read_regular(path, MAX_SKILL_BYTES + 1)
    if len(data) > MAX_SKILL_BYTES:
        raise OSError(f"{str(path)!r} grew while it was copied")
    return data


def _copy(skill: _Skill, target: Path) -> None:
    target.mkdir(mode=0o700)
    for file in skill.files:
        copy = target / file.path
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = 0o500 if file.executable else 0o400
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            out.write(_content(skill.folder / file.path))


def _put_in_place(fresh: Path, view: Path) -> None:
    """Make `fresh` the view. The old view is then called `fresh`."""
    if view.is_symlink() or (view.exists() and not view.is_dir()):
        view.unlink()
    try:
        fresh.rename(view)  # succeeds when there is no view, or an empty one
        return
    except OSError:
        if _exchanged(fresh, view):
            return
    # Where two folders cannot change places there is a moment without a view, and never one with half of it.
    old = fresh.with_name(f"{fresh.name}-old")
    view.rename(old)
    fresh.rename(view)
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two names change places in one step, where the system can."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename: Any = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    done = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(done == 0)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process and one thread at a time builds the view in `folder`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _appearance(view: Path) -> str:
    """What the files of a view look like from outside; empty when there is none."""
    if view.is_symlink():
        return ""
    try:
        return canonical_hash([[file.path, list(file.status)] for file in _files(view)])
    except (OSError, TooLarge):
        return ""


def _stamped(paths: ThreadPaths) -> tuple[str, str] | None:
    """What the view was made from and what it looked like then."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads((paths.skills.parent / _STAMP).read_text(encoding="utf-8"))
        return str(held["skills"]), str(held["view"])
    return None


def _stamp(paths: ThreadPaths, wanted: str) -> None:
    fresh = paths.skills.parent / f"{_STAMP}.{secrets.token_hex(8)}"
    fresh.write_text(json.dumps({"skills": wanted, "view": _appearance(paths.skills)}), encoding="utf-8")
    fresh.replace(paths.skills.parent / _STAMP)
