"""The condition language: what it accepts, what it answers, and that *unknown* is never mistaken for an answer."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.authz.types import AuthzRequest, Principal
from remit.providers.casbin.conditions import FUNCTIONS, ConditionError, compile_condition
from remit.providers.casbin.conditions.glob import Glob
from remit.providers.casbin.conditions.syntax import MAX_CHARACTERS

ATTRIBUTES = {
    "team": "ops",
    "level": 3,
    "groups": ["a", "b"],
    "mixed": ["a", 1],
    "vip": True,
    "home": "/home/ann",
    "site": "Example.com",
    "nested": {"deep": {"er": "x"}},
}
ANN = Principal("ann", "editor", is_internal=False, attributes=ATTRIBUTES)


def ask(condition: str, args: Any = None, principal: Principal = ANN, **context: Any) -> bool | None:
    if args is not None:
        context["args"] = args
    return compile_condition(condition)(AuthzRequest(principal, "tool", "call", "t", context))


X = "r.ctx.args.x"


@pytest.mark.parametrize(
    ("condition", "x", "expected"),
    [
        pytest.param(f"{X} == 5", 5, True, id="int-equal"),
        pytest.param(f"{X} == 5", 6, False, id="int-unequal"),
        pytest.param(f"{X} == 5", 5.0, True, id="int-and-float-are-numbers"),
        pytest.param(f"{X} == 5", "5", None, id="number-in-quotes"),
        pytest.param(f"{X} <= 100", 5000, False, id="over-the-limit"),
        pytest.param(f"{X} <= 100", "5000", None, id="over-the-limit-as-text"),
        pytest.param(f"{X} > 100", "5000", None, id="deny-over-the-limit-as-text"),
        pytest.param(f"{X} > 100", [5000], None, id="over-the-limit-in-a-list"),
        pytest.param(f"{X} == 1", True, None, id="true-is-not-1"),
        pytest.param(f"{X} == True", 1, None, id="1-is-not-true"),
        pytest.param(f"{X} == True", True, True, id="true-is-true"),
        pytest.param(f"{X} != True", False, True, id="false-is-not-true"),
        pytest.param(f"{X} < 1", False, None, id="truth-values-have-no-order"),
        pytest.param(f"{X} == 0", math.nan, None, id="nan-equal"),
        pytest.param(f"{X} != 0", math.nan, None, id="nan-unequal"),
        pytest.param(f"{X} < 0", math.nan, None, id="nan-less"),
        pytest.param(f"{X} > 0", math.inf, True, id="infinity-is-a-number"),
        pytest.param(f"{X} == -3", -3, True, id="negative-literal"),
        pytest.param(f"{X} == 1.5e1", 15, True, id="exponent"),
        pytest.param(f"5 < {X}", 6, True, id="literal-on-the-left"),
        pytest.param(f"5 >= {X}", 6, False, id="literal-on-the-left-flipped"),
        pytest.param(f"1 < {X} <= 10", 10, True, id="chain-holds"),
        pytest.param(f"1 < {X} <= 10", 1, False, id="chain-fails-left"),
        pytest.param(f"1 < {X} <= 10", 11, False, id="chain-fails-right"),
        pytest.param(f"1 < {X} <= 10", "5", None, id="chain-unknown"),
        pytest.param(f"{X} == 'drop'", "drop", True, id="text-equal"),
        pytest.param(f"{X} == 'drop'", "stop", False, id="text-unequal"),
        pytest.param(f"{X} == 'drop'", "Drop", False, id="case-differs"),
        pytest.param(f"lower({X}) == 'drop'", "DrOP", True, id="lower"),
        pytest.param(f"lower({X}) == 'sudo'", "\u017fudo", True, id="lower-folds-the-long-s"),
        pytest.param(f"{X} == 'drop'", "dr\u03bfp", None, id="greek-omicron"),
        pytest.param(f"{X} == 'drop'", "dr\u043ep", None, id="cyrillic-o"),
        pytest.param(f"{X} == 'drop'", "drop\u200b", None, id="zero-width-space"),
        pytest.param(f"{X} == 'drop'", "dr\x00op", None, id="nul-inside"),
        pytest.param(f"{X} == 'drop'", " drop", None, id="blank-before"),
        pytest.param(f"{X} == 'drop'", "drop\n", None, id="newline-after"),
        pytest.param(f"{X} == 'drop'", "\uff44\uff52\uff4f\uff50", None, id="full-width"),
        pytest.param(f"{X} != 'drop'", "dr\u03bfp", None, id="look-alike-is-not-different"),
        pytest.param(f"{X} == 'caf\u00e9'", "cafe\u0301", True, id="composed-and-decomposed-are-one"),
        pytest.param(f"{X} == 'cafe'", "caf\u00e9", False, id="an-accent-is-visible"),
        pytest.param(f"trim({X}) == 'drop'", " drop\n", True, id="trim"),
        pytest.param(f"{X} < 'b'", "a", True, id="texts-have-an-order"),
        pytest.param(f"{X} < 'b'", 1, None, id="number-against-text"),
        pytest.param(f"{X} == 'a'", {"a": 1}, None, id="mapping"),
        pytest.param(f"{X} == 'a'", b"a", None, id="bytes"),
        pytest.param(X, True, True, id="flag-set"),
        pytest.param(X, False, False, id="flag-clear"),
        pytest.param(X, 1, None, id="flag-is-a-number"),
        pytest.param(X, "true", None, id="flag-is-a-text"),
        pytest.param(f"not {X}", True, False, id="not"),
        pytest.param(f"not {X}", 1, None, id="not-unknown"),
        pytest.param(f"!{X} == 5", 5, False, id="casbin-not-binds-like-python"),
        pytest.param(f"{X} in ['a', 'b']", "b", True, id="in-list"),
        pytest.param(f"{X} in ('a', 'b')", "c", False, id="in-tuple"),
        pytest.param(f"{X} in ['a', 'b']", 1, None, id="in-list-wrong-type"),
        pytest.param(f"{X} in ['a', 'b']", "\u0430", None, id="in-list-look-alike"),
        pytest.param(f"{X} in ['a', 'b']", "a ", None, id="in-list-blank"),
        pytest.param(f"{X} not in ['a', 'b']", "c", True, id="not-in-list"),
        pytest.param(f"{X} not in ['a', 'b']", 1, None, id="not-in-list-wrong-type"),
        pytest.param(f"{X} in [1, 2.5]", 2.5, True, id="in-numbers"),
        pytest.param(f"{X} in [1, 2]", True, None, id="true-in-numbers"),
        pytest.param(f"{X} in [1, 2]", math.nan, None, id="nan-in-numbers"),
        pytest.param(f"{X} in [True]", False, False, id="in-truth-values"),
        pytest.param(f"'a' in {X}", ["a", "b"], True, id="list-holds"),
        pytest.param(f"'c' in {X}", ["a", "b"], False, id="list-lacks"),
        pytest.param(f"'c' in {X}", ["a", 1], None, id="list-of-mixed-types"),
        pytest.param(f"'a' in {X}", ["a", 1], True, id="one-equal-item-is-enough"),
        pytest.param(f"'a' in {X}", "abc", None, id="a-text-is-no-list"),
        pytest.param(f"'a' in {X}", {"a": 1}, None, id="a-mapping-is-no-list"),
        pytest.param(f"1 in {X}", list(range(1001)), None, id="list-too-long"),
        pytest.param(f"len({X}) <= 3", "abc", True, id="len-of-text"),
        pytest.param(f"len({X}) <= 3", [1, 2, 3, 4], False, id="len-of-list"),
        pytest.param(f"len({X}) <= 3", 12, None, id="len-of-number"),
        pytest.param(f"has({X})", 0, True, id="has-zero"),
        pytest.param(f"has({X})", None, False, id="has-null"),
        pytest.param(f"not has({X}) or {X} < 5", None, True, id="optional-and-absent"),
        pytest.param(f"not has({X}) or {X} < 5", 7, False, id="optional-and-bad"),
        pytest.param("True", 1, True, id="always"),
        pytest.param("False", 1, False, id="never"),
    ],
)
def test_values(condition: str, x: Any, expected: bool | None) -> None:
    assert ask(condition, {"x": x}) is expected


@pytest.mark.parametrize(
    ("condition", "x", "expected"),
    [
        pytest.param("under(X, '/etc')", "/etc/passwd", True, id="inside"),
        pytest.param("under(X, '/etc')", "/etc", True, id="the-folder-itself"),
        pytest.param("under(X, '/etc/')", "/etc/", True, id="final-slash"),
        pytest.param("under(X, '/etc')", "/etcetera", False, id="same-beginning"),
        pytest.param("under(X, '/etc')", "//etc//passwd", True, id="double-slash"),
        pytest.param("under(X, '/etc')", "/./etc/./passwd", True, id="dot"),
        pytest.param("under(X, '/etc')", "/x/../etc/passwd", True, id="dot-dot-into"),
        pytest.param("under(X, '/srv')", "/srv/../etc/passwd", False, id="dot-dot-out-of"),
        pytest.param("under(X, '/srv')", "/srv/a/../../../../etc", False, id="above-the-root"),
        pytest.param("under(X, '/etc')", "etc/passwd", None, id="relative"),
        pytest.param("under(X, '/etc')", "../etc/passwd", None, id="relative-climbing"),
        pytest.param("under(X, 'data')", "data/a/../b", True, id="relative-folder"),
        pytest.param("under(X, 'data')", "/data/a", None, id="absolute-against-relative-folder"),
        pytest.param("under(X, '/etc')", "~/passwd", None, id="home"),
        pytest.param("under(X, '/etc')", "/etc/pass\x00wd", None, id="nul"),
        pytest.param("under(X, '/etc')", "/e\u200btc/passwd", None, id="invisible"),
        pytest.param("under(X, '/etc')", "\\etc\\passwd", None, id="backslashes"),
        pytest.param("under(X, '/etc')", "/srv\\..\\etc", None, id="backslash-inside"),
        pytest.param("under(X, '/etc')", "/proc/self/root/etc/passwd", None, id="alias-of-the-root"),
        pytest.param("under(X, '/etc')", "/proc/1/cwd/../etc/x", None, id="alias-of-a-folder"),
        pytest.param("under(X, '/etc')", "/dev/fd/3", None, id="alias-of-an-open-file"),
        pytest.param("under(X, '/proc')", "/proc/cpuinfo", True, id="proc-without-alias"),
        pytest.param("under(X, '/etc')", "", None, id="empty"),
        pytest.param("under(X, '/etc')", ["/etc/passwd"], None, id="list"),
        pytest.param("under(X, '/etc')", "/" + "a" * 5000, None, id="too-long"),
        pytest.param("under(X, '/')", "/anything", True, id="root-holds-everything"),
        pytest.param("under(X, '/')", "anything", None, id="root-and-relative"),
        pytest.param("not under(X, '/etc')", "/x/../etc/passwd", False, id="not-under"),
        pytest.param("under(X, r.ctx.principal.attributes.home)", "/home/ann/a", True, id="folder-of-the-principal"),
        pytest.param("under(X, r.ctx.principal.attributes.home)", "/home/bob/a", False, id="folder-of-another"),
        pytest.param("under(X, r.ctx.principal.attributes.none)", "/home/ann/a", None, id="no-folder"),
        pytest.param("path(X) == '/etc/passwd'", "/x/../etc//passwd/", True, id="path-equal"),
        pytest.param("path(X) == '/etc/passwd'", "/etc/shadow", False, id="path-unequal"),
        pytest.param("path(X) == '/etc/passwd'", "passwd", None, id="path-relative"),
        pytest.param("X == '/etc/passwd'", "//etc/./passwd", True, id="a-rooted-literal-makes-it-a-path"),
        pytest.param("X != '/etc/passwd'", "//etc/./passwd", False, id="unequal-is-no-way-around"),
        pytest.param("X != '/etc/passwd'", "etc/passwd", None, id="unequal-relative"),
        pytest.param("X in ['/etc/passwd', '/etc/shadow']", "//etc/shadow", True, id="in-paths"),
        pytest.param("X in ['/etc/passwd', '/etc/shadow']", "shadow", None, id="in-paths-relative"),
        pytest.param("'/etc/passwd' in X", ["/a", "/etc/../etc/passwd"], True, id="paths-hold"),
        pytest.param("'/etc/passwd' in X", ["/a", "b"], None, id="paths-hold-a-relative-one"),
        pytest.param("lower(X) == '/etc/passwd'", "//ETC/passwd", True, id="lower-keeps-it-a-path"),
        pytest.param("lower(path(X)) == '/etc/passwd'", "//ETC/passwd", True, id="lower-of-path"),
        pytest.param("text(X) == '/quit'", "/quit", True, id="text-equal"),
        pytest.param("text(X) == '/quit'", "hello", False, id="text-is-no-path"),
        pytest.param("startswith(X, '/srv/')", "/srv/../etc/passwd", False, id="startswith-of-a-path"),
        pytest.param("startswith(X, '/etc/')", "//etc/passwd", True, id="startswith-double-slash"),
        pytest.param("startswith(X, '/etc/')", "etc/passwd", None, id="startswith-relative"),
        pytest.param("endswith(X, '/passwd')", "/etc/passwd/", True, id="endswith-of-a-path"),
        pytest.param("endswith(X, '.env')", "/srv/.env", True, id="endswith-text"),
        pytest.param("glob(X, '/srv/*/log')", "/srv/a/log", True, id="glob"),
        pytest.param("glob(X, '/srv/*/log')", "/srv/a/b/log", False, id="glob-star-stops-at-slash"),
        pytest.param("glob(X, '/srv/**')", "/srv/a/b/log", True, id="glob-deep"),
        pytest.param("glob(X, '/srv/**')", "/srv", True, id="glob-deep-and-the-folder"),
        pytest.param("glob(X, '/srv/**')", "/srv/../etc/passwd", False, id="glob-dot-dot"),
        pytest.param("glob(X, '/etc/**')", "//etc/passwd", True, id="glob-double-slash"),
        pytest.param("glob(X, '/etc/**')", "etc/passwd", None, id="glob-relative"),
        pytest.param("glob(path(X), 'data/*')", "/data/x", None, id="glob-relative-pattern"),
        pytest.param("glob(path(X), '**/.env')", "/srv/app/.env", True, id="glob-anywhere"),
        pytest.param("glob(X, 'report-?.txt')", "report-7.txt", True, id="glob-one"),
        pytest.param("glob(X, 'report-?.txt')", "report-77.txt", False, id="glob-one-only"),
        pytest.param("glob(X, 'drop*')", "dr\u03bfp table", None, id="glob-look-alike"),
        pytest.param("glob(X, 'drop*')", 5, None, id="glob-number"),
        pytest.param("startswith(X, 'rm ')", "rm -rf", True, id="startswith"),
        pytest.param("startswith(X, 'rm ')", "\u200brm -rf", None, id="startswith-invisible"),
        pytest.param("startswith(X, 'rm ')", "ls", False, id="startswith-other"),
        pytest.param("contains(X, 'drop')", "x drop y", True, id="contains"),
        pytest.param("contains(X, 'drop')", "x dr\u00adop y", None, id="contains-soft-hyphen"),
        pytest.param("contains(X, 'drop')", "two\nlines", False, id="contains-over-lines"),
        pytest.param("contains(X, 'drop')", ["drop"], None, id="contains-in-list"),
        pytest.param("contains(X, 'drop')", "\u4e2d" * 70_000, None, id="contains-too-long-to-normalise"),
    ],
)
def test_paths_and_texts(condition: str, x: Any, expected: bool | None) -> None:
    assert ask(condition.replace("X", "r.ctx.args.x"), {"x": x}) is expected


@pytest.mark.parametrize(
    ("url", "host"),
    [
        pytest.param("https://good.com/a", "good.com", id="plain"),
        pytest.param("HTTPS://Good.COM", "good.com", id="case"),
        pytest.param("https://good.com.:443/a", "good.com", id="final-dot-and-port"),
        pytest.param("https://good.com@evil.com/", "evil.com", id="user-name-is-no-host"),
        pytest.param("https://good.com:80@evil.com/", "evil.com", id="user-and-password"),
        pytest.param("https://evil.com/@good.com", "evil.com", id="at-in-the-path"),
        pytest.param("good.com", "good.com", id="bare"),
        pytest.param("good.com:8080", "good.com", id="bare-with-port"),
        pytest.param("https://b\u00fccher.de/", "xn--bcher-kva.de", id="idna"),
        pytest.param("https://xn--BCHER-kva.de/", "xn--bcher-kva.de", id="idna-already"),
        pytest.param("https://\u0430pple.com/", "xn--pple-43d.com", id="cyrillic-a-is-another-host"),
        pytest.param("https://good\u3002com/", "good.com", id="ideographic-dot"),
        pytest.param("http://127.0.0.1/", "127.0.0.1", id="ipv4"),
        pytest.param("http://[::1]:80/", "::1", id="ipv6"),
        pytest.param("http://[0:0:0:0:0:0:0:1]/", "::1", id="ipv6-long"),
        pytest.param("ws://host_name/", "host_name", id="underscore"),
    ],
)
def test_host(url: str, host: str) -> None:
    assert ask(f"host(r.ctx.args.u) == {json.dumps(host)}", {"u": url}) is True
    assert ask("host(r.ctx.args.u) == 'other.org'", {"u": url}) is False


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://[good.com]/", id="name-in-brackets"),
        pytest.param("https://evil.com\\@good.com/", id="backslash"),
        pytest.param("https://evil.com#@good.com/", id="at-after-fragment"),
        pytest.param("https://evil.com?@good.com/", id="at-after-query"),
        pytest.param("https://a@b@good.com/", id="two-ats"),
        pytest.param("https://good.com\t/", id="tab"),
        pytest.param(" https://good.com/", id="blank-before"),
        pytest.param("https://good.com\n.evil.com/", id="newline"),
        pytest.param("https://goo%64.com/", id="percent"),
        pytest.param("https:///good.com/", id="three-slashes"),
        pytest.param("https:good.com", id="no-slashes"),
        pytest.param("//good.com/", id="no-scheme"),
        pytest.param("good.com/path", id="bare-with-path"),
        pytest.param("user@good.com", id="bare-with-user"),
        pytest.param("http://2130706433/", id="decimal-address"),
        pytest.param("http://0x7f.0.0.1/", id="hexadecimal-address"),
        pytest.param("http://0177.0.0.1/", id="octal-address"),
        pytest.param("http://127.1/", id="short-address"),
        pytest.param("http://256.1.1.1/", id="no-address"),
        pytest.param("http://[::ffff:127.0.0.1]/", id="mapped-address"),
        pytest.param("http://[::1/", id="bracket-open"),
        pytest.param("https://good.com:99x/", id="odd-port"),
        pytest.param("https://stra\u00dfe.de/", id="idna-standards-differ"),
        pytest.param("https://good.com\u2044evil/", id="fraction-slash"),
        pytest.param("javascript:alert(1)", id="no-host"),
        pytest.param("file:///etc/passwd", id="file"),
        pytest.param("", id="empty"),
        pytest.param("https://" + "a." * 200 + "com", id="too-long"),
        pytest.param(5, id="number"),
    ],
)
def test_disputed_host_is_unknown(url: Any) -> None:
    for condition in ("host(U) == 'good.com'", "host(U) != 'good.com'", "in_domain(U, 'good.com')"):
        assert ask(condition.replace("U", "r.ctx.args.u"), {"u": url}) is None


@pytest.mark.parametrize(
    ("condition", "u", "expected"),
    [
        pytest.param("in_domain(U, 'good.com')", "https://api.good.com/x", True, id="subdomain"),
        pytest.param("in_domain(U, 'good.com')", "https://good.com", True, id="domain"),
        pytest.param("in_domain(U, 'good.com')", "https://evilgood.com/", False, id="same-end"),
        pytest.param("in_domain(U, 'good.com')", "https://good.com.evil.org/", False, id="same-start"),
        pytest.param("in_domain(host(U), 'Good.com')", "https://a.good.com/", True, id="of-host"),
        pytest.param("in_domain(U, r.ctx.principal.attributes.site)", "https://a.example.com/", True, id="dynamic"),
        pytest.param("host(U) == r.ctx.principal.attributes.site", "https://EXAMPLE.com/", True, id="other-side-too"),
        pytest.param("host(U) in ['a.com', 'B.com']", "https://b.com/", True, id="in-hosts"),
        pytest.param("host(U) in ['a.com', 'b.com']", "https://a.com@c.com/", False, id="not-in-hosts"),
        pytest.param("endswith(host(U), '.good.com')", "https://x.good.com", True, id="endswith-dot"),
        pytest.param("scheme(U) == 'https'", "HTTPS://good.com", True, id="scheme"),
        pytest.param("scheme(U) in ['https', 'wss']", "http://good.com", False, id="scheme-other"),
        pytest.param("scheme(U) == 'https'", "good.com", None, id="scheme-missing"),
        pytest.param("startswith(U, 'https://good.com/')", "https://good.com/x", True, id="startswith-with-slash"),
    ],
)
def test_urls(condition: str, u: Any, expected: bool | None) -> None:
    assert ask(condition.replace("U", "r.ctx.args.u"), {"u": u}) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param("r.ctx.principal.attributes.team == 'ops'", True, id="attribute"),
        pytest.param("r.ctx.principal.attributes.team == 'dev'", False, id="attribute-other"),
        pytest.param("r.ctx.principal.attributes.nope == 'dev'", None, id="attribute-missing"),
        pytest.param("r.ctx.principal.attributes.level >= 3", True, id="number"),
        pytest.param("r.ctx.principal.attributes.vip", True, id="flag"),
        pytest.param("'b' in r.ctx.principal.attributes.groups", True, id="list"),
        pytest.param("'z' in r.ctx.principal.attributes.mixed", None, id="list-mixed"),
        pytest.param("r.ctx.principal.attributes.nested.deep.er == 'x'", True, id="nested"),
        pytest.param("r.ctx.principal.attributes.team.deep == 'x'", None, id="nested-in-a-text"),
        pytest.param("r.ctx.principal.user_id == 'ann'", True, id="user"),
        pytest.param("r.ctx.principal.role in ['editor', 'admin']", True, id="role"),
        pytest.param("r.ctx.principal.oauth_id == 'x'", None, id="no-oauth"),
        pytest.param("not r.ctx.principal.is_internal", True, id="internal"),
        pytest.param("r.ctx.args.owner == r.ctx.principal.user_id", True, id="own-things"),
        pytest.param("r.ctx.args.other == r.ctx.principal.user_id", False, id="things-of-others"),
        pytest.param("r.ctx.args.none == r.ctx.principal.oauth_id", None, id="two-missing-are-not-equal"),
        pytest.param("r.ctx.thread_id == 't1'", True, id="thread"),
        pytest.param("r.ctx.is_subagent", False, id="subagent"),
        pytest.param("r.ctx.run_id == 'r'", None, id="id-missing"),
        pytest.param("r.ctx.args.from == 'x'", True, id="keyword-as-a-name"),
        pytest.param("r.ctx.args['odd name'] == 1", True, id="odd-name"),
        pytest.param("r.ctx.args.a.b['c d'].e == 1", True, id="nested-argument"),
        pytest.param("r.ctx.args.a.b.nope.e == 1", None, id="nested-missing"),
        pytest.param("r.ctx.args['caf\\u00e9'] == 1", True, id="name-by-escape"),
        pytest.param("r.ctx.args.owner == 'ann' && (r.ctx.args.n > 1 || !r.ctx.is_subagent)", True, id="casbin-style"),
    ],
)
def test_names(condition: str, expected: bool | None) -> None:
    args = {
        "owner": "ann",
        "other": "bob",
        "from": "x",
        "odd name": 1,
        "a": {"b": {"c d": {"e": 1}}},
        "caf\u00e9": 1,
        "n": 1,
    }
    assert ask(condition, args, thread_id="t1", is_subagent=False) is expected


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(None, id="no-args"),
        pytest.param([], id="list"),
        pytest.param("x", id="text"),
        pytest.param({}, id="empty"),
        pytest.param({"X": 1}, id="other-case"),
        pytest.param({"x ": 1}, id="trailing-blank"),
        pytest.param({"y": "x == 1"}, id="planted-in-another-field"),
        pytest.param({"x": None}, id="null"),
        pytest.param(defaultdict(lambda: 1), id="invents-values"),
    ],
)
@pytest.mark.parametrize("condition", ["r.ctx.args.x == 1", "r.ctx.args.x != 1", "not r.ctx.args.x <= 1"])
def test_missing_argument_is_unknown(condition: str, args: Any) -> None:
    before = repr(args)
    assert ask(condition, args) is None
    assert repr(args) == before


def test_safe_phrase_in_another_field_does_not_help() -> None:
    condition = "r.ctx.args.command == 'ls' and has(r.ctx.args.note)"
    assert ask(condition, {"command": "rm -rf /", "note": "ls"}) is False
    assert ask(condition, {"cmd": "ls", "note": "command == 'ls'"}) is None


KLEENE = {"T": "r.ctx.args.t", "F": "r.ctx.args.f", "U": "r.ctx.args.u"}


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("T and T", True), ("T and F", False), ("F and T", False), ("T and U", None), ("U and T", None),
        ("F and U", False), ("U and F", False), ("U and U", None), ("F and F", False),
        ("T or T", True), ("T or F", True), ("F or T", True), ("T or U", True), ("U or T", True),
        ("F or U", None), ("U or F", None), ("U or U", None), ("F or F", False),
        ("not T", False), ("not F", True), ("not U", None), ("not not U", None),
        ("T and T and U", None), ("T and U and F", False), ("U or F or T", True),
        ("T or F and F", True), ("(T or F) and F", False), ("not (U and F)", True), ("not (U or F)", None),
    ],
)  # fmt: skip
def test_kleene(formula: str, expected: bool | None) -> None:
    condition = "".join(KLEENE.get(char, char) for char in formula)
    assert ask(condition, {"t": True, "f": False}) is expected


@pytest.mark.parametrize(
    ("condition", "message", "column"),
    [
        ("", "is empty; leave the column empty", 1),
        ("   ", "is empty", 1),
        ("r.ctx.args.x = 1", "'=' is not part of the condition language; write == to compare", 14),
        ("r.ctx.args.x & r.ctx.args.y", "'&' is not part of the condition language; write and", 14),
        ("r.ctx.arg.x == 1", "'r.ctx.arg.x' is not known; did you mean 'r.ctx.args.NAME'?", 1),
        ("r.ctx.args == 1", "'r.ctx.args' is not known", 1),
        ("r.ctx.principal.team == 1", "'r.ctx.principal.team' is not known", 1),
        ("r.ctx.treadh_id == 'x'", "did you mean 'r.ctx.thread_id'?", 1),
        ("args.x == 1", "did you mean r.ctx.args?", 1),
        ("ctx.args.x == 1", "did you mean r.ctx?", 1),
        ("r.sub == 'x'", "a condition reads r.ctx only", 1),
        ("p.sub == 'x'", "a condition reads r.ctx only", 1),
        ("amount < 5", "names begin with r.ctx", 1),
        ("lambda: True", "'lambda' is not part", 1),
        ("[x for x in y]", "'for' is not part", 4),
        ("True if r.ctx.args.x else False", "'if' is not part", 6),
        ("r.ctx.args.x is True", "'is' is not part of the condition language; write == or !=", 14),
        ("r.ctx.args.x.startswith('a')", "write startswith(NAME, …)", 1),
        ("__import__('os')", "unknown function '__import__'", 1),
        ("undr(r.ctx.args.x, '/a')", "unknown function 'undr'; did you mean 'under'?", 1),
        ("under(r.ctx.args.x)", "under(…) takes 2 arguments", 1),
        ("under(r.ctx.args.x, folder)", "names begin with r.ctx", 21),
        ("has(r.ctx.args.x, r.ctx.args.y)", "has(…) takes 1 argument", 1),
        ("has('x')", "has(…) asks about a name", 5),
        ("r.ctx.args.__class__ == 1", "'__class__' is reserved by Python", 12),
        ("r.ctx.args.x == 'a' 'b'", "two strings stand side by side", 21),
        ("r.ctx.args.x in ['a' 'b']", "two strings stand side by side", 22),
        ("r.ctx.args.x == f'a'", "the string prefix 'f' is not known", 17),
        ("r.ctx.args.x == 'a", "a string is not closed", 17),
        ("r.ctx.args.x == 'a\\d'", "the escape '\\\\d' is not known; write \\\\ for a backslash", 19),
        ("r.ctx.args.x == 007", "'007' is no plain decimal number", 17),
        ("r.ctx.args.x == 0x1F", "'0x1F' is no plain decimal number", 17),
        ("r.ctx.args.x == 1_000", "'1_000' is no plain decimal number", 17),
        ("r.ctx.args.x == 1e999", "the number 1e999 is too large", 17),
        ("r.ctx.args.x == None", "nothing is ever equal to None", 17),
        ("r.ctx.args.x # always", "'#' is not part of the condition language; a condition holds no comment", 14),
        ("r.ctx.args.x == 1; r.ctx.args.y == 1", "';' is not part", 18),
        ("r.ctx.args.x == 1 or", "cannot be read (", None),
        ("(r.ctx.args.x == 1", "a bracket is not closed", 19),
        ("r.ctx.args.x == 1) or (True", "')' closes nothing", 18),
        ("r.ctx.args.x == {'a': 1}", "'{' is not part", 17),
        ("r.ctx.args[0] == 1", "brackets hold the name of an argument", 12),
        ("r.ctx.args[r.ctx.args.y] == 1", "brackets hold the name of an argument", 12),
        ("r.ctx.args.x + 1 == 2", "conditions do not calculate", 1),
        ("r.ctx.args.x * 2 == 2", "'*' is not part", 14),
        ("r.ctx.args.x == ['a']", "a list can only stand to the right of in", 17),
        ("r.ctx.args.x in []", "the list is empty", 17),
        ("r.ctx.args.x in ['a', 1]", "the list mixes texts, numbers and truth values", 17),
        ("r.ctx.args.x in [1, True]", "the list mixes", 17),
        ("r.ctx.args.x in ['/a', 'b']", "the list mixes paths and other texts", 17),
        ("r.ctx.args.x in [r.ctx.args.y]", "a list holds fixed values only", 18),
        ("r.ctx.args.x in 'abc'", "is no list; contains(x, 'part') looks inside a text", 17),
        ("'a' in ['a', 'b']", "looks for a fixed value in a fixed list", 1),
        ("1 == 1", "compares two fixed values", 1),
        ("len(r.ctx.args.x)", "is a value, not a condition; compare it", 1),
        ("len(r.ctx.args.x) == 'a'", "compares a number with a text", 22),
        ("'a'", "is no condition", 1),
        ("r.ctx.args.x == 1 or 2", "'2' is no condition", 22),
        ("has(r.ctx.args.x) == True", "is a condition already", 1),
        ("lower(r.ctx.args.x) == 'Drop'", "never give 'Drop'; write 'drop'", 24),
        ("startswith(lower(r.ctx.args.x), 'Drop')", "never give 'Drop'", 33),
        ("lower('A') == r.ctx.args.x", "of a fixed value", 1),
        ("path(r.ctx.args.x) < '/b'", "have no order", 1),
        ("r.ctx.args.x < True", "have no order", 16),
        ("path(r.ctx.args.x) == '../a'", "'../a' is no unambiguous path", 23),
        ("host(r.ctx.args.x) == 'https://a.com'", "is no unambiguous host", 23),
        ("path(r.ctx.args.x) == host(r.ctx.args.y)", "compares a path with a host", 23),
        ("in_domain(r.ctx.args.x, '*.a.com')", "write 'a.com', subdomains are included", 25),
        ("startswith(r.ctx.args.x, 'https://a.com')", "is the start of other hosts, too", 26),
        ("startswith(r.ctx.args.x, '')", "the empty text is part of everything", 26),
        ("endswith(host(r.ctx.args.x), 'a.com')", "other hosts end with 'a.com', too; write in_domain", 30),
        ("contains(host(r.ctx.args.x), 'a.com')", "write in_domain", 10),
        ("glob(r.ctx.args.x, r.ctx.args.y)", "a pattern must be written out", 20),
        ("glob(r.ctx.args.x, '[ab]')", "patterns know *, ** and ?, not '['", 20),
        ("glob(r.ctx.args.x, 'a**b')", "** must stand alone between slashes", 20),
        ("under(r.ctx.args.x, 5)", "'5' is no text", 21),
        ("under('/a', '/b')", "tests a fixed value", 7),
        ("under(len(r.ctx.args.x), '/b')", "is a number, not a text", 7),
        ("r.ctx.args.\u00e9 == 1", "is not plain ASCII", 12),
        ("r.ctx.args.x == '\u00e9\u4e2d' and r.ctx.argz.y == 1", "'r.ctx.argz.y' is not known", 26),
        ("r.ctx.args.x && r.ctx.argz.y", "'r.ctx.argz.y' is not known", 17),
        ("!r.ctx.args.x || !r.ctx.argz.y", "'r.ctx.argz.y' is not known", 19),
        ("(" * 17 + "True" + ")" * 17, "is nested deeper than 16", 17),
        ("not " * 100 + "True", "is nested too deeply", None),
        ("r.ctx.args." + "a." * 20 + "b", "levels deep", 1),
        ("r.ctx.args.x in [" + "1," * 1500 + "1]", "has more than 2048 parts", None),
        ("'" + "a" * MAX_CHARACTERS + "' == r.ctx.args.x", "is longer than 8192 characters", 1),
    ],
)  # fmt: skip
def test_refused_at_load(condition: str, message: str, column: int | None) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(condition)
    error = caught.value
    assert isinstance(error, ValueError)
    assert all(part in str(error) for part in message.split("; "))
    if column is not None:
        assert error.offset == column - 1
    assert f"at column {error.offset + 1}" in str(error)


@given(st.text(max_size=40) | st.text(alphabet="r.ctxargs&|!='\"()[] <>0123e,notin\\", max_size=40))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    offset = 0
    try:
        compile_condition(text)
    except ConditionError as error:
        offset = error.offset
    assert 0 <= offset <= len(text)


def test_every_function_is_tested_above() -> None:
    assert set(FUNCTIONS) == {
        "contains", "endswith", "glob", "has", "host", "in_domain", "len", "lower", "path", "scheme", "startswith",
        "text", "trim", "under",
    }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["/etc", "a.com"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
LEAVES = [
    "r.ctx.args.x == 1", "r.ctx.args.x != 'a'", "r.ctx.args.y < 3", "r.ctx.args.y >= 'k'", "r.ctx.args.x.y == True",
    "r.ctx.args.x in ['a', '/etc']", "r.ctx.args.y not in [1, 2]", "'a' in r.ctx.args.x", "r.ctx.args.x == r.ctx.args.y",
    "under(r.ctx.args.x, '/etc')", "in_domain(r.ctx.args.x, 'a.com')", "glob(r.ctx.args.y, '/e*/**')",
    "startswith(r.ctx.args.x, 'a')", "contains(lower(r.ctx.args.y), 'k')", "len(r.ctx.args.x) > 1", "r.ctx.args.y",
    "scheme(r.ctx.args.x) == 'https'", "trim(r.ctx.args.x) == 'a'", "1 < r.ctx.args.x < r.ctx.args.y",
    "r.ctx.principal.attributes.x == r.ctx.args.x",
]  # fmt: skip
LEAVES = [leaf.replace("'a', '/etc'", "'a', 'etc'") for leaf in LEAVES]
FORMULAS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=5,
)


@given(FORMULAS, st.dictionaries(st.sampled_from("xy"), JSON), st.dictionaries(st.sampled_from("xy"), JSON))
def test_knowing_less_never_changes_an_answer(formula: str, args: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Taking values away may turn an answer into unknown, never into the other answer, and never raises."""
    principal = Principal("ann", "editor", attributes=attributes)
    full = ask(formula, args, principal)
    assert full in (True, False, None)
    for gone in args:
        less = ask(formula, {name: value for name, value in args.items() if name != gone}, principal)
        assert less is None or less is full
    assert ask(formula, None, Principal("ann", "editor")) is None


@given(FORMULAS, st.dictionaries(st.sampled_from("xy"), JSON), st.dictionaries(st.sampled_from("xy"), JSON))
def test_outcomes_hold_every_answer(formula: str, args: dict[str, Any], attributes: dict[str, Any]) -> None:
    principal = Principal("ann", "editor", attributes=attributes)
    condition = compile_condition(formula)
    assert ask(formula, args, principal) in condition.outcomes(principal)
    certain = condition.of_principal(principal)
    if certain is True:
        assert ask(formula, args, principal) is not False
    if certain is False and condition.reads_args:
        assert ask(formula, args, principal) is not True


TEAM, LEVEL = "r.ctx.principal.attributes.team == 'ops'", "r.ctx.principal.attributes.nope > 3"
ARG = "r.ctx.args.x < 5"


@pytest.mark.parametrize(
    ("condition", "reads_args", "outcomes", "certain"),
    [
        pytest.param(TEAM, False, {True}, True, id="principal-holds"),
        pytest.param(f"not {TEAM}", False, {False}, False, id="principal-fails"),
        pytest.param(LEVEL, False, {None}, None, id="attribute-missing"),
        pytest.param(ARG, True, {True, False, None}, None, id="argument"),
        pytest.param("r.ctx.thread_id == 'x'", True, {True, False, None}, None, id="id-of-the-call"),
        pytest.param("has(r.ctx.args.x)", True, {True, False, None}, None, id="presence-is-not-decided-early"),
        pytest.param(f"{TEAM} and {ARG}", True, {True, False, None}, None, id="arguments-decide"),
        pytest.param(f"not {TEAM} and {ARG}", True, {False}, False, id="principal-decides-and"),
        pytest.param(f"{TEAM} or {ARG}", True, {True}, True, id="principal-decides-or"),
        pytest.param(f"{LEVEL} and {ARG}", True, {None, False}, False, id="cannot-hold"),
        pytest.param(f"{LEVEL} or {ARG}", True, {None, True}, True, id="cannot-fail"),
        pytest.param(f"not ({LEVEL} and {ARG})", True, {None, True}, True, id="negated"),
    ],
)
def test_what_the_principal_alone_decides(
    condition: str, reads_args: bool, outcomes: set[bool | None], certain: bool | None
) -> None:
    compiled = compile_condition(condition)
    assert compiled.reads_args is reads_args
    assert compiled.outcomes(ANN) == outcomes
    assert compiled.of_principal(ANN) is certain


def test_names_and_values_for_the_record() -> None:
    condition = compile_condition(
        "r.ctx.args['odd name'] > 3 and path(r.ctx.args.file) == '/a' or r.ctx.principal.attributes.team == 'x'"
    )
    assert condition.reads == ("args.file", "args['odd name']", "principal.attributes.team")
    request = AuthzRequest(ANN, "tool", "call", "t", {"args": {"odd name": "7"}})
    assert condition.values(request) == {"args['odd name']": "7", "principal.attributes.team": "ops"}
    assert condition.describe(request) == (
        "args.file is missing, args['odd name'] is '7' (str), principal.attributes.team is 'ops' (str)"
    )


def test_equal_texts_share_one_condition() -> None:
    text = "r.ctx.args.shared == 1"
    assert compile_condition(text) is compile_condition(text)
    assert repr(compile_condition(text)) == f"compile_condition({text!r})"


def test_hostile_mapping_is_unknown() -> None:
    class Bomb(dict[str, Any]):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("boom")

        def __missing__(self, key: str) -> int:
            return 1

    assert ask("r.ctx.args.x == 1", Bomb()) is None
    assert ask("r.ctx.args.x.y == 1", {"x": Bomb()}) is None


@pytest.mark.parametrize("value", ["a/" * 2000, "a" * 4000, "/" * 4000, "ab" * 2000])
@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*b", "**/a*/**/a*/**/*b", "a*/**/a*/**/a*/**/c", "?*?*?*?*z"])
def test_glob_of_many_stars_is_not_slow(pattern: str, value: str) -> None:
    assert Glob(pattern).match(value) is Glob(pattern)._machine.match(value)  # type: ignore[union-attr]


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "?", "**/", "/**", "."]), min_size=1, max_size=7).map("".join),
    st.text(alphabet="ab/.", max_size=9),
)
def test_both_glob_matchers_agree(pattern: str, value: str) -> None:
    try:
        glob = Glob(pattern)
    except ValueError:
        return
    if glob._machine is not None:
        assert glob._machine.match(value) is (glob._regex(value) is not None)


@given(st.text(alphabet="ab./", min_size=1, max_size=12), st.sampled_from(["/a", "/", "/a/b", "a"]))
def test_under_agrees_with_the_standard_library(path: str, folder: str) -> None:
    import posixpath

    answer = ask(f"under(r.ctx.args.x, {folder!r})", {"x": path})
    if answer is not None:
        clean = posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else posixpath.normpath(path)
        assert answer is (clean == folder or clean.startswith(folder.rstrip("/") + "/"))
