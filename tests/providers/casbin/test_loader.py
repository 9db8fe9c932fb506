"""Loading a whole policy set from disk: files, order, templates, known roles; hostile input; time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import casbin
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.authz.errors import PolicyError
from remit.providers.casbin.files.export import export_casbin, export_csv
from remit.providers.casbin.files.loader import load_policy_set
from remit.providers.casbin.native import SHIPPED_MODEL
from remit.providers.casbin.rules import PolicySet

SHIPPED = Path(__file__).parents[3] / "policies"
ROW = "p, admin, tool, bash, call, allow,\n"
THREE = """\
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act
"""


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root reads everything: be somebody else inside."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")


def errors(folder: Path, *policies: str, **options: object) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load_policy_set(policies=policies, base_dir=folder, **{"model": None, **options})  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems if problem.severity == "error"]


def load(folder: Path, *policies: str, **options: object) -> PolicySet:
    return load_policy_set(policies=policies, base_dir=folder, **{"model": None, **options})  # type: ignore[arg-type]


class TestFiles:
    def test_the_set_that_ships(self) -> None:
        loaded = load(SHIPPED, "roles.yaml", "policy.csv", model="model.conf")
        assert loaded.problems == ()
        assert loaded.model.native is True
        assert loaded.roles == {"role:guest", "role:user", "role:admin"}
        assert loaded.sources == tuple(str(SHIPPED / name) for name in ("model.conf", "roles.yaml", "policy.csv"))
        assert loaded.request == ()

    def test_rules_come_in_the_order_of_the_files(self, tmp_path: Path) -> None:
        write(
            tmp_path, a_csv=ROW, b_yml="roles: {user: {tools: {allow: [x]}}}\n", c_csv="p, user, tool, y, call, deny\n"
        )
        for order in (("a.csv", "b.yml", "c.csv"), ("c.csv", "b.yml", "a.csv")):
            loaded = load(tmp_path, *order)
            assert tuple(rule.file for rule in loaded.rules) == order
            assert [rule.policy_id for rule in loaded.rules] == [f"{name}:1" for name in order]

    def test_files_know_each_others_roles(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            r_yaml="roles: {user: {inherits: [base]}}\nusers: {alice: [admin]}\n",
            p_csv=ROW + "p, base, tool, x, call, ask\n",
        )
        loaded = load(tmp_path, "r.yaml", "p.csv")
        assert loaded.problems == ()
        assert [link.values for link in loaded.links] == [("role:user", "role:base"), ("user:alice", "role:admin")]
        assert errors(tmp_path, "r.yaml") == [
            "r.yaml:1: roles.user.inherits: unknown role 'role:base'; define it under 'roles'",
            "r.yaml:2: users.alice: unknown role 'role:admin'; define it under 'roles'",
        ]

    @pytest.mark.parametrize(
        ("role", "code"),
        [
            pytest.param("user", None, id="declared"),
            pytest.param("auditor", None, id="in-a-role-row"),
            pytest.param("usr", "warning undeclared-role", id="short-slip"),
            pytest.param("service", "warning undeclared-role", id="new"),
            pytest.param("User", "error unknown-role", id="case"),
            pytest.param("operater", "error unknown-role", id="slip"),
        ],
    )
    def test_rules_for_a_role_that_no_roles_file_declares(self, tmp_path: Path, role: str, code: str | None) -> None:
        write(tmp_path, r_yaml="roles: {user: {tools: {allow: [x]}}, operator: {inherits: [user]}}\n")
        write(
            tmp_path, p_csv=f"p, {role}, tool, bash, call, deny\ng, user:u, auditor\np, auditor, tool, y, call, ask\n"
        )
        try:
            found = load(tmp_path, "r.yaml", "p.csv").problems
        except PolicyError as exc:
            found = exc.problems
        assert [f"{p.severity} {p.code}" for p in found] == ([code] if code else [])
        assert all((p.file, p.line) == ("p.csv", 1) for p in found)

    def test_roles_that_differ_in_case_alone_are_reported(self, tmp_path: Path) -> None:
        write(tmp_path, p_csv=ROW + "p, Admin, tool, x, call, deny\n")
        assert [str(problem) for problem in load(tmp_path, "p.csv").problems] == [
            "p.csv:1: the role 'role:admin' is almost 'role:Admin'; did you mean 'role:Admin'?"
        ]

    def test_absolute_paths_and_links(self, tmp_path: Path) -> None:
        write(tmp_path, a_csv=ROW)
        (tmp_path / "link.csv").symlink_to("a.csv")
        loaded = load(Path("/"), str(tmp_path / "link.csv"))
        assert loaded.sources == (str(tmp_path / "link.csv"),), "a watch must look at the link, not at its target"
        assert loaded.rules[0].file == str(tmp_path / "link.csv")

    def test_bytes_that_editors_leave(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_bytes(
            b"\xef\xbb\xbf# note\r\np, admin, tool, bash, call, allow,\r\np, admin, tool, x, call, deny\r\n"
        )
        assert [(rule.line, rule.values[2:5]) for rule in load(tmp_path, "p.csv").rules] == [
            (2, ("bash", "call", "allow")),
            (3, ("x", "call", "deny")),
        ]

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            pytest.param(b"", "p.csv: is empty; write rules, at least a comment, or take it out of 'policies'", id="empty"),
            pytest.param(b"# note\n", "p.csv: holds no rule; write at least one", id="comments-only"),
            pytest.param(b"p, a\xff, tool\n", "p.csv:1: is not valid UTF-8 (byte 0xFF); save the file as UTF-8", id="not-utf8"),
            pytest.param("p, a, tool".encode("utf-16"), "p.csv:1: is UTF-16; save the file as UTF-8", id="utf16"),
            pytest.param(b"# a\np, a,\x00 tool\n", "p.csv:2: holds the character U+0000, which no reader sees; delete it, or type the line again", id="nul"),
            pytest.param(b"# a\rp, a, tool\n", "p.csv:1: holds the character U+000D, which no reader sees; delete it, or type the line again", id="lone-carriage-return"),
            pytest.param("# a\u2028p, admin, tool, x, call, deny\n".encode(), "p.csv:1: holds the character U+2028, which no reader sees; delete it, or type the line again", id="line-separator-in-a-comment"),
            pytest.param("# \u202e yned\n".encode(), "p.csv:1: holds the character U+202E, which no reader sees; delete it, or type the line again", id="reordered-comment"),
        ],
    )  # fmt: skip
    def test_unusable_text(self, tmp_path: Path, data: bytes, message: str) -> None:
        (tmp_path / "p.csv").write_bytes(data)
        assert errors(tmp_path, "p.csv") == [message]

    def test_unusable_paths(self, tmp_path: Path) -> None:
        (tmp_path / "folder.csv").mkdir()
        os.mkfifo(tmp_path / "pipe.csv")
        write(tmp_path, a_csv=ROW, a_txt=ROW)
        assert errors(tmp_path, "folder.csv", "pipe.csv", "none.csv", "a.csv", "./a.csv", "a.txt", "x\0.csv") == [
            "./a.csv: is named twice in 'policies'; name it once",
            "a.txt: is no policy file; name a .csv, .yaml or .yml file",
            "folder.csv: is a directory; name the file inside it",
            "none.csv: does not exist; create it, or correct the path in the configuration",
            "pipe.csv: is not a regular file; name a text file",
            "x\0.csv: cannot be read (embedded null byte); correct the path or the file system",
        ]
        assert errors(tmp_path) == ["policies: no policy file is named; name at least one"]

    def test_unreadable_file(self, tmp_path: Path) -> None:
        write(tmp_path, a_csv=ROW)
        (tmp_path / "a.csv").chmod(0)
        with unprivileged():
            found = errors(tmp_path, "a.csv")
        assert found == ["a.csv: may not be read by this process; correct its permissions"]

    def test_problems_of_all_files_come_at_once_and_sorted(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            b_csv="p, a\np, a, tool, x, call, Deny\n",
            a_yaml="roles: {x: {tool: {}}}\n",
            m_conf="[matchers]\nm = x\n",
        )
        found = errors(tmp_path, "b.csv", "a.yaml")
        assert [line.partition(" ")[0] for line in found] == ["a.yaml:1:", "b.csv:1:", "b.csv:2:"]
        found = errors(tmp_path, "none.csv", "b.csv", model="m.conf")
        assert found[0].startswith("m.conf: the section [policy_definition] is missing")
        assert found[-1].startswith("none.csv: does not exist")

    def test_roles_declared_without_rules_are_known(self, tmp_path: Path) -> None:
        write(tmp_path, r_yaml="roles: {guest: {tools: {allow: []}}}\n")
        loaded = load(tmp_path, "r.yaml")
        assert (loaded.rules, loaded.roles) == ((), {"role:guest"})
        assert [problem.code for problem in loaded.problems] == ["nothing-allowed"]


class TestOwnModels:
    def test_roles_yaml_is_for_the_own_model(self, tmp_path: Path) -> None:
        write(tmp_path, m_conf=THREE, r_yaml="roles: {a: {}}\n")
        assert errors(tmp_path, "r.yaml", model="m.conf", request=["{role}", "{target}", "{action}"])[0] == (
            "r.yaml: roles are for remit's own model, and 'm.conf' is another one; "
            "write policy.csv, or leave 'model' out of the configuration"
        )

    def test_a_file_with_the_shipped_definitions_is_the_own_model(self, tmp_path: Path) -> None:
        write(tmp_path, m_conf=SHIPPED_MODEL.replace(", ", ","), p_csv=ROW)
        assert load(tmp_path, "p.csv", model="m.conf").model.native is True

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            pytest.param(["{role}", "{target}"], "2 templates for 3 request columns; write one for each of sub, obj, act", id="too-few"),
            pytest.param("{role}", 'must be a list of texts; write one template per column, for example ["{role}", "{target}", "{action}"]', id="text"),
            pytest.param(["{role}", 7, "{action}"], 'must be a list of texts; write one template per column, for example ["{role}", "{target}", "{action}"]', id="number"),
            pytest.param(["{roel}", "{target}", "{action}"], "for the column 'sub': unknown placeholder {roel} in '{roel}'; did you mean {role}?", id="slip"),
            pytest.param(["{role", "{target}", "{action}"], "for the column 'sub': a bracket without its partner in '{role'; known: {role} {user_id} {resource} {action} {target}", id="open-brace"),
            pytest.param(["", "{target}", "{action}"], "for the column 'sub': an empty template; known: {role} {user_id} {resource} {action} {target}", id="empty"),
        ],
    )  # fmt: skip
    def test_templates_are_checked(self, tmp_path: Path, request_: object, message: str) -> None:
        write(tmp_path, m_conf=THREE, p_csv="p, a, b, c\n")
        assert errors(tmp_path, "p.csv", model="m.conf", request=request_) == [f"m.conf: request: {message}"]

    def test_the_own_model_takes_no_templates(self, tmp_path: Path) -> None:
        write(tmp_path, p_csv=ROW)
        assert errors(tmp_path, "p.csv", request=["{role}"]) == [
            "model.conf: request: request templates are for models of your own; take 'request' out of the configuration"
        ]

    @pytest.mark.parametrize(
        ("columns", "templates"),
        [
            pytest.param("sub, obj, act", ("{role}", "{target}", "{action}"), id="usual"),
            pytest.param("user, res, obj, act", ("{user_id}", "{resource}", "{target}", "{action}"), id="four"),
            pytest.param("role, tool", ("{role}", "{target}"), id="two"),
        ],
    )
    def test_usual_column_names_need_no_templates(
        self, tmp_path: Path, columns: str, templates: tuple[str, ...]
    ) -> None:
        names = columns.split(", ")
        matcher = " && ".join(f"r.{name} == p.{name}" for name in names)
        text = THREE.replace("r = sub, obj, act", f"r = {columns}").replace("p = sub, obj, act", f"p = {columns}")
        text = text.partition("[role_definition]")[0] + "[policy_effect]" + text.partition("[policy_effect]")[2]
        write(
            tmp_path,
            m_conf=text.partition("m = ")[0] + f"m = {matcher}\n",
            p_csv=f"p, {', '.join('abcd'[: len(names)])}\n",
        )
        loaded = load(tmp_path, "p.csv", model="m.conf")
        assert loaded.request == templates
        blended = "{resource}" not in templates or "{action}" not in templates
        assert [problem.code for problem in loaded.problems] == (["default-request"] if blended else [])

    def test_other_column_names_do(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            m_conf=THREE.replace("r = sub, obj", "r = sub, dom").replace("r.obj", "r.dom"),
            p_csv="p, a, b, c\n",
        )
        assert errors(tmp_path, "p.csv", model="m.conf") == [
            "m.conf: request: this model needs request templates: nothing says what 'dom' is; "
            'write, for example, request: ["{role}", "{attributes.dom}", "{action}"]'
        ]

    @pytest.mark.parametrize(
        ("template", "roles"),
        [
            pytest.param("{role}", {"role:a", "role:b", "ann"}, id="role-alone"),
            pytest.param("role:{role}", {"a", "b"}, id="role-in-text"),
            pytest.param("{user_id}", set(), id="no-role"),
        ],
    )
    def test_known_roles_are_those_a_principal_may_carry(self, tmp_path: Path, template: str, roles: set[str]) -> None:
        write(tmp_path, m_conf=THREE, p_csv="p, role:a, x, y\ng, role:b, role:a\ng, ann, role:b\n")
        loaded = load(tmp_path, "p.csv", model="m.conf", request=[template, "{target}", "{action}"])
        assert loaded.roles == roles

    def test_functions_of_the_deployment(self, tmp_path: Path) -> None:
        write(tmp_path, m_conf=THREE.replace("r.obj == p.obj", "inside(r.obj, p.obj)"), p_csv="p, a, b, c\n")
        request = ["{role}", "{target}", "{action}"]
        assert load(tmp_path, "p.csv", model="m.conf", request=request, functions=["inside"]).problems == ()
        assert "unknown function 'inside'" in errors(tmp_path, "p.csv", model="m.conf", request=request)[0]


class TestExport:
    def test_the_shipped_set_loads_to_the_same_rules(self, tmp_path: Path) -> None:
        loaded = load(SHIPPED, "roles.yaml", "policy.csv", model="model.conf")
        write(tmp_path, p_csv=export_csv(loaded))
        again = load(tmp_path, "p.csv")
        assert [rule.values for rule in again.rules] == [rule.values for rule in loaded.rules]
        assert [link.values for link in again.links] == [link.values for link in loaded.links]

    def test_names_that_need_quotes(self, tmp_path: Path) -> None:
        rows = (
            'p, admin, tool, "a, b", call, allow\np, admin, tool, "a""b", call, allow\np, admin, tool, "#x", call, allow\n'
            'p, admin, tool, "a]", call, allow\np, admin, tool, "a b", call, allow\n'
            "p, admin, tool, c, call, deny, \"r.ctx.args.x in ['a', 'b']\"\n"
        )
        write(tmp_path, p_csv=rows)
        loaded = load(tmp_path, "p.csv")
        assert [rule.values[2] for rule in loaded.rules] == ["a, b", 'a"b', "#x", "a]", "a b", "c"]
        write(tmp_path, p_csv=export_csv(loaded))
        assert [rule.values for rule in load(tmp_path, "p.csv").rules] == [rule.values for rule in loaded.rules]

    def test_for_casbin_ask_becomes_deny(self, tmp_path: Path) -> None:
        write(tmp_path, p_csv="p, admin, tool, *, call, allow\np, admin, tool, bash, call, ask\ng, user:u, admin\n")
        loaded = load(tmp_path, "p.csv")
        write(tmp_path, m_conf=SHIPPED_MODEL, p_csv=export_casbin(loaded))
        enforcer = casbin.Enforcer(str(tmp_path / "m.conf"), str(tmp_path / "p.csv"))
        assert enforcer.enforce("role:admin", "tool", "x", "call", {}) is True
        assert enforcer.enforce("user:u", "tool", "x", "call", {}) is True
        assert enforcer.enforce("role:admin", "tool", "bash", "call", {}) is False
        assert enforcer.enforce("role:other", "tool", "x", "call", {}) is False

    def test_for_casbin_conditions_and_odd_names_are_refused(self, tmp_path: Path) -> None:
        write(tmp_path, p_csv='p, admin, tool, x, call, deny, r.ctx.args.n > 1\np, admin, tool, "a, b", call, allow\n')
        with pytest.raises(PolicyError) as caught:
            export_casbin(load(tmp_path, "p.csv"))
        assert [(problem.line, problem.code) for problem in caught.value.problems] == [
            (1, "condition-needs-native"),
            (2, "not-exportable"),
        ]


def big_policy(rules: int, links: int) -> str:
    rows = [f"p, role:r{i % 1000}, tool, t{i}, call, {'deny' if i % 20 == 0 else 'allow'}," for i in range(rules)]
    rows += [f"g, role:r{i}, role:r{i + 500}" for i in range(500)]
    rows += [f"g, user:u{i}, role:r{i % 1000}" for i in range(links - 500)]
    return "# a comment\n" + "\n".join(rows) + "\n"


MEASURE = """
import time
from pathlib import Path
import casbin
from remit.providers.casbin.files.loader import load_policy_set

def ours():
    loaded = load_policy_set(policies=["p.csv"], model=None, base_dir=Path("."))
    assert (len(loaded.rules), len(loaded.links), loaded.problems) == (100_000, 5_000, ())

def theirs():
    casbin.Enforcer("m.conf", "p.csv")

best = {}
for _ in range(3):
    for call in (ours, theirs):
        start = time.process_time()
        call()
        best[call] = min(best.get(call, 1e9), time.process_time() - start)
print(best[ours], best[theirs])
"""


class TestSize:
    @pytest.mark.slow
    def test_a_hundred_thousand_rules_load_faster_than_casbin_reads_them(self, tmp_path: Path) -> None:
        write(tmp_path, p_csv=big_policy(100_000, 5_000), m_conf=SHIPPED_MODEL)
        done = subprocess.run(  # a process of its own: casbin formats every rule for the log that pytest captures
            [sys.executable, "-c", MEASURE], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        ours, theirs = map(float, done.stdout.split())
        assert ours < 0.8 * theirs, f"{ours:.3f} s against {theirs:.3f} s"


PIECES = st.sampled_from(
    ["p", "g", "g2", "role:a", "user:b", "*", "tool", "route", "a:b", "call", "allow", "deny", "ask", "Deny", ",", ", ", "\n",
     "#", '"', '""', "[", "]", "(", ")", "{", "}", "\\", "\t", " ", "\r\n", "\r", "\ufeff", "\u200b", "e\u0301", "\u0430", "\x00",
     "r.sub", "p.sub", "==", "&&", "||", "!", "eval(p.sub)", "keyMatch2(r.obj, p.obj)", "m = ", "[matchers]", "g = _, _",
     "roles:", "tools:", "allow:", "deny: [x]", "inherits: [a]", "users:", "- ", "  ", "&a ", "*a", "!!x ", "<<: ", "|\n", "? ",
     "r.ctx.args.n > 1", "**/x", "[!a", "a{1..9}"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=40).map("".join))
FILES = st.one_of(st.binary(max_size=80), TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))


class TestHostileInput:
    @staticmethod
    def attempt(folder: Path, policies: list[str], model: str | None, request: object = None) -> None:
        caught: list[PolicyError] = []
        try:
            load_policy_set(policies=policies, model=model, base_dir=folder, request=request)  # type: ignore[arg-type]
        except PolicyError as exc:  # nothing else may be raised
            caught.append(exc)
        for refused in caught:
            assert all(problem.message for problem in refused.problems)
            assert any(problem.severity == "error" for problem in refused.problems)

    @settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=FILES)
    def test_csv(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "p.csv").write_bytes(data)
        self.attempt(tmp_path, ["p.csv"], None)
        (tmp_path / "q.csv").write_bytes(ROW.encode() + data)
        self.attempt(tmp_path, ["q.csv"], None)

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=FILES, indent=st.booleans())
    def test_yaml(self, tmp_path: Path, data: bytes, indent: bool) -> None:
        (tmp_path / "r.yaml").write_bytes((b"roles:\n  a: " if indent else b"") + data)
        self.attempt(tmp_path, ["r.yaml"], None)

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        data=FILES,
        place=st.sampled_from(["whole", "matcher", "columns", "effect"]),
        request_=st.one_of(st.none(), st.lists(TEXTS, max_size=3)),
    )
    def test_model(self, tmp_path: Path, data: bytes, place: str, request_: object) -> None:
        head = THREE.encode().partition(b"m = ")[0]
        (tmp_path / "p.csv").write_text("p, a, b, c\n")
        texts = {
            "whole": data,
            "matcher": head + b"m = " + data,
            "columns": THREE.encode().replace(b"p = sub, obj, act", b"p = sub, obj, act, " + data),
            "effect": THREE.encode().replace(b"some(where (p.eft == allow))", data),
        }
        (tmp_path / "m.conf").write_bytes(texts[place])
        self.attempt(tmp_path, ["p.csv"], "m.conf", request_)

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        function=st.sampled_from(["keyMatch", "keyMatch2", "keyMatch3", "keyMatch4", "keyMatch5", "globMatch", "regexMatch", "ipMatch"]),
        pattern=st.text(st.sampled_from("ab/*:{}[]().^$|\\?+-!,1 \u0430"), min_size=1, max_size=12),
    )  # fmt: skip
    def test_what_loads_never_makes_casbin_raise(self, tmp_path: Path, function: str, pattern: str) -> None:
        text = THREE.replace("r.obj == p.obj", f"{function}(r.obj, p.obj)")
        quoted = pattern.strip().replace('"', '""')
        write(tmp_path, m_conf=text, p_csv=f'p, a, "{quoted}", c\n')
        try:
            loaded = load(tmp_path, "p.csv", model="m.conf", request=["{role}", "{target}", "{action}"])
        except PolicyError:
            return
        enforcer = casbin.Enforcer(casbin.Enforcer.new_model(text=loaded.model.text))
        enforcer.model.model["p"]["p"].policy = [list(rule.values) for rule in loaded.rules]
        for target in ("a", "/a/b", "b*", "10.0.0.1") if function != "ipMatch" else ("10.0.0.1",):
            enforcer.enforce("a", target, "c")


def test_loading_imports_yaml_and_conditions_only_when_needed() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom remit.providers.casbin.files.loader import load_policy_set\n"
        "Path('p.csv').write_text('p, admin, tool, bash, call, allow\\n')\n"
        "load_policy_set(policies=['p.csv'], model=None, base_dir=Path('.'))\n"
        "print(sorted({'ruamel.yaml', 'casbin', 'wcmatch', 'remit.providers.casbin.conditions'} & set(sys.modules)))"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert "ruamel.yaml" not in done.stdout
    assert "wcmatch" not in done.stdout
