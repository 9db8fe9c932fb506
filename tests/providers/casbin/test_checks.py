"""The semantic checks over a whole policy set: refused and reported, each with its place; and what stays silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from remit.authz.errors import PolicyError, Problem
from remit.providers.casbin.files.loader import load_policy_set

HEAD = "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = "
ALLOW = "some(where (p.eft == allow))"
ALLOW_AND_DENY = f"{ALLOW} && !some(where (p.eft == deny))"


def model(
    matcher: str = "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act",
    columns: str = "sub, obj, act, eft",
    effect: str = ALLOW_AND_DENY,
    roles: str = "g = _, _",
) -> str:
    return f"{HEAD}{columns}\n[role_definition]\n{roles}\n[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}\n"


class Loading:
    """Loads policies from a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def problems(self, policy: str, of_model: str | None = None, **options: object) -> list[Problem]:
        (self.folder / "policy.csv").write_text(policy, encoding="utf-8")
        request = None
        if of_model is not None:
            (self.folder / "model.conf").write_text(of_model, encoding="utf-8")
            request = ["{role}", "{target}", "{action}"]
        try:
            return list(
                load_policy_set(
                    policies=["policy.csv"],
                    model="model.conf" if of_model is not None else None,
                    base_dir=self.folder,
                    request=request,
                    **options,  # type: ignore[arg-type]
                ).problems
            )
        except PolicyError as exc:
            return list(exc.problems)

    def found(self, policy: str, of_model: str | None = None, **options: object) -> list[tuple[int, str, str]]:
        """(line, severity, code) of everything that is said."""
        return [(p.line, p.severity, p.code) for p in self.problems(policy, of_model, **options)]


@pytest.fixture
def loading(tmp_path: Path) -> Loading:
    return Loading(tmp_path)


OK = "p, admin, tool, bash, call, allow,\n"


class TestRoles:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            pytest.param("g, user:alice, admin\n", [], id="known-role"),
            pytest.param("g, ops, admin\ng, user:a, ops\n", [], id="role-of-a-role"),
            pytest.param("g, role:ops, admin\n", [], id="role-that-only-inherits"),
            pytest.param("g, alice, admin\n", [(2, "error", "unknown-member")], id="bare-member"),
            pytest.param("g, user:alice, auditor\n", [(2, "warning", "role-without-rules")], id="role-without-rules"),
            pytest.param("g, user:alice, Admin\n", [(2, "error", "unknown-role")], id="case"),
            pytest.param("g, user:alice, role:ad min\n", [(2, "error", "unknown-role")], id="blank"),
            pytest.param("g, user:alice, admn\n", [(2, "error", "unknown-role")], id="letter-missing"),
            pytest.param("g, user:alice, admins\n", [(2, "error", "unknown-role")], id="letter-too-many"),
            pytest.param("g, user:alice, adnin\n", [(2, "error", "unknown-role")], id="letter-replaced"),
            pytest.param("g, user:alice, amdin\n", [(2, "error", "unknown-role")], id="letters-swapped"),
            pytest.param("g, user:alice, admin2\n", [(2, "warning", "role-without-rules")], id="a-digit-tells-apart"),
            pytest.param("g, role:admim, role:admin\n", [(2, "error", "unknown-role")], id="slip-on-the-left"),
            pytest.param("g, a, a\np, a, tool, x, call, allow\n", [(2, "error", "role-cycle")], id="own-parent"),
            pytest.param("g, role:a, role:b\ng, role:b, role:a\n", [(3, "error", "role-cycle")], id="circle-of-two"),
            pytest.param("g, admin, b\ng, b, c\ng, c, d\ng, d, b\n", [(5, "error", "role-cycle")], id="circle-above"),
            pytest.param("g, user:a, admin\ng, user:a, admin\n", [(3, "warning", "duplicate-row")], id="twice"),
        ],
    )  # fmt: skip
    def test_under_the_own_model(self, loading: Loading, rows: str, expected: list[tuple[int, str, str]]) -> None:
        assert loading.found(OK + rows) == expected

    def test_the_meant_one_is_named(self, loading: Loading) -> None:
        assert [str(problem) for problem in loading.problems(OK + "g, alice, admin\ng, user:bob, amdin\n")] == [
            "policy.csv:2: 'alice' is no role that any row knows; did you mean 'user:alice'?",
            "policy.csv:3: no rule mentions the role 'role:amdin', and it leads to no other role; "
            "did you mean 'role:admin'?",
        ]
        assert [str(problem) for problem in loading.problems(OK + "g, admins, admin\n")] == [
            "policy.csv:2: 'admins' is no role that any row knows; did you mean 'user:admins'? Or 'admin'?"
        ]

    def test_a_refused_row_is_not_blamed_twice(self, loading: Loading) -> None:
        rows = "p, admin, tool, bash, call, Deny\ng, user:alice, admin\ng, ops, admin\n"
        assert loading.found(rows) == [(1, "error", "unknown-effect")]
        assert loading.found(rows.replace("Deny", "deny").replace("\n", "\np, ops, tool, x, call, allow\n", 1)) == []

    def test_the_circle_is_shown(self, loading: Loading) -> None:
        found = loading.problems(OK + "g, admin, b\ng, b, c\ng, c, admin\n")
        assert [str(problem) for problem in found] == [
            "policy.csv:4: roles in a circle: role:admin -> role:b -> role:c -> role:admin; delete one of these rows"
        ]

    @pytest.mark.parametrize(("links", "warned"), [(9, False), (10, True), (3000, True)])
    def test_chains_that_casbin_would_cut(self, loading: Loading, links: int, warned: bool) -> None:
        chain = "".join(f"g, role:n{i}x, role:n{i + 1}x\n" for i in range(links))
        found = loading.problems(f"p, n{links}x, tool, bash, call, allow\n{chain}")
        assert [p.code for p in found] == (["long-role-chain"] if warned else [])
        if warned:
            assert f"'role:n0x' has a chain of {links} roles; Casbin stops after 9" in str(found[0])

    def test_rings_and_ladders_are_walked_in_linear_time(self, loading: Loading) -> None:
        ladder = "".join(f"g, role:l{i}.{a}, role:l{i + 1}.{b}\n" for i in range(400) for a in "ab" for b in "ab")
        found = loading.found(f"p, l400.a, tool, x, call, allow\np, l400.b, tool, x, call, allow\n{ladder}")
        assert [code for _, _, code in found] == ["long-role-chain"]

    def test_other_models_know_no_namespaces(self, loading: Loading) -> None:
        rows = "p, admin, data, read, allow\ng, alice, admin\ng, bob, root\n"
        assert loading.found(rows, model()) == [(3, "warning", "role-without-rules")]
        assert loading.found(rows + "g, carl, ADMIN\n", model())[1:] == [(4, "error", "unknown-role")]

    def test_roles_may_stand_on_the_left(self, loading: Loading) -> None:
        swapped = model("r.sub == p.sub && r.obj == p.obj && g(p.act, r.act)")
        rows = "p, alice, data, keeper, allow\ng, keeper, read\ng, keeper, write\n"
        assert loading.found(rows, swapped) == []
        assert loading.found(rows + "g, keepr, drop\n", swapped) == [(4, "error", "unknown-role")]

    def test_domains(self, loading: Loading) -> None:
        tenants = model(
            "g(r.sub, p.sub, r.obj) && r.obj == p.obj && r.act == p.act", columns="sub, obj, act", effect=ALLOW,
            roles="g = _, _, _",
        )  # fmt: skip
        rows = "p, admin, t1, read\ng, ann, admin, t1\n"
        assert loading.found(rows, tenants) == []
        assert loading.found(rows + "g, bob, admin, *\n", tenants) == [(3, "error", "domain")]
        circle = "g, a, admin, t1\ng, admin, a, t2\n"
        assert loading.found(rows + circle, tenants) == [], "a circle needs one domain"
        assert loading.found(rows + circle.replace("t2", "t1"), tenants) == [(4, "error", "role-cycle")]
        assert (3, "warning", "literal-star") in loading.found(rows + "p, admin, *, read\n", tenants)

    def test_patterns_in_role_rows_are_plain_names(self, loading: Loading) -> None:
        resources = model("g(r.sub, p.sub) && g2(r.obj, p.obj) && r.act == p.act", roles="g = _, _\ng2 = _, _")
        rows = "p, a, books, read, allow\ng2, /book/:id, books\ng2, /book/1, books\ng2, /pen/*, books\n"
        assert loading.found(rows, resources) == [
            (2, "warning", "pattern-in-roles"),
            (4, "warning", "pattern-in-roles"),
        ]

    def test_a_star_domain_in_a_denial_would_be_lost(self, loading: Loading) -> None:
        tenants = model("g(r.sub, p.sub, r.obj) && r.obj == p.obj && r.act == p.act", roles="g = _, _, _")
        rows = "p, admin, t1, read, allow\np, admin, *, read, deny\ng, ann, admin, t1\n"
        assert loading.found(rows, tenants) == [(2, "error", "literal-star")]


class TestRows:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            pytest.param(OK, [(2, "warning", "duplicate-row")], id="equal"),
            pytest.param("p, role:admin, tool, bash, call, allow\n", [(2, "warning", "duplicate-row")], id="equal-in-another-spelling"),
            pytest.param("p, admin, tool, bash, call, deny\n", [(2, "warning", "contradiction")], id="contradiction"),
            pytest.param("p, admin, tool, bash, call, ask\n", [(2, "warning", "contradiction")], id="ask-against-allow"),
            pytest.param("p, admin, tool, bash, call, deny, r.ctx.args.n > 1\n", [], id="other-condition"),
            pytest.param("p, admin, tool, *, call, deny\n", [(1, "warning", "unreachable")], id="wider-denial"),
            pytest.param("p, *, *, *, *, deny\n", [(1, "warning", "unreachable")], id="denial-of-everything"),
            pytest.param("p, admin, tool, *, call, deny, r.ctx.args.n > 1\n", [], id="wider-denial-with-a-condition"),
            pytest.param("p, guest, tool, *, call, deny\n", [], id="wider-denial-of-another"),
        ],
    )  # fmt: skip
    def test_rows_against_rows(self, loading: Loading, rows: str, expected: list[tuple[int, str, str]]) -> None:
        assert loading.found(OK + rows) == expected

    def test_who_wins_is_said(self, loading: Loading) -> None:
        found = loading.problems(OK + "p, admin, tool, bash, call, ask\n")
        assert str(found[0]) == "policy.csv:2: says ask where policy.csv:1 says allow; ask wins; keep one"

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            pytest.param("p, a, tools, x, call, allow", [(1, "error", "unknown-resource")], id="plural"),
            pytest.param("p, a, Tool, x, call, deny", [(1, "error", "unknown-resource")], id="case"),
            pytest.param("p, a, tolo, x, call, deny", [(1, "error", "unknown-resource")], id="slip"),
            pytest.param("p, a, invoice, x, pay, allow", [(1, "warning", "unknown-resource")], id="of-the-deployment"),
            pytest.param("p, a, tool, x, cal, allow", [(1, "error", "unknown-action")], id="action-slip"),
            pytest.param("p, a, tool, x, execute, allow", [(1, "warning", "unknown-action")], id="action-that-nobody-asks"),
            pytest.param("p, a, tool, x, execute, deny", [(1, "error", "unknown-action")], id="denial-that-never-holds"),
            pytest.param("p, a, tool, x, *, allow", [], id="any-action"),
            pytest.param("p, a, *, x, anything, allow", [], id="any-resource"),
            pytest.param("p, a, sandbox, *, execute, allow", [], id="sandbox"),
            pytest.param("p, a, sandbox, local, execute, allow", [(1, "warning", "unreachable")], id="sandbox-name"),
            pytest.param("p, a, sandbox, local, execute, deny", [(1, "error", "unreachable")], id="sandbox-denial"),
            pytest.param("p, a, route, threads:read, read, allow", [], id="route"),
            pytest.param("p, a, route, threads:*, *, allow", [], id="route-pattern"),
            pytest.param("p, a, route, threads:read, write, deny", [(1, "error", "unreachable")], id="route-verb"),
            pytest.param("p, a, route, threads, read, allow", [(1, "warning", "unreachable")], id="route-without-verb"),
            pytest.param("p, a, command, *, execute, allow", [(1, "error", "unreachable")], id="command-pattern"),
            pytest.param("p, a, tool, a/../b, call, allow", [(1, "warning", "unreachable")], id="dots"),
        ],
    )  # fmt: skip
    def test_what_nobody_asks_for(self, loading: Loading, row: str, expected: list[tuple[int, str, str]]) -> None:
        found = loading.found(row)
        assert [item for item in found if item[2] != "nothing-allowed"] == expected

    def test_resource_types_of_the_deployment(self, loading: Loading) -> None:
        assert loading.found("p, a, invoice, x, pay, allow", resources=["invoice"]) == []
        assert str(loading.problems("p, a, invoise, x, pay, allow", resources=["invoice"])[0]).endswith(
            "unknown resource type 'invoise'; did you mean 'invoice'?"
        )

    def test_nothing_allowed(self, loading: Loading) -> None:
        assert loading.found("p, a, tool, x, call, deny") == [(0, "warning", "nothing-allowed")]
        assert loading.found("p, a, tool, x, call, ask") == []

    @pytest.mark.parametrize(
        ("condition", "refused"),
        [
            pytest.param("r.ctx.args.n > 5", False, id="good"),
            pytest.param("r.ctx.args.n >", True, id="incomplete"),
            pytest.param("__import__('os')", True, id="code"),
        ],
    )
    def test_conditions_are_compiled(self, loading: Loading, condition: str, refused: bool) -> None:
        found = loading.found(f'{OK}p, admin, tool, bash, call, ask, "{condition}"\n')
        assert found == ([(2, "error", "condition")] if refused else [])

    def test_a_condition_under_another_model(self, loading: Loading) -> None:
        other = model(columns="sub, obj, act, eft, cond")
        rows = "p, a, b, c, allow, r.ctx.args.n > 5\n"
        assert [code for *_, code in loading.found(rows, other)] == ["unused-column", "condition-needs-native"]


class TestOtherModels:
    def test_denials_that_the_effect_ignores(self, loading: Loading) -> None:
        rows = "p, a, b, c, allow\np, a, b, d, deny\n"
        assert loading.found(rows, model(effect=ALLOW)) == [(2, "error", "ignored-deny")]
        assert loading.found(rows, model()) == []

    def test_verdicts_in_another_column(self, loading: Loading) -> None:
        plain = model(columns="sub, obj, act", effect=ALLOW)
        assert loading.found("p, a, b, read\np, a, c, deny\np, a, b, Denied\np, a, b, block\n", plain) == [
            (2, "warning", "verdict-elsewhere"),
            (3, "warning", "verdict-elsewhere"),
        ]
        assert loading.found("p, a, deny, read\n", plain) == []

    def test_verdicts_in_a_column_that_nothing_reads(self, loading: Loading) -> None:
        unread = model(columns="sub, obj, act, kind", effect=ALLOW)
        assert loading.found("p, a, b, c, deny\n", unread) == [
            (4, "warning", "unused-column"),
            (1, "error", "verdict-elsewhere"),
        ]

    @pytest.mark.parametrize(
        ("value", "refused"), [("10", False), ("0", False), ("-1", True), ("high", True), ("\u0663", True)]
    )
    def test_priorities(self, loading: Loading, value: str, refused: bool) -> None:
        ranked = model(columns="priority, sub, obj, act, eft", effect="priority(p.eft) || deny")
        assert loading.found(f"p, {value}, a, b, c, allow\n", ranked) == ([(1, "error", "priority")] if refused else [])

    def test_a_star_that_is_a_name(self, loading: Loading) -> None:
        rows = "p, a, *, c, allow\np, *, b, c, allow\n"
        assert loading.found(rows, model()) == [(1, "warning", "literal-star"), (2, "warning", "literal-star")]
        starred = model('(g(r.sub, p.sub) || p.sub == "*") && (r.obj == p.obj || p.obj == "*") && r.act == p.act')
        assert loading.found(rows, starred) == []

    @pytest.mark.parametrize(
        ("text", "refused"),
        [
            pytest.param("r.sub.age > 18", False, id="attribute"),
            pytest.param('r.sub.name == "alice"', False, id="text"),
            pytest.param('r.sub.age > 18 && keyMatch(r.obj, "/x/*")', False, id="function"),
            pytest.param("1 == 1) or (1 == 2", True, id="breaks-out"),
            pytest.param("r.sub.age >", True, id="incomplete"),
            pytest.param("r.sub.age > 18 && eval(p.sub)", True, id="eval-inside"),
            pytest.param("r.subject.age > 18", True, id="unknown-column"),
            pytest.param("isAdmin(r.sub)", True, id="unknown-function"),
            pytest.param("r.sub.__class__ == 1", True, id="dunder"),
            pytest.param("18", True, id="no-condition"),
        ],
    )
    def test_texts_for_eval(self, loading: Loading, text: str, refused: bool) -> None:
        spliced = model("eval(p.sub) && r.obj == p.obj && r.act == p.act")
        quoted = text.replace('"', '""')
        found = [item for item in loading.found(f'p, "{quoted}", data, read, allow\n', spliced) if item[0] == 1]
        assert found == ([(1, "error", "rule-text")] if refused else [])

    def test_objects_need_the_context(self, loading: Loading) -> None:
        spliced = model("eval(p.sub) && r.obj == p.obj && r.act == p.act")
        found = loading.problems("p, r.sub.age > 18, data, read, allow\n", spliced)
        assert "model.conf: request: attributes of 'r.sub' are read, but '{role}' gives text; use '{ctx}'" in map(
            str, found
        )


def pattern_rows(function: str, pattern: str, effect: str) -> tuple[str, str]:
    matcher = f"g(r.sub, p.sub) && {function}(r.obj, p.obj) && r.act == p.act"
    return f'p, a, "{pattern}", c, {effect}\np, z, z, z, allow\n', model(matcher)


class TestPatterns:
    @pytest.mark.parametrize(
        ("function", "pattern", "in_allow", "in_deny"),
        [
            pytest.param("keyMatch", "a*", "", "", id="keyMatch-star-at-the-end"),
            pytest.param("keyMatch", "github_*_read", "error text-after-star", "warning text-after-star", id="keyMatch-text-behind-star"),
            pytest.param("keyMatch", "a/*/*", "error text-after-star", "warning text-after-star", id="keyMatch-two-stars"),
            pytest.param("keyMatch", "*/*", "warning text-after-star", "warning text-after-star", id="keyMatch-star-slash-star"),
            pytest.param("keyMatch", "a**", "", "", id="keyMatch-doubled-star"),
            pytest.param("keyMatch2", "/a/:id/b", "", "", id="keyMatch2-placeholder"),
            pytest.param("keyMatch2", "*", "", "", id="keyMatch2-lone-star"),
            pytest.param("keyMatch2", "/a/*", "", "", id="keyMatch2-star-segment"),
            pytest.param("keyMatch2", "/a*", "warning star-after-text", "warning star-after-text", id="keyMatch2-star-behind-letter"),
            pytest.param("keyMatch2", "/v1.0/a", "warning meta-character", "warning meta-character", id="keyMatch2-dot"),
            pytest.param("keyMatch2", "tool:bash", "warning placeholder", "warning placeholder", id="keyMatch2-colon"),
            pytest.param("keyMatch2", "/a(", "error pattern", "error pattern", id="keyMatch2-malformed"),
            pytest.param("keyMatch2", "*a", "error pattern", "error pattern", id="keyMatch2-star-first"),
            pytest.param("keyMatch3", "/a/{id}", "", "", id="keyMatch3-placeholder"),
            pytest.param("keyMatch3", "*", "error pattern", "error pattern", id="keyMatch3-lone-star"),
            pytest.param("keyMatch4", "/a/{id}/{id}", "", "", id="keyMatch4-placeholder"),
            pytest.param("keyMatch4", "/a/(b)/{id}", "error pattern, warning meta-character", "error pattern, warning meta-character", id="keyMatch4-brackets"),
            pytest.param("keyMatch5", "/a/{id}", "", "", id="keyMatch5-placeholder"),
            pytest.param("keyMatch5", "/a+", "warning meta-character", "warning meta-character", id="keyMatch5-plus"),
            pytest.param("regexMatch", "^GET$", "", "", id="regex-anchored"),
            pytest.param("regexMatch", "^(GET|POST)$", "", "", id="regex-anchored-group"),
            pytest.param("regexMatch", "/a/.*", "", "", id="regex-open-end"),
            pytest.param("regexMatch", "GET", "warning no-anchor", "warning no-anchor", id="regex-plain"),
            pytest.param("regexMatch", "^GET$|POST", "warning no-anchor", "warning no-anchor", id="regex-one-alternative"),
            pytest.param("regexMatch", r"cost\$", "warning no-anchor", "warning no-anchor", id="regex-escaped-dollar"),
            pytest.param("regexMatch", "(GET", "error pattern", "error pattern", id="regex-malformed"),
            pytest.param("regexMatch", "[[a]$", "error pattern", "error pattern", id="regex-set-to-come"),
            pytest.param("regexMatch", "a{99999999999}$", "error pattern", "error pattern", id="regex-too-large"),
            pytest.param("globMatch", "mcp__db__*", "", "", id="glob"),
            pytest.param("globMatch", "/a/x[!1-9]?", "", "", id="glob-set"),
            pytest.param("globMatch", "{a,b}", "", "", id="glob-braces"),
            pytest.param("globMatch", "[abc", "error pattern", "error pattern", id="glob-open-set"),
            pytest.param("globMatch", "{a,b", "error pattern", "error pattern", id="glob-open-braces"),
            pytest.param("globMatch", "{1..5000}", "error pattern", "error pattern", id="glob-many-braces"),
            pytest.param("globMatch", "a\\\\\\", "error pattern", "error pattern", id="glob-lone-backslash"),
            pytest.param("globMatch", "*/x", "warning star-slash", "error star-slash", id="glob-star-slash"),
            pytest.param("globMatch", "/a/*", "", "warning hidden-names", id="glob-hidden-names"),
            pytest.param("ipMatch", "10.0.0.0/8", "", "", id="ip-network"),
            pytest.param("ipMatch", "10.0.0.300", "error pattern", "error pattern", id="ip-malformed"),
        ],
    )  # fmt: skip
    def test_by_function_and_effect(
        self, loading: Loading, function: str, pattern: str, in_allow: str, in_deny: str
    ) -> None:
        for effect, expected in (("allow", in_allow), ("deny", in_deny)):
            rows, of_model = pattern_rows(function, pattern, effect)
            if function in ("keyMatch3", "keyMatch4", "keyMatch5", "regexMatch", "ipMatch", "globMatch", "keyMatch2"):
                rows = rows.replace("p, z, z, z", "p, z, 10.0.0.1, z" if function == "ipMatch" else "p, z, z$, z")
            found = [item for item in loading.found(rows, of_model) if item[0] == 1]
            assert ", ".join(f"{severity} {code}" for _, severity, code in found) == expected, effect

    def test_own_model(self, loading: Loading) -> None:
        rows = OK + "p, admin, tool, [ab, call, deny\np, admin, tool, *, call, ask\n"
        assert [item for item in loading.found(rows.replace("[ab", '"[ab"')) if item[0] == 2] == [
            (2, "error", "pattern")
        ]

    def test_times(self, loading: Loading) -> None:
        timed = model("timeMatch(p.sub, p.obj) && r.act == p.act && r.sub == r.obj")
        good = "p, _, 2030-01-01 00:00:00, read, allow\n"
        assert [item for item in loading.found(good, timed) if item[0] == 1] == []
        assert (1, "error", "pattern") in loading.found(good.replace("_", "tomorrow"), timed)

    def test_patterns_in_the_matcher_itself(self, loading: Loading) -> None:
        rows = "p, a, b, c, allow\n"
        bad = model('g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act && regexMatch(r.obj, "^(b$")')
        assert loading.found(rows, bad) == [(10, "error", "pattern")]


class TestLookAlikes:
    @pytest.mark.parametrize(
        ("name", "refused"),
        [
            pytest.param("b\u0430sh", True, id="cyrillic-a-in-a-known-name"),
            pytest.param("\uff42\uff41\uff53\uff48", True, id="full-width-of-a-known-name"),
            pytest.param("w\u0435b_search", True, id="mixed-word-of-an-unknown-name"),
            pytest.param("\u0441all", True, id="imitates-the-vocabulary"),
            pytest.param("r\u00e9dacteur", False, id="accent"),
            pytest.param("\u043f\u043e\u0438\u0441\u043a", False, id="cyrillic-word"),
            pytest.param("\u691c\u7d22", False, id="japanese"),
            pytest.param("tool_\u0438\u0441\u043a\u0430\u0442\u044c", False, id="two-words-in-two-scripts"),
        ],
    )
    def test_names(self, loading: Loading, name: str, refused: bool) -> None:
        found = loading.found(f"{OK}p, admin, tool, {name}, call, deny\n")
        assert found == ([(2, "error", "look-alike")] if refused else [])

    def test_members(self, loading: Loading) -> None:
        found = loading.problems(OK + "g, user:\u0430lice, admin\ng, user:alice, admin\n")
        assert [str(problem) for problem in found] == [
            "policy.csv:2: 'user:\u0430lice' looks like 'user:alice' but is another name; type it again, in one script"
        ]
