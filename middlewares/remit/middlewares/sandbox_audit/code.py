"""Programs in other languages, as far as they can be judged by looking for what runs commands or fetches code."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from remit.middlewares.sandbox_audit import letters
from remit.middlewares.sandbox_audit.verdicts import TooComplex

_LONGEST: Final = 10_000
_CALLS: Final = 100
"""Calls of one program that are looked into; a program with more is more than a command."""
_NEAR: Final = 200
"""Letters between ``exec`` and what it gets, to be taken for one expression."""

# Every pattern here is found in linear time: one word, or a bounded stretch behind a word.
_ARGUMENT: Final = re.compile(
    r"""[\s(]{0,8}(?P<list>\[)?\s{0,8}[rRbBfFuU]{0,2}(?:'''(?P<q1>.*?)'''|\"\"\"(?P<q2>.*?)\"\"\"|'(?P<q3>(?:[^'\\\n]|\\.)*)'"""
    r"""|"(?P<q4>(?:[^"\\\n]|\\.)*)"|`(?P<q5>(?:[^`\\]|\\.)*)`)""",
    re.DOTALL,
)
_MORE: Final = re.compile(r"""\s{0,8},\s{0,8}[rRbBfFuU]{0,2}(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)")""")
_REST: Final = re.compile(r"[^)\n]{0,80}\)?[^\n]{0,40}")
_RUNNER: Final = re.compile(
    r"\b(?:os\.system|os\.popen|getoutput|getstatusoutput|pty\.spawn|subprocess\.\w+|Popen|check_output|check_call|system"
    r"|exec[lvpe]{0,3}|execSync|execFile(?:Sync)?|spawn(?:Sync|[lvpe]{1,3})?|popen[23]?|shell_exec|passthru|proc_open|pcntl_exec"
    r"|os\.execute|Open3\.\w+|syscall|create_subprocess_(?:shell|exec)|do shell script|run)\b"
)
_TICKS: Final = re.compile(r"`([^`\n]{1,500})`|%x[({]([^})\n]{1,500})[})]|\bqx[({/]([^})/\n]{1,500})[})/]")
_NETWORK: Final = re.compile(
    r"urlopen|urlretrieve|requests\.\w|httpx\.\w|http\.client|aiohttp|\bfetch\(|https?\.get|axios|Net::HTTP|LWP|open-uri|URI\.open"
    r"|HTTP::Tiny|curl_exec|(?:file_get_contents|fopen)\(['\"]https?:|socket\b|(?<=eval )get\b"
)
_EVALUATES: Final = re.compile(
    r"(?<![\w.])(?:exec|eval|compile|Function|assert|loadstring|instance_eval|class_eval)\b|\bvm\.run|builtins['\"]?\)?\.(?:exec|eval)"
)
_EVALUATES_NAME: Final = re.compile(
    r"(?<![\w.])(?:exec|eval|Function)\((?:compile\()?[A-Za-z_$]|\.then\(eval|os\.system\([A-Za-z_]|subprocess\.\w{1,20}\([A-Za-z_]"
)
_PURE_EVALUATES: Final = re.compile(r"(?<![\w.])(?:eval|Function|instance_eval|class_eval)[ (]")
_AWK_PIPE: Final = re.compile(r'''"((?:[^"\\\n]|\\.){1,500})" ?\| ?getline|\| ?"((?:[^"\\\n]|\\.){1,500})"''')
_DECODES: Final = re.compile(
    r"b64decode|base64|decode64|\batob\b|fromhex|unhexlify|marshal\.loads|zlib\.decompress|gzinflate|str_rot13|\brot13\b|\b(?:un)?pack\b"
    r"|\bbytes\(\[|fromCharCode|chr\("
)
_SOCKET: Final = re.compile(r"\bsocket\b|TCPSocket|IO::Socket|fsockopen|net\.(?:connect|Socket)")
_SHELL: Final = re.compile(r"dup2|pty\.spawn|/bin/(?:ba|z|da)?sh\b|\bexec ?[({]")
_DELETER: Final = re.compile(
    r"\b(?:rmtree|rm_rf|rm_r|remove_entry|rmSync|rmdirSync|rimraf(?:\.sync)?|remove_tree|removedirs|rm)\b"
)
_HOMEWARD: Final = re.compile(
    r"(?:rmtree|rm_rf|rmSync|remove_tree)\((?:os\.path\.expanduser\(['\"]~|Path\.home\(\)|os\.homedir\(\)|Dir\.home|os\.environ\[.HOME.\]\))"
)
_OPENER: Final = re.compile(
    r"\b(?:open|Path|read_text|readFile(?:Sync)?|writeFile(?:Sync)?|appendFile(?:Sync)?|createWriteStream|file_get_contents"
    r"|file_put_contents|fopen|File\.\w{1,20}|IO\.\w{1,20}|copy(?:file|2)?|rename|move|replace|unlink|remove)\b"
)
_SECRET: Final = re.compile(r"""['"<] ?(/etc/g?shadow-?|/proc/(?:self|\d{1,9})/environ)['"]""")
_WRITER: Final = re.compile(r"write|append|put_contents|WriteStream|unlink|remove|rename|move", re.IGNORECASE)
_WRITES: Final = re.compile(r"""\)? ?\.(?:write|unlink|touch|rename)|[^)]{0,40}mode ?= ?['"]r?b?[wax+]""")
_MODE: Final = re.compile(r"r?b?[wax+]|\+?>")

Kind = Literal["rule", "shell", "command", "reads", "writes", "deletes"]


class Deed(NamedTuple):
    """Something that a program does: a rule it matches, a command it runs, a path it reads, writes or deletes."""

    kind: Kind
    words: tuple[str, ...]


def deeds(text: str, language: str) -> Iterator[Deed]:
    """What the program `text` seems to do.

    Raises:
        TooComplex: It runs more commands than can be looked into.
    """
    text = text[:_LONGEST]
    evaluates = [found.start() for found in _EVALUATES.finditer(text)]
    network = [found.start() for found in _NETWORK.finditer(text)]
    later = [found.start() for found in _EVALUATES_NAME.finditer(text)]
    if _follows(network, evaluates, _NEAR) or _follows(later, network, 10 * _NEAR):
        yield Deed("rule", ("fetched-code",))
    if evaluates and _follows([found.start() for found in _DECODES.finditer(text)], evaluates, _NEAR):
        yield Deed("rule", ("decoded-code",))
    if _SOCKET.search(text) and _SHELL.search(text):
        yield Deed("rule", ("reverse-shell",))
    if _HOMEWARD.search(text):
        yield Deed("deletes", ("~",))
    if language == "awk":
        for n, pipe in enumerate(_AWK_PIPE.finditer(text)):
            if n > _CALLS:
                raise TooComplex
            yield Deed("shell", (letters.ansi(pipe.group(1) or pipe.group(2)),))
    runners = [found.start() for found in _RUNNER.finditer(text)]
    if _follows(runners, [found.start() for found in _PURE_EVALUATES.finditer(text)], _NEAR):
        yield Deed("rule", ("generated-code",))
    for words, name, _ in _called(_RUNNER, text):
        yield Deed("command", words) if len(words) > 1 or name.endswith("[") else Deed("shell", words)
    if language in ("perl", "ruby", "php"):
        for n, ticks in enumerate(_TICKS.finditer(text)):
            if n > _CALLS:
                raise TooComplex
            yield Deed("shell", (ticks.group(1) or ticks.group(2) or ticks.group(3),))
    for words, _, _ in _called(_DELETER, text):
        yield Deed("deletes", words[:1])
    for words, name, behind in _called(_OPENER, text):
        mode = len(words) > 1 and _MODE.match(words[1])
        yield Deed("writes" if mode or _WRITER.search(name) or _WRITES.match(behind) else "reads", words[:1])
    for found in _SECRET.finditer(text):
        yield Deed("reads", (found.group(1),))


def _follows(places: list[int], starts: list[int], distance: int) -> bool:
    """Whether one of `places` lies behind one of `starts`, at most so far."""
    for start in starts:
        n = bisect_right(places, start)
        if n < len(places) and places[n] - start <= distance:
            return True
    return False


def _called(names: re.Pattern[str], text: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Calls of `names` with letters as arguments: these, the name (with a bracket for a list), and the text behind."""
    count = 0
    for name in names.finditer(text):
        found = _ARGUMENT.match(text, name.end())
        if found is None:
            continue
        count += 1
        if count > _CALLS:
            raise TooComplex
        words = [letters.ansi(next(group for group in found.groups()[1:] if group is not None))]
        at = found.end()
        while (more := _MORE.match(text, at)) is not None:
            words.append(letters.ansi(more.group(1) or more.group(2) or ""))
            at = more.end()
        rest = _REST.match(text, found.end())
        yield tuple(words), name.group() + (found.group("list") or ""), "" if rest is None else rest.group()
