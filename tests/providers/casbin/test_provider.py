"""The provider's doors: how it is built, what it answers, and that every door gives one answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.blocking import no_blocking_calls

from remit.authz.config import load_config
from remit.authz.errors import ConfigError, PolicyError
from remit.authz.provider import (
    AuthorizationProvider,
    Closes,
    Explains,
    PolicyTools,
    SupportsAsyncFilter,
    SupportsBatch,
    ValidatesRole,
    Versioned,
)
from remit.authz.registry import resolve_authorization_provider
from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin import CasbinAuthorizationProvider, pure

ROWS = """\
p, role:user, tool, bash, call, allow,
p, role:user, tool, send, call, ask,
p, role:user, tool, pay, call, allow, r.ctx.args.amount <= 100
p, role:user, tool, wipe, call, deny, r.ctx.principal.attributes.team != 'ops'
p, role:user, tool, wipe, call, allow,
p, user:ann, tool, bash, call, deny,
"""
CANDIDATES = ["wipe", "bash", "send", "pay", "none", "bash"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.csv").write_text(ROWS)
    return tmp_path


@pytest.fixture
def provider(folder: Path) -> CasbinAuthorizationProvider:
    return CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder)


def asked(tool: str, user: str = "bob", role: str = "user", team: str = "ops", **args: Any) -> AuthzRequest:
    return AuthzRequest(Principal(user, role, attributes={"team": team}), "tool", "call", tool, {"args": args})


DECISIONS = [
    pytest.param(asked("bash"), True, "authz.allowed", "policy.csv:1", id="allow"),
    pytest.param(asked("bash", user="ann"), False, "authz.denied", "policy.csv:6", id="deny-for-the-user"),
    pytest.param(asked("send"), False, "authz.ask", "policy.csv:2", id="ask"),
    pytest.param(asked("pay", amount=5), True, "authz.allowed", "policy.csv:3", id="condition-holds"),
    pytest.param(asked("pay", amount=500), False, "authz.no_policy", None, id="condition-fails"),
    pytest.param(asked("pay", amount="5"), False, "authz.no_policy", None, id="condition-unknown"),
    pytest.param(asked("wipe"), True, "authz.allowed", "policy.csv:5", id="restriction-does-not-apply"),
    pytest.param(asked("wipe", team="dev"), False, "authz.denied", "policy.csv:4", id="restriction-applies"),
    pytest.param(
        AuthzRequest(Principal("bob", "user"), "tool", "call", "wipe"),
        False,
        "authz.denied",
        "policy.csv:4",
        id="restriction-unknown",
    ),
    pytest.param(asked("none"), False, "authz.no_policy", None, id="no-rule"),
    pytest.param(asked("bash", role="nobody"), False, "authz.unknown_role", None, id="unknown-role"),
]


@pytest.mark.parametrize(("request_", "allow", "code", "policy_id"), DECISIONS)
async def test_every_door_decides_alike(
    provider: CasbinAuthorizationProvider, request_: AuthzRequest, allow: bool, code: str, policy_id: str | None
) -> None:
    decision = provider.authorize(request_)
    assert (decision.allow, decision.code, decision.policy_id) == (allow, code, policy_id)
    assert decision.policy_version == provider.policy_version
    with no_blocking_calls():
        assert await provider.aauthorize(request_) == decision
        assert await provider.aauthorize_many([request_, request_]) == [decision, decision]
    assert provider.authorize_many([request_]) == [decision]
    assert provider.explain(request_).decision == decision
    assert provider.snapshot.authorize(request_) == decision


@pytest.mark.parametrize(
    ("principal", "shown"),
    [
        pytest.param(Principal("bob", "user", attributes={"team": "ops"}), ["wipe", "bash", "send", "pay", "bash"], id="ops"),
        pytest.param(Principal("bob", "user", attributes={"team": "dev"}), ["bash", "send", "pay", "bash"], id="dev"),
        pytest.param(Principal("bob", "user"), ["bash", "send", "pay", "bash"], id="no-team"),
        pytest.param(Principal("ann", "user", attributes={"team": "ops"}), ["wipe", "send", "pay"], id="ann"),
        pytest.param(Principal("bob", "nobody"), [], id="unknown-role"),
    ],
)  # fmt: skip
async def test_filter(provider: CasbinAuthorizationProvider, principal: Principal, shown: list[str]) -> None:
    assert provider.filter_resources(principal, "tool", CANDIDATES) == shown
    with no_blocking_calls():
        assert await provider.afilter_resources(principal, "tool", CANDIDATES) == shown


@pytest.mark.parametrize(
    "protocol",
    [
        AuthorizationProvider, Closes, Explains, PolicyTools, SupportsAsyncFilter, SupportsBatch, ValidatesRole,
        Versioned,
    ],
)  # fmt: skip
def test_capabilities(provider: CasbinAuthorizationProvider, protocol: type) -> None:
    assert isinstance(provider, protocol)
    assert provider.blocking is False
    assert provider.name == "casbin"


def test_a_method_taken_before_a_reload_sees_the_policy_after_it(
    folder: Path, provider: CasbinAuthorizationProvider
) -> None:
    authorize, version, old = provider.authorize, provider.policy_version, provider.snapshot
    assert authorize(asked("bash")).allow
    (folder / "policy.csv").write_text("p, role:user, tool, ls, call, allow,\n")
    assert provider.reload() is provider.snapshot
    assert not authorize(asked("bash")).allow
    assert provider.policy_version != version
    assert old.authorize(asked("bash")).allow  # a snapshot never changes


def test_a_batch_has_one_policy_version(folder: Path, provider: CasbinAuthorizationProvider) -> None:
    class Reloading(list[AuthzRequest]):
        def __iter__(self) -> Any:
            for request in list.__iter__(self):
                yield request
                (folder / "policy.csv").write_text("p, role:user, tool, ls, call, allow,\n")
                provider.reload()

    answers = provider.authorize_many(Reloading([asked("bash"), asked("bash")]))
    assert [answer.allow for answer in answers] == [True, True]
    assert not provider.authorize(asked("bash")).allow


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        pytest.param({"policys": []}, ["unknown key 'policys'; did you mean 'policies'?"], id="typo"),
        pytest.param({"Watch": True}, ["unknown key 'Watch'; did you mean 'watch'?"], id="case"),
        pytest.param({"zzz": 1}, ["unknown key 'zzz'; known: "], id="unknown"),
        pytest.param({"policies": "policy.csv"}, ["'policies' must be a list, got 'policy.csv'"], id="no-list"),
        pytest.param({"policies": ["policy.csv", 7]}, ["'policies[]' must be a path, got 7"], id="no-path"),
        pytest.param({"policies": [""]}, ["'policies[]' must be a path, got ''"], id="empty-path"),
        pytest.param({"watch": "yes"}, ["'watch' must be true or false, got 'yes'"], id="watch-as-text"),
        pytest.param({"allow_slow": 1}, ["'allow_slow' must be true or false, got 1"], id="flag-as-number"),
        pytest.param({"model": 3}, ["'model' must be a path, got 3"], id="model"),
        pytest.param({"request": "{role}"}, ["'request' must be a list, got '{role}'"], id="request-as-text"),
        pytest.param({"request": ["{role}", 3]}, ["'request' must hold texts only, got 3"], id="request-item"),
        pytest.param({"functions": ["f"]}, ["'functions' must map names to functions"], id="functions-as-list"),
        pytest.param({"functions": {"f": 3}}, ["'functions.f' must be a function or 'module:name'"], id="no-function"),
        pytest.param({"functions": {"a b": len}}, ["'functions' has the name 'a b'"], id="odd-name"),
        pytest.param({"functions": {"f": "nope:f"}}, ["'functions.f': 'nope:f' cannot be imported"], id="no-module"),
        pytest.param({"functions": {"f": "math:pi"}}, ["'functions.f': 'math:pi' is no function"], id="a-value"),
        pytest.param(
            {"watch": 1, "allow_slow": 2, "x": 3}, ["'watch'", "'allow_slow'", "unknown key 'x'"], id="all-at-once"
        ),
    ],
)
def test_wrong_arguments(folder: Path, options: dict[str, Any], messages: list[str]) -> None:
    given = {"policies": ["policy.csv"], "base_dir": folder, **options}
    with pytest.raises(ConfigError) as caught:
        CasbinAuthorizationProvider(**given)
    for message in messages:
        assert message in str(caught.value)


def test_from_config(folder: Path) -> None:
    config = {"policies": ["policy.csv"], "watch": False}
    provider = CasbinAuthorizationProvider.from_config(config, base_dir=folder)
    assert provider.authorize(asked("bash")).allow
    with pytest.raises(ConfigError, match="'policies' is missing"):
        CasbinAuthorizationProvider.from_config({}, base_dir=folder)
    with pytest.raises(ConfigError, match="'base_dir' is the folder of the configuration file"):
        CasbinAuthorizationProvider.from_config({**config, "base_dir": "/"}, base_dir=folder)
    with pytest.raises(ConfigError, match="unknown key 'wach'; did you mean 'watch'"):
        CasbinAuthorizationProvider.from_config({**config, "wach": True}, base_dir=folder)


@pytest.mark.parametrize("use", ["casbin", "remit.providers.casbin:CasbinAuthorizationProvider"])
def test_resolved_from_a_configuration_file(folder: Path, use: str) -> None:
    (folder / "authz.yaml").write_text(
        f"authorization:\n  enabled: true\n  default_role: user\n  provider:\n    use: {use}\n"
        "    config: {policies: [policy.csv]}\n"
    )
    provider = resolve_authorization_provider(load_config(folder / "authz.yaml"))
    assert isinstance(provider, CasbinAuthorizationProvider)
    assert provider.authorize(asked("bash")).policy_id == "policy.csv:1"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param("{policies: [policy.csv], wacth: true}", "did you mean 'watch'?", id="typo"),
        pytest.param("{policies: [none.csv]}", "none.csv: does not exist", id="missing-file"),
        pytest.param("{}", "'policies' is missing", id="no-policies"),
    ],
)
def test_configuration_errors_name_the_place(folder: Path, config: str, message: str) -> None:
    (folder / "authz.yaml").write_text(
        f"authorization:\n  enabled: true\n  provider:\n    use: casbin\n    config: {config}\n"
    )
    with pytest.raises(ConfigError) as caught:
        resolve_authorization_provider(load_config(folder / "authz.yaml"))
    assert message in str(caught.value)
    assert caught.value.problems


def test_a_policy_that_cannot_be_put_in_force_is_refused_at_start(folder: Path) -> None:
    (folder / "policy.csv").write_text("p, role:user, tool, bash, call, Deny,\np, role:user, tool\n")
    with pytest.raises(PolicyError) as caught:
        CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder)
    assert [(problem.file, problem.line) for problem in caught.value.problems] == [("policy.csv", 1), ("policy.csv", 2)]


def test_relative_names_begin_in_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert CasbinAuthorizationProvider(policies=["policy.csv"]).authorize(asked("bash")).allow
    assert CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=".").authorize(asked("bash")).allow
    assert CasbinAuthorizationProvider(policies=[folder / "policy.csv"]).authorize(asked("bash")).allow


@pytest.mark.parametrize(
    ("role", "advice"),
    [("usr", "did you mean 'user'?"), ("User", "did you mean 'user'?"), ("zzz", "known: user"), ("role:user", "")],
)
def test_unknown_role(provider: CasbinAuthorizationProvider, role: str, advice: str) -> None:
    provider.validate_role("user", field="authorization.default_role")
    with pytest.raises(ConfigError) as caught:
        provider.validate_role(role, field="authorization.default_role")
    assert str(caught.value).startswith(f"authorization.default_role: the policy knows no role {role!r}; ")
    assert advice in str(caught.value)


FOREIGN = """\
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && fits(r.obj, p.obj) && r.act == p.act
"""


@pure
def fits(value: str, pattern: str) -> bool:
    return value.startswith(pattern)


@pytest.mark.parametrize(
    "function", [pytest.param(fits, id="callable"), pytest.param("remit_test_fits:fits", id="path")]
)
def test_a_model_and_functions_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    (tmp_path / "remit_test_fits.py").write_text("def fits(value, pattern):\n    return value.startswith(pattern)\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "model.conf").write_text(FOREIGN)
    (tmp_path / "policy.csv").write_text("p, staff, ba, call\ng, boss, staff\n")
    provider = CasbinAuthorizationProvider(
        policies=["policy.csv"],
        model="model.conf",
        request=["{role}", "{target}", "{action}"],
        functions={"fits": function},
        base_dir=tmp_path,
    )
    assert provider.authorize(asked("bash", role="boss")).allow
    assert not provider.authorize(asked("ls", role="boss")).allow
    provider.validate_role("boss", field="f")
    with pytest.raises(ConfigError, match="knows no role 'bos'; did you mean 'boss'"):
        provider.validate_role("bos", field="f")


def test_roles_are_not_checked_where_the_model_does_not_see_them(tmp_path: Path) -> None:
    (tmp_path / "model.conf").write_text(FOREIGN.replace("fits(r.obj, p.obj)", "r.obj == p.obj"))
    (tmp_path / "policy.csv").write_text("p, ann, bash, call\n")
    provider = CasbinAuthorizationProvider(
        policies=["policy.csv"],
        model="model.conf",
        request=["{user_id}", "{target}", "{action}"],
        base_dir=tmp_path,
    )
    provider.validate_role("anything", field="f")
    assert provider.authorize(asked("bash", user="ann", role="anything")).allow


def test_resource_types_of_the_deployment(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text("p, role:user, tools, x, call, allow,\n")
    with pytest.raises(PolicyError, match="did you mean 'tool'"):
        CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=tmp_path)
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=tmp_path, resources=["tools"])
    assert provider.authorize(AuthzRequest(Principal("bob", "user"), "tools", "call", "x")).allow
    assert provider.lint() == []


def test_lint_lists_warnings(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text("p, role:user, tool, x, call, allow,\np, role:user, tool, x, call, allow,\n")
    (problem,) = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=tmp_path).lint()
    assert (problem.file, problem.line, problem.severity) == ("policy.csv", 2, "warning")


async def test_closing_a_provider_without_a_watch(provider: CasbinAuthorizationProvider) -> None:
    provider.close()
    await provider.aclose()
    assert provider.authorize(asked("bash")).allow


LAZY = """
import sys
import remit.providers.casbin
assert not any(name.startswith(("casbin", "watchfiles", "remit.providers.casbin.")) for name in sys.modules), sys.modules
from remit.providers.casbin import CasbinAuthorizationProvider
CasbinAuthorizationProvider(policies=["policy.csv"])
assert "watchfiles" not in sys.modules
try:
    remit.providers.casbin.Nothing
except AttributeError as exc:
    print(exc)
"""


def test_import_is_lazy(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout == "module 'remit.providers.casbin' has no attribute 'Nothing'\n", done.stderr
