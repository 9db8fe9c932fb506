"""Reading `policy.csv`: every row keeps its line, every doubtful one is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.authz.errors import Problem
from remit.providers.casbin.files import csvfile
from remit.providers.casbin.files.csvfile import Sheet, read_csv
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.files.model import parse_model, shipped_model
from remit.providers.casbin.rules import CasbinModel

PLAIN = """\
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
g2 = _, _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && g2(r.obj, p.obj, r.act) && r.act == p.act
"""


def plain_model() -> CasbinModel:
    model = parse_model(PLAIN, "model.conf", Findings())
    assert model is not None
    return model


def read(text: str, model: CasbinModel | None = None, free_text: tuple[str, ...] = ()) -> tuple[Sheet, list[Problem]]:
    findings = Findings()
    free = free_text or (("cond",) if model is None else ())
    sheet = read_csv(text, "policy.csv", model or shipped_model(), findings, free_text=free)
    return sheet, list(findings.problems())


def rows(
    text: str, model: CasbinModel | None = None, free_text: tuple[str, ...] = ()
) -> list[tuple[int, tuple[str, ...]]]:
    sheet, problems = read(text, model, free_text)
    assert problems == []
    return [(rule.line, rule.values) for rule in sheet.rules]


def problems(text: str, model: CasbinModel | None = None) -> list[str]:
    return [str(problem) for problem in read(text, model)[1]]


BASH = ("role:admin", "tool", "bash", "call", "allow", "")


class TestNativeRows:
    @pytest.mark.parametrize(
        "row",
        [
            pytest.param("p, role:admin, tool, bash, call, allow,", id="as-documented"),
            pytest.param("p, role:admin, tool, bash, call, allow, ", id="blank-condition"),
            pytest.param("p, role:admin, tool, bash, call, allow", id="condition-left-out"),
            pytest.param("p,role:admin,tool,bash,call,allow,", id="without-blanks"),
            pytest.param("  p ,  role:admin\t,tool ,bash , call,allow ,  ", id="blanks-everywhere"),
            pytest.param("p, admin, tool, bash, call, allow,", id="bare-name-is-a-role"),
            pytest.param('"p", "role:admin", "tool", "bash", "call", "allow", ""', id="quoted"),
            pytest.param('p, "admin", tool, "bash", call, allow', id="some-quoted"),
        ],
    )
    def test_one_rule_in_many_spellings(self, row: str) -> None:
        assert rows(row) == [(1, BASH)]

    def test_lines_count_comments_and_blank_lines(self) -> None:
        text = "# first\n\np, admin, tool, bash, call, allow\n   # indented comment\n\t\np, admin, tool, bash, call, allow,\n"
        assert rows(text) == [(3, BASH), (6, BASH)]

    def test_rows_stay_in_the_order_of_the_file(self) -> None:
        text = (
            "p, a, tool, x, call, allow\n"
            'p, b, tool, "x,y", call, allow\n'
            "p, c, tool, x, call, allow,\n"
            " p, d, tool, x, call, allow\n"
            "p, e, tool, x[1], call, allow,\n"
            "p, f, tool, x, call, deny, r.ctx.args.n > 5"
        )
        assert [(line, values[0]) for line, values in rows(text)] == [
            (1, "role:a"), (2, "role:b"), (3, "role:c"), (4, "role:d"), (5, "role:e"), (6, "role:f"),
        ]  # fmt: skip

    def test_subjects(self) -> None:
        text = "p, *, tool, a, call, allow\np, user:alice, tool, a, call, allow\np, role:x y, tool, a, call, deny\n"
        assert [values[0] for _, values in rows(text)] == ["*", "user:alice", "role:x y"]

    @pytest.mark.parametrize(
        ("field", "condition"),
        [
            pytest.param("r.ctx.args.n > 5", "r.ctx.args.n > 5", id="plain"),
            pytest.param('r.ctx.args.cmd == "ls"', 'r.ctx.args.cmd == "ls"', id="quotes-inside"),
            pytest.param("\"r.ctx.args.cmd in ['a', 'b']\"", "r.ctx.args.cmd in ['a', 'b']", id="quoted-commas"),
            pytest.param("r.ctx.args.cmd in ['a', 'b']", "r.ctx.args.cmd in ['a', 'b']", id="commas-in-brackets"),
            pytest.param('"r.ctx.args.cmd == ""a#b"""', 'r.ctx.args.cmd == "a#b"', id="hash-in-quotes"),
        ],
    )
    def test_conditions(self, field: str, condition: str) -> None:
        assert rows(f"p, admin, tool, bash, call, deny, {field}")[0][1][5] == condition

    def test_equal_texts_are_one_object(self) -> None:
        text = "".join(f"p, role:r{i % 3}, tool, t{i}, call, allow,\n" for i in range(2000))
        sheet, found = read(text)
        assert found == []
        for column in (0, 1, 3, 4):
            assert len({id(rule.values[column]) for rule in sheet.rules}) == len(
                {rule.values[column] for rule in sheet.rules}
            )


class TestLinks:
    def test_native(self) -> None:
        sheet, found = read("g, user:alice, role:admin\ng, role:a, b\ng, ops, role:admin\n")
        assert found == []
        assert [(link.line, link.gtype, link.values) for link in sheet.links] == [
            (1, "g", ("user:alice", "role:admin")),
            (2, "g", ("role:a", "role:b")),
            (3, "g", ("ops", "role:admin")),
        ]

    def test_several_role_definitions_keep_their_order(self) -> None:
        sheet, found = read("g, alice, admin\ng2, data1, group, d\ng, bob, admin\n", plain_model())
        assert found == []
        assert [(link.line, link.gtype, link.values) for link in sheet.links] == [
            (1, "g", ("alice", "admin")),
            (2, "g2", ("data1", "group", "d")),
            (3, "g", ("bob", "admin")),
        ]


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("p, admin, tool, bash, call", "1: 4 values, but 'p' has 6; write p, sub, res, obj, act, eft, cond", id="short"),
            pytest.param("p, admin, tool, bash, call, allow, , x", "1: 7 values, but 'p' has 6; write p, sub, res, obj, act, eft, cond", id="long"),
            pytest.param("g, alice", "1: 1 values, but 'g' has 2; write g, member, role", id="short-link"),
            pytest.param("g, user:a, role:b, c", "1: 3 values, but 'g' has 2; write g, member, role", id="long-link"),
            pytest.param("pp, admin, tool, bash, call, allow", "1: unknown row type 'pp'; did you mean 'p'?", id="row-type"),
            pytest.param("P, admin, tool, bash, call, allow", "1: unknown row type 'P'; did you mean 'p'?", id="row-type-case"),
            pytest.param("p2, admin, tool, bash, call, allow", "1: row type 'p2' belongs to a second set of definitions; only one set is supported", id="second-set"),
            pytest.param("g2, a, b", "1: unknown row type 'g2'; did you mean 'g'?", id="unknown-link-type"),
            pytest.param("admin, tool, bash, call, allow, ", "1: unknown row type 'admin'; did you mean 'p, admin, tool, bash, call, allow, '?", id="type-forgotten"),
            pytest.param(", admin, tool, bash, call, allow", "1: the row has no type; start it with 'p' or 'g'", id="empty-type"),
            pytest.param("ptype,v0,v1", "1: unknown row type 'ptype'; a row starts with 'p' or 'g'", id="header"),
            pytest.param("p, admin, tool, bash, call, alow", "1: eft: unknown effect 'alow'; write 'allow', 'deny' or 'ask'; did you mean 'allow'?", id="effect"),
            pytest.param("p, admin, tool, bash, call, Ask", "1: eft: unknown effect 'Ask'; write 'allow', 'deny' or 'ask'; did you mean 'ask'?", id="effect-case"),
            pytest.param("p, admin, tool, bash, call, ,", "1: eft: an empty effect; write 'allow', 'deny' or 'ask'", id="effect-empty"),
            pytest.param("p, admin, tool, , call, allow", "1: obj: an empty field; write a name; an empty one never matches what it should", id="empty-name"),
            pytest.param("p, , tool, x, call, allow", "1: sub: an empty field; write a name; an empty one never matches what it should", id="empty-subject"),
            pytest.param("p, group:x, tool, a, call, allow", "1: sub: unknown kind of subject 'group' in 'group:x'; write 'role:group:x' or 'user:group:x'", id="namespace"),
            pytest.param("p, Roles:x, tool, a, call, allow", "1: sub: unknown kind of subject 'Roles' in 'Roles:x'; did you mean 'role:x'?", id="namespace-slip"),
            pytest.param("p, role:, tool, a, call, allow", "1: sub: the name after 'role:' is empty; write role:NAME", id="namespace-alone"),
            pytest.param("p, role: x, tool, a, call, allow", "1: sub: the name after 'role:' has white space around it; write role:NAME", id="blank-in-subject"),
            pytest.param("p, role:*, tool, a, call, deny", "1: sub: 'role:*' is no pattern here; write '*' alone for everyone, or a name", id="subject-pattern"),
            pytest.param("p, admin, to*, a, call, deny", "1: res: 'to*' is no pattern here; write '*' alone, or a name", id="resource-pattern"),
            pytest.param("p, admin, tool, a, c*, deny", "1: act: 'c*' is no pattern here; write '*' alone, or a name", id="action-pattern"),
            pytest.param("g, *, role:a", "1: member: '*' cannot be given a role; write the rules for '*' in p rows", id="everyone-in-g"),
            pytest.param("g, user:a, user:b", "1: role: 'user:b' is no role; the second field of g names a role, role:NAME", id="user-as-role"),
            pytest.param("p, admin, tool, bash, call, allow # note", "1: an in-line comment would become part of the rule; put it on a line of its own, or a name that holds '#' in double quotes", id="comment"),
            pytest.param("p, admin, tool, #general, call, allow", "1: an in-line comment would become part of the rule; put it on a line of its own, or a name that holds '#' in double quotes", id="hash-in-name"),
            pytest.param('p, admin, tool, "bash" # x, call, allow', "1: an in-line comment would become part of the rule; put it on a line of its own, or a name that holds '#' in double quotes", id="comment-behind-quotes"),
            pytest.param('p, admin, tool, "bash, call, allow', "1: the quote before 'bash, call, allow' is never closed; close it on the line", id="open-quote"),
            pytest.param('p, admin, tool, "ba"sh, call, allow', '1: \'sh, call, allow\' follows a closing quote; put the whole field in quotes, and write a quote inside it twice ("")', id="text-behind-quote"),
            pytest.param('p, admin, tool, ba"sh, call, allow', '1: a quote inside \'ba"sh\'; put the field in double quotes and write "" for a quote in it', id="quote-inside"),
            pytest.param('p, admin, tool, a, call, deny, r.ctx.args.x == "a', '1: \'r.ctx.args.x == "a\' has a quote without its partner; quote the whole field', id="odd-quotes-in-condition"),
            pytest.param("p, admin, tool, a], call, allow", "1: the ']' closes nothing; put the field in double quotes", id="stray-bracket"),
            pytest.param("p, admin, tool, a[1, call, allow", "1: the '[' is never closed; put the field in double quotes", id="open-bracket"),
            pytest.param('p, admin, tool, " a", call, allow', "1: ' a' has white space around it; correct the name", id="quoted-blank"),
            pytest.param("p, admin, tool, a\tb, call, allow", "1: obj: 'a\\tb' holds the control character U+0009 unnamed; correct the name", id="tab-inside"),
            pytest.param("p, admin, tool, a\u00a0, call, allow", "1: obj: 'a\\xa0' has white space around it; correct the name", id="no-break-space"),
            pytest.param("p, admin, tool, a\u200bb, call, allow", "1: obj: 'a\\u200bb' holds the invisible character U+200B ZERO WIDTH SPACE; correct the name", id="zero-width"),
            pytest.param("p, admin, tool, cafe\u0301, call, allow", "1: obj: 'cafe\u0301' is not in Unicode normal form C; correct the name", id="decomposed"),
        ],
    )  # fmt: skip
    def test_with_place_and_advice(self, text: str, message: str) -> None:
        assert problems(text) == [f"policy.csv:{message}"]
        assert problems(f"# comment\np, admin, tool, ok, call, allow,\n{text}\n") == [f"policy.csv:3{message[1:]}"]

    @pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
    def test_blank_file(self, text: str) -> None:
        assert problems(text) == ["policy.csv: is empty; write rules, at least a comment, or take it out of 'policies'"]

    def test_a_row_of_another_length_never_swallows_its_neighbour(self) -> None:
        text = "p, a, x, call\np, a, y, call, p\np, b, z\np, c, w, call\n"
        sheet, found = read(text, plain_model())
        assert [(p.line, p.code) for p in found] == [(2, "column-count"), (3, "column-count")]
        assert [rule.values for rule in sheet.rules] == [("a", "x", "call"), ("c", "w", "call")]

    def test_every_bad_row_is_named_once(self) -> None:
        text = "p, admin, tool, , call, alow\np, admin, tool, b, call, alow\n"
        assert [(p.line, p.code) for p in read(text)[1]] == [(1, "empty-field"), (2, "unknown-effect")]

    def test_many_equal_mistakes_are_counted(self) -> None:
        found = read("".join(f"p, r{i}, tool, x, call, Deny\n" for i in range(5000)))[1]
        assert len(found) == 101
        assert str(found[-1]) == (
            "policy.csv:101: 4900 more of the same kind from here on (unknown-effect); correct the ones above first"
        )

    def test_ask_needs_the_own_model(self) -> None:
        model = parse_model(PLAIN.replace("p = sub, obj, act", "p = sub, obj, act, eft"), "m", Findings())
        assert problems("p, a, b, c, ask", model) == [
            "policy.csv:1: eft: 'ask' is unknown under this model; use remit's own model for rules that ask"
        ]

    def test_other_models_do_not_forgive_a_missing_column(self) -> None:
        assert problems("p, a, b", plain_model()) == ["policy.csv:1: 2 values, but 'p' has 3; write p, sub, obj, act"]
        assert problems("p, a, b, c,", plain_model()) == [
            "policy.csv:1: 4 values, but 'p' has 3; write p, sub, obj, act"
        ]


FIELD = st.sampled_from(
    [
        "a",
        "b",
        "role:x",
        "user:y",
        "*",
        "tool",
        "call",
        "allow",
        "deny",
        "",
        "p",
        "g",
        '"q, r"',
        "[1, 2]",
        "Deny",
        "x y",
    ]
)
LINE = st.one_of(
    st.lists(FIELD, min_size=5, max_size=7).map(lambda fields: ", ".join(["p", *fields])),
    st.lists(FIELD, min_size=4, max_size=6).map(lambda fields: ",".join(["p", "a", *fields])),
    st.sampled_from(["p, a, tool, b, call, allow,", "p, a, tool, b, call, deny", "p,b,tool,c,call,ask,", "# note", "", "g, user:a, a", " p, a, tool, b, call, allow"]),
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(LINE, min_size=1, max_size=30),
    block=st.sampled_from([1, 40, 200_000]),
    end=st.sampled_from(["", "\n"]),
)
def test_rows_read_at_once_are_rows_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], block: int, end: str
) -> None:
    monkeypatch.setattr(csvfile, "_BLOCK", block)
    text = "\n".join(["p, first, tool, x, call, allow,", *lines]) + end
    sheet, found = read(text)
    rules, links, places = [], [], []
    for number, line in enumerate(text.split("\n"), 1):
        one, wrong = read(line) if line.strip() else (Sheet(), [])
        rules += [(number, rule.values) for rule in one.rules]
        links += [(number, link.values) for link in one.links]
        places += [(number, problem.code, problem.message) for problem in wrong]
    assert [(rule.line, rule.values) for rule in sheet.rules] == rules
    assert [(link.line, link.values) for link in sheet.links] == links
    assert [(p.line, p.code, p.message) for p in found] == sorted(places, key=lambda place: (place[0], place[2]))


def test_positions_hold_in_large_files() -> None:
    rows = [f"p, r{i % 50}, tool, t{i}, call, allow," for i in range(20_000)]
    for at in (0, 7_777, 19_999):
        rows[at] = f"p, r1, tool, odd{at}, call, deny"
    rows[12_345] = "p, r1, tool, short"
    sheet, found = read("\n".join(rows))
    assert [str(problem) for problem in found] == [
        "policy.csv:12346: 3 values, but 'p' has 6; write p, sub, res, obj, act, eft, cond"
    ]
    assert [rule.line for rule in sheet.rules] == [number for number in range(1, 20_001) if number != 12_346]
    assert [(rule.line, rule.values[2]) for rule in sheet.rules if rule.values[4] == "deny"] == [
        (1, "odd0"), (7_778, "odd7777"), (20_000, "odd19999"),
    ]  # fmt: skip


class TestExpressions:
    MODEL = PLAIN.replace("g(r.sub, p.sub) &&", "eval(p.sub) &&")

    def test_as_casbin_users_write_them(self) -> None:
        model = parse_model(self.MODEL, "m", Findings())
        assert model is not None
        found = rows('p, r.sub.age > 18 && keyMatch(r.obj, "/x"), data, read\n', model, ("sub",))
        assert found == [(1, ('r.sub.age > 18 && keyMatch(r.obj, "/x")', "data", "read"))]

    def test_an_empty_one_is_refused(self) -> None:
        model = parse_model(self.MODEL, "m", Findings())
        assert [p.code for p in read("p, , data, read\n", model, ("sub",))[1]] == ["empty-field"]
