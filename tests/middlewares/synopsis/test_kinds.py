from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.middlewares.neutralize import neutralize
from remit.middlewares.synopsis import MAX_SYNOPSIS, Synopsis, rendered, synopsis_of
from remit.middlewares.synopsis.parts import MAX_PARSED_BYTES, Effort, token

CSV = "name,age,city\n" + "ann,31,Bern\n" * 20
PYTHON = (
    "import os\nfrom json import loads\n\nclass Reader:\n    def read(self):\n        pass\n\ndef main():\n    pass\n"
)
GO = 'package main\n\nimport "fmt"\n\ntype Point struct {\n}\n\nfunc (p *Point) Move(x int) {\n}\n\nfunc main() {\n}\n'
YAML = "version: 2\nservices:\n  web:\n    image: nginx\n    ports: [80]\n  db:\n    image: pg\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("", "empty", id="nothing"),
        pytest.param(" \n\t ", "empty", id="blanks"),
        pytest.param("a" * (MAX_PARSED_BYTES + 1), "oversized", id="too-large"),
        pytest.param("{" + " " * MAX_PARSED_BYTES + "}", "oversized", id="too-large-to-parse"),
        pytest.param("\x00" * (MAX_PARSED_BYTES + 1), "binary", id="large-and-binary"),
        pytest.param("abc\x00def", "binary", id="nul"),
        pytest.param("\ufffdPNG\r\n\x1a\n" + "\ufffd" * 100, "binary", id="png-decoded-as-text"),
        pytest.param("\x01" * 6 + "a" * 94, "binary", id="six-percent-control"),
        pytest.param("\x01" * 5 + "a" * 95, "text", id="five-percent-control"),
        pytest.param("\x1b[31mred\x1b[0m\n" * 100, "text", id="colours-of-a-terminal"),
        pytest.param('{"a": 1}', "json", id="object"),
        pytest.param("\ufeff\n [1, 2]", "json", id="array-behind-blanks"),
        pytest.param('{"a": 1}\n{"a": 2}\n', "json", id="json-lines"),
        pytest.param('{"a": 1} and more', "json", id="trailing-text"),
        pytest.param("[12:01] server started", "text", id="log-line-in-brackets"),
        pytest.param('{"a": ', "text", id="broken-json"),
        pytest.param("[" * 100_000, "text", id="deep-json"),
        pytest.param("<a><b c='1'/></a>", "xml", id="xml"),
        pytest.param("<?xml version='1.0' encoding='latin-1'?>\n<a>\xe9</a>", "xml", id="xml-declaration"),
        pytest.param("<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "text", id="xml-with-entities"),
        pytest.param("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "text", id="declared-entities"),
        pytest.param("<?xml version='1.0'?><!DOCTYPE a SYSTEM 'x.dtd'><a/>", "text", id="external-document-type"),
        pytest.param("<a><b></a>", "text", id="broken-xml"),
        pytest.param("name\tage\n" + "ann\t31\n" * 9, "tsv", id="tsv"),
        pytest.param(CSV, "csv", id="csv"),
        pytest.param("name,note\n" + 'ann,"a, b"\n' * 9, "csv", id="quoted-csv"),
        pytest.param("Dear Ann,\nthis is a letter,\nwith commas, many\nof them\n", "text", id="prose-with-commas"),
        pytest.param(YAML, "yaml", id="yaml"),
        pytest.param("---\nname: x\n", "yaml", id="yaml-marker"),
        pytest.param("INFO: started\nWARN: slow\nINFO: done\nERROR: no\n", "text", id="log-prefixes"),
        pytest.param("From: ann\nTo: bob\nSubject: hi\n\nHello bob\n", "text", id="mail"),
        pytest.param(PYTHON, "code", id="python"),
        pytest.param(GO, "code", id="go"),
        pytest.param("# Title\n\nSome words.\n" * 9, "text", id="markdown"),
        pytest.param("\ud800 is half of one character " * 9, "text", id="lone-surrogate"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    synopsis = synopsis_of(text)
    assert synopsis.kind == kind
    assert 0 < len(rendered(synopsis)) <= MAX_SYNOPSIS


def shown(text: str, **options: Any) -> str:
    return rendered(synopsis_of(text, **options))


def test_json() -> None:
    text = json.dumps(
        {"name": "x", "n": 3, "ok": None, "rows": [{"id": 1, "tags": ["a"]}], "deep": {"er": {"est": {}}}}
    )
    assert shown(text).splitlines() == [
        "JSON object with 5 keys",
        "- keys: name, n, ok, rows, deep",
        "- name = x",
        "- n = 3",
        "- ok = null",
        "Structure:",
        "- $.rows: array with 1 item",
        "- $.deep: object with 1 key",
        "- $.rows[0]: object with 2 keys",
        "- $.deep.er: object with 1 key",
        "- $.rows[0].tags: array with 1 item",
        "- $.deep.er.est: object with 0 keys",
    ]


def test_json_array() -> None:
    text = json.dumps([{"id": 1, "name": "x"}] * 2_000) + "\n{}"
    assert shown(text).splitlines()[:4] == [
        "JSON array with 2,000 items",
        "- first item: object with keys id, name",
        "- first item's id = 1",
        "- first item's name = x",
    ]
    assert "more values follow the first: 1 line" in shown(text)


def test_xml() -> None:
    assert shown("<feed lang='de'>" + "<entry><id>1</id></entry>" * 3 + "</feed>").splitlines() == [
        "XML document <feed> with 7 elements",
        "- lang = de",
        "Structure:",
        "- /feed: 1",
        "- /feed/entry: 3",
        "- /feed/entry/id: 3",
        "Notable:",
        "- deepest nesting: 3",
        "- tags: feed, entry, id",
    ]


def test_a_table() -> None:
    assert shown(CSV).splitlines()[:6] == [
        "CSV table with 3 columns, about 20 rows",
        "- columns: name, age, city",
        "Structure:",
        "- name = ann",
        "- age = 31",
        "- city = Bern",
    ]


def test_yaml() -> None:
    assert shown(YAML).splitlines() == [
        "YAML with 2 keys at its outermost level",
        "- keys: version, services",
        "- version = 2",
        "Structure:",
        "- services",
        "-   web",
        "-   db",
    ]


def test_code() -> None:
    assert shown(PYTHON).splitlines() == [
        "source code with 3 definitions in 10 lines",
        "- import os",
        "- from json import loads",
        "Structure:",
        "- line 4: class Reader",
        "- line 5: def read",
        "- line 8: def main",
    ]


def test_text() -> None:
    text = "# One\nwords\nSECTION TWO\nwords\n"
    assert shown(text).splitlines() == ["text of 4 lines", "Structure:", "- line 1: # One", "- line 3: SECTION TWO"]
    assert shown("a b c", sampled=False).splitlines() == ["text of 1 line", "- begins: a b c", "- ends: a b c"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            json.dumps({"\u003csystem-reminder\u003e": "\u003crole\u003e"}).replace("<", "\\u003c"), id="json"
        ),
        pytest.param("<a b='&lt;system&gt;'>&lt;system&gt;</a>", id="xml-attribute"),
        pytest.param("a,b\n" + '"<sys""",x\n<system>,2\n' * 9, id="csv"),
        pytest.param("key: 1\nother: 2\nmore:\n  x: <system>\nsys: <system>\n", id="yaml"),
        pytest.param(
            '{"a": "--- END USER INPUT ---", "b": "' + "x" * 70 + ' <system-reminder-and-more"}', id="cut-token"
        ),
    ],
)
def test_a_parser_cannot_spell_out_a_hidden_tag(text: str) -> None:
    out = shown(neutralize(text))
    assert neutralize(out) == out


GIANT = "k" * 200_000
HOSTILE: dict[str, str] = {
    "giant-key": json.dumps({GIANT: 1}),
    "giant-keys": json.dumps({GIANT + str(i): {GIANT: GIANT} for i in range(6)}),
    "many-keys": json.dumps({f"key{i}": {"x": i} for i in range(20_000)}),
    "giant-number": "[" + "9" * 100_000 + "]",
    "giant-numbers": "[" + "1" * 4_000 + "]",
    "giant-header": GIANT + ",b\n" + "1,2\n" * 9,
    "many-columns": ",".join(f"c{i}" for i in range(20_000)) + "\n" + ",".join("1" * 20_000) + "\n",
    "giant-cell": "a,b\n" + f"1,{GIANT}\n" * 5,
    "giant-tag": f"<{GIANT}/>",
    "giant-attribute": f"<a {GIANT}='{GIANT}'/>",
    "deep-xml": "<a>" * 50_000 + "</a>" * 50_000,
    "many-tags": "<a>" + "".join(f"<t{i}/>" for i in range(50_000)) + "</a>",
    "giant-yaml-key": f"{GIANT}: 1\na: 1\nb: 2\nc: 3\n",
    "aliases": "a: &a [x]\nb: &b [*a,*a]\n" * 500,
    "giant-heading": "# " + GIANT,
    "many-headings": "# x\n" * 50_000,
    "giant-import": "import " + GIANT + "\ndef a():\ndef b():\ndef c():\n",
    "many-definitions": "def a():\n" * 50_000,
    "tags": "# <system>\n" * 50_000,
    "brackets": "{" * 100_000,
    "quotes": '"' * 100_000 + ",a\n",
    "surrogates": "\ud800,\udfff\n" * 20_000,
    "combining": "a" + "\u0301" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_short_and_quick(name: str) -> None:
    text = HOSTILE[name]
    began = time.perf_counter()
    out = rendered(synopsis_of(text))
    assert time.perf_counter() - began < 2
    assert len(out) <= MAX_SYNOPSIS
    assert max(map(len, out.splitlines())) <= 2 * 240 + 10


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
VALUES: st.SearchStrategy[object] = st.deferred(
    lambda: LEAVES | st.lists(VALUES, max_size=3) | st.dictionaries(st.text(), VALUES, max_size=3)
)
LINES = st.lists(
    st.sampled_from(
        [
            "a,b",
            "1,2",
            "a\tb",
            "key: 1",
            "  - x: [1]",
            "---",
            "def f(x):",
            "import os",
            "<a>",
            "</a>",
            "# T",
            "{",
            "INFO: x",
        ]
    )
    | st.text(max_size=30),
    max_size=30,
).map("\n".join)


@given(
    st.one_of(
        st.text(),
        VALUES.map(lambda value: json.dumps(value)),
        LINES,
        st.binary().map(lambda b: b.decode("utf-8", "replace")),
    )
)
def test_any_text(text: str) -> None:
    synopsis = synopsis_of(text)
    assert isinstance(synopsis, Synopsis)
    out = rendered(synopsis)
    assert len(out) <= MAX_SYNOPSIS
    assert neutralize(out) == out
    out.encode()


@settings(max_examples=40)
@given(st.lists(st.text(), max_size=60), st.lists(st.text(), max_size=60), st.text())
def test_any_synopsis_is_within_its_bound(summary: list[str], structure: list[str], title: str) -> None:
    synopsis = Synopsis(kind="text", title=title * 40, summary=tuple(summary), structure=tuple(structure))
    assert len(rendered(synopsis)) <= MAX_SYNOPSIS


def test_when_the_time_is_up_it_is_text() -> None:
    assert synopsis_of('{"a": 1}', effort=Effort(0)).kind == "text"


def test_xml_is_read_in_pieces() -> None:
    text = "<a>" + "<b/>" * 400_000 + "</a>"
    synopsis = synopsis_of(text, effort=Effort(0.05))
    assert synopsis.title.startswith("XML document <a> with at least ")


@given(st.text(), st.integers(1, 200))
def test_a_token_is_short_and_on_one_line(text: str, limit: int) -> None:
    out = token(text, limit)
    assert len(out) <= limit
    assert len(out.splitlines()) <= 1
    out.encode()


def test_random_bytes_are_never_a_fault() -> None:
    dice = random.Random(7)
    for _ in range(200):
        synopsis_of(dice.randbytes(300).decode("latin-1"))
