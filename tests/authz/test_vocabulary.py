from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from remit.authz.vocabulary import (
    RESOURCES,
    VISIBILITY,
    canonical,
    flaw,
    look_alike,
    skeleton,
    unsafe_target,
    visibility_action,
)

# Unicode 15, property Default_Ignorable_Code_Point, by hand: characters that render as nothing.
IGNORABLE = [
    0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010),
    *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000),
]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["a", "bash", "mcp__files__read", "a b", "threads:read", "a/b", "*", "caf\u00e9", "\u7ba1\u7406\u5458", "\u0434\u0430",
     "\U0001f600", "a-b_c.d", "\u00df", "\u0130", "x" * 10_000, "\u0e01\u0e33"],
)  # fmt: skip
def test_clean(name: str) -> None:
    assert flaw(name) is None
    assert canonical(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is empty"),
        (" ", "has white space around it"),
        (" a", "has white space around it"),
        ("a ", "has white space around it"),
        ("a\n", "holds the control character U+000A"),
        ("\ta", "holds the control character U+0009"),
        ("a\x00b", "holds the control character U+0000"),
        ("a\x7fb", "holds the control character U+007F"),
        ("a\x1cb", "holds the control character U+001C"),
        ("\u00a0a", "has white space around it"),
        ("a\u3000", "has white space around it"),
        ("a\u00a0b", "holds the invisible character U+00A0 NO-BREAK SPACE"),
        ("a\u2028b", "holds the invisible character U+2028 LINE SEPARATOR"),
        ("a\u200bb", "holds the invisible character U+200B ZERO WIDTH SPACE"),
        ("a\u00adb", "holds the invisible character U+00AD SOFT HYPHEN"),
        ("\u202ea", "holds the invisible character U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("\ufeffa", "holds the invisible character U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("a\x85b", "holds the invisible character U+0085"),
        ("a\ud800", "holds the invisible character U+D800"),
        ("a\ue000", "holds the invisible character U+E000"),
        ("a\u3164b", "holds the invisible character U+3164 HANGUL FILLER"),
        ("a\u2800b", "holds the invisible character U+2800 BRAILLE PATTERN BLANK"),
        ("a\U000e0101", "holds the invisible character U+E0101 VARIATION SELECTOR-18"),
        ("a\U000e0041", "holds the invisible character U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("cafe\u0301", "is not in Unicode normal form C"),
        ("\u212b", "is not in Unicode normal form C"),
        ("\uac00\u11a8", "is not in Unicode normal form C"),
    ],
)
def test_unclean(name: str, why: str) -> None:
    reason = flaw(name)
    assert reason is not None
    assert reason.startswith(why)


def test_every_character_that_renders_as_nothing_is_a_flaw() -> None:
    assert [hex(point) for point in IGNORABLE if flaw(f"a{chr(point)}b") is None] == []


@given(st.text())
@example("\u0958")  # excluded from composition: its NFC is two characters
@example("a\u0323\u0307")
@example("\x1f")
@example("\u2003a")
def test_clean_means_its_own_canonical_form(name: str) -> None:
    if flaw(name) is None:
        assert name
        assert name == name.strip() == unicodedata.normalize("NFC", name) == canonical(name)
        assert all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for char in name)
        assert all(char == " " or not char.isspace() for char in name)
    else:
        unclean = (
            not name
            or name != canonical(name)
            or not name.isprintable()
            or any(ord(char) in IGNORABLE or char in "\u2800\U0001d159" for char in name)
        )
        assert unclean, f"{name!r} was refused: {flaw(name)}"


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_printable_ascii_without_blanks_is_clean(name: str) -> None:
    assert flaw(name) is None
    assert skeleton(name) == name


@given(st.text())
def test_canonical_is_stable(name: str) -> None:
    assert canonical(canonical(name)) == canonical(name)


@given(st.text(min_size=1, max_size=5), st.sampled_from(["\u200b", "\ufeff", "\u202e", "\x00", "\u00ad", "\ufe0f"]))
def test_no_neighbour_hides_an_invisible_character(around: str, invisible: str) -> None:
    for name in (invisible + around, around + invisible, around + invisible + around):
        assert flaw(name) is not None


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("b\u0430sh", "bash"),  # Cyrillic a
        ("s\u0435arch", "search"),  # Cyrillic e
        ("dr\u03bfp_table", "drop_table"),  # Greek omicron
        ("\uff42\uff41\uff53\uff48", "bash"),  # full width
        ("\U0001d41b\U0001d41a\U0001d42c\U0001d421", "bash"),  # mathematical bold
        ("\u0455\u0435\u0430r\u0441h", "search"),  # nearly all Cyrillic
        ("wr\u0456te", "write"),  # Ukrainian i
        ("adm\u0131n", "admin"),  # dotless i
        ("r\u2170ght", "right"),  # Roman numeral one
        ("Bash", "Bash"),
        ("\u7ba1\u7406", "\u7ba1\u7406"),
    ],
)
def test_skeleton(name: str, looks: str) -> None:
    assert skeleton(name) == looks


@pytest.mark.parametrize(
    ("name", "known", "twin"),
    [
        ("b\u0430sh", ["search", "bash"], "bash"),
        ("b\u0430sh", ["search"], None),
        ("bash", ["bash"], None),
        ("Bash", ["bash"], None),
        ("caf\u00e9", ["cafe"], None),
        ("caf\u00e9", ["caf\u00e9"], None),
        ("\u0441\u0430t", ["c\u0430t", "dog"], "c\u0430t"),
        ("b\u0430sh", [], None),
    ],
)
def test_look_alike(name: str, known: list[str], twin: str | None) -> None:
    assert look_alike(name, known) == twin


@settings(deadline=None)  # the first look loads the table
@given(st.text(max_size=20))
def test_skeleton_never_fails_and_is_stable_for_ascii(name: str) -> None:
    once = skeleton(name)
    if once.isascii():
        assert skeleton(once) == once
    assert look_alike(name, [name]) is None


@pytest.mark.parametrize(
    ("target", "safe"),
    [
        ("search", True),
        ("a/b/c", True),
        ("..hidden", True),
        ("a..b", True),
        ("a/..b/c", True),
        ("...", True),
        ("..", False),
        ("../a", False),
        ("a/..", False),
        ("a/../b", False),
        ("a\\..\\b", False),
        ("/files/../admin", False),
        ("a\n", False),
        ("a\u200b", False),
        ("", False),
        (" a", False),
        ("cafe\u0301", False),
    ],
)
def test_unsafe_target(target: str, safe: bool) -> None:
    assert (unsafe_target(target) is None) is safe


@pytest.mark.parametrize(
    ("resource", "candidate", "action"),
    [
        ("tool", "bash", "call"),
        ("tool", "a:b", "call"),
        ("model", "small", "list"),
        ("skill", "s", "read"),
        ("mcp_server", "github", "use"),
        ("subagent", "x", "delegate"),
        ("memory", "global", "read"),
        ("sandbox", "*", "execute"),
        ("command", "rm-root", "execute"),
        ("route", "threads:read", "read"),
        ("route", "a:b:create", "create"),
        ("route", "bare", "bare"),
        ("route", "threads:", "threads:"),
        ("vehicle", "car", "use"),
    ],
)
def test_visibility_action(resource: str, candidate: str, action: str) -> None:
    assert visibility_action(resource, candidate) == action


def test_every_visibility_action_is_an_action_of_its_resource() -> None:
    assert set(VISIBILITY) == set(RESOURCES) - {"route"}
    assert {resource: action for resource, action in VISIBILITY.items() if action not in RESOURCES[resource]} == {}


def test_the_vocabulary_cannot_be_changed() -> None:
    for table in (RESOURCES, VISIBILITY):
        with pytest.raises(TypeError):
            table["galaxy"] = ("call",)  # type: ignore[index]
