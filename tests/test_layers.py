"""The import contracts of `pyproject.toml` hold, and each of them really notices a violation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = ("authz", "providers", "middlewares")

# The copy must be found instead of the editable install, not beside it: a namespace package would merge the two.
RUN = """
import sys
from pathlib import Path
checkout, copy = Path(sys.argv[1]), Path(sys.argv[2])
roots = ("authz", "providers", "middlewares")
sys.path[:] = [str(copy / r) for r in roots] + [p for p in sys.path if p and Path(p) not in {checkout / r for r in roots}]
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename=str(copy / "pyproject.toml"), no_cache=True, no_logo=True))
"""

PLANTED = {
    "packages": ("authz/remit/authz/judge.py", "import remit.middlewares"),
    "authz": ("authz/remit/authz/types.py", "def late():\n    import remit.authz.judge"),
    "providers": ("providers/remit/providers/casbin/rules.py", "def late():\n    import remit.authz.judge"),
    "found-by-name": ("authz/remit/authz/tickets.py", "from remit.providers.casbin import rules"),
    "facade": ("authz/remit/authz/ledger/__init__.py", "from remit.authz import AuthzRequest"),
    "frameworks": ("authz/remit/authz/wire.py", "import langchain_core.tools"),
}
NAMES = {
    "packages": "Packages import downward",
    "authz": "Modules of the decision layer import downward",
    "providers": "Providers stand on types, vocabulary, protocol and configuration alone",
    "found-by-name": "Providers are found by name, never imported",
    "facade": "Inside the packages nobody goes through the public facade",
    "frameworks": "The decision path knows no agent framework and no web framework",
}


def contracts(copy: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT), str(copy)], cwd=copy, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, tmp_path / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_contracts_hold(copy: Path) -> None:
    result = contracts(copy)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("contract", PLANTED)
def test_planted_violation_is_noticed(copy: Path, contract: str) -> None:
    file, line = PLANTED[contract]
    with (copy / file).open("a", encoding="utf-8") as out:
        out.write(f"\n{line}\n")
    result = contracts(copy)
    assert result.returncode == 1
    assert f"{NAMES[contract]} BROKEN" in " ".join(result.stdout.split()), result.stdout + result.stderr
