"""Collecting what is wrong with a policy set, so that an operator sees all of it at once."""

from __future__ import annotations

from collections.abc import Iterable

from remit.authz.errors import Problem, Severity

_PER_KIND = 100  # a broken export repeats one mistake per row; a hundred places are enough to see it


class Findings:
    """Problems of one load. At most a hundred of one kind and file are kept; the others are counted."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, Severity], list[Problem]] = {}
        self._more: dict[tuple[str, str, Severity], tuple[int, int]] = {}
        self.failed = False
        """True as soon as one error was found."""

    def error(self, code: str, file: str, line: int, message: str, advice: str = "", key: str = "") -> None:
        self.failed = True
        self._add(Problem(file, line, message, advice, code, key, "error"))

    def warning(self, code: str, file: str, line: int, message: str, advice: str = "", key: str = "") -> None:
        self._add(Problem(file, line, message, advice, code, key, "warning"))

    def _add(self, problem: Problem) -> None:
        kind = (problem.file, problem.code, problem.severity)
        kept = self._kept.setdefault(kind, [])
        if len(kept) < _PER_KIND:
            kept.append(problem)
        else:
            line, count = self._more.get(kind, (problem.line, 0))
            self._more[kind] = (line, count + 1)

    def take(self, other: Findings) -> None:
        """Add everything that `other` holds."""
        for problem in other.problems():
            self._add(problem)
        self.failed = self.failed or other.failed

    def problems(self) -> tuple[Problem, ...]:
        """Everything that was found, sorted by file, line and text."""
        out = [problem for kept in self._kept.values() for problem in kept]
        for (file, code, severity), (line, count) in self._more.items():
            text = f"{count} more of the same kind from here on ({code})"
            out.append(Problem(file, line, text, "correct the ones above first", code, "", severity))
        return tuple(sorted(out))


def one_of(names: Iterable[str]) -> str:
    """``'p' or 'g'``, ``'a', 'b' or 'c'``: for sentences that name what is accepted."""
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}" if quoted else "nothing"
