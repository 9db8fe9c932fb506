"""The text of a command as the grammar can read it, with the places where it and bash differ written in another way.

Bash takes out line continuations before it looks for words, lets a here-document begin anywhere in a line, reads back
quotes inside bodies and inside each other, and knows brace lists as names of commands. The grammar does none of that.
So here-documents become redirections from marks (their bodies are kept aside), back quotes become ``$(...)``, line
continuations vanish, and a brace that opens a list is escaped.

The scanner knows quotes, brackets, comments and nothing else. Where its reading is not certain it says so
(`Source.doubtful`); the grammar checks the rest, since a mark must turn up as the target of a redirection.
"""

from __future__ import annotations

import re
from typing import Final

from remit.middlewares.sandbox_audit.brackets import Frame, pairs
from remit.middlewares.sandbox_audit.heredocs import delimiter, line_of
from remit.middlewares.sandbox_audit.source import Heredoc, Source
from remit.middlewares.sandbox_audit.verdicts import MAX_DEPTH, Budget, TooComplex

# Every pattern is found in time linear in the text: what repeats has an end.
_DIFFERS: Final = re.compile(
    r"<<|`|\\\n|\n\\|<>|\(\(|(?<![$\w}])\{[^\s;&|<>(){}]|\$[^\w\s({\[@*#?$!'\"`-]"
    r"|\$\{[\w@*]{1,60}:[^}]{0,60}\$|\bfor[ \t]{1,9}\w{1,60}[ \t]{1,9}do\b|\b(?:time|coproc)\b[^\n]{0,80}[{(]"
)
_META: Final = " \t\n;&|()<>"
_RUN: Final = {
    "cmd": re.compile(
        r"[\\'\"`$(){<#\n]|(?<![^\s;&|(])"
        r"(?:case(?=\s[^\n;]{1,300}?\sin\s)|esac(?![^\s;&|()])|for[ \t]{1,9}\w{1,60}(?=[ \t]{1,9}do\s)"
        r"|(?:time(?:[ \t]{1,9}-p)?|coproc(?:[ \t]{1,9}\w{1,60})?)(?=[ \t]{1,9}[{(]))"
    ),
    "dq": re.compile(r"[\\\"`$]"),
    "param": re.compile(r"[\\'\"`$}]"),
    "arith": re.compile(r"[\\'\"`$()\]]"),
}
_SLICE: Final = re.compile(r"\$\{[\w@*]+(?:\[[^\]]*\])?:(?![-=+?])")
_UNFINISHED: Final = re.compile(
    r"(?:[;&|({!]|\( ?\)|(?<![\w.-])(?:then|do|else|elif|if|while|until|in|time|function[ \t]{1,9}[\w.-]{1,60}))$"
)
"""A line that goes on in the next one, or that is ended already."""
_LONE: Final = re.compile(r"[^\w\s({\[@*#?$!'\"`-]")
"""What a dollar sign stands in front of when it is a letter."""
_UNTICK: Final = re.compile(r"\\([`\\$])")
_UNTICK_QUOTED: Final = re.compile(r"\\([`\\$\"])")
_PLAIN_STRING: Final = re.compile(r"\"[^\"\\`$]*\"")
_ANSI_END: Final = re.compile(r"(?:[^\\']|\\.)*'", re.DOTALL)


def scanned(text: str, budget: Budget, *, body: bool = False) -> Source:
    """`text` in the form for the grammar.

    Args:
        text: A program; or, with `body`, the body of a here-document, to be read as one string in double quotes.

    Raises:
        TooComplex: It is nested too deeply.
    """
    mark = "@here"
    while mark in text:
        mark += "_"
    joins = "\n" in text and ("|" in text or "=" in text)
    if not body and not joins and _DIFFERS.search(text) is None:
        return Source(text, mark)
    found = _Scanner(text, mark, [], budget, body=body, depth=0)
    found.run()
    return found.source()


class _Scanner:
    def __init__(
        self, text: str, mark: str, heredocs: list[Heredoc], budget: Budget, *, body: bool, depth: int
    ) -> None:
        if depth > MAX_DEPTH:
            raise TooComplex
        self.text = text
        self.mark = mark
        self.heredocs = heredocs
        self.depth = depth
        self.body = body
        self.budget = budget
        self.doubtful = False
        self.braces: set[int] = set()
        self.out: list[str] = []
        self.length = 0
        self.kept = self.kept_to = 0
        self.stray = -1
        self.ended = 0
        self.pairs: dict[int, int] | None = None
        self.stretches: list[tuple[int, int, int]] = []
        self.pending: list[tuple[int, str, bool, bool]] = []
        self.stack = [Frame("dq" if body else "cmd", quoted=body)]

    def source(self) -> Source:
        made = Source("".join(self.out), self.mark)
        made.heredocs = self.heredocs
        made.braces = self.braces
        made.doubtful = self.doubtful
        for stretch in self.stretches:
            made.stretch(*stretch)
        return made

    def run(self) -> None:
        text, end, at, steps = self.text, len(self.text), 0, 0
        while at < end:
            steps += 1
            if steps % 256 == 0:
                self.budget.check()
            frame = self.stack[-1]
            found = _RUN[frame.kind].search(text, at)
            if found is None:
                self.copy(at, end)
                break
            start = found.start()
            if start > at:
                self.copy(at, start)
            at = self.special(frame, found.group(), start)
        if len(self.stack) > 1:
            self.doubtful = True
        self.flush()
        for number, *_ in self.pending:  # a body that never comes is empty
            self.heredocs[number] = Heredoc("", False, (end, end))

    def copy(self, start: int, end: int) -> None:
        """Keep ``text[start:end]``; what stands side by side is kept in one piece."""
        if start != self.kept_to:
            self.flush()
            self.kept = start
        self.kept_to = end

    def flush(self) -> None:
        if self.kept_to > self.kept:
            self.stretches.append((self.length, self.kept, -1))
            self.out.append(self.text[self.kept : self.kept_to])
            self.length += self.kept_to - self.kept
        self.kept = self.kept_to

    def put(self, piece: str, start: int, end: int) -> None:
        """Write `piece` in place of ``text[start:end]``."""
        self.flush()
        self.kept = self.kept_to = end
        self.stretches.append((self.length, start, end))
        self.out.append(piece)
        self.length += len(piece)

    def is_arithmetic(self, at: int) -> bool:
        """Whether the two brackets at `at` are closed by two: arithmetic, not a command in a subshell."""
        if self.pairs is None:
            self.pairs = pairs(self.text)
        close = self.pairs.get(at + 1)
        return close is not None and self.pairs.get(at) == close + 1

    def push(self, frame: Frame) -> None:
        if len(self.stack) + self.depth > 4 * MAX_DEPTH:
            raise TooComplex
        self.stack.append(frame)

    def starts_word(self, at: int) -> bool:
        return at == 0 or self.text[at - 1] in _META or self.text[at - 1] == "`"

    def special(self, frame: Frame, found: str, at: int) -> int:
        """Deal with what stands at `at`; returns where to go on."""
        text, kind = self.text, frame.kind
        after = text[at + 1 : at + 2]
        if found == "\\":
            if after == "\n":
                return at + 2
            if kind == "cmd" and text[at - 1 : at] == "\n":
                self.put(" ", at, at)  # the grammar would take the line for a part of the one before
            self.copy(at, at + 2)
            return at + 2
        if found == "`":
            return self.backquotes(frame, at)
        if found == "$":
            return self.dollar(frame, at, after)
        if found == '"':
            if kind == "dq":
                if len(self.stack) == 1:  # a body: its quotes are letters
                    self.put('\\"', at, at + 1)
                    return at + 1
                self.stack.pop()
            else:
                plain = _PLAIN_STRING.match(text, at)
                if plain is not None:
                    self.copy(at, plain.end())
                    return plain.end()
                self.push(Frame("dq", quoted=True))
        elif found == "'":
            if not frame.quoted:
                close = text.find("'", at + 1)
                if close < 0:
                    self.doubtful = True
                    close = len(text) - 1
                self.copy(at, close + 1)
                return close + 1
        elif kind == "param":  # a closing brace
            self.stack.pop()
        elif kind == "arith":
            return self.arithmetic(frame, found, at)
        elif kind == "cmd":
            return self.command(frame, found, at, after)
        self.copy(at, at + 1)
        return at + 1

    def command(self, frame: Frame, found: str, at: int, after: str) -> int:
        text = self.text
        if found == "(":
            if after == "(" and (self.starts_word(at) or text.endswith("for", 0, at)) and self.is_arithmetic(at):
                self.push(Frame("arith"))
                self.copy(at, at + 2)
                return at + 2
            self.push(Frame("cmd", pending=len(self.pending)))
            self.stack[-1].array = text[at - 1 : at] == "="
            self.stack[-1].pattern = frame.cases > 0 and not text[text.rfind("\n", 0, at) + 1 : at].strip()
            if after == "(":
                return self.apart(at, at + 1)
        elif found == ")":
            if frame.cases == 0 and len(self.stack) > 1:
                self.close(frame)
                self.stray = at if frame.pattern else self.stray
            else:
                self.stray = at
        elif found == "{":
            if self.starts_word(at) and after and after not in _META and after not in "}\r\f\v":
                self.flush()
                self.braces.add(self.length + 1)
                self.put(" \\{", at, at + 1)  # a backslash right behind a newline would join the lines
                return at + 1
        elif found == "<":
            return self.redirection(at)
        elif found == "#":
            if self.starts_word(at):
                self.end_line(frame, at)
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                self.copy(at, end)
                return end
        elif found == "\n":
            self.end_line(frame, at)
            self.copy(at, at + 1)
            return self.bodies(at + 1) if self.pending else at + 1
        else:
            if found.startswith(("time", "coproc")):
                return self.dropped(at, at + len(found))
            self.copy(at, at + len(found))
            if found.startswith("for"):
                self.put(";", at + len(found), at + len(found))  # the grammar misses the loop over all arguments
            else:
                frame.cases = max(0, frame.cases + (1 if found == "case" else -1))
            return at + len(found)
        self.copy(at, at + 1)
        return at + 1

    def end_line(self, frame: Frame, at: int) -> None:
        """A line ends here, or a comment begins. Say so: the grammar goes on in the next line where it should not."""
        since, self.ended = self.ended, at
        if frame.array or ("|" not in self.text[since:at] and "=" not in self.text[since:at]):
            return
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:at].rstrip()
        if not line or line.isspace() or _UNFINISHED.search(line) is not None:
            self.ended = since if line.endswith(("|", "&", "\\")) else at
            return
        if start + len(line) - 1 != self.stray and line.count("[[") <= line.count(
            "]]"
        ):  # not behind a pattern, in a test
            self.put(";", at, at)

    def close(self, frame: Frame) -> None:
        self.stack.pop()
        if frame.substitution and len(self.pending) > frame.pending:
            self.doubtful = True  # versions of bash do not agree on where such a body begins

    def arithmetic(self, frame: Frame, found: str, at: int) -> int:
        width = 1
        if found == "(":
            frame.nested += 1
        elif found == ")":
            if frame.nested:
                frame.nested -= 1
            elif not frame.substitution:
                self.stack.pop()
                width = 2
        elif found == "]" and frame.substitution and not frame.nested:
            self.stack.pop()
        self.copy(at, at + width)
        return at + width

    def dollar(self, frame: Frame, at: int, after: str) -> int:
        text, width = self.text, 2
        if after == "(":
            if text.startswith("(", at + 2) and self.is_arithmetic(at + 1):
                self.push(Frame("arith"))
                width = 3
            else:
                self.push(Frame("cmd", substitution=True, pending=len(self.pending)))
                if text.startswith("(", at + 2):
                    return self.apart(at, at + 2)
        elif after == "{":
            self.push(Frame("param", quoted=frame.quoted, substitution=_SLICE.match(text, at) is not None))
        elif frame.kind == "param" and frame.substitution and (after.isalnum() or after == "_"):
            self.put("v", at, at + 1)  # an offset is arithmetic: names count without the sign, which the grammar misses
            return at + 1
        elif after == "[":
            self.push(Frame("arith", substitution=True))
        elif after == "'" and not frame.quoted:
            found = _ANSI_END.match(text, at + 2)
            self.doubtful |= found is None
            end = len(text) if found is None else found.end()
            self.copy(at, end)
            return end
        elif after not in ("#", "$"):
            if after and _LONE.match(after):
                self.put("\\", at, at)
            width = 1
        self.copy(at, at + width)
        return at + width

    def dropped(self, at: int, end: int) -> int:
        """Leave out a word in front of a group, which the grammar would take for the first argument of a command."""
        self.put("", at, end)
        return end

    def apart(self, at: int, end: int) -> int:
        """Keep two opening brackets apart that the grammar would take for arithmetic."""
        self.copy(at, end)
        self.put(" ", end, end)
        return end

    def backquotes(self, frame: Frame, at: int) -> int:
        text, end = self.text, at + 1
        while end < len(text) and text[end] != "`":
            end += 2 if text[end] == "\\" else 1
        if end >= len(text):
            self.doubtful = True
            self.copy(at, len(text))
            return len(text)
        untick = _UNTICK_QUOTED if frame.quoted and not self.body else _UNTICK
        inner = _Scanner(
            untick.sub(r"\1", text[at + 1 : end]),
            self.mark,
            self.heredocs,
            self.budget,
            body=False,
            depth=self.depth + 1,
        )
        inner.run()
        self.doubtful |= inner.doubtful or bool(inner.pending)
        self.flush()
        self.braces.update(place + self.length + 3 for place in inner.braces)
        self.put("$( " + "".join(inner.out) + "\n)", at, end + 1)  # the newline ends a comment
        return end + 1

    def redirection(self, at: int) -> int:
        text = self.text
        if text.startswith("<<<", at):
            self.copy(at, at + 3)
            return at + 3
        if text.startswith("<(", at):
            self.push(Frame("cmd", substitution=True, pending=len(self.pending)))
            self.copy(at, at + 2)
            return at + 2
        if text.startswith("<>", at):
            self.put(">" if at and text[at - 1].isdigit() and text[at - 1] != "0" else "<", at, at + 2)
            return at + 2
        if not text.startswith("<<", at):
            self.copy(at, at + 1)
            return at + 1
        tabs = text.startswith("-", at + 2)
        word, quoted, end = delimiter(text, at + 3 if tabs else at + 2)
        if word is None:
            self.doubtful = True
            self.copy(at, at + 2)
            return at + 2
        number = len(self.heredocs)
        self.heredocs.append(Heredoc("", False, (at, end)))
        self.pending.append((number, word, quoted, tabs))
        self.put(f"<{self.mark}{number}", at, end)
        return end

    def bodies(self, at: int) -> int:
        """Set the bodies of the here-documents of the line aside; returns where the next command begins."""
        for number, word, quoted, tabs in self.pending:
            start, lines = at, []
            while at < len(self.text):
                line, at = line_of(self.text, at, joined=not quoted)
                line = line.lstrip("\t") if tabs else line
                if line == word:
                    break
                if len(self.stack) > 1 and line.startswith(word + ")"):
                    self.doubtful = True  # some versions of bash end the body here
                lines.append(line + "\n")
            self.heredocs[number] = Heredoc("".join(lines), not quoted, (start, at))
        self.pending.clear()
        return at
