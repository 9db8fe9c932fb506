"""Providers are found by entry point and by class path, built late, and refused with a message that helps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remit.authz import (
    AuthorizationConfig,
    AuthorizationProvider,
    AuthzRequest,
    ConfigError,
    Principal,
    load_config,
    resolve_authorization_provider,
)
from remit.authz.registry import resolve_guardrail_provider, shared_provider

THIRD_PARTY = '''
from remit.authz import AuthzDecision, ConfigError
from remit.authz.provider import ProviderBase

BUILT = []

class Weekday(ProviderBase):
    """A provider in one file."""
    name = "weekday"

    def __init__(self, *, allowed=(), inner=None):
        BUILT.append(self)
        self.allowed, self.inner = allowed, inner

    def authorize(self, request):
        return AuthzDecision(request.target in self.allowed)

    def validate_role(self, role, *, field):
        if role != "guest":
            raise ConfigError(f"{field}: unknown role {role!r}")

class Outer(Weekday):
    name = "outer"

class FromConfig(Weekday):
    @classmethod
    def from_config(cls, config, *, base_dir):
        made = cls(allowed=tuple(config["names"]))
        made.base_dir = base_dir
        return made

class Half:
    name = "half"
    def authorize(self, request): ...

class Nameless(Weekday):
    name = None

class Exploding:
    def __init__(self): raise RuntimeError("boom")

def function(): ...
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A third party's module on the path; its name."""
    name = f"plugin_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def config(use: str, default_role: str | None = None, **options: Any) -> AuthorizationConfig:
    section = {"enabled": True, "default_role": default_role, "provider": {"use": use, "config": options}}
    return load_config({"authorization": section})


def allows(provider: AuthorizationProvider | None, target: str) -> bool:
    assert provider is not None
    return provider.authorize(AuthzRequest(Principal("u", "guest"), "tool", "call", target)).allow


def test_by_class_path(plugin: str) -> None:
    provider = resolve_authorization_provider(config(f"{plugin}:Weekday", allowed=["search"]))
    assert allows(provider, "search")
    assert not allows(provider, "bash")


def test_by_entry_point(plugin: str, tmp_path: Path) -> None:
    info = tmp_path / f"{plugin}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {plugin}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[remit.providers]\nweekday = {plugin}:Weekday\n")
    assert allows(resolve_authorization_provider(config("weekday", allowed=["search"])), "search")

    other = tmp_path / "rival-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text(f"[remit.providers]\nweekday = {plugin}:Outer\n")
    with pytest.raises(ConfigError, match="'weekday' is registered more than once"):
        resolve_authorization_provider(config("weekday"))


def test_from_config_gets_the_folder(plugin: str) -> None:
    provider: Any = resolve_authorization_provider(config(f"{plugin}:FromConfig", names=["search"]))
    assert allows(provider, "search")
    assert provider.base_dir == Path.cwd()


def test_nested_providers_are_built_first(plugin: str) -> None:
    inner = {"use": f"{plugin}:Weekday", "config": {"allowed": ["a"]}}
    provider: Any = resolve_authorization_provider(config(f"{plugin}:Outer", inner=inner))
    assert type(provider.inner).__name__ == "Weekday"
    assert allows(provider.inner, "a")


@pytest.mark.parametrize(
    ("use", "options", "says"),
    [
        ("casbi", {}, "did you mean 'casbin'?"),
        ("no.such.module:Class", {}, "cannot be imported: ModuleNotFoundError"),
        ("{plugin}:Nope", {}, "has no attribute 'Nope'"),
        ("{plugin}:function", {}, "is a function, not a class"),
        ("{plugin}:Half", {}, "it lacks aauthorize, filter_resources"),
        ("{plugin}:Nameless", {}, "it lacks name"),
        ("{plugin}:Exploding", {}, "cannot be built: RuntimeError: boom"),
        ("{plugin}:Weekday", {"allowd": []}, "unexpected keyword argument 'allowd'"),
        ("{plugin}:Outer", {"inner": {"use": 7}}, "must be {use: name, config: {...}}"),
    ],
)
def test_what_cannot_be_used_is_refused(plugin: str, use: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_authorization_provider(config(use.format(plugin=plugin), **options))
    assert says in str(caught.value)
    assert "authorization.provider" in str(caught.value)


def test_the_cause_is_chained(plugin: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_authorization_provider(config(f"{plugin}:Exploding"))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_the_error_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "authz.yaml"
    path.write_text("authorization:\n  enabled: true\n  provider:\n    use: nope\n")
    with pytest.raises(ConfigError, match=r"authz\.yaml:4: authorization\.provider\.use: "):
        resolve_authorization_provider(load_config(path))


def test_the_default_role_is_checked(plugin: str) -> None:
    resolve_authorization_provider(config(f"{plugin}:Weekday", default_role="guest"))
    with pytest.raises(ConfigError, match=r"authorization\.default_role: unknown role 'gest'"):
        resolve_authorization_provider(config(f"{plugin}:Weekday", default_role="gest"))


def test_one_instance_serves_one_configuration(plugin: str) -> None:
    settings = config(f"{plugin}:Weekday")
    assert shared_provider(settings) is shared_provider(settings)
    assert resolve_authorization_provider(settings) is not shared_provider(settings)
    assert shared_provider(config(f"{plugin}:Weekday")) is not shared_provider(settings)


def test_disabled_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    code = (
        "from remit.authz import load_config, resolve_authorization_provider, Enforcer\n"
        "c = load_config({'authorization': {'enabled': False, 'provider': {'use': 'trap:X'}}})\n"
        "assert resolve_authorization_provider(c) is None\n"
        "assert Enforcer.from_config(c).provider is None\n"
        "import sys; assert 'trap' not in sys.modules and 'casbin' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)


def test_guardrails_resolve_in_their_own_group() -> None:
    section = {"enabled": True, "provider": {"use": "allowlist", "config": {"allowed_tools": ["search"]}}}
    guardrail = resolve_guardrail_provider(load_config({"guardrails": section}))
    assert guardrail is not None
    assert guardrail.name == "allowlist"
    assert resolve_guardrail_provider(load_config({"guardrails": {**section, "enabled": False}})) is None
    with pytest.raises(ConfigError, match=r"guardrails\.provider\.use: no installed distribution registers 'casbin'"):
        resolve_guardrail_provider(load_config({"guardrails": {"enabled": True, "provider": {"use": "casbin"}}}))


def test_the_vocabulary_reaches_the_provider(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text("p, role:guest, report, weekly, use, allow,\n")
    (tmp_path / "authz.yaml").write_text(
        "authorization:\n  enabled: true\n  vocabulary: {resources: [report]}\n"
        "  provider: {use: casbin, config: {policies: [policy.csv]}}\n"
    )
    provider: Any = resolve_authorization_provider(load_config(tmp_path / "authz.yaml"))
    assert provider.lint() == []
    assert provider.authorize(AuthzRequest(Principal("u", "guest"), "report", "use", "weekly")).allow is True

    (tmp_path / "authz.yaml").write_text(
        "authorization:\n  enabled: true\n  provider: {use: casbin, config: {policies: [policy.csv]}}\n"
    )
    provider = resolve_authorization_provider(load_config(tmp_path / "authz.yaml"))
    assert "report" in str(provider.lint()[0])
