"""The gates over real policy files: what an operator writes is what callers get, at every gate, after an edit too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger import records

from remit.authz import (
    Enforcer,
    SandboxAuthorizationError,
    authorize_model_name,
    authorize_sandbox_execution,
    load_config,
    resolve_model_authorization,
    resolve_route_permissions,
)
from remit.authz.config import AuthorizationConfig
from remit.authz.errors import ModelAuthorizationError
from remit.authz.gates.models import aauthorize_model_name
from remit.authz.gates.sandbox import aauthorize_sandbox_execution
from remit.authz.ledger import shared_log
from remit.authz.registry import shared_provider

ROLES = """\
version: 1
roles:
  guest: {models: {allow: [small]}, sandbox: {allow: false}, routes: {allow: ["threads:read"]}}
  user:
    inherits: [guest]
    models: {allow: [medium], deny: [large]}
    sandbox: {allow: true}
    routes: {allow: ["threads:*", "runs:*"], deny: ["threads:delete"]}
  admin: {models: {allow: "*"}, sandbox: {allow: true}, routes: {allow: "*"}}
users: {alice: [admin]}
unlisted: deny
"""
MODELS = ["large", "medium", "small"]
EVERY_ROUTE = ["threads:read", "threads:write", "threads:delete", "runs:create", "runs:read", "runs:cancel"]
ROUTES = {
    "guest": ["threads:read"],
    "user": ["threads:read", "threads:write", "runs:create", "runs:read", "runs:cancel"],
    "admin": EVERY_ROUTE,
    "nosuch": [],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "roles.yaml").write_text(ROLES)
    return policies


def load(folder: Path, **section: Any) -> AuthorizationConfig:
    provider = {"use": "casbin", "config": {"policies": ["roles.yaml"]}}
    authorization = {"enabled": True, "default_role": "guest", "provider": provider, **section}
    file = folder / "authz.yaml"
    file.write_text(json.dumps({"authorization": authorization, "ledger": {"sink": "file"}}))
    return load_config(file)


async def sandbox(config: AuthorizationConfig, context: dict[str, Any]) -> bool:
    answers = []
    try:
        authorize_sandbox_execution(context, config=config)
        answers.append(True)
    except SandboxAuthorizationError:
        answers.append(False)
    try:
        await aauthorize_sandbox_execution(context, config=config)
        answers.append(True)
    except SandboxAuthorizationError:
        answers.append(False)
    assert answers[0] is answers[1]
    return answers[0]


async def model(config: AuthorizationConfig, context: dict[str, Any], name: str = "large") -> str:
    answers = []
    for style in ("sync", "async"):
        kw: dict[str, Any] = {"context": context, "config": config, "models": MODELS}
        try:
            answers.append(
                authorize_model_name(name, **kw) if style == "sync" else await aauthorize_model_name(name, **kw)
            )
        except ModelAuthorizationError as error:
            answers.append(error.code)
    assert answers[0] == answers[1]
    return answers[0]


def listed(config: AuthorizationConfig, user: dict[str, Any]) -> list[str]:
    provider, principal = resolve_model_authorization(user, is_internal=False, config=config)
    assert provider is not None
    assert principal is not None
    return provider.filter_resources(principal, "model", list(MODELS))


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
class TestRoles:
    @pytest.mark.parametrize(
        ("role", "may_run", "chosen", "shown"),
        [
            ("guest", False, "small", ["small"]),
            ("user", True, "medium", ["medium", "small"]),
            ("admin", True, "large", MODELS),
            ("nosuch", False, "authz.unknown_role", []),
            ("Admin", False, "authz.unknown_role", []),
            (None, False, "small", ["small"]),
            ("", False, "small", ["small"]),
        ],
    )
    async def test_table(
        self, folder: Path, role: str | None, may_run: bool, chosen: str, shown: list[str], fail_closed: bool
    ) -> None:
        """An unknown role has nothing under fail-open too: it is no failure of the provider."""
        config = load(folder, fail_closed=fail_closed)
        context, user = {"user_id": "bob", "user_role": role}, {"id": "bob", "role": role}
        assert await sandbox(config, context) is may_run
        assert await model(config, context) == chosen
        assert listed(config, user) == shown
        found = await resolve_route_permissions(user, is_internal=False, config=config)
        assert found == ROUTES.get(role or "guest", [])

    async def test_a_user_has_the_roles_that_the_file_gives(self, folder: Path, fail_closed: bool) -> None:
        config = load(folder, fail_closed=fail_closed)
        user = {"id": "alice", "role": "guest"}
        assert await resolve_route_permissions(user, is_internal=False, config=config) == EVERY_ROUTE
        assert await sandbox(config, {"user_id": "alice", "user_role": "guest"})

    async def test_a_user_called_like_a_role_has_nothing_of_it(self, folder: Path, fail_closed: bool) -> None:
        config = load(folder, fail_closed=fail_closed)
        user = {"id": "admin", "role": "guest"}
        assert await resolve_route_permissions(user, is_internal=False, config=config) == ["threads:read"]
        assert not await sandbox(config, {"user_id": "admin", "user_role": "guest"})

    @pytest.mark.parametrize(
        ("user", "expected"),
        [
            pytest.param({"id": "bob", "role": "user"}, ROUTES["user"], id="bound to an owner"),
            pytest.param({"id": "worker", "role": "internal"}, ROUTES["guest"], id="of an unbound sender"),
            pytest.param(None, ROUTES["guest"], id="of nobody"),
        ],
    )
    async def test_internal_callers(
        self, folder: Path, user: dict[str, Any] | None, expected: list[str], fail_closed: bool
    ) -> None:
        """PRI-03: never 'unknown role internal'; the same principal on the route path and on the model path."""
        config = load(folder, fail_closed=fail_closed)
        assert await resolve_route_permissions(user, is_internal=True, config=config) == expected
        _, principal = resolve_model_authorization(user, is_internal=True, config=config)
        assert principal is not None
        assert principal.role in ("user", "guest")


async def test_one_edit_reaches_every_gate_and_the_enforcer(folder: Path) -> None:
    config = load(folder)
    context, user = {"user_id": "bob", "user_role": "user"}, {"id": "bob", "role": "user"}
    enforcer = Enforcer.from_config(config)
    assert enforcer.provider is shared_provider(config)
    assert await sandbox(config, context)
    assert await model(config, context, "medium") == "medium"
    (folder / "roles.yaml").write_text(
        ROLES.replace("sandbox: {allow: true}\n    routes", "routes").replace("medium", "tiny")
    )
    enforcer.provider.reload()  # type: ignore[union-attr]
    assert not await sandbox(config, context)
    assert await model(config, context, "medium") == "small"
    assert listed(config, user) == ["small"]


async def test_a_denial_names_the_line_in_the_record_and_not_in_the_message(folder: Path) -> None:
    config = load(folder)
    with pytest.raises(SandboxAuthorizationError) as caught:
        authorize_sandbox_execution({"user_id": "bob"}, config=config)
    assert "yaml" not in str(caught.value)
    await model(config, {"user_id": "bob", "user_role": "user", "run_id": "r7"})
    log = shared_log(config)
    assert log is not None
    log.close()
    found = records(folder.parent / "state" / "decisions.jsonl")
    denied = [(one["target"], one["decision"], one["policy_id"]) for one in found if one["run_id"] == "r7"]
    assert denied[0] == ("large", "deny", "roles.yaml:6")
    assert denied[1] == ("medium", "allow", "roles.yaml:6")
    assert {one["policy_version"] for one in found} == {Enforcer.from_config(config).policy_version}
