"""Reading `roles.yaml`: the rows it stands for, and everything it refuses. The published schema agrees."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from remit.authz.errors import Problem
from remit.providers.casbin.files.csvfile import Sheet
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.files.rolesfile import read_roles
from remit.providers.casbin.files.rolesschema import roles_schema


def read(text: str) -> tuple[Sheet, tuple[Problem, ...]]:
    findings = Findings()
    return read_roles(text, "roles.yaml", findings), findings.problems()


def rows(role: str) -> list[tuple[str, ...]]:
    """The rows of ``x: {ROLE}``, without subject and condition."""
    sheet, found = read(f"roles:\n  x: {{{role}}}\n")
    assert found == ()
    return [rule.values[1:5] for rule in sheet.rules]


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read(text)[1]]


EXAMPLE = """\
version: 1
roles:
  guest: {tools: {allow: [web_search, read_file]}, models: {allow: [small]}, sandbox: {allow: false}}
  user:
    inherits: [guest]
    tools:
      allow: "*"
      deny: [write_file]
      ask:
        - send_email
    routes: {allow: ["threads:*", "runs:*"]}
  admin: {tools: {allow: "*"}, sandbox: {allow: true}, routes: {allow: "*"}}
unlisted: deny
users: {alice: [admin]}
"""


class TestRows:
    def test_each_entry_is_a_row_with_its_line_and_path(self) -> None:
        sheet, found = read(EXAMPLE)
        assert found == ()
        assert [(rule.values[0][5:], *rule.values[1:5], rule.line, rule.key) for rule in sheet.rules] == [
            ("guest", "tool", "web_search", "call", "allow", 3, "roles.guest.tools.allow"),
            ("guest", "tool", "read_file", "call", "allow", 3, "roles.guest.tools.allow"),
            ("guest", "model", "small", "list", "allow", 3, "roles.guest.models.allow"),
            ("guest", "model", "small", "use", "allow", 3, "roles.guest.models.allow"),
            ("user", "tool", "*", "call", "allow", 7, "roles.user.tools.allow"),
            ("user", "tool", "write_file", "call", "deny", 8, "roles.user.tools.deny"),
            ("user", "tool", "send_email", "call", "ask", 10, "roles.user.tools.ask"),
            ("user", "route", "threads:*", "*", "allow", 11, "roles.user.routes.allow"),
            ("user", "route", "runs:*", "*", "allow", 11, "roles.user.routes.allow"),
            ("admin", "tool", "*", "call", "allow", 12, "roles.admin.tools.allow"),
            ("admin", "sandbox", "*", "execute", "allow", 12, "roles.admin.sandbox.allow"),
            ("admin", "route", "*", "*", "allow", 12, "roles.admin.routes.allow"),
        ]
        assert [(link.values, link.line, link.key) for link in sheet.links] == [
            (("role:user", "role:guest"), 5, "roles.user.inherits"),
            (("user:alice", "role:admin"), 14, "users.alice"),
        ]
        assert sheet.declared == {"role:guest", "role:user", "role:admin"}
        assert {rule.file for rule in sheet.rules} == {"roles.yaml"}

    @pytest.mark.parametrize(
        ("role", "expected"),
        [
            pytest.param('tools: {allow: "*"}', [("tool", "*", "call", "allow")], id="star"),
            pytest.param('tools: {allow: ["*"]}', [("tool", "*", "call", "allow")], id="star-in-a-list"),
            pytest.param("tools: {allow: true}", [("tool", "*", "call", "allow")], id="true"),
            pytest.param("tools: {allow: false}", [], id="false-is-no-row"),
            pytest.param("tools: {allow: []}", [], id="empty-list-is-no-row"),
            pytest.param('tools: {deny: ["*"]}', [("tool", "*", "call", "deny")], id="deny-everything"),
            pytest.param("tools: {deny: []}", [], id="deny-nothing"),
            pytest.param("tools: {deny: ['mcp__db__*']}", [("tool", "mcp__db__*", "call", "deny")], id="pattern"),
            pytest.param("models: {ask: [big]}", [("model", "big", "list", "ask"), ("model", "big", "use", "ask")], id="ask-models"),
            pytest.param("models: {deny: [big]}", [("model", "big", "*", "deny")], id="deny-models"),
            pytest.param("skills: {allow: [a]}", [("skill", "a", "read", "allow"), ("skill", "a", "activate", "allow")], id="skills"),
            pytest.param("skills: {manage: [a]}", [("skill", "a", "manage", "allow")], id="manage"),
            pytest.param("skills: {deny: [a]}", [("skill", "a", "*", "deny")], id="deny-skills"),
            pytest.param("memory: {allow: [team]}", [("memory", "team", "read", "allow")], id="memory"),
            pytest.param("memory: {write: [team]}", [("memory", "team", "write", "allow")], id="write"),
            pytest.param("memory: {deny: [team]}", [("memory", "team", "*", "deny")], id="deny-memory"),
            pytest.param("mcp_servers: {allow: [db]}", [("mcp_server", "db", "use", "allow")], id="mcp-servers"),
            pytest.param("subagents: {allow: [coder]}", [("subagent", "coder", "delegate", "allow")], id="subagents"),
            pytest.param("sandbox: {deny: true}", [("sandbox", "*", "execute", "deny")], id="no-sandbox"),
            pytest.param("commands: {deny: ['net-*']}", [("command", "net-*", "execute", "deny")], id="commands"),
            pytest.param("commands: {allow: [net-curl]}", [("command", "net-curl", "execute", "allow")], id="command-id"),
            pytest.param("routes: {allow: ['threads:read']}", [("route", "threads:read", "read", "allow")], id="route"),
            pytest.param("routes: {deny: ['*:delete']}", [("route", "*:delete", "delete", "deny")], id="route-verb"),
            pytest.param("routes: {ask: ['runs:*']}", [("route", "runs:*", "*", "ask")], id="route-pattern"),
            pytest.param("", [], id="a-role-without-anything"),
        ],
    )  # fmt: skip
    def test_meaning(self, role: str, expected: list[tuple[str, ...]]) -> None:
        assert rows(role) == expected

    def test_namespaces_may_be_written(self) -> None:
        sheet, found = read("roles: {'role:a': {}, b: {inherits: ['role:a']}}\nusers: {'user:u': [a]}\n")
        assert found == ()
        assert sheet.declared == {"role:a", "role:b"}
        assert [link.values for link in sheet.links] == [("role:b", "role:a"), ("user:u", "role:a")]


class TestUnlisted:
    def test_allow_opens_what_is_not_mentioned(self) -> None:
        sheet, found = read(
            "roles: {x: {tools: {allow: []}, skills: {allow: [a]}, sandbox: {allow: false}}}\nunlisted: allow\n"
        )
        assert found == ()
        opened = {(rule.values[1], rule.values[3]) for rule in sheet.rules if rule.key == "unlisted"}
        assert opened == {
            ("model", "list"), ("model", "use"), ("mcp_server", "use"), ("route", "*"), ("subagent", "delegate"),
            ("memory", "read"),
        }  # fmt: skip
        assert {rule.line for rule in sheet.rules if rule.key == "unlisted"} == {2}

    def test_what_an_inherited_role_mentions_is_mentioned(self) -> None:
        sheet, found = read("roles: {a: {tools: {allow: [x]}}, b: {inherits: [a]}}\nunlisted: allow\n")
        assert found == ()
        assert [rule.values for rule in sheet.rules if rule.values[1] == "tool"] == [
            ("role:a", "tool", "x", "call", "allow", "")
        ]

    def test_a_role_is_never_widened_by_what_its_parent_leaves_out(self) -> None:
        assert problems("roles:\n  a: {}\n  b:\n    inherits: [a]\n    models: {allow: [x]}\nunlisted: allow\n") == [
            "roles.yaml:6: roles.b.models: 'a' does not mention 'models': under 'unlisted: allow' 'b' inherits everything "
            "there; mention 'models' in 'a'"
        ]

    def test_deny_is_the_default(self) -> None:
        assert read("roles: {x: {}}\n")[0].rules == read("roles: {x: {}}\nunlisted: deny\n")[0].rules == []


LIST = 'must be a list of names, "*", true or false'


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("x: {tools: {allow: read_file}}", f"roles.x.tools.allow: {LIST}, not the text 'read_file'; write [read_file]", id="text"),
            pytest.param("x: {tools: {allow: \"['a','b']\"}}", f"roles.x.tools.allow: {LIST}, not the text \"['a','b']\"; take the quotes away: it is a text, not a list", id="quoted-list"),
            pytest.param("x: {tools: {allow: null}}", f"roles.x.tools.allow: {LIST}, not null; write [] for nothing", id="null"),
            pytest.param("x: {tools: {deny: }}", f"roles.x.tools.deny: {LIST}, not null; write [] for nothing", id="nothing-behind-the-colon"),
            pytest.param("x: {tools: {allow: yes}}", f"roles.x.tools.allow: {LIST}, not the boolean 'yes'; write true or \"*\" for everything, false or [] for nothing", id="yes"),
            pytest.param("x: {tools: {allow: 7}}", f"roles.x.tools.allow: {LIST}, not the number '7'; write [name, name]", id="number"),
            pytest.param("x: {tools: {allow: {a: b}}}", f"roles.x.tools.allow: {LIST}, not a mapping; write [name, name]", id="mapping"),
            pytest.param("x: {tools: {allow: [a, 7]}}", "roles.x.tools.allow: the number '7' is no text; write \"7\" in quotes", id="number-in-list"),
            pytest.param("x: {tools: {allow: [1.5]}}", "roles.x.tools.allow: the number '1.5' is no text; write \"1.5\" in quotes", id="float-in-list"),
            pytest.param("x: {tools: {allow: [12:30]}}", "roles.x.tools.allow: the number '12:30' is no text; write \"12:30\" in quotes", id="sexagesimal"),
            pytest.param("x: {tools: {allow: [2024-01-31]}}", "roles.x.tools.allow: the date '2024-01-31' is no text; write \"2024-01-31\" in quotes", id="date-in-list"),
            pytest.param("x: {tools: {allow: [on]}}", "roles.x.tools.allow: the boolean 'on' is no text; write \"on\" in quotes", id="on-in-list"),
            pytest.param("x: {tools: {allow: [~]}}", "roles.x.tools.allow: null is no text; write names only", id="null-in-list"),
            pytest.param("x: {tools: {allow: [[a]]}}", "roles.x.tools.allow: a list is no text; write names only", id="list-in-list"),
            pytest.param("x: {tools: {allow: ['']}}", "roles.x.tools.allow: the name '' is empty; correct the name", id="empty-name"),
            pytest.param("x: {tools: {allow: [' a']}}", "roles.x.tools.allow: the name ' a' has white space around it; correct the name", id="blank-around"),
            pytest.param("x: {tools: {allow: [\"a\\u200b\"]}}", "roles.x.tools.allow: the name 'a\\u200b' holds the invisible character U+200B ZERO WIDTH SPACE; correct the name", id="zero-width-by-escape"),
            pytest.param("x: {tools: {allow: [a, a]}}", "roles.x.tools.allow: 'a' is listed again (first on line 2); keep one", id="twice"),
            pytest.param("x: {tool: {allow: [a]}}", "roles.x: unknown key 'tool'; did you mean 'tools'?", id="singular"),
            pytest.param("x: {mcp_server: {allow: [a]}}", "roles.x: unknown key 'mcp_server'; did you mean 'mcp_servers'?", id="singular-server"),
            pytest.param("x: {tools: {alow: [a]}}", "roles.x.tools: unknown key 'alow'; did you mean 'allow'?", id="verb"),
            pytest.param("x: {tools: {write: [a]}}", "roles.x.tools: unknown key 'write'; known: allow, deny, ask", id="extra-of-another-section"),
            pytest.param("x: {tools: [a]}", "roles.x.tools: must be a mapping, not a list; write 'key: value' lines", id="section-list"),
            pytest.param("x: {tools: {allow: [a]}, tools: {allow: [b]}}", "roles.x: 'tools' is written again (first on line 2); keep one", id="duplicate-section"),
            pytest.param("x:", "roles.x: must be a mapping, not null; write 'key: value' lines", id="null-role"),
            pytest.param("no: {}", "roles: the key the boolean 'no' is no text; write \"no\" in quotes", id="role-no"),
            pytest.param("007: {}", "roles: the key the number '007' is no text; write \"007\" in quotes", id="role-number"),
            pytest.param("{a: {}, 'role:a': {}}", "roles.role:a: the role 'a' is defined again; keep one", id="role-twice"),
            pytest.param("'': {}", "roles: the role '' is empty; write the name of one role", id="role-empty"),
            pytest.param("'a*': {}", "roles: the role 'a*' is no pattern here; write the name of one role", id="role-pattern"),
            pytest.param("'user:a': {}", "roles: the role 'user:a' is a user, not a role; write the roles of a user under 'users'", id="role-user"),
            pytest.param("x: {inherits: guest}", "roles.x.inherits: must be a list of roles, not the text 'guest'; write [guest]", id="inherits-text"),
            pytest.param("x: {inherits: ['*']}", "roles.x.inherits: '*' is no role; write the name of one role", id="inherits-star"),
            pytest.param("x: {routes: {allow: [threads]}}", "roles.x.routes.allow: 'threads' is no permission; write 'THING:VERB', for example 'threads:read'", id="route"),
            pytest.param("x: {sandbox: {allow: [local]}}", "roles.x.sandbox.allow: sandboxes have no names, so 'local' is never asked for; write true or false", id="sandbox-name"),
            pytest.param("x: {commands: {allow: '*'}}", "roles.x.commands.allow: '*' cannot lower a verdict; allow exact rule ids of the command audit", id="commands-allow-all"),
            pytest.param("x: {tools: {allow: !!set {a}}}", f"roles.x.tools.allow: {LIST}, not a value with the tag 'tag:yaml.org,2002:set'; write [name, name]", id="tag"),
            pytest.param("<<: {x: {}}", "roles: '<<' merges what a reader does not see here; use 'inherits', or write it out", id="merge"),
            pytest.param("x: &a {}", "the anchor 'a' repeats text where a reader does not see it; write it out, or let roles inherit", id="anchor"),
        ],
    )  # fmt: skip
    def test_in_roles(self, text: str, message: str) -> None:
        assert problems(f"roles:\n  {text}\n") == [f"roles.yaml:2: {message}"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("", "roles.yaml: is empty; write 'roles:', or take it out of 'policies'", id="empty"),
            pytest.param("# nothing\n", "roles.yaml: holds no document; write 'roles:', or take it out of 'policies'", id="comment"),
            pytest.param("users: {a: [b]}\n", "roles.yaml:1: the key 'roles' is missing; add 'roles:' with at least one role", id="no-roles"),
            pytest.param("roles:\n", "roles.yaml:1: roles: must be a mapping, not null; write 'key: value' lines", id="null-roles"),
            pytest.param("- a\n", "roles.yaml:1: must be a mapping, not a list; write 'key: value' lines", id="list"),
            pytest.param("roles: {}\nrole: {}\n", "roles.yaml:2: unknown key 'role'; did you mean 'roles'?", id="top-key"),
            pytest.param("roles: {}\nversion: 2\n", "roles.yaml:2: version: must be the number 1, not the number '2'; write 'version: 1'", id="version"),
            pytest.param("roles: {}\nversion: '1'\n", "roles.yaml:2: version: must be the number 1, not the text '1'; write 'version: 1'", id="version-text"),
            pytest.param("roles: {}\nunlisted: alow\n", "roles.yaml:2: unlisted: must be allow or deny, not the text 'alow'; write 'unlisted: deny'", id="unlisted"),
            pytest.param("roles: {a: {}}\nusers: {7: [a]}\n", "roles.yaml:2: users: the key the number '7' is no text; write \"7\" in quotes", id="user-number"),
            pytest.param("roles: {a: {}}\nusers: {u: a}\n", "roles.yaml:2: users.u: must be a list of roles, not the text 'a'; write [a]", id="user-text"),
            pytest.param("roles: {a: {}}\nusers: {'role:b': [a]}\n", "roles.yaml:2: users: the user 'role:b' is a role, not a user; write the id of one user", id="user-role"),
            pytest.param("roles: [\n", "roles.yaml:2: is not valid YAML (expected the node content, but found '<stream end>'); check indentation, quotes and brackets", id="syntax"),
            pytest.param("roles: {}\n---\nroles: {}\n", "roles.yaml:2: is not valid YAML (but found another document); check indentation, quotes and brackets", id="two-documents"),
        ],
    )  # fmt: skip
    def test_in_the_file(self, text: str, message: str) -> None:
        assert problems(text) == [message]

    def test_everything_is_reported_at_once(self) -> None:
        text = (
            'authorization:\n  enabled: "false"\n  fail_closed: "no"\n'
            "roles:\n  no: {tools: {allow: [on, off, yes]}}\n  007: {tools: {allow: []}}\n  odd: {tools: {allow: [a, 7, null]}}\n"
        )
        assert [(p.line, p.code) for p in read(text)[1]] == [
            (1, "unknown-key"),
            (5, "wrong-type"),
            (6, "wrong-type"),
            (7, "wrong-type"),
            (7, "wrong-type"),
        ]

    def test_deep_nesting_and_bombs_end_early(self) -> None:
        assert problems("[" * 5000)[0].startswith("roles.yaml:1: is not valid YAML")
        bomb = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" if i else "a0: &a0 [x]\n" for i in range(9))
        assert problems(bomb)[0].startswith("roles.yaml:1: the anchor 'a0'")


class TestSchema:
    SCHEMA = roles_schema()

    def valid(self, text: str) -> bool:
        document: Any = YAML(typ="safe", pure=True).load(text)
        return bool(jsonschema.Draft202012Validator(self.SCHEMA).is_valid(document))

    def test_it_is_a_schema(self) -> None:
        jsonschema.Draft202012Validator.check_schema(self.SCHEMA)
        assert self.SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(EXAMPLE, id="example"),
            pytest.param("roles: {}", id="no-role"),
            pytest.param(
                "roles: {a: {skills: {manage: '*'}, memory: {write: [x]}, sandbox: {allow: ['*']}}}", id="extras"
            ),
            pytest.param("roles: {a: {commands: {deny: '*', allow: [x]}}}", id="commands"),
        ],
    )
    def test_accepts_what_loads(self, text: str) -> None:
        assert read(text)[1] == ()
        assert self.valid(text)

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("users: {}", id="no-roles"),
            pytest.param("roles: {a: }", id="null-role"),
            pytest.param("roles: {a: {tool: {allow: [x]}}}", id="singular"),
            pytest.param("roles: {a: {tools: {allow: x}}}", id="text"),
            pytest.param("roles: {a: {tools: {allow: [7]}}}", id="number"),
            pytest.param("roles: {a: {tools: {allow: [x, x]}}}", id="twice"),
            pytest.param("roles: {a: {tools: {allow: ['']}}}", id="empty-name"),
            pytest.param("roles: {a: {tools: {write: [x]}}}", id="extra-of-another-section"),
            pytest.param("roles: {a: {sandbox: {allow: [x]}}}", id="sandbox-name"),
            pytest.param("roles: {a: {routes: {allow: [x]}}}", id="route"),
            pytest.param("roles: {a: {commands: {allow: ['x*']}}}", id="command-pattern"),
            pytest.param("roles: {a: {inherits: b}}", id="inherits-text"),
            pytest.param("roles: {}\nunlisted: maybe", id="unlisted"),
            pytest.param("roles: {}\nversion: 2", id="version"),
            pytest.param("roles: {}\nextra: 1", id="unknown-key"),
        ],
    )
    def test_refuses_what_is_refused(self, text: str) -> None:
        assert read(text)[1] != ()
        assert not self.valid(text)
