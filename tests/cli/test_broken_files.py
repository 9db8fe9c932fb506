"""Each starter file broken in many ways: one message with a place and advice, exit code 2 (lint: 1), no traceback."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cli import Cli


@dataclass(frozen=True)
class Break:
    """`old` becomes `new` in `file`; the message is about the line of `at` (else `old`) plus `offset`, with `words`."""

    file: str
    old: str
    new: str
    words: str
    offset: int = 0
    id: str = ""
    at: str = ""

    def apply(self, folder: Path) -> str:
        """Break it. Returns the place that a message must name."""
        path = folder / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) >= 1, f"{self.old!r} is not in the starter's {self.file}"
        path.write_bytes(text.replace(self.old, self.new, 1).encode("utf-8", "surrogateescape"))
        line = text[: text.index(self.at or self.old)].count("\n") + 1 + self.offset
        return f"{path}:{line}:"


AUTHZ = [
    Break("authz.yaml", "enabled: true", "enabled: maybe", "must be a valid boolean", id="type"),
    Break("authz.yaml", "enabled: true", "enabld: true", "did you mean 'enabled'?", id="key"),
    Break("authz.yaml", "authorization:", "authorisation:", "did you mean 'authorization'?", id="section"),
    Break("authz.yaml", "enabled: true", "enabled: yes", "must be a valid boolean", id="yaml-1.1"),
    Break("authz.yaml", "fail_closed: true", "fail_closed: true\n  fail_closed: false", "twice", 1, id="duplicate"),
    Break("authz.yaml", "deadline_ms: 2000", "deadline_ms: -1", "greater than or equal to 1", id="range"),
    Break("authz.yaml", "version: 1", "version: 7", "version", id="version"),
    Break("authz.yaml", "default_role: guest", "default_role: gest", "did you mean 'guest'?", id="role"),
    Break("authz.yaml", "default_role: guest", "default_role: [guest]", "default_role", id="role-list"),
    Break("authz.yaml", "use: casbin", "use: cabsin", "did you mean 'casbin'?", id="provider"),
    Break("authz.yaml", "use: casbin", "use: no.such:Thing", "cannot be imported", id="class-path"),
    Break("authz.yaml", "policies: [roles.yaml", "polices: [roles.yaml", "'policies'", id="option", at="config:"),
    Break(
        "authz.yaml",
        "policies: [roles.yaml, policy.csv]",
        "policies: roles.yaml",
        "must be a list",
        id="no-list",
        at="config:",
    ),
    Break("authz.yaml", "model: model.conf", "model: 5", "must be a path, got 5", id="model-type", at="config:"),
    Break("authz.yaml", "watch: true", "watch: often", "must be true or false", id="watch", at="config:"),
    Break("authz.yaml", "enabled: true", "enabled: [true", "is not valid YAML", 1, id="yaml"),
    Break("authz.yaml", "enabled: true", "enabled: &a true", "an anchor", id="anchor"),
    Break("authz.yaml", "enabled: true", "enabled: \udcff", "is not UTF-8", id="encoding"),
    Break("authz.yaml", "sample_allow: 1.0", "sample_allow: 2.0", "less than or equal to 1", id="sample"),
    Break("authz.yaml", "sink: file", "sink: fiel", "'file' or 'none'", id="sink"),
]
ROLES = [
    Break("roles.yaml", "version: 1", "version: 9", "version", id="version"),
    Break("roles.yaml", "inherits: [guest]", "inherits: [gest]", "did you mean 'role:guest'?", id="parent"),
    Break("roles.yaml", "inherits: [guest]", "inherit: [guest]", "did you mean 'inherits'?", id="key"),
    Break("roles.yaml", "allow: [web_search, read_file]", "allow: web_search", "list", id="text-for-list"),
    Break("roles.yaml", "allow: [web_search, read_file]", "allow: [web_search, 7]", "7", id="number"),
    Break("roles.yaml", "allow: [web_search, read_file]", "allow: [on, read_file]", "on", id="yaml-1.1"),
    Break("roles.yaml", "allow: [web_search, read_file]", "allow:", "allow", id="null"),
    Break("roles.yaml", "allow: [web_search, read_file]", "allow: ['']", "empty", id="empty-name"),
    Break("roles.yaml", "allow: [web_search, read_file]", "alow: [web_search]", "did you mean 'allow'?", id="verb"),
    Break("roles.yaml", "deny: [write_file]", 'deny: ["write_file\u200b"]', "U+200B", id="invisible"),
    Break("roles.yaml", "deny: [write_file]", "deny: [wr\u0456te_file]", "wr\u0456te_file", id="look-alike"),
    Break("roles.yaml", "inherits: [guest]", "inherits: [user]", "user", id="cycle"),
    Break("roles.yaml", "unlisted: deny", "unlisted: dney", "deny", id="unlisted"),
    Break("roles.yaml", "users: {}", "users: {alice: [admn]}", "did you mean 'role:admin'?", id="user-role"),
    Break("roles.yaml", "  user:", "  guest:", "'guest' is written again", id="duplicate-role"),
    Break("roles.yaml", "    tools:", "    tool:", "did you mean 'tools'?", id="singular"),
    Break("roles.yaml", "roles:\n", "roles: [\n", "is not valid YAML", 2, id="yaml"),
    Break("roles.yaml", "unlisted: deny", "unlisted: \udcff", "UTF-8", id="encoding"),
]
ROW = "p, role:user, tool, bash, call, ask,"
POLICY = [
    Break("policy.csv", ROW, "pp, role:user, tool, bash, call, ask,", "'pp'", id="row-type"),
    Break("policy.csv", ROW, "p, role:user, tool, bash, call, aks,", "did you mean 'ask'?", id="effect"),
    Break("policy.csv", ROW, "p, role:user, tool, bash, call, Deny,", "'deny'", id="effect-case"),
    Break("policy.csv", ROW, "p, role:user, tool, bash", "3 values, but 'p' has 6", id="too-few"),
    Break("policy.csv", ROW, ROW + " x, y", "7 values, but 'p' has 6", id="too-many"),
    Break("policy.csv", ROW, ROW + " # ask first", "comment", id="comment"),
    Break("policy.csv", ROW, 'p, role:user, tool, "bash, call, ask,', "quot", id="quote"),
    Break("policy.csv", ROW, "p, role:user, tool, ba\u200bsh, call, ask,", "U+200B", id="invisible"),
    Break("policy.csv", ROW, "p, rôle:user, tool, bash, call, ask,", "rôle", id="subject"),
    Break("policy.csv", ROW, "g, user:alice, role:gust", "did you mean 'role:guest'?", id="role-by-one-edit"),
    Break("policy.csv", ROW, "p, role:user, tol, bash, call, ask,", "did you mean 'tool'?", id="resource"),
    Break("policy.csv", ROW, "p, role:user, tool, bash, use, ask,", "'use'", id="action"),
    Break("policy.csv", ROW, ROW + " r.ctx.args.x ==", "cond", id="condition"),
    Break("policy.csv", ROW, ROW + " __import__('os')", "cond", id="condition-call"),
    Break("policy.csv", ROW, "g, alice, role:user", "did you mean", id="bare-member"),
    Break("policy.csv", ROW, "g, role:user, role:user", "role:user", id="cycle"),
    Break("policy.csv", ROW, "p, role:user, tool, ba[sh, call, ask,", "the '[' is never closed", id="pattern"),
    Break("policy.csv", ROW, "p, role:user, tool, ba\udcffsh, call, ask,", "UTF-8", id="encoding"),
]
MATCHER = 'm = (p.sub == "*" || g(r.sub, p.sub))'
MODEL = [
    Break("model.conf", "[matchers]", "[matcher]", "did you mean", id="section"),
    Break("model.conf", "[matchers]", "matchers", "matchers", id="no-brackets"),
    Break("model.conf", MATCHER, 'm = (p.sub == "*" || g(r.sub, p.sub)', "m", id="bracket"),
    Break("model.conf", MATCHER, 'm = (p.sub == "*" || h(r.sub, p.sub))', "h", id="function"),
    Break("model.conf", MATCHER, 'm = (p.sub == "*" || g(r.usr, p.sub))', "usr", id="column"),
    Break(
        "model.conf", "(r.obj, p.obj)) && (p.act", "(r.obj, p.obj)) & (p.act", "write '&&'", id="operator", at=MATCHER
    ),
    Break("model.conf", "some(where (p.eft == allow))", "most(where (p.eft == allow))", "effect", id="effect"),
    Break("model.conf", "g = _, _", "g = _", "g", id="role-definition"),
    Break("model.conf", "p = sub, res, obj, act, eft, cond", "p = sub, sub", "sub", id="column-twice"),
    Break("model.conf", "r = sub, res, obj, act, ctx", "r =", "r", id="no-columns"),
    Break("model.conf", "g = _, _", "g = _, _   # roles", "is no role definition", id="comment"),
    Break("model.conf", "[matchers]", "[matchers]\nm = true", "m", 1, id="definition-twice"),
    Break("model.conf", "g = _, _", "\udcff", "UTF-8", id="encoding"),
]
CATALOG = [
    Break("catalog.yaml", "tools:", "tool:", "did you mean 'tools'?", id="key"),
    Break("catalog.yaml", "models: [small]", "models: small", "must be a list of names", id="text"),
    Break("catalog.yaml", "models: [small]", "models: [small, 1]", "must be a name, got int 1", id="number"),
    Break("catalog.yaml", "version: 1", "version: 2", "unknown version 2", id="version"),
]
TESTS = [
    Break("tests/roles.yaml", "version: 1", "version: 2", "unknown version 2", id="version"),
    Break("tests/roles.yaml", "tests:\n", "test:\n", "did you mean 'tests'?", id="tests"),
    Break("tests/roles.yaml", "given: {role: guest}", "givn: {role: guest}", "did you mean 'given'?", id="given"),
    Break("tests/roles.yaml", "given: {role: guest}", "given: {rol: guest}", "did you mean 'role'?", id="role"),
    Break("tests/roles.yaml", "given: {role: guest}", "given: guest", "must be a mapping, got str", id="given-text"),
    Break("tests/roles.yaml", "decision: allow}", "decision: alow}", "did you mean 'allow'?", id="decision"),
    Break("tests/roles.yaml", "decision: allow}", "decision: true}", "unknown decision True", id="decision-bool"),
    Break("tests/roles.yaml", "decision: allow}", "decsion: allow}", "did you mean 'decision'?", id="decision-key"),
    Break("tests/roles.yaml", "tool:call:web_search", "tol:call:web_search", "did you mean 'tool'?", id="resource"),
    Break("tests/roles.yaml", "tool:call:web_search", "web_search", "RESOURCE:ACTION:TARGET", id="request"),
    Break("tests/roles.yaml", "args: {path: notes.txt}", "args: notes.txt", "must be a mapping of names", id="args"),
    Break("tests/roles.yaml", "given: {role: guest}", "given: {role: guest", "is not valid YAML", 1, id="yaml"),
    Break("tests/roles.yaml", "given: {role: guest}", "given: {role: \udcff}", "is not UTF-8", id="encoding"),
]


@pytest.fixture
def starter(cli: Cli) -> Path:
    assert cli("init", "p").code == 0
    return Path("p")


def ids(breaks: list[Break]) -> list[object]:
    return [pytest.param(b, id=f"{b.file}-{b.id}") for b in breaks]


def positioned(text: str, place: str, words: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(place) and words in line]


@pytest.mark.parametrize("broken", ids(AUTHZ + ROLES + POLICY + MODEL))
def test_policy_that_does_not_load(cli: Cli, starter: Path, broken: Break) -> None:
    place = broken.apply(starter)
    ran = cli("check", "-p", "p", "tool:call:bash")
    assert (ran.code, ran.out) == (2, "")
    assert positioned(ran.err, place, broken.words), f"{place} … {broken.words}\n{ran.err}"
    ran = cli("lint", "p")
    assert (ran.code, ran.err) == (1, "")
    assert positioned(ran.out, place, broken.words), f"{place} … {broken.words}\n{ran.out}"


@pytest.mark.parametrize("argv", ["explain -p p tool:call:bash", "test p", "export --casbin -p p"])
def test_every_command_refuses_a_policy_that_does_not_load(cli: Cli, starter: Path, argv: str) -> None:
    place = POLICY[0].apply(starter)
    ran = cli(*argv.split())
    assert (ran.code, ran.out) == (2, "")
    assert positioned(ran.err, place, POLICY[0].words)


@pytest.mark.parametrize("broken", ids(TESTS))
def test_policy_tests_that_cannot_be_read(cli: Cli, starter: Path, broken: Break) -> None:
    place = broken.apply(starter)
    ran = cli("test", "p")
    assert (ran.code, ran.out) == (2, "")
    assert positioned(ran.err, place, broken.words), f"{place} … {broken.words}\n{ran.err}"
    ran = cli("lint", "p")
    assert (ran.code, ran.err) == (1, "")
    assert positioned(ran.out, place, broken.words), f"{place} … {broken.words}\n{ran.out}"
    assert cli("check", "-p", "p", "tool:call:bash").code == 3


@pytest.mark.parametrize("broken", ids(CATALOG))
def test_catalogue_that_cannot_be_read(cli: Cli, starter: Path, broken: Break) -> None:
    place = broken.apply(starter)
    ran = cli("lint", "p")
    assert ran.code == 1
    assert positioned(ran.out, place, broken.words), f"{place} … {broken.words}\n{ran.out}"
    assert cli("check", "-p", "p", "tool:call:bash").code == 3


def test_all_mistakes_of_all_files_are_found_at_once(cli: Cli, starter: Path) -> None:
    places = [broken.apply(starter) for broken in (ROLES[2], POLICY[1], CATALOG[0], TESTS[5])]
    ran = cli("lint", "p")
    assert ran.code == 1
    found = [place for place in places if any(line.startswith(place) for line in ran.out.splitlines())]
    assert found == places, ran.out
    findings = ran.out.splitlines()[:-1]
    assert findings == sorted(findings, key=lambda line: (line.split(":")[0], int(line.split(":")[1])))


@pytest.mark.parametrize("name", ["authz.yaml", "roles.yaml", "policy.csv", "model.conf"])
@pytest.mark.parametrize("how", ["deleted", "folder", "empty", "locked"])
def test_file_that_cannot_be_read(cli: Cli, starter: Path, name: str, how: str) -> None:
    path = starter / name
    if how == "locked" and os.geteuid() == 0:
        pytest.skip("root reads everything")
    if how == "empty":
        path.write_text("", encoding="utf-8")
    elif how == "locked":
        path.chmod(0)
    else:
        path.unlink()
    if how == "folder":
        path.mkdir()
    ran = cli("check", "-p", "p", "tool:call:bash")
    assert (ran.code, ran.out) == (2, "")
    assert name in ran.err
    assert all(line.startswith(("p/", "the folder 'p'")) for line in ran.lines), ran.err
    ran = cli("lint", "p")
    assert ran.code == (2 if name == "authz.yaml" and how in ("deleted", "folder") else 1)
    assert name in ran.out + ran.err
