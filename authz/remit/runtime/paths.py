"""Where the data of users and threads lies, and the virtual paths under which agents know it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from remit.authz.config import state_dir
from remit.runtime.identity import safe_id

VIRTUAL_ROOT: Final = "/mnt/user-data"
WORKSPACE, UPLOADS, OUTPUTS = "workspace", "uploads", "outputs"
AREAS: Final = (WORKSPACE, UPLOADS, OUTPUTS)
VIRTUAL_SKILLS: Final = "/mnt/skills"
TOOL_RESULTS_DIRNAME: Final = ".tool-results"
"""Folder below the outputs for tool results too long for the conversation; no artifact of the run."""
STAGING_PREFIX: Final = ".upload-"
"""How the names of files begin that are still being uploaded."""


@dataclass(frozen=True, slots=True)
class ThreadPaths:
    """The folders of one thread of one user, on the host."""

    user_data: Path

    @property
    def workspace(self) -> Path:
        return self.user_data / WORKSPACE

    @property
    def uploads(self) -> Path:
        return self.user_data / UPLOADS

    @property
    def outputs(self) -> Path:
        return self.user_data / OUTPUTS

    @property
    def skills(self) -> Path:
        """The skills that this thread may use, projected; mounted read-only as ``/mnt/skills``."""
        return self.user_data.parent / "skills"

    def create(self) -> None:
        """Make the three folders, open to the owner alone. Does nothing when they exist."""
        for area in AREAS:
            make_private(self.user_data / area)

    def as_state(self) -> dict[str, str]:
        """The value of the state channel ``thread_data``."""
        return {
            "workspace_path": str(self.workspace),
            "uploads_path": str(self.uploads),
            "outputs_path": str(self.outputs),
        }


def thread_paths(user_id: str, thread_id: str, *, base: str | os.PathLike[str] | None = None) -> ThreadPaths:
    """Folders of a thread: ``<base>/users/{user}/threads/{thread}/user-data/…``.

    Args:
        user_id: Its owner.
        thread_id: The thread.
        base: Instead of the state folder.

    Raises:
        ValueError: An id cannot name a folder.
    """
    root = Path(base) if base is not None else state_dir()
    return ThreadPaths(
        root.absolute()
        / "users"
        / safe_id(user_id, "user id")
        / "threads"
        / safe_id(thread_id, "thread id")
        / "user-data"
    )


def make_private(folder: Path) -> None:
    """Make a folder and those above it that do not exist, each open to the owner alone.

    Raises:
        FileExistsError: Something else has the name.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        if not folder.is_dir():
            raise


def normal_virtual_path(path: str) -> str:
    """`path` in the one spelling under which it is compared: absolute, without ``.``, ``//`` and ``..``.

    A relative path starts at the workspace. Symbolic links are not followed here: whoever opens the file must do so.

    Raises:
        ValueError: It leaves the root with ``..``, is empty, or holds a NUL character.
    """
    if not path or "\x00" in path:
        raise ValueError(f"the path {path!r} is empty or holds a NUL character")
    whole = path if path.startswith("/") else f"{VIRTUAL_ROOT}/{WORKSPACE}/{path}"
    parts: list[str] = []
    for part in PurePosixPath(whole).parts[1:]:
        if part == "..":
            if not parts:
                raise ValueError(f"the path {path!r} leaves the file system with '..'")
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/" + "/".join(part for part in parts if part != "/")
