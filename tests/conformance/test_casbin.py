"""The Casbin provider under the public kit, over real files in each of the forms that operators write."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from remit.authz.testing import ProviderContract, Rule, World
from remit.providers.casbin import CasbinAuthorizationProvider


@pytest.fixture(autouse=True)
def corrections(request: pytest.FixtureRequest) -> None:
    """Where we answer as Casbin does although the kit would have it otherwise."""
    case = getattr(request.node, "callspec", None)
    globs = "globMatch" in getattr(request.cls, "matcher", "")  # under the shipped model such a name is refused
    if case is not None and globs and case.params["case"].id == "names/slash-behind":
        reason = "Casbin's globMatch does not see a slash at the end of a name"
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def rows(rules: tuple[Rule, ...], *, condition: bool = True) -> str:
    """The rules as ``policy.csv`` for the shipped model; without `condition` for a model that has no such column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for rule in rules:
        row = [
            "p",
            f"role:{rule.role}" if condition else rule.role,
            rule.resource,
            rule.target,
            rule.action,
            rule.effect,
        ]
        when = f"r.ctx.args.{rule.when.argument} {rule.when.operator} {rule.when.value!r}" if rule.when else ""
        writer.writerow([*row, when] if condition else row)
    return text.getvalue()


class TestPolicyCsv(ProviderContract):
    """The shipped model: conditions, asks, every resource type."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> CasbinAuthorizationProvider:
        (tmp_path / "policy.csv").write_text(rows(self.world.rules), encoding="utf-8")
        return CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=tmp_path)


class TestPolicyCsvWatched(ProviderContract):
    """The same while the files are watched: a thread more, no other answers."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> CasbinAuthorizationProvider:
        (tmp_path / "policy.csv").write_text(rows(self.world.rules), encoding="utf-8")
        return CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=tmp_path, watch=True)


ROLES = """\
version: 1
roles:
  reader:
    tools: {allow: [search, read_file, "caf\u00e9_search"]}
    routes: {allow: ["threads:read"]}
  writer:
    tools: {allow: [search, read_file, write_file], ask: [send_mail]}
    routes: {allow: ["threads:read", "threads:write"]}
  admin:
    tools: {allow: [search, read_file, write_file, wipe_disk, send_mail], deny: [wipe_disk], ask: [send_mail]}
  blocked:
    tools: {allow: [search, read_file], deny: [search, send_mail], ask: [send_mail]}
"""


class TestRolesYaml(ProviderContract):
    """Roles without conditions; `allow` of a model grants list and use alike, so models stay out."""

    world = World(conditions=False, resources=("tool", "route"))

    @pytest.fixture
    def provider(self, tmp_path: Path) -> CasbinAuthorizationProvider:
        (tmp_path / "roles.yaml").write_text(ROLES, encoding="utf-8")
        return CasbinAuthorizationProvider(policies=["roles.yaml"], base_dir=tmp_path)


MODEL = """\
[request_definition]
r = sub, dom, obj, act

[policy_definition]
p = sub, dom, obj, act, eft

[role_definition]
g = _, _

[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))

[matchers]
m = {matcher}
"""


class TestOwnModel(ProviderContract):
    """A Casbin model of the operator's own, asked through a template."""

    world = World(conditions=False, asks=False)
    matcher = "g(r.sub, p.sub) && r.dom == p.dom && r.obj == p.obj && r.act == p.act"
    options: dict[str, bool] = {}  # noqa: RUF012 - read only

    @pytest.fixture
    def provider(self, tmp_path: Path) -> CasbinAuthorizationProvider:
        (tmp_path / "model.conf").write_text(MODEL.format(matcher=self.matcher), encoding="utf-8")
        (tmp_path / "policy.csv").write_text(rows(self.world.rules, condition=False), encoding="utf-8")
        return CasbinAuthorizationProvider(
            policies=["policy.csv"],
            model="model.conf",
            request=["{role}", "{resource}", "{target}", "{action}"],
            base_dir=tmp_path,
            **self.options,
        )


class TestOwnModelWithPatterns(TestOwnModel):
    """Names that are compared as patterns, although none of them is one."""

    matcher = "g(r.sub, p.sub) && r.dom == p.dom && globMatch(r.obj, p.obj) && r.act == p.act"
