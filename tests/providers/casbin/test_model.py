"""Reading `model.conf`: what is understood, what is refused and where."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from remit.authz.errors import Problem
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.files.model import parse_model, shipped_model
from remit.providers.casbin.native import SHIPPED_MODEL
from remit.providers.casbin.rules import CasbinModel, Effect

POLICIES = Path(__file__).parents[3] / "policies"

RBAC = """\
[request_definition]
r = sub, obj, act

[policy_definition]
p = sub, obj, act, eft

[role_definition]
g = _, _

[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))

[matchers]
m = g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act
"""


def parse(text: str, *functions: str) -> tuple[CasbinModel | None, tuple[Problem, ...]]:
    findings = Findings()
    return parse_model(text, "model.conf", findings, functions), findings.problems()


def with_matcher(matcher: str) -> str:
    head, _, _ = RBAC.partition("m = ")
    return f"{head}m = {matcher}\n"


def errors(text: str, *functions: str) -> list[str]:
    model, problems = parse(text, *functions)
    found = [str(problem) for problem in problems if problem.severity == "error"]
    assert (model is None) is bool(found), "a model comes back exactly when nothing is wrong"
    return found


def warnings(text: str, *functions: str) -> list[str]:
    model, problems = parse(text, *functions)
    assert model is not None, problems
    return [str(problem) for problem in problems]


def test_a_usual_model() -> None:
    model, problems = parse(RBAC)
    assert model is not None
    assert problems == ()
    assert model.request == ("sub", "obj", "act")
    assert model.policy == ("sub", "obj", "act", "eft")
    assert model.roles == {"g": 2}
    assert model.effect is Effect.ALLOW_AND_DENY
    assert model.matcher == "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act"
    assert model.matcher_line == 14
    assert ast.unparse(model.tree) == "g(r_sub, p_sub) and r_obj == p_obj and (r_act == p_act)"
    assert model.text == RBAC
    assert model.native is False


class TestNative:
    def test_shipped_text_is_native(self) -> None:
        model = shipped_model()
        assert model.native is True
        assert model.policy == ("sub", "res", "obj", "act", "eft", "cond")

    def test_the_file_that_ships_states_the_same_definitions(self) -> None:
        model, problems = parse((POLICIES / "model.conf").read_text(encoding="utf-8"))
        assert model is not None
        assert (model.native, problems) == (True, ())

    def test_layout_does_not_matter(self) -> None:
        text = SHIPPED_MODEL.replace("sub, res", "sub,res").replace("\\\n    ", "\\\n\t").replace("[r", "# mine\n\n[r")
        model, _ = parse(text)
        assert model is not None
        assert model.native is True

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            pytest.param('p.obj == "*" || globMatch', 'p.obj == "**" || globMatch', id="other-matcher"),
            pytest.param("globMatch(r.obj, p.obj)", "keyMatch(r.obj, p.obj)", id="other-function"),
            pytest.param(" && !some(where (p.eft == deny))", "", id="other-effect"),
            pytest.param("g = _, _", "g = _, _\ng2 = _, _", id="more-roles"),
        ],
    )
    def test_any_other_definition_is_not(self, old: str, new: str) -> None:
        model, _ = parse(SHIPPED_MODEL.replace(old, new))
        assert model is not None
        assert model.native is False


class TestFormat:
    def test_continuation_lines_join_as_in_casbin(self) -> None:
        model, problems = parse(with_matcher("g(r.sub, p.sub) && \\\n  r.obj == p.obj && \\\n  r.act == p.act"))
        assert model is not None
        assert problems == ()
        assert model.matcher == "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act"

    @pytest.mark.parametrize("mark", ["#", ";"])
    def test_full_line_comments(self, mark: str) -> None:
        assert errors(RBAC.replace("[matchers]", f"{mark} who may\n[matchers]")) == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("", "model.conf: the section [matchers] is missing; add it, with 'm = …'", id="empty"),
            pytest.param(
                RBAC.replace("[matchers]", "[Matchers]"),
                "model.conf:13: unknown section 'Matchers'; did you mean 'matchers'?",
                id="section-in-capitals",
            ),
            pytest.param(
                RBAC.replace("[matchers]", "[matchers] # who"),
                "model.conf:13: text after a section header: '[matchers] # who'; write the header alone on its line",
                id="text-after-header",
            ),
            pytest.param(
                RBAC.replace("[matchers]", "[matchers"),
                "model.conf:13: a section header without its ']': '[matchers'; write the header alone on its line",
                id="open-header",
            ),
            pytest.param(
                RBAC.replace("m = g", "n = g"),
                "model.conf:14: n: unknown key 'n' in [matchers]; this section defines 'm'",
                id="unknown-key",
            ),
            pytest.param(
                RBAC.replace("g = _, _", "g ="),
                "model.conf:8: g: 'g' has no value; write it after the '='",
                id="no-value",
            ),
            pytest.param(
                RBAC.replace("g = _, _", "g = _, _\nroles of people"),
                "model.conf:9: 'roles of people' is no definition; write 'g = …', or '#' in front of a comment",
                id="no-definition",
            ),
            pytest.param(
                RBAC.partition("m = ")[0],
                "model.conf: [matchers] defines no 'm'; add 'm = …' to it",
                id="empty-section",
            ),
            pytest.param(
                RBAC + "m = r.sub == p.sub\n",
                "model.conf:15: m: 'm' is defined again (first on line 14); keep one",
                id="defined-twice",
            ),
            pytest.param(
                "x = 1\n" + RBAC,
                "model.conf:1: 'x = 1' stands before any section; start with [request_definition]",
                id="before-any-section",
            ),
            pytest.param(
                with_matcher("g(r.sub, p.sub) &&\n r.obj == p.obj"),
                "model.conf:15: 'r.obj' is no definition: the matcher is cut in two; end the line before it with '\\'",
                id="matcher-cut-before-operator",
            ),
            pytest.param(
                with_matcher("g(r.sub, p.sub) && \\\n\n r.obj == p.obj"),
                "model.conf:14: the definition of line 14 is cut in two: line 15 does not continue it after the '\\'; "
                "delete the '\\', or remove what stands between its lines",
                id="blank-line-inside",
            ),
            pytest.param(
                with_matcher("g(r.sub, p.sub) && \\\n# and\n r.obj == p.obj"),
                "model.conf:14: the definition of line 14 is cut in two: line 15 does not continue it after the '\\'; "
                "delete the '\\', or remove what stands between its lines",
                id="comment-inside",
            ),
            pytest.param(
                with_matcher("g(r.sub, p.sub) # members"),
                "model.conf:14: m: 'g(r.sub, p.sub) # members' holds an in-line comment; put the comment on a line of its own",
                id="comment-behind-matcher",
            ),
            pytest.param(
                RBAC.replace("deny))", "deny)) # deny wins"),
                "model.conf:11: e: an in-line comment; put it on a line of its own",
                id="comment-behind-effect",
            ),
            pytest.param(
                RBAC.replace("act, eft", "act, eft   # four"),
                "model.conf:5: p: unknown column 'eft   # four'; put the comment on a line of its own",
                id="comment-behind-columns",
            ),
            pytest.param(
                RBAC.replace("sub, obj, act\n\n", "sub, obj act\n\n"),
                "model.conf:2: r: unknown column 'obj act'; a column is a word of letters, digits and '_'",
                id="comma-forgotten",
            ),
            pytest.param(
                RBAC.replace("act, eft", "sub, eft"),
                "model.conf:5: p: column 'sub' is named twice",
                id="column-twice",
            ),
            pytest.param(
                RBAC.replace("g = _, _", "g = _, _, (_, _)"),
                "model.conf:8: g: roles with conditions are not supported; write '_, _', or '_, _, _' for roles per domain",
                id="conditional-roles",
            ),
            pytest.param(
                RBAC.replace("g = _, _", "g = user, role"),
                "model.conf:8: g: 'user, role' is no role definition; write '_, _', or '_, _, _' for roles per domain",
                id="role-names",
            ),
            pytest.param(
                RBAC.replace("g = _, _", "g = _, _\ng3 = _, _"),
                "model.conf:9: g3: 'g3' is defined but 'g2' is not, and Casbin stops there; call it 'g2'",
                id="gap-in-roles",
            ),
            pytest.param(
                RBAC.replace("[matchers]", "e2 = some(where (p2.eft == allow))\n[matchers]"),
                "model.conf:13: e2: 'e2' starts a second set of definitions, which is not supported; "
                "put its rules under the first set, or run it as a provider of its own",
                id="second-set",
            ),
            pytest.param(
                RBAC.replace("some(where (p.eft == allow)) &&", "some(where(p.eft==allow)) &&"),
                "model.conf:11: e: unknown effect 'some(where(p.eft==allow)) && !some(where (p.eft == deny))'; "
                "write exactly 'some(where (p.eft == allow)) && !some(where (p.eft == deny))'",
                id="effect-spacing",
            ),
        ],
    )
    def test_refused(self, text: str, message: str) -> None:
        assert message in errors(text)

    def test_every_missing_section_is_named(self) -> None:
        assert [message.partition(";")[0] for message in errors("# nothing\n")] == [
            "model.conf: the section [matchers] is missing",
            "model.conf: the section [policy_definition] is missing",
            "model.conf: the section [policy_effect] is missing",
            "model.conf: the section [request_definition] is missing",
        ]

    def test_several_problems_come_at_once(self) -> None:
        text = RBAC.replace("deny))", "deney))").replace("r.obj == p.obj", "r.ob == p.obj").replace("r.act", "rr.act")
        assert [message.split(";")[0] for message in errors(text)] == [
            "model.conf:11: e: unknown effect 'some(where (p.eft == allow)) && !some(where (p.eft == deney))'",
            "model.conf:14: m: unknown column 'r.ob'",
            "model.conf:14: m: unknown name 'rr'",
        ]


class TestMatcher:
    @pytest.mark.parametrize(
        "matcher",
        [
            pytest.param("r.sub == p.sub", id="equality"),
            pytest.param("r.sub==p.sub && (r.obj==p.obj || p.obj=='*')", id="without-blanks-around-equality"),
            pytest.param("(r.sub == p.sub)&&(r.obj == p.obj)", id="glued-to-brackets"),
            pytest.param("!g(r.sub, p.sub) && r.obj != p.obj", id="negation"),
            pytest.param("r.sub == p.sub and not r.obj == p.obj", id="python-words"),
            pytest.param("r.obj in ['a', 'b'] && r.sub == p.sub", id="list"),
            pytest.param("r.sub.Age > 18 && r.obj == p.obj", id="attribute"),
            pytest.param("r.sub.Age + 1 > 18 && r.obj == p.obj", id="arithmetic-on-an-attribute"),
            pytest.param("r.sub.team.lead == p.sub", id="attribute-of-attribute"),
            pytest.param('r.sub["team"] == p.sub', id="item"),
            pytest.param("r.sub.admin && r.obj == p.obj", id="truth-value-attribute"),
            pytest.param("eval(p.sub) && r.obj == p.obj", id="eval"),
            pytest.param(
                "keyMatch(r.obj, p.obj) && regexMatch(r.act, '^\\\\w+$') && r.sub == p.sub", id="constant-regex"
            ),
            pytest.param("ipMatch(r.sub, p.sub) && timeMatch(p.obj, p.act)", id="ip-and-time"),
        ],
    )
    def test_accepted(self, matcher: str) -> None:
        assert errors(with_matcher(matcher)) == []

    def test_functions_of_the_deployment(self) -> None:
        matcher = with_matcher("inside(r.obj, p.obj, r.sub) && r.sub == p.sub")
        assert errors(matcher, "inside") == []
        assert errors(matcher)[0].startswith("model.conf:14: m: unknown function 'inside'; known: ")

    @pytest.mark.parametrize(
        ("matcher", "message"),
        [
            pytest.param("g(r.sub, p.sub) && r.object == p.obj", "unknown column 'r.object'; did you mean 'r.obj'?", id="column"),
            pytest.param("g(r.sub, p.sub) && r.obj == p.oject", "unknown column 'p.oject'; did you mean 'p.obj'?", id="p-column"),
            pytest.param("keymatch(r.obj, p.obj)", "unknown function 'keymatch'; did you mean 'keyMatch'?", id="function-case"),
            pytest.param("keyGet(r.obj, p.obj) == p.sub", "unknown function 'keyGet'; known: g, keyMatch, keyMatch2, keyMatch3, keyMatch4, keyMatch5, globMatch, regexMatch, ipMatch, timeMatch, eval", id="keyGet"),
            pytest.param("g2(r.obj, p.obj)", "unknown function 'g2'; did you mean 'g'?", id="undefined-roles"),
            pytest.param("g(r.sub, p.sub, r.obj)", "g() takes 2 arguments, not 3", id="too-many-arguments"),
            pytest.param("keyMatch(r.obj)", "keyMatch() takes 2 arguments, not 1", id="too-few-arguments"),
            pytest.param(
                "keyMatch(p.obj, r.obj)",
                "keyMatch() takes its pattern from the request, so a caller could match every rule; "
                "write keyMatch(r.COLUMN, p.COLUMN)",
                id="pattern-from-the-request",
            ),
            pytest.param("r.sub == p.sub&& r.obj == p.obj", "no blank in 'b&&'; write a blank on both sides of every operator", id="glued"),
            pytest.param("r.sub == p.sub & r.obj == p.obj", "'&' combines bits, not conditions; write '&&'", id="single-and"),
            pytest.param("r.sub == p.sub && true", "unknown name 'true'; write 'True'", id="lower-case-true"),
            pytest.param("r.sub", "'r.sub' is no condition; compare it with something", id="no-condition"),
            pytest.param("r.sub == p.sub && 'yes'", "\"'yes'\" is no condition; compare it with something", id="text-condition"),
            pytest.param("p.sub > 18", "an order comparison mixes text and numbers; columns are text: compare with ==, or read a number from the context, r.COLUMN.args.NAME", id="order"),
            pytest.param("p.sub.age == r.sub", "'p.sub.age' reads an attribute of policy text, which has none; read request columns", id="policy-attribute"),
            pytest.param("r.sub.__class__ == p.sub", "the attribute '__class__' may not be read", id="dunder"),
            pytest.param("r.sub.startswith(p.sub)", "the method 'r.sub.startswith' may not be called; use a function such as regexMatch", id="method"),
            pytest.param("r.sub == r.obj.p.name", "an attribute called 'p' would be changed by Casbin's own rewriting; rename the attribute", id="attribute-p"),
            pytest.param('r.sub == "a && b"', "the quoted text \"a && b\" would be changed by Casbin's own rewriting; "
                "leave '#', '!', '&&', '||', 'r.' and 'p.' out of quoted text, or move the text into a policy column", id="rewritten-text"),
            pytest.param('r.sub == "a', "'r.sub == \"a' has a quote without its partner; close the quoted text", id="open-quote"),
            pytest.param("(r.sub == p.sub", "'(r.sub == p.sub' is no expression ('(' was never closed); check brackets, quotes and operators", id="open-bracket"),
            pytest.param("eval(r.sub)", "eval() takes one policy column; write eval(p.COLUMN)", id="eval-of-request"),
            pytest.param("eval( p.sub )", "Casbin does not find the call of eval(); write it as eval(p.COLUMN), without blanks", id="eval-blanks"),
            pytest.param("[x for x in r.sub] == p.sub", "'[x for x in r.sub]' is nothing a matcher may hold; "
                "use columns, ==, !=, <, in, &&, ||, ! and functions", id="comprehension"),
            pytest.param("(r.sub if r.obj else r.act) == p.sub", "'r.sub if r.obj else r.act' is nothing a matcher may hold; "
                "use columns, ==, !=, <, in, &&, ||, ! and functions", id="conditional"),
            pytest.param("r2.sub == p.sub", "'r2' belongs to a second set of definitions; use one set: r, p, e and m", id="second-request"),
            pytest.param("r.sub is p.sub", "'is' compares identity, not values; write == or !=", id="is"),
            pytest.param("r.sub == p.\u0455ub", "the character '\u0455' (U+0455) stands outside quoted text; use ASCII", id="cyrillic-column"),
            pytest.param("True", "'True' holds for every request; take it out of the matcher", id="always"),
            pytest.param("g(r.sub, p.sub) || 1 == 1", "'1 == 1' holds for every request; take it out of the matcher", id="or-always"),
        ],
    )  # fmt: skip
    def test_refused(self, matcher: str, message: str) -> None:
        assert f"model.conf:14: m: {message}" in errors(with_matcher(matcher))

    def test_the_line_of_a_piece_is_named(self) -> None:
        found = errors(with_matcher("g(r.sub, p.sub) && \\\n  r.obj == p.obj && \\\n  r.at == p.act"))
        assert found == ["model.conf:16: m: unknown column 'r.at'; did you mean 'r.act'?"]

    def test_deep_nesting_is_refused(self) -> None:
        assert len(errors(with_matcher("(" * 300 + "r.sub == p.sub" + ")" * 300))) == 1
        assert "nested too deeply" in errors(with_matcher("!" * 90 + "(r.sub == p.sub)"))[0]

    @pytest.mark.parametrize(
        ("matcher", "warned"),
        [
            pytest.param("g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act", False, id="none"),
            pytest.param('g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act || r.sub == "boss"', True, id="or-name"),
            pytest.param(
                '(g(r.sub, p.sub) || r.sub == "root") && r.obj == p.obj && r.act == p.act', False, id="still-a-rule"
            ),
            pytest.param(
                '(g(r.sub, p.sub) || r.sub == "root") && (r.obj == p.obj || r.sub == "root") && (r.act == p.act || r.act == "x")',
                True,
                id="spread-over-factors",
            ),
            pytest.param(
                "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act || r.sub == r.obj.owner", False, id="owner"
            ),
        ],
    )
    def test_a_branch_that_needs_no_rule_is_reported(self, matcher: str, warned: bool) -> None:
        found = [
            message for message in warnings(with_matcher(matcher)) if "grants everything without any rule" in message
        ]
        assert bool(found) is warned


class TestDoubtfulDefinitions:
    def test_effect_column_of_another_name_is_refused(self) -> None:
        text = RBAC.replace("act, eft\n", "act, effect\n")
        assert "the column 'effect' is never read, so a row that says deny there allows" in errors(text)[0]

    def test_deny_effect_without_effect_column_allows_everything_and_is_refused(self) -> None:
        text = RBAC.replace(", eft\n", "\n").replace("some(where (p.eft == allow)) && ", "")
        assert errors(text) == [
            "model.conf:11: e: no column is called 'eft', so everything is allowed; "
            "add a column 'eft' to [policy_definition], or use some(where (p.eft == allow))"
        ]

    def test_effect_column_missing_is_reported(self) -> None:
        assert "no column is called 'eft', so no row can deny" in warnings(RBAC.replace(", eft\n", "\n"))[0]

    def test_unread_columns_are_reported(self) -> None:
        found = warnings(with_matcher("g(r.sub, p.sub) && r.act == p.act"))
        assert [message.partition(";")[0] for message in found] == [
            "model.conf:2: r: the matcher never reads 'r.obj', so rules hold for every value of it",
            "model.conf:5: p: the matcher never reads the column 'obj'",
        ]

    def test_columns_that_rule_texts_may_read_are_not(self) -> None:
        assert warnings(with_matcher("eval(p.sub) && g(r.obj, p.obj) && p.act != p.eft")) == []

    def test_unused_roles_are_reported(self) -> None:
        found = warnings(with_matcher("r.sub == p.sub && r.obj == p.obj && r.act == p.act"))
        assert found == [
            "model.conf:8: g: the matcher never calls g(), so rows of type 'g' change nothing; "
            "call it in the matcher, or take it out"
        ]

    @pytest.mark.parametrize("effect", list(Effect), ids=lambda effect: effect.name.lower())
    def test_every_effect_is_read(self, effect: Effect) -> None:
        for spelled in (effect.value, effect.value.replace("p.eft", "p_eft")):
            text = RBAC.replace(Effect.ALLOW_AND_DENY.value, spelled)
            model, _ = parse(text)
            assert model is not None
            assert model.effect is effect

    def test_subject_priority_needs_roles(self) -> None:
        text = RBAC.replace(Effect.ALLOW_AND_DENY.value, Effect.SUBJECT_PRIORITY.value)
        text = text.replace("[role_definition]\ng = _, _\n", "").replace("g(r.sub, p.sub)", "r.sub == p.sub")
        assert errors(text) == ["model.conf:9: e: subjectPriority needs roles; define g in [role_definition]"]
