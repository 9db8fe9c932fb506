"""Programs in other languages, as far as they can be judged by looking for what runs commands or fetches code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from remit.middlewares.sandbox_audit import letters

_LONGEST: Final = 10_000
_CALLS: Final = 40
"""Calls of one program that are looked into."""

_STRING: Final = r"""[rRbBfFuU]{0,2}(?:'''(?P<q1>.*?)'''|\"\"\"(?P<q2>.*?)\"\"\"|'(?P<q3>(?:[^'\\\n]|\\.)*)'|"(?P<q4>(?:[^"\\\n]|\\.)*)"|`(?P<q5>(?:[^`\\]|\\.)*)`|%x\{(?P<q6>[^}]*)\})"""
_RUNNER: Final = re.compile(
    r"(?:\b(?:os\s*\.\s*(?:system|popen)|commands\.getoutput|pty\.spawn|subprocess\s*\.\s*\w+|Popen|check_output|check_call|getoutput"
    r"|system|exec[lvpe]{0,3}|execSync|execFile(?:Sync)?|spawn(?:Sync|[lvpe]{1,3})?|popen[23]?|shell_exec|passthru|proc_open|pcntl_exec|qx"
    r"|os\.execute|io\.popen|Open3\.\w+|Process\.spawn|IO\.popen|syscall|create_subprocess_(?:shell|exec)|do\s+shell\s+script)"
    r"\s*\(?\s*(?P<list>\[)?\s*)" + _STRING,
    re.DOTALL,
)
_BACKTICKS: Final = re.compile(r"`([^`\n]{1,2000})`|%x[({]([^})]{1,2000})[})]|\bqx[({/]([^})/]{1,2000})[})/]")
_WORDS: Final = re.compile(r"""\s*,\s*[rRbBfFuU]{0,2}(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)")""")
_NETWORK: Final = (
    r"(?:urlopen|urlretrieve|requests\s*\.\s*\w+|httpx\s*\.\s*\w+|http\.client|urllib|aiohttp|fetch\s*\(|https?\.get|axios|Net::HTTP|LWP|open-uri"
    r"|URI\.open|HTTP::Tiny|curl_exec|file_get_contents\s*\(\s*['\"]https?:|fopen\s*\(\s*['\"]https?:|socket\b|https?://)"
)
_EVALUATES: Final = r"(?:\bexec|\beval|\bcompile|\bFunction|\bvm\.run\w+|\binstance_eval|\bclass_eval|__import__\(.builtins.\)\.exec|\bassert|\bloadstring|\bload)"
_FETCHED: Final = re.compile(_EVALUATES + r"\s*\(?.{0,200}?" + _NETWORK, re.DOTALL)
_FETCHED_LATER: Final = re.compile(_NETWORK + r".{0,2000}?" + r"(?:\bexec|\beval|\bFunction|\bos\.system|\bsubprocess)\s*\(\s*(?![rRbBfFuU]{0,2}['\"\[])", re.DOTALL)
_DECODED: Final = re.compile(
    _EVALUATES + r"\s*\(?.{0,200}?(?:b64decode|base64|decode64|atob\b|fromhex|unhexlify|marshal\.loads|zlib\.decompress|gzinflate|str_rot13|rot13|pack\s*\(|unpack|bytes\()",
    re.DOTALL,
)
_REVERSE: Final = re.compile(r"(?=.*(?:\bsocket\b|\bTCPSocket|IO::Socket|fsockopen|net\.(?:connect|Socket)))(?=.*(?:dup2|pty\.spawn|/bin/(?:ba|z|da)?sh|exec\s*[({]|-i\b))", re.DOTALL)
_DELETES: Final = re.compile(r"(?:rmtree|rm_rf|rm_r|remove_entry|rmSync|rmdirSync|\brm|rimraf(?:\.sync)?|remove_tree|removedirs)\s*\(?\s*[rRbBfFuU]{0,2}(['\"])(?P<path>[^'\"\n]{1,200})\1")
_HOMEWARD: Final = re.compile(r"(?:rmtree|rm_rf|rmSync|remove_tree)\s*\(\s*(?:os\.path\.expanduser\(\s*['\"]~|Path\.home\(\)|os\.homedir\(\)|Dir\.home|os\.environ\[.HOME.\]\s*\))")
_OPENS: Final = re.compile(
    r"(?:\bopen|\bPath|read_text|readFile(?:Sync)?|writeFile(?:Sync)?|appendFile(?:Sync)?|createWriteStream|file_get_contents|file_put_contents|fopen|File\.\w+|IO\.\w+|copy(?:file|2)?|rename|move|replace)"
    r"\s*\(?\s*[rRbBfFuU]{0,2}(['\"])(?P<path>[^'\"\n]{1,200})\1(?P<rest>[^)\n]{0,80}\)?[^\n]{0,40})"
)
_ANY_OPEN: Final = re.compile(r"""['"<]\s*(/etc/g?shadow\S{0,2}|/proc/(?:self|\d+)/environ)['"]""")
_WRITES: Final = re.compile(r"""['"]\s*[rb]?[wax+]|write|append|put_contents|WriteStream|,\s*["']>""", re.IGNORECASE)

Kind = Literal["rule", "shell", "command", "reads", "writes", "deletes"]


class Deed(NamedTuple):
    """Something that a program does: a rule it matches, a command it runs, a path it reads, writes or deletes."""

    kind: Kind
    words: tuple[str, ...]


def deeds(text: str, language: str) -> Iterator[Deed]:
    """What the program `text` seems to do."""
    text = text[:_LONGEST]
    if _FETCHED.search(text) or _FETCHED_LATER.search(text):
        yield Deed("rule", ("fetched-code",))
    if _DECODED.search(text):
        yield Deed("rule", ("decoded-code",))
    if ("ocket" in text or "fsockopen" in text or "net." in text) and _REVERSE.match(text):
        yield Deed("rule", ("reverse-shell",))
    if _HOMEWARD.search(text):
        yield Deed("deletes", ("~",))
    for n, found in enumerate(_RUNNER.finditer(text)):
        if n > _CALLS:
            break
        first = letters.ansi(next(group for group in found.groups()[1:] if group is not None))
        words = [first]
        at = found.end()
        for more in iter(lambda: _WORDS.match(text, at), None):
            words.append(letters.ansi(more.group(1) or more.group(2) or ""))
            at = more.end()
        yield Deed("command", tuple(words)) if len(words) > 1 or found.group("list") else Deed("shell", (first,))
    if language in ("perl", "ruby", "php"):
        for n, ticks in enumerate(_BACKTICKS.finditer(text)):
            if n > _CALLS:
                break
            yield Deed("shell", (ticks.group(1) or ticks.group(2) or ticks.group(3),))
    for found in _DELETES.finditer(text):
        yield Deed("deletes", (found.group("path"),))
    for found in _OPENS.finditer(text):
        writes = _WRITES.search(found.group("rest")) or _WRITES.search(found.group()[:24])
        yield Deed("writes" if writes else "reads", (found.group("path"),))
    for found in _ANY_OPEN.finditer(text):
        yield Deed("reads", (found.group(1),))
