"""One walk through a command, in the order in which a shell would take it, with what is known on the way.

The walk runs nothing. It takes every branch, runs the body of a loop twice if the first time left something behind in
a variable, and keeps every value that a variable may have. What it cannot know stays a hole in a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from remit.middlewares.sandbox_audit import lexical, words
from remit.middlewares.sandbox_audit.builtin import SPECIAL
from remit.middlewares.sandbox_audit.codes import run_assignments
from remit.middlewares.sandbox_audit.commands import run_argv
from remit.middlewares.sandbox_audit.effects import reading, writing
from remit.middlewares.sandbox_audit.grammar import Parsed, body_word
from remit.middlewares.sandbox_audit.loops import is_endless
from remit.middlewares.sandbox_audit.rules import BY_ID
from remit.middlewares.sandbox_audit.taint import (
    EMPTY,
    HOLE,
    OUTPUT,
    READ,
    SUBSTITUTED,
    UNKNOWN,
    State,
    Text,
    blended,
    joined,
)
from remit.middlewares.sandbox_audit.tree import Function, Group, Item, Pipeline, Program, Redirect, Simple
from remit.middlewares.sandbox_audit.verdicts import MAX_DEPTH, Budget, Finding, Severity, Span, TooComplex

Mood = Literal["plain", "remote", "guess"]


class Feed(NamedTuple):
    """What a command reads as its input."""

    text: Text
    piped: bool = False


class Definition(NamedTuple):
    """A function, and the text that it stands in."""

    body: Program
    parsed: Parsed | None
    anchor: Span | None


class Walk:
    """What has been found so far, and where the walk stands."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.state: State[Definition] = State()
        self.findings: dict[tuple[str, Severity], Finding] = {}
        self.mood: Mood = "plain"
        self.sinks: dict[str, Program] = {}
        """Process substitutions that read, by the name that stands for them."""
        self.programs: dict[str, str] = {}
        """Copies of programs: path, and the name of the original."""
        self.substitutions = 0
        self.parsed: Parsed | None = None
        self.anchor: Span | None = None
        """The place of a code string; what is found inside of it is found there."""
        self.depth = 0
        self.calling: tuple[Program, ...] = ()
        """Functions that are being walked through."""
        self.calls: dict[str, set[str]] = {}
        """What the functions call, and which of them do so beside themselves."""
        self.forks: set[str] = set()
        self.defining: tuple[str, ...] = ()
        self.here: tuple[int, int] | None = None
        """The bytes of the text that are being looked at; None for all of it."""
        self.assigned = False
        """Whether the command that is being looked at stands with assignments."""
        self.redirected = False
        """Whether the command that is being looked at writes to a file."""

    def run(self, argv: tuple[Text, ...], feed: Feed | None) -> Text:
        """Judge one command with its arguments; returns what it prints."""
        return run_argv(self, argv, feed)

    def report(self, rule_id: str, severity: Severity | None = None) -> None:
        """A rule matched the command that is being looked at."""
        rule = BY_ID[rule_id]
        severity = severity or rule.severity
        if self.mood == "guess" and severity == "warn":
            return
        if self.mood == "remote":
            if severity == "warn":
                return
            rule, severity = BY_ID["remote-command"], "warn"
        self.findings.setdefault((rule.id, severity), Finding(rule.id, severity, self.spot(), rule.message))

    def spot(self) -> Span | None:
        """The characters of the command that are being looked at."""
        if self.anchor is not None or self.parsed is None or self.here is None:
            return self.anchor
        return self.parsed.span(*self.here)

    @contextmanager
    def mooded(self, mood: Mood) -> Iterator[None]:
        """Take what is found less seriously: it runs elsewhere, or only if a guess is right."""
        before = self.mood
        self.mood = "remote" if before == "remote" else mood
        try:
            yield
        finally:
            self.mood = before

    def deeper(self) -> None:
        """One level further in. Whoever calls this goes back with ``depth -= 1``; what is raised ends the walk."""
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise TooComplex

    def text(self, text: str, feed: Feed | None = None, *, arguments: tuple[Text, ...] | None = None) -> Text:
        """Walk through the text of a program; returns what it prints."""
        text = text.replace(HOLE, "${_}")
        parsed, anchor, positional, here = self.parsed, self.anchor, self.state.positional, self.here
        anchor_here = self.spot()
        self.deeper()
        self.parsed = Parsed(text, self.budget)
        if parsed is not None:
            self.anchor = anchor_here
        if arguments is not None:
            self.state.positional = arguments
        printed = self.program(self.parsed.program, feed)
        if self.parsed.broken:
            self.broken(text)
        self.depth -= 1
        self.parsed, self.anchor, self.state.positional, self.here = parsed, anchor, positional, here
        return printed

    def broken(self, text: str) -> None:
        """The grammar does not vouch for its reading of `text`: look at its words one after the other, too."""
        self.here = None
        self.report("unparseable", "block" if lexical.is_risky(text) else "warn")
        for words_ in lexical.commands(text):
            self.budget.command()
            run_argv(self, tuple(Text(word) for word in words_), None)

    def place(self, start: int, end: int) -> None:
        """From here on matches are reported for these bytes of the text."""
        self.here = (start, end)

    def program(self, program: Program, feed: Feed | None) -> Text:
        """Walk through `program`; returns what it prints."""
        printed = [self.item(item, feed) for item in program]
        return joined(printed) if printed else EMPTY

    def item(self, item: Item, feed: Feed | None) -> Text:
        if item.background and self.defining:
            self.forks.add(self.defining[-1])
        return self.node(item.node, feed, sure=item.sure)

    def node(self, node: Simple | Group | Pipeline | Function, feed: Feed | None, *, sure: bool) -> Text:
        if isinstance(node, Simple):
            return self.simple(node, feed, sure=sure)
        self.deeper()
        if isinstance(node, Pipeline):
            printed = self.pipeline(node, feed)
        elif isinstance(node, Function):
            printed = self.define(node)
        else:
            printed = self.group(node, feed, sure=sure)
        self.depth -= 1
        return printed

    def pipeline(self, node: Pipeline, feed: Feed | None) -> Text:
        if self.defining:
            self.forks.add(self.defining[-1])
        printed = EMPTY
        for part in node.parts:
            state = self.state
            if not (isinstance(part, Simple) and part.plain and self.is_program(part.plain[0].text)):
                self.state = state.branch()
            printed = self.node(part, feed, sure=True)
            self.state = state
            feed = Feed(printed, piped=True)
        return printed

    def is_program(self, name: str) -> bool:
        """Whether `name` is a program, which changes nothing in the shell."""
        return name not in SPECIAL and name not in self.state.functions

    def define(self, node: Function) -> Text:
        state, self.state = self.state, self.state.branch()
        self.state.positional = None
        defining, self.defining = self.defining, (*self.defining, node.name)
        self.calls.setdefault(node.name, set())
        self.state.functions[node.name] = self.known(node)
        self.calling = (*self.calling, node.body)
        self.program(node.body, None)
        self.calling = self.calling[:-1]
        self.state, self.defining = state, defining
        self.state.functions[node.name] = self.known(node)
        return EMPTY

    def known(self, node: Function) -> Definition:
        return Definition(node.body, self.parsed, self.anchor)

    def group(self, node: Group, feed: Feed | None, *, sure: bool) -> Text:
        outer = self.state
        if node.kind == "subshell":
            self.state = outer.branch()
        feed, targets = self.redirects(node.redirects, feed)
        printed: list[Text] = []
        subject = [reading for word in node.words for reading in words.fields(word, self)]
        if node.kind == "for" and node.name:
            listed = [text for reading in subject for text in reading] or [UNKNOWN]
            if len(node.words) == 0 and self.state.positional is not None:
                listed = list(self.state.positional) or [EMPTY]
            self.state.set(node.name, tuple(listed), sure=sure)
        self.program(node.head, feed)
        looped = node.kind in ("while", "until", "for")
        if looped and is_endless(node):
            self.place(node.start, node.end)
            self.report("endless-background")
        before = dict(self.state.variables) if looped else {}
        certain = node.kind in ("group", "subshell")
        for body in node.bodies:
            if not certain:
                body = tuple(item._replace(sure=False) for item in body)
            printed.append(self.program(body, feed))
        if looped and any(before.get(name) != value for name, value in self.state.variables.items()):
            self.program(node.head, feed)
            for body in node.bodies:
                self.program(tuple(item._replace(sure=False) for item in body), feed)
        if node.kind == "subshell":
            self.state = outer
        out = printed[0] if len(printed) == 1 else blended(printed) if printed else EMPTY
        if looped and out.text:
            out = Text(HOLE + out.text + HOLE, out.taint)
        return self.delivered(out, targets)

    def simple(self, node: Simple, feed: Feed | None, *, sure: bool) -> Text:
        self.budget.command()
        self.here = here = (node.start, node.end)
        readings = [node.plain] if node.plain else words.arguments(node.words, self) if node.words else _NOTHING
        targets: list[tuple[str, bool]] = []
        if node.redirects:
            self.here = here
            feed, targets = self.redirects(node.redirects, feed)
        before: dict[str, tuple[Text, ...] | None] = {}
        if node.assigns:
            if readings[0] and readings[0][0].text not in _KEEPS:
                before = {assign.name: self.state.variables.get(assign.name) for assign in node.assigns}
            run_assignments(self, node.assigns, sure=sure)
        self.redirected, self.assigned = bool(targets), bool(node.assigns)
        printed: list[Text] = []
        for argv in readings:
            self.here = here
            if argv:
                printed.append(run_argv(self, argv, feed, sure=sure and len(readings) == 1))
            if self.sinks:
                for text in argv[1:]:
                    if text.text in self.sinks:
                        self.sunk(text.text, Text(HOLE, (printed[-1].taint if printed else 0)))
        for inner in node.inner:
            printed.append(self.program(inner, feed))
        for name, values in before.items():
            self.state.restore(name, values)
        if not readings[0] and node.redirects and not node.assigns and feed is not None and not targets:
            return Text(feed.text.text, feed.text.taint | READ)  # `$(< file)`
        out = EMPTY if not printed else printed[0] if len(printed) == 1 else blended(printed)
        if not targets:
            return out
        self.here = here
        return self.delivered(EMPTY if not readings[0] and feed is None else out, targets)

    def redirects(self, redirects: list[Redirect], feed: Feed | None) -> tuple[Feed | None, list[tuple[str, bool]]]:
        """The input that redirections leave, and the files that output goes to, each with whether it is added there."""
        targets: list[tuple[str, bool]] = []
        for redirect in redirects:
            if redirect.heredoc is not None and self.parsed is not None:
                text = self.body(redirect.heredoc)
                if redirect.descriptor in ("", "0"):
                    feed = Feed(text)
                else:
                    self.state.files[f"/dev/fd/{redirect.descriptor}"] = text
                continue
            here = self.here
            target = words.single(redirect.target, self)
            self.here = here
            if redirect.op == "<<<":
                feed = Feed(Text(target.text + "\n", target.taint))
            elif redirect.op == "<&":
                text = self.state.files.get(f"/dev/fd/{target.text}", UNKNOWN)
                feed = Feed(text, piped=bool(text.taint & SUBSTITUTED))
            elif redirect.op in (">&-", "<&-") or (
                redirect.op == ">&" and (target.text.isdigit() or target.text == "-")
            ):
                continue
            elif redirect.op == "<":
                if redirect.descriptor in ("", "0"):
                    feed = Feed(reading(self, target), piped=bool(target.taint & SUBSTITUTED))
                else:
                    self.state.files[f"/dev/fd/{redirect.descriptor}"] = reading(self, target)
            elif target.text in _OUTPUT:
                continue
            else:
                path = writing(self, target)
                if redirect.descriptor in ("", "1"):
                    targets.append((path, redirect.op in (">>", "&>>")))
                elif path in self.sinks:
                    self.sunk(path, UNKNOWN)
        return feed, targets

    def body(self, number: int) -> Text:
        assert self.parsed is not None  # noqa: S101
        if number >= len(self.parsed.heredocs):
            return UNKNOWN
        found = self.parsed.heredocs[number]
        if not found.expands or not ("$" in found.text or "`" in found.text or "\\" in found.text):
            return Text(found.text)
        here, anchor = self.here, self.anchor
        self.anchor = self.anchor or found.span
        word, broken = body_word(found.text, self.budget)
        if broken:
            self.broken(found.text)
        text = words.single(word, self) if word.pieces else Text(found.text)
        self.here, self.anchor = here, anchor
        return text

    def delivered(self, out: Text, targets: list[tuple[str, bool]]) -> Text:
        """Put what a command prints where it goes; returns what is left for the one who reads."""
        for path, append in targets:
            if path in self.sinks:
                self.sunk(path, out)
            else:
                self.state.written(path, out, append=append)
        return EMPTY if targets else out

    def sunk(self, path: str, text: Text) -> None:
        """`text` goes into the process substitution that `path` stands for."""
        program = self.sinks.pop(path)
        self.program(program, Feed(text, piped=True))

    def captured(self, program: Program) -> Text:
        """What `program` prints, in a subshell."""
        here, state = self.here, self.state
        self.state = state.branch()
        self.deeper()
        printed = self.program(program, None)
        self.depth -= 1
        self.state, self.here = state, here
        return Text(printed.text, printed.taint | OUTPUT if not printed.known else printed.taint)

    def as_file(self, program: Program, *, reads: bool) -> Text:
        """The name that stands for a process substitution."""
        self.substitutions += 1
        path = f"/dev/fd/{'in' if reads else 'out'}{self.substitutions}"
        if reads:
            printed = self.captured(program)
            self.state.files[path] = Text(printed.text, printed.taint | SUBSTITUTED)
        else:
            self.sinks[path] = program
        return Text(path, SUBSTITUTED)

    def finish(self) -> None:
        """What can be said at the end only: functions that start themselves again and again."""
        for name in self.forks:
            seen: set[str] = set()
            waiting = [name]
            while waiting:
                here = waiting.pop()
                for callee in self.calls.get(here, ()):
                    if callee == name:
                        self.here = None
                        self.report("fork-bomb")
                    elif callee in self.calls and callee not in seen:
                        seen.add(callee)
                        waiting.append(callee)


_OUTPUT: Final = frozenset({"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr", "/dev/tty"})
_NOTHING: Final[list[tuple[Text, ...]]] = [()]
_KEEPS: Final = frozenset(
    ["export", "declare", "local", "readonly", "typeset", "unset", "eval", "exec", ".", "source", ":", "set", "read"]
)
"""Commands that leave the assignments in front of them behind, or may do so."""
