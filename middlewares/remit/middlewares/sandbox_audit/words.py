"""From words to the arguments that a program gets: braces, variables, substitutions and fields."""

from __future__ import annotations

import itertools
import math
import re
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

from remit.middlewares.sandbox_audit.taint import HOLE, INTERESTING, READ, RISKY, UNKNOWN, State, Text, blended, joined
from remit.middlewares.sandbox_audit.tree import Piece, Program, Word
from remit.middlewares.sandbox_audit.verdicts import MAX_FIELDS, TooComplex

Atom = Text | None
"""A part of a field, or the gap between two."""
Alternative = tuple[Atom, ...]

_PRODUCT: Final = 24
"""Readings of one word that are told apart."""
_TOKEN: Final = re.compile(f"{HOLE}(\\d+){HOLE}")
_BRACE: Final = re.compile(r"[{,}]")
_RANGE: Final = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")
_SLICE: Final = re.compile(r":\s*(-?\d+)(?::\s*(-?\d+))?")
_SPECIAL: Final = {"HOME": "~", "IFS": " \t\n", "SHELL": "/bin/bash", "BASH": "/bin/bash", "0": "bash", "#": HOLE}
_ROOTED: Final = frozenset({"HOME", "PATH", "PWD", "OLDPWD", "SHELL", "BASH"})
"""Variables that always begin with a slash."""


class Shell(Protocol):
    """What words need from the one who walks through the command."""

    state: State[Any]

    def captured(self, program: Program) -> Text:
        """What `program` prints."""

    def as_file(self, program: Program, *, reads: bool) -> Text:
        """The name that stands for the process substitution `program`."""


def fields(word: Word, shell: Shell) -> list[tuple[Text, ...]]:
    """The fields that `word` becomes, in every reading that can be told apart; usually one of one field."""
    pieces = word.pieces
    if len(pieces) == 1 and pieces[0].kind == "text" and "{" not in pieces[0].text:
        return [(Text(pieces[0].text),)]
    parts = [_piece(piece, shell) for piece in pieces]
    listed = any(piece.kind == "text" and not piece.quoted and "{" in piece.text for piece in pieces)
    if not listed:
        return [_fields(atoms) for atoms in _readings(parts)]
    pattern = "".join(
        piece.text if piece.kind == "text" and not piece.quoted else f"{HOLE}{n}{HOLE}"
        for n, piece in enumerate(pieces)
    )
    found: list[list[tuple[Text, ...]]] = []
    for spelled in _braces(pattern):
        bits = _TOKEN.split(spelled)
        spelled_parts: list[list[Alternative]] = [
            parts[int(bit)] if n % 2 else [(Text(bit),)] for n, bit in enumerate(bits) if n % 2 or bit
        ]
        found.append([_fields(atoms) for atoms in _readings(spelled_parts)])
    return [tuple(itertools.chain.from_iterable(reading)) for reading in _combinations(found)]


def arguments(words: list[Word], shell: Shell) -> list[tuple[Text, ...]]:
    """The arguments that `words` become, in every reading that can be told apart."""
    found = [
        tuple(itertools.chain.from_iterable(one)) for one in _combinations([fields(word, shell) for word in words])
    ]
    if len(found) * len(found[0]) > 40 * MAX_FIELDS:
        raise TooComplex
    return found


def single(word: Word | None, shell: Shell) -> Text:
    """`word` where one field is wanted: the value of an assignment, the target of a redirection."""
    if word is None:
        return UNKNOWN
    if len(word.pieces) == 1 and word.pieces[0].kind == "text":
        return Text(word.pieces[0].text)
    pieces = tuple(piece if piece.quoted else piece._replace(quoted=True) for piece in word.pieces)
    readings = [_fields(atoms) for atoms in _readings([_piece(piece, shell) for piece in pieces])]
    return blended([joined(list(reading), " ") if reading else Text("") for reading in readings])


def values(word: Word | None, shell: Shell) -> tuple[Text, ...]:
    """As `single`, with every reading by itself."""
    if word is None:
        return (Text(""),)
    if len(word.pieces) == 1 and word.pieces[0].kind == "text":
        return (Text(word.pieces[0].text),)
    pieces = tuple(piece if piece.quoted else piece._replace(quoted=True) for piece in word.pieces)
    readings = [_fields(atoms) for atoms in _readings([_piece(piece, shell) for piece in pieces])]
    return tuple(joined(list(reading), " ") if reading else Text("") for reading in readings)


def _combinations(choices: list[list[tuple[Text, ...]]]) -> list[tuple[tuple[Text, ...], ...]]:
    count = math.prod(map(len, choices))
    if count == 1:
        return [tuple([choice[0] for choice in choices])]
    if count > _PRODUCT:
        choices = [_worth(choice) for choice in choices]
        count = math.prod(map(len, choices))
        if count > 8 * _PRODUCT:
            raise TooComplex
    return list(itertools.product(*choices))


def _worth(choice: list[tuple[Text, ...]]) -> list[tuple[Text, ...]]:
    """The readings that matter, and one that stands for the others."""
    if len(choice) == 1:
        return choice
    kept = [one for one in choice if any(map(_matters, one))]
    return kept if len(kept) == len(choice) else [*kept, (Text(HOLE, READ),)]


def _readings(parts: list[list[Alternative]]) -> list[list[Atom]]:
    count = math.prod(map(len, parts))
    if count == 1:
        return [[atom for part in parts for atom in part[0]]]
    if count > _PRODUCT:
        parts = [_narrow(part) for part in parts]
        if math.prod(map(len, parts)) > 8 * _PRODUCT:
            raise TooComplex
    return [[atom for part in reading for atom in part] for reading in itertools.product(*parts)]


def _narrow(part: list[Alternative]) -> list[Alternative]:
    """The readings of a part that matter, and one that stands for the others."""
    kept = [one for one in part if any(atom is not None and _matters(atom) for atom in one)]
    return kept if len(kept) == len(part) else [*kept, (Text(HOLE, READ),)]


def _matters(text: Text) -> bool:
    return bool(text.taint & RISKY) or text.text.rpartition("/")[2] in INTERESTING


def _fields(atoms: list[Atom]) -> tuple[Text, ...]:
    found: list[Text] = []
    current: list[Text] = []
    for atom in atoms:
        if atom is not None:
            current.append(atom)
        elif current:
            found.append(joined(current))
            current = []
    if current:
        found.append(joined(current))
    return tuple(found)


def _piece(piece: Piece, shell: Shell) -> list[Alternative]:
    kind = piece.kind
    if kind == "text":
        return [(Text(piece.text),)]
    if kind == "var":
        return _variable(piece, shell)
    if kind == "run":
        printed = shell.captured(piece.program)
        printed = Text(printed.text.rstrip("\n"), printed.taint)
        return [_split(printed, shell, quoted=piece.quoted)]
    if kind == "number":
        if piece.alt is not None:
            fields(piece.alt, shell)  # what stands in it runs
        return [(UNKNOWN,)]
    return [(shell.as_file(piece.program, reads=kind == "in"),)]


def _split(value: Text, shell: Shell, *, quoted: bool) -> Alternative:
    if quoted:
        return (value,)
    known = shell.state.variables.get("IFS")
    gaps = " \t\n" if known is None or not known[0].known else known[0].text
    if not any(gap in value.text for gap in gaps):
        return (value,) if value.text else ()
    if len(value.text) > 4 * MAX_FIELDS:
        return (value, None, Text(HOLE, value.taint))
    atoms: list[Atom] = []
    for n, bit in enumerate(re.split(f"[{re.escape(gaps)}]+", value.text)):
        if n:
            atoms.append(None)
        if bit:
            atoms.append(Text(bit, value.taint))
    return tuple(atoms)


def _variable(piece: Piece, shell: Shell) -> list[Alternative]:
    name, op = piece.text, piece.op
    many = _many(name, shell)
    if many is not None:
        if piece.alt is not None:
            fields(piece.alt, shell)
        if not piece.quoted or name.endswith(("@", "@]")):
            return [tuple(itertools.chain.from_iterable((item, None) for item in many))]
        return [(joined(list(many), " ") if many else Text(""),)]
    found = lookup(name, shell.state)
    other: tuple[Text, ...] = ()
    if piece.alt is not None:
        other = values(piece.alt, shell)
    if op:
        found = _operated(name, op, found, other, shell)
    return [_split(value, shell, quoted=piece.quoted) for value in found]


def _many(name: str, shell: Shell) -> tuple[Text, ...] | None:
    """The items of ``$@`` or of an array; None for what has one value."""
    state = shell.state
    if name in ("@", "*"):
        return (UNKNOWN,) if state.positional is None else state.positional
    if name.endswith(("[@]", "[*]")) and name[0] not in "!#":
        return state.arrays.get(name[:-3], (UNKNOWN,) if name[:-3] not in state.variables else None)
    return None


def lookup(name: str, state: State[Any]) -> tuple[Text, ...]:
    """What the parameter `name` may hold."""
    if name in state.variables:
        return state.variables[name]
    if name.startswith("!") and len(name) > 1:
        names = state.variables.get(name[1:], ())
        return tuple(value for one in names if one.known for value in lookup(one.text, state)) or (UNKNOWN,)
    if name.isdigit() and name != "0":
        given = state.positional
        if given is None:
            return (UNKNOWN,)
        return (given[int(name) - 1],) if len(name) < 4 and int(name) <= len(given) else (Text(""),)
    array, bracket, rest = name.partition("[")
    if array in state.arrays:
        items = state.arrays[array]
        if not bracket:
            return items[:1] or (Text(""),)
        index = rest[:-1]
        if index.isdigit() and len(index) < 4 and int(index) < len(items):
            return (items[int(index)],)
        return (blended(list(items)),) if items else (UNKNOWN,)
    special = _SPECIAL.get(name)
    return (UNKNOWN,) if special is None else (Text(special),)


def _operated(name: str, op: str, found: tuple[Text, ...], other: tuple[Text, ...], shell: Shell) -> tuple[Text, ...]:
    if op in (":-", "-", ":=", "="):
        if all(value.known and value.text for value in found):
            return found
        if op in (":=", "="):
            shell.state.set(name, other, sure=False)
        return (*other, *(value for value in found if value.text != HOLE or value.taint))
    if op in (":+", "+"):
        return (*other, Text(""))
    if op in (":?", "?"):
        return found
    return tuple(_transformed(name, op, value) for value in found)


def _transformed(name: str, op: str, value: Text) -> Text:
    cut = _SLICE.fullmatch(op)
    if cut is not None:
        start, length = int(cut.group(1)), cut.group(2)
        text = "/" if name in _ROOTED and start == 0 and length == "1" else value.text
        if HOLE not in text:
            end = None if length is None else (start + int(length) if int(length) >= 0 else int(length))
            return Text(text[start:end], value.taint)
    elif value.known and op in ("^^", ",,", "^", ","):
        text = value.text
        changed = text.upper() if "^" in op else text.lower()
        return Text(changed if len(op) == 2 else changed[:1] + text[1:], value.taint)
    elif value.known and op[0] in "#%" and len(value.text) <= MAX_FIELDS:
        return Text(_trimmed(value.text, op), value.taint)
    elif value.known and op[0] == "/":
        return _replaced(value, op)
    elif name in _ROOTED and op[0] == "%":
        return Text("/" + HOLE, value.taint)
    return Text(HOLE, value.taint)


def _trimmed(text: str, op: str) -> str:
    pattern = op.lstrip(op[0])
    greedy = op[:2] == op[0] * 2
    cuts = range(len(text) + 1)
    if op[0] == "#":
        for cut in reversed(cuts) if greedy else cuts:
            if fnmatchcase(text[:cut], pattern):
                return text[cut:]
    else:
        for cut in cuts if greedy else reversed(cuts):
            if fnmatchcase(text[cut:], pattern):
                return text[:cut]
    return text


def _replaced(value: Text, op: str) -> Text:
    everywhere = op.startswith("//")
    old, _, new = op.lstrip("/").partition("/")
    if not old or any(letter in "*?[\\$\"'`" for letter in old + new):
        return Text(HOLE, value.taint)
    return joined([Text(value.text.replace(old, new, -1 if everywhere else 1), value.taint)])


def _braces(pattern: str) -> list[str]:
    """The words that a brace expression stands for."""
    if len(pattern) > 4_000 or pattern.count("{") > MAX_FIELDS:
        raise TooComplex
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        here = waiting.pop()
        spelled = _opened(here)
        if spelled is None:
            done.append(here)
        else:
            waiting.extend(reversed(spelled))
        if len(done) + len(waiting) > MAX_FIELDS:
            raise TooComplex
    return done


def _opened(text: str) -> list[str] | None:
    """`text` with its first list of alternatives written out; None if it has none."""
    start = text.find("{")
    while start >= 0:
        depth, commas = 0, [start]
        for found in _BRACE.finditer(text, start):
            letter, place = found.group(), found.start()
            if letter == "{":
                depth += 1
            elif letter == "," and depth == 1:
                commas.append(place)
            elif letter == "}":
                depth -= 1
                if depth == 0:
                    choices = _choices(text, [*commas, place])
                    if choices is not None:
                        return [text[:start] + choice + text[place + 1 :] for choice in choices]
                    break
        start = text.find("{", start + 1)
    return None


def _choices(text: str, marks: list[int]) -> list[str] | None:
    if len(marks) > 2:
        return [text[left + 1 : right] for left, right in itertools.pairwise(marks)]
    found = _RANGE.fullmatch(text, marks[0] + 1, marks[1])
    if found is None:
        return None
    first, last, step = found.groups()
    letters = first.isalpha() and last.isalpha()
    if not letters and (first.isalpha() or last.isalpha()):
        return None
    low, high = (ord(first), ord(last)) if letters else (int(first[:9]), int(last[:9]))
    width = max(1, abs(int((step or "1")[:9])))
    numbers = range(low, high + 1, width) if low <= high else range(low, high - 1, -width)
    if len(numbers) > 2 * len("abcdefghijklmnopqrstuvwxyz"):
        numbers = range(numbers[0], numbers[1])  # a long row of numbers is no hiding place for a word
    return [chr(number) if letters else str(number) for number in numbers]
