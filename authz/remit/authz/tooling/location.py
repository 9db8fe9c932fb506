"""Where a policy is: from what an operator names to the files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from remit.authz.errors import ConfigError, Problem

CONFIG_FILE: Final = "authz.yaml"
DEFAULT: Final = f"policies/{CONFIG_FILE}"
VARIABLE: Final = "REMIT_AUTHZ_FILE"
"""Environment variable that names the policy when no argument does."""
TESTS_FOLDER: Final = "tests"


@dataclass(frozen=True, slots=True)
class PolicyLocation:
    """An `authz.yaml` and the folder in which it stands."""

    file: Path

    @property
    def folder(self) -> Path:
        return self.file.parent

    def path_of(self, name: str) -> Path:
        """The path of a file as problems name it: relative to the folder, unless it is a path already, or no file."""
        path, beside = Path(name), self.folder / name
        try:
            return beside if beside.exists() or (path.suffix and not path.exists()) else path
        except (OSError, ValueError):  # no name that a file could have
            return path

    def shown(self, problems: Iterable[Problem]) -> list[Problem]:
        """`problems` with file names that lead from the working directory to the files; sorted, each one once."""
        return sorted({replace(problem, file=str(self.path_of(problem.file))) for problem in problems})

    def uri_of(self, file: str) -> str:
        """A relative path with forward slashes, for reports that are read on another machine.

        Relative to the working directory, which is the root of the checkout when a build runs us; a policy outside of
        it is named from its own folder.
        """
        path = Path(os.path.abspath(self.path_of(file)))
        for base in (Path.cwd(), Path(os.path.abspath(self.folder))):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
        return path.name


def locate(named: str | None) -> PolicyLocation:
    """Find the policy.

    Args:
        named: A folder with an `authz.yaml`, or the file itself. None: what `REMIT_AUTHZ_FILE` names, else
            `policies/authz.yaml`.

    Raises:
        ConfigError: There is none, or it cannot be reached.
    """
    if named is None and (variable := os.environ.get(VARIABLE)):
        return _locate(variable, f"{VARIABLE}: ")
    return _locate(DEFAULT if named is None else named, "")


def _locate(named: str, origin: str) -> PolicyLocation:
    path = Path(named)
    try:
        folder, inside, found = path.is_dir(), (path / CONFIG_FILE).is_file(), path.is_file()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise ConfigError(f"{origin}cannot read {named!r}: {str(why).lower()}; check the path") from exc
    if inside:
        return PolicyLocation(path / CONFIG_FILE)
    if folder:
        raise ConfigError(f"{origin}the folder {named!r} has no {CONFIG_FILE}; `remit init` writes one")
    if not found:
        raise ConfigError(
            f"{origin}there is no policy at {named!r}; name a folder with an {CONFIG_FILE}, or run `remit init`"
        )
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{origin}{named!r} is not an {CONFIG_FILE}; name the folder, or the {CONFIG_FILE} in it")
    return PolicyLocation(path)


def find_test_files(location: PolicyLocation) -> list[Path]:
    """The policy tests of a policy: every YAML file below the folder `tests` beside its `authz.yaml`, sorted."""
    folder = location.folder / TESTS_FOLDER
    return sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") and path.is_file())
