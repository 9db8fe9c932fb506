"""`sandbox.use`: what was asked for is built, or start-up says why not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandboxes import need_bubblewrap

from remit.authz.errors import ConfigError
from remit.harness.sandbox import (
    BubblewrapSandboxProvider,
    LocalSandboxProvider,
    bubblewrap,
    build_sandbox_provider,
)
from remit.runtime.config import AppConfig, load_app_config


class Own:
    """A provider of somebody else."""

    uses_thread_data_mounts = False

    def __init__(self, *, url: str = "") -> None:
        if url == "bad":
            raise RuntimeError("no such host")
        self.url = url

    def acquire(self, thread_id: str, user_id: str) -> Any: ...
    def get(self, sandbox_id: str, *, thread_id: str, user_id: str) -> Any: ...
    def release(self, sandbox_id: str, *, thread_id: str, user_id: str) -> bool: ...
    def close(self) -> None: ...


class Half:
    """Lacks most of it."""

    def acquire(self, thread_id: str, user_id: str) -> Any: ...


def written(folder: Path, sandbox: str) -> AppConfig:
    file = folder / "remit.yaml"
    file.write_text(f"version: 1\nsandbox:\n  {sandbox}\n", encoding="utf-8")
    return load_app_config(file)


def test_local_says_that_it_does_not_isolate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "remit.harness"):
        made = build_sandbox_provider(written(tmp_path, "use: local"))
    assert isinstance(made, LocalSandboxProvider)
    assert "does not isolate" in caplog.text


def test_bubblewrap_is_the_default(tmp_path: Path) -> None:
    need_bubblewrap()
    assert isinstance(build_sandbox_provider(load_app_config({})), BubblewrapSandboxProvider)
    assert isinstance(build_sandbox_provider(written(tmp_path, "use: bubblewrap")), BubblewrapSandboxProvider)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("the program `bwrap` is not installed; install the package bubblewrap", "install the package bubblewrap"),
        ("a trial of bwrap failed", "a trial of bwrap failed"),
    ],
)
def test_bubblewrap_that_cannot_run_is_no_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, shown: str
) -> None:
    monkeypatch.setattr(bubblewrap, "why_unusable", lambda *, network: reason)
    with pytest.raises(ConfigError) as raised:
        build_sandbox_provider(written(tmp_path, "use: bubblewrap"))
    assert str(raised.value).startswith(f"{tmp_path}/remit.yaml:3: sandbox.use: bubblewrap cannot run here: ")
    assert shown in str(raised.value)
    assert str(raised.value).endswith("or choose `local`, which does not isolate")
    assert raised.value.problems[0].code == "sandbox-unavailable"


def test_bubblewrap_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "PATH", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(bubblewrap.sys, "platform", "linux")
    assert bubblewrap.why_unusable() == "the program `bwrap` is not installed; install the package bubblewrap"
    monkeypatch.setattr(bubblewrap.sys, "platform", "darwin")
    assert bubblewrap.why_unusable() == "it exists on Linux only, and this is darwin"


def test_a_class_of_ones_own(tmp_path: Path) -> None:
    made: Any = build_sandbox_provider(written(tmp_path, f"use: {__name__}:Own\n  config: {{url: there}}"))
    assert type(made).__name__ == "Own"
    assert made.url == "there"


@pytest.mark.parametrize(
    ("sandbox", "line", "problem"),
    [
        ("use: locl", 3, "there is no sandbox 'locl'; did you mean 'local'?"),
        ("use: docker", 3, "there is no sandbox 'docker'"),
        ("use: nowhere.at.all:Thing", 3, "cannot be imported: ModuleNotFoundError"),
        ("use: math:Nothing", 3, "cannot be imported: AttributeError"),
        ("use: math:pi", 3, "'math:pi' is a float, not a class"),
        (
            f"use: {__name__}:Half",
            3,
            "which is no sandbox provider: it lacks get, release, close, uses_thread_data_mounts",
        ),
        (f"use: {__name__}:Own\n  config: {{url: bad}}", 4, "cannot be built: RuntimeError: no such host"),
        (f"use: {__name__}:Own\n  config: {{wrong: 1}}", 4, "cannot be built: TypeError"),
        ("use: local\n  config: {image: x}", 4, "the sandbox 'local' takes no keys of its own, got 'image'"),
    ],
)
def test_what_cannot_be_built(tmp_path: Path, sandbox: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_sandbox_provider(written(tmp_path, sandbox))
    assert problem in str(raised.value)
    assert f"remit.yaml:{line}: sandbox." in str(raised.value)
