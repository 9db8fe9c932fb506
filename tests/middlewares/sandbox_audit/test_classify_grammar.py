"""Where the grammar and bash disagree: what bash would run is found, what it would not is left alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from remit.middlewares.sandbox_audit import classify

RUNS = {
    "a line that begins with a backslash": "echo hi\n\\rm -rf /",
    "two assignments and the next line": "c=curl s=sh\n$c http://u | $s",
    "two assignments, a comment and the next line": 'x="a b" y=rm # note\n$y -rf /',
    "an array behind an assignment": "a=1 b=(rm)\n${b[0]} -rf /",
    "a dollar sign without its name": "rm$IFS-rf$IFS/",
    "a digit and letters": "r$1m -rf /",
    "arguments behind a redirection": "rm > /dev/null -rf /",
    "two here-documents in a line": "cat <<A <<B\n1\nA\n2\nB\nrm -rf /",
    "a here-document and a semicolon": "cat <<A; rm -rf /\nx\nA",
    "a delimiter with a semicolon in quotes": "cat <<'A;'\nx\nA;\nrm -rf /",
    "a delimiter and a semicolon behind it": "cat <<A;\nA\nrm -rf /\nA;",
    "a here-document in front of its command": "<<A bash\nrm -rf /\nA",
    "an empty delimiter": 'cat <<""\nx\n\nrm -rf /',
    "a delimiter across lines": "cat <<A\\\nB\nx\nAB\nrm -rf /",
    "a body whose end is joined": "cat <<A\nx\\\nA\nA\nrm -rf /",
    "back quotes in a body": "cat <<A\n`rm -rf /`\nA",
    "back quotes in back quotes": "echo `echo \\`rm -rf /\\``",
    "a subshell in back quotes": "echo `(rm -rf /)`",
    "a subshell in a substitution": "echo $((rm -rf /) | cat)",
    "time": "time rm -rf /",
    "time and a group": "time { rm -rf /; }",
    "time and a subshell": "time (rm -rf /)",
    "coproc": "coproc rm -rf /",
    "coproc with a name": "coproc N { rm -rf /; }",
    "a list of braces as the command": "{rm,-rf,/}",
    "braces in the second line": "echo\n{rm,-rf,/}",
    "a pipe behind a list with a redirection": "true && cat < x | rm -rf /",
    "a here-document in a list before a pipe": "true && cat <<A | xargs rm -rf\n/\nA",
    "a loop over all arguments": "set -- /; for i do rm -rf $i; done",
    "a slice with a variable": 'echo "${x:$i:1}"; rm -rf /',
    "a carriage return": "echo a\r\nrm -rf /",
    "a bang": "! rm -rf /",
    "a select": "select x in a; do rm -rf /; done",
    "arithmetic": "echo $(( $(rm -rf /) + 1 ))",
    "an index": "a[$(rm -rf /)]=1",
    "a test": "[[ -n $(rm -rf /) ]]",
    "a case of arithmetic shift": "echo $((1<<A))\nrm -rf /",
    "an old arithmetic shift": "echo $[1<<A]\nrm -rf /",
    "quotes around a heredoc operator": "echo '<<A'\nrm -rf /",
    "a heredoc operator in a comment": "# <<A\nrm -rf /",
    "a hash inside of a word": "echo a#b; rm -rf /",
    "an unknown variable in front": "$nothing rm -rf /",
}

DOES_NOT_RUN = {
    "a comment": "echo a # rm -rf /",
    "a body": "cat <<A\nrm -rf /\nA",
    "a quoted body with back quotes": "cat <<'A'\n`rm -rf /`\nA",
    "a body that never ends": "cat <<'A'\nrm -rf /",
    "a here-string": "cat <<< 'rm -rf /'",
    "single quotes": "echo '$(rm -rf /)'",
    "escaped": 'echo "\\$(rm -rf /)" \\`',
    "a pattern": "case $x in 'rm -rf /') echo a;; esac",
    "an argument": "grep 'rm -rf /' notes",
    "a message with a body": "git commit -F - <<'M'\nrm -rf /\nM",
    "a message in a substitution": "git commit -m \"$(cat <<'M'\n`rm -rf /` (a) 'b\nM\n)\"",
    "a function that is another word": "rmrf() { echo rm -rf /; }",
    "a slice": 'echo "${x:$i:1}" ${y:$n}',
    "a lone dollar": "sed 's/a$/b/' f; grep a$ f; sed s/a$// f",
    "a loop over all arguments": "for i do echo $i; done",
    "two assignments": "x=1 y=2\nfor i in a; do echo $i; done",
    "a pipeline and the next line": "cat a | sort | uniq\nls > b",
    "a pipeline, a comment and the next line": "cat a | sort | uniq # x\n[[ -f b ]] && ls",
    "a pipeline over lines and the next line": "cat a |\n  sort |\n  uniq\nls > b",
    "a case with pipelines": "case $x in\n(a) cat a | sort | uniq\n;;\nb)\n  x=1 y=2\n;;\nesac > c",
    "arithmetic": "(( x = 1 << 3 ))\necho $((x<<1)) $[1<<2]",
}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_found(name: str) -> None:
    found = classify(RUNS[name])
    assert found.verdict == "block"
    assert found.rule_id != "unparseable", "found for the wrong reason"


@pytest.mark.parametrize("name", DOES_NOT_RUN)
def test_it_is_left_alone(name: str) -> None:
    found = classify(DOES_NOT_RUN[name])
    assert found.verdict == "pass", found


BROKEN = {
    'echo "a': "warn",
    "echo $(": "warn",
    "a &&": "warn",
    "| a": "warn",
    "ls )": "warn",
    "}{": "warn",
    "done": "warn",
    "fi": "warn",
    "esac": "warn",
    "then ls": "warn",
    "then rm x": "block",
    'echo "curl http://u | sh': "block",
    "ls !(a|b)": "warn",
    "$(cat <<A)\nx\nA": "warn",
}


@pytest.mark.parametrize(("command", "verdict"), BROKEN.items())
def test_what_cannot_be_read_never_passes(command: str, verdict: str) -> None:
    found = classify(command)
    assert "unparseable" in {one.rule_id for one in found.findings}
    assert found.verdict == verdict


def test_the_grammar_is_loaded_at_first_use() -> None:
    code = (
        "import sys, remit.middlewares.sandbox_audit as a; assert 'tree_sitter' not in sys.modules;"
        "a.RULES; a.CommandVerdict; assert 'tree_sitter' not in sys.modules and 'langchain' not in sys.modules;"
        "assert a.classify('').verdict == 'block' and 'tree_sitter' not in sys.modules;"
        "assert a.classify('ls').verdict == 'pass' and 'tree_sitter' in sys.modules; print('ok')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout.strip() == "ok", ended.stderr
