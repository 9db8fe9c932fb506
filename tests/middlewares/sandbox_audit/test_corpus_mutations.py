"""Blocked commands, written in thousands of other ways that a shell reads alike. None of them may pass.

The commands are data. They are handed to the classifier and to nothing else.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remit.middlewares.sandbox_audit import classify

HERE = Path(__file__).parent
_NAME = re.compile(
    r"(?<![\w./'\"$=\\-])(rm|curl|wget|sh|bash|zsh|python3|cat|cp|tee|find|dd|eval|source|sudo|head|less|mv|shred|sed|install|nc|perl|node|php|xargs|echo)"
    r"(?=\s)"
)
_WORD = re.compile(r"(?<![\w./'\"$={<>&|-])([A-Za-z][A-Za-z0-9]+)(?=[\s|;)]|$)")
_STARTS_PLAIN = re.compile(r"(?!eval\b|source\b|set\b|exec\b|export\b|a\b)[a-z][\w./-]*\s")
"""Commands that a program can run: no assignment, no keyword, no command of the shell itself."""


def _rows(name: str, verdict: str) -> list[str]:
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [line[7:].replace("⏎", "\n") for line in lines if line[:5].strip() == verdict]


BLOCKED = _rows("verdict_table.txt", "block") + _rows("attacks.txt", "block")


def _is_flat(command: str) -> bool:
    """One line without quotes, groups or keywords: its words may be rewritten one by one."""
    return "\n" not in command and not re.search(
        r"['\"`\\#]|\$[({]|<<|\(|\{|\b(?:if|for|while|until|do|case|function)\b", command
    )


def _in_name(command: str, change: Callable[[str], str], rng: random.Random) -> str | None:
    places = [
        found
        for found in _NAME.finditer(command)
        if "'" not in command[: found.start()] and '"' not in command[: found.start()]
    ]
    if not places:
        return None
    found = rng.choice(places)
    return command[: found.start(1)] + change(found.group(1)) + command[found.end(1) :]


def _split_quotes(name: str) -> str:
    return f"{name[0]}''{name[1:]}"


def _double_quotes(name: str) -> str:
    return f'"{name[0]}"{name[1:]}'


def _quoted(name: str) -> str:
    return f"'{name}'"


def _backslash(name: str) -> str:
    return f"{name[0]}\\{name[1:]}"


def _continued(name: str) -> str:
    return f"{name[0]}\\\n{name[1:]}"


def _hexadecimal(name: str) -> str:
    return "$'" + "".join(f"\\x{ord(letter):02x}" for letter in name) + "'"


def _octal(name: str) -> str:
    return "$'" + "".join(f"\\{ord(letter):03o}" for letter in name) + "'"


def _unicode(name: str) -> str:
    return f"$'\\u{ord(name[0]):04x}'{name[1:]}"


def _empty_variable(name: str) -> str:
    return f"{name[0]}${{zz}}{name[1:]}"


def _no_arguments(name: str) -> str:
    return f"{name[0]}$9{name[1:]}"


def _printed(name: str) -> str:
    return f"$(echo {name})"


def _printed_back(name: str) -> str:
    return f"`printf {name}`"


def _default(name: str) -> str:
    return f"${{zz:-{name}}}"


IN_NAME = [
    _split_quotes, _double_quotes, _quoted, _backslash, _continued, _hexadecimal, _octal, _unicode, _empty_variable, _no_arguments, _printed,
    _printed_back, _default,
]  # fmt: skip

PREFIXES = [
    "coproc ",
    "A=1 ", "A=1 B='x y' ", "env ", "env A=1 ", "env -i ", "command ", "nohup ", "time ", "time -p ", "timeout 5 ", "timeout -k 1 5 ", "nice ",
    "nice -n 5 ", "ionice -c 3 ", "setsid ", "stdbuf -oL ", "sudo ", "sudo -n -u root ", "doas ", "busybox ", "exec ", "! ", "strace -f ",
    "chroot / ", "flock f ", "xvfb-run ", "env -S ",
]  # fmt: skip

AROUND: list[tuple[str, str]] = [
    ("( ", "\n)"), ("{ ", "\n}"), ("true; ", ""), ("true && ", ""), ("false || ", ""), ("true & ", ""), ("echo hi\n", ""), ("\n\n\t  ", "\n"),
    ("# a note\n", ""), ("if true; then\n", "\nfi"), ("if ", "\nthen :; fi"), ("while ", "\ndo :; done"), ("for i in 1; do\n", "\ndone"),
    ("case x in x)\n", "\n;; esac"), ("f() {\n", "\n}; f"), ("echo $(", "\n)"), ("x=$(", "\n)"), ('echo "$(', '\n)"'), ("cat <(", "\n)"),
    ("[[ -n $(", "\n) ]]"), ("cat <<X\nbody\nX\n", ""), ("cat <<'X Y'\n\"\nX Y\n", ""), ("echo $((1<<2)); ", ""), ("echo '<<X'; ", ""),
    ("cat <<<x; ", ""), ("time (\n", "\n)"), ("bash <<'Q_Q'\n", "\nQ_Q"), ("cat <<'Q_Q' | sh\n", "\nQ_Q"),
    ("echo ${x:-$(", "\n)}"), ("echo $(( $(", "\n) ))"), ("a[$(", "\n)]=1"), ("( ( (\n", "\n) ) )"), ("until ", "\ndo :; done"),
]  # fmt: skip


def _code_string(command: str) -> Iterator[str]:
    quoted = shlex.quote(command)
    yield f"bash -c {quoted}"
    yield f"sh -ec {quoted}"
    yield f"eval {quoted}"
    yield f"bash -c {shlex.quote('eval ' + quoted)}"
    yield f"trap {quoted} EXIT"
    yield f'code={quoted}; eval "$code"'
    yield f"sudo bash -lc {quoted}"
    yield f"xargs -I@@ sh -c {quoted}"
    if "{}" not in command:
        yield f"find . -exec sh -c {quoted} \\;"
    yield f"su -c {quoted}"
    yield f"printf %s {quoted} | bash"
    yield f"echo {quoted} > /tmp/s; sh /tmp/s" if "\\" not in command else f"bash <<< {quoted}"


def _flat(command: str) -> Iterator[str]:
    """Changes to commands whose words are plain."""
    yield command.replace(" ", "  \t ")
    yield command.replace(" ", " \\\n ")
    yield command + " # a note"
    yield command + " &"
    yield command + ";"
    if not re.search(r"[<>&=]", command):
        pieces = command.split(" | ")
        yield "|".join(piece.replace(" ", "${IFS}") for piece in pieces)
        yield re.sub(r" (?=\W)(?!\|)(?<!\| )", "$IFS", command)
        if not re.search(r"[;,*{!|]", command.replace(" | ", "")):
            yield " | ".join("{" + ",".join([*piece.split(" "), ""]) + "}" for piece in pieces)
        yield (
            " | ".join(f"IFS=_; x={piece.replace(' ', '_')}; $x" for piece in pieces)
            if not re.search(r"[_;|$!]", command)
            else command
        )
    yield re.sub(r"(?<![\w/.-])(rm|curl|wget|sh|bash|cat|cp|mv|tee)(?= )", r"/usr/bin/\1", command)


def mutations(command: str) -> list[str]:
    """Other spellings of `command`; always the same."""
    rng = random.Random(command)
    made: list[str | None] = [_in_name(command, change, rng) for change in IN_NAME] if "\n" not in command else []
    if _STARTS_PLAIN.match(command):
        made += [prefix + command for prefix in PREFIXES if prefix != "env -S " or _is_flat(command)]
    made += [before + command + after for before, after in AROUND]
    made += list(_code_string(command))
    if _is_flat(command):
        made += list(_flat(command))
    plain = [one for one in made if one is not None and one != command]
    for one in rng.sample(plain, min(8, len(plain))):  # and some of them twice
        before, after = rng.choice(AROUND)
        plain.append(before + one + after)
    return list(dict.fromkeys(plain))


MUTATIONS = {command: mutations(command) for command in BLOCKED}


def test_there_are_enough() -> None:
    assert sum(map(len, MUTATIONS.values())) >= 20_000


def test_no_other_spelling_passes() -> None:
    """A part of them, drawn anew for each command but always the same."""
    drawn = {command: random.Random(command).sample(found, min(16, len(found))) for command, found in MUTATIONS.items()}
    assert sum(map(len, drawn.values())) >= 4_000
    passed = [one for found in drawn.values() for one in found if classify(one).verdict == "pass"]
    assert passed == []


@pytest.mark.slow
def test_no_other_spelling_at_all_passes() -> None:
    """Every second of all of them."""
    passed = [one for found in MUTATIONS.values() for one in found[::2] if classify(one).verdict == "pass"]
    assert passed == []
