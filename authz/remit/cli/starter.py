"""The starter policy set: where it comes from, and writing it without touching what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from remit.authz.errors import ConfigError

PACKAGE = "remit.policies"
SUFFIXES = (".conf", ".csv", ".yaml")


def starter_files() -> dict[str, str]:
    """Name below the policy folder (with forward slashes) -> text, sorted.

    Raises:
        ConfigError: The installation lacks them.
    """
    try:
        found = dict(_walk(files(PACKAGE), ""))
    except ModuleNotFoundError as exc:
        raise ConfigError(f"this installation has no {PACKAGE}; install remit again") from exc
    return {name: found[name] for name in sorted(found) if PurePosixPath(name).suffix in SUFFIXES}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif PurePosixPath(entry.name).suffix in SUFFIXES:
            yield prefix + entry.name, entry.read_text(encoding="utf-8")


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all of `texts` below `folder`, or nothing.

    Raises:
        ConfigError: A file is there already, or cannot be written.
    """
    try:
        there = [str(folder / name) for name in texts if os.path.lexists(folder / name)]
    except OSError as exc:
        raise ConfigError(f"cannot look into {str(folder)!r}: {_why(exc)}; check the path") from exc
    except ValueError as exc:
        raise ConfigError(f"cannot write to {str(folder)!r}: {exc}; check the path") from exc
    if there:
        raise ConfigError(f"already there: {', '.join(there)}; nothing was written, choose another folder")
    written: list[Path] = []
    try:
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as out:
                written.append(path)
                out.write(text)
    except (OSError, ValueError) as exc:
        for path in written:
            path.unlink(missing_ok=True)
        raise ConfigError(f"cannot write to {str(folder)!r}: {_why(exc)}; nothing was written") from exc


def _why(exc: OSError | ValueError) -> str:
    return (exc.strerror or type(exc).__name__).lower() if isinstance(exc, OSError) else str(exc)
