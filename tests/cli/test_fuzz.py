"""Damaged files and arbitrary arguments: the command line always ends with one of its exit codes and a message."""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.cli import main
from remit.cli.starter import starter_files

STARTER = starter_files()
BITS = st.one_of(
    st.sampled_from(
        ["", "\n", " ", "\t", ":", ",", "'", '"', "[", "]", "{", "}", "#", "*", "&a ", "!!x ", "|", "null", "yes", "0"]
    ),
    st.sampled_from(["\\", "\x00", "\ufeff", "\u200b", "\ud800", "p, ", "g, ", "m = ", "role:", "&&", "(", ")", "%"]),
    st.text(max_size=6),
)
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 12), BITS)
NAME = st.sampled_from(sorted(STARTER))
LIMITS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ended(*argv: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(argv)
    text = out.getvalue() + err.getvalue()
    assert "internal error" not in text, text
    assert "Traceback" not in text, text
    assert text
    if code == 2:
        assert err.getvalue()
        assert not out.getvalue()
    return code, text


@LIMITS
@given(name=NAME, edits=st.lists(EDIT, min_size=1, max_size=3))
def test_damaged_starter(tmp_path: Path, name: str, edits: list[tuple[float, int, str]]) -> None:
    folder = tmp_path / "p"
    shutil.rmtree(folder, ignore_errors=True)
    for file, text in STARTER.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        for at, length, bit in edits if file == name else ():
            start = int(at * len(text))
            text = text[:start] + bit + text[start + length :]
        (folder / file).write_bytes(text.encode("utf-8", "surrogatepass"))
    linted, _ = ended("lint", str(folder), "--errors-only")
    tested, _ = ended("test", str(folder))
    assert linted in (0, 1)
    assert tested in (0, 1, 2)
    if linted == 0:
        assert tested in (0, 1)
    if tested == 2:
        assert linted == 1
    if name not in ("catalog.yaml",) and not name.startswith("tests/"):
        checked, _ = ended("check", "-p", str(folder), "tool:call:bash")
        assert (checked == 2) == (tested == 2)


WORDS = st.one_of(
    st.sampled_from(
        ["check", "explain", "lint", "test", "schema", "export", "--role", "--arg", "-p", "--format", "--"]
    ),
    st.sampled_from(
        ["json", "guest", "tool:call:bash", "a=1", "a=[", "a={}", "--user", "--attribute", "=", "::", "-h"]
    ),
    st.text(st.characters(exclude_characters="\x00"), max_size=8),
)


@LIMITS
@given(argv=st.lists(WORDS, max_size=6))
def test_arbitrary_arguments(tmp_path_factory: pytest.TempPathFactory, argv: list[str]) -> None:
    if any(word.startswith("--in") or word.startswith("--sh") for word in argv):
        return  # shell completion writes into the home folder
    code, _ = ended(*argv)
    assert code in (0, 1, 2, 3, 4)
