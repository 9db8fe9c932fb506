"""What is shipped: one namespace from three source roots, typed, with the policies inside, and nothing that need not be."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = ("authz", "providers", "middlewares")
PORTIONS = sorted(p for root in SOURCE_ROOTS for p in (ROOT / root / "remit").iterdir() if p.is_dir())
FRAMEWORKS = ("langchain", "langchain_core", "langgraph", "fastapi", "starlette")

LONGEST_MODULE = 400
LONGER_WITH_REASON: dict[str, tuple[int, str]] = {}
"""Path -> its lines now, and why it is one concept. Numbers only go down."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def modules() -> list[Path]:
    return sorted(p for root in (*SOURCE_ROOTS, "benchmarks") for p in (ROOT / root).rglob("*.py"))


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_the_namespace_has_no_init(root: str) -> None:
    assert not (ROOT / root / "remit" / "__init__.py").exists(), "an __init__.py here hides the other source roots"


@pytest.mark.parametrize("portion", PORTIONS, ids=relative)
def test_every_portion_is_typed(portion: Path) -> None:
    assert (portion / "py.typed").exists()


def installed_policies() -> Iterator[tuple[str, str]]:
    def walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
        for entry in folder.iterdir():
            if entry.is_dir():
                yield from walk(entry, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry.read_text(encoding="utf-8")

    yield from walk(files("remit.policies"), "")


def repository_policies() -> dict[str, str]:
    folder = ROOT / "policies"
    return {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}


def test_installed_policies_are_those_of_the_repository() -> None:
    assert dict(installed_policies()) == repository_policies(), "stale copy in the editable install; run `make setup`"


def test_importing_the_decision_layer_loads_no_framework() -> None:
    code = f"import sys, json, remit.authz; print(json.dumps([m for m in {FRAMEWORKS!r} if m in sys.modules]))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ended.stdout) == []


def modules_with_exports() -> list[str]:
    named = (p for p in modules() if re.search(r"^__all__", p.read_text("utf-8"), re.MULTILINE))
    return [
        ".".join(p.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")
        for p in named
        if "benchmarks" not in p.parts
    ]


@pytest.mark.parametrize("name", modules_with_exports())
def test_every_exported_name_exists(name: str) -> None:
    module = importlib.import_module(name)
    missing = [export for export in module.__all__ if not hasattr(module, export)]
    assert missing == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_no_module_grows_beyond_one_concept(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    limit, _ = LONGER_WITH_REASON.get(relative(path), (LONGEST_MODULE, ""))
    assert lines <= limit, f"{lines} lines; two concepts? Split it, or give the reason in LONGER_WITH_REASON"


def test_reasons_for_long_modules_are_still_needed() -> None:
    for name in LONGER_WITH_REASON:
        assert len((ROOT / name).read_text("utf-8").splitlines()) > LONGEST_MODULE, name


MAPS = ("README.md", "AGENTS.md", *(f"{folder}/AGENTS.md" for folder in SOURCE_ROOTS), "policies/README.md")


@pytest.mark.parametrize("document", MAPS)
def test_every_path_of_a_map_exists(document: str) -> None:
    """A map is a table whose first cell is a path in back quotes, relative to the document."""
    page = ROOT / document
    rows = re.findall(r"^\| ?`([^`]+)`", page.read_text("utf-8"), re.MULTILINE)
    paths = [row for row in rows if "/" in row or "." in row]
    assert paths, "no map found"
    for path in paths:
        assert list(page.parent.glob(path.rstrip("/"))), f"{document} names {path}, which is not there"


def test_the_pipeline_runs_the_test_target() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text("utf-8").splitlines()


def test_the_changelog_knows_this_version() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert version("remit") == stated
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == stated


def uv(*args: str, cwd: Path, **environment: str) -> None:
    ended = subprocess.run(
        [find_uv_bin(), *args],
        cwd=cwd,
        env={k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, f"uv {' '.join(args)}\n{ended.stderr}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as an index would build it, without a network."""
    out = tmp_path_factory.mktemp("dist")
    uv("build", "--offline", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(out), cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_one_top_level_name_and_everything_below_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"remit", f"remit-{version('remit')}.dist-info"}
    assert {f"remit/policies/{name}" for name in repository_policies()} <= set(names)
    code = {p.relative_to(ROOT / root).as_posix() for root in SOURCE_ROOTS for p in (ROOT / root).rglob("*.py")}
    assert code == {name for name in names if name.endswith(".py")}
    assert {f"remit/{portion.name}/py.typed" for portion in PORTIONS} <= set(names)


@pytest.fixture(scope="module")
def core_only(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and its core dependencies, as locked: no agent framework, no web framework."""
    folder = tmp_path_factory.mktemp("core") / "venv"
    sync = ("sync", "--frozen", "--no-default-groups", "--no-install-project", "--python", sys.executable)
    try:
        uv(*sync, "--offline", cwd=ROOT, UV_PROJECT_ENVIRONMENT=str(folder))
    except AssertionError:  # another machine's cache: the locked files are fetched
        uv(*sync, cwd=ROOT, UV_PROJECT_ENVIRONMENT=str(folder))
    python = str(folder / "bin" / "python")
    uv("pip", "install", "--offline", "--no-deps", "--no-index", "--python", python, str(wheel), cwd=folder)
    return folder


def run(core_only: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "REMIT_", "VIRTUAL_ENV"))}
    program, *arguments = command
    return subprocess.run(
        [str(core_only / "bin" / program), *arguments],
        cwd=cwd,
        env=outside,
        capture_output=True,
        text=True,
        timeout=120,
    )


DECIDE = """
import importlib, pkgutil, sys
from remit.authz import AuthzRequest, Principal
from remit.providers.casbin import CasbinAuthorizationProvider

provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=".")
for role in ("reader", "writer"):
    answer = provider.authorize(AuthzRequest(Principal(role=role), "tool", "call", "write_file"))
    print(role, answer.allow, answer.policy_id)
for name in %r:
    assert importlib.util.find_spec(name) is None, name
""" % (FRAMEWORKS,)  # noqa: UP031 - the text is full of braces


@pytest.mark.slow
def test_the_wheel_decides_without_any_framework(core_only: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text(
        "p, role:reader, tool, read_file, call, allow,\np, role:writer, tool, write_file, call, allow,\n"
    )
    ended = run(core_only, "python", "-c", DECIDE, cwd=tmp_path)
    assert ended.stdout.splitlines() == ["reader False None", "writer True policy.csv:2"], ended.stderr


NEEDS_MORE = {"remit.authz.testing.contract": "pytest", "remit.authz.testing.fixtures": "pytest"}
"""Modules that exist for one package alone, and are imported by nobody who lacks it."""


@pytest.mark.slow
def test_every_module_of_the_decision_layer_and_the_casbin_provider_imports_without_frameworks(
    core_only: Path, tmp_path: Path
) -> None:
    names = [
        info.name
        for package in ("remit.authz", "remit.providers.casbin")
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        if info.name not in NEEDS_MORE
    ]
    assert len(names) > 20
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    ended = run(core_only, "python", "-W", "error", "-c", code, *names, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_the_wheel_starts_a_policy_and_checks_it(core_only: Path, tmp_path: Path) -> None:
    made = run(core_only, "remit", "init", "mine", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for role, code in (("admin", 0), ("guest", 3)):
        answer = run(core_only, "remit", "check", "--policy", "mine", "--role", role, "tool:call:bash", cwd=tmp_path)
        assert answer.returncode == code, answer.stdout + answer.stderr
