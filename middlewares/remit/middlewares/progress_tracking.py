"""Which tools still bring something new, per thread: a small state machine for each, in bounded memory.

| Observation | What follows |
|---|---|
| a success unlike the last three | active, nothing counted |
| an error that the model cannot mend and that says stop, by the word of the tool itself | blocked |
| any other error, a partial success, or a success like one of the last three | one more problem in a row |
| as many problems as `stagnation_threshold` | warned, and a hint with this and every further problem |
| `warn_escalation_count` more, and the model cannot mend the last one | blocked |

Whatever was only read out of the text of a result blocks nothing at once: the text may come from a stranger.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Literal

from remit.middlewares.tool_result_meta import ToolMeta
from remit.runtime.config import ToolProgressConfig

Phase = Literal["active", "warned", "blocked"]
Category = Literal["recoverable", "repeated", "persistent", "fatal"]

REMEMBERED: Final = 3
"""Results that a new one is compared with."""
MAX_HINTS: Final = 3
MAX_RUNS: Final = 16
"""Runs of one thread whose hints are kept."""
MAX_TOOLS: Final = 512
"""Tools of one thread that are tracked."""
_SCANNED: Final = 8_192
_WORDS: Final = re.compile(r"\w{3,}")

Words = frozenset[str]


@dataclass(slots=True)
class _Tool:
    """What is known about one tool in one thread."""

    phase: Phase = "active"
    problems: int = 0
    """Problems in a row."""
    error_type: str | None = None
    """Of the last problem."""
    recent: deque[Words] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


@dataclass(slots=True)
class _Thread:
    tools: OrderedDict[str, _Tool] = field(default_factory=OrderedDict)
    hints: OrderedDict[str, OrderedDict[str, str]] = field(default_factory=OrderedDict)
    """Run -> tool -> what to tell the model."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an observation brought about."""

    phase: Phase
    category: Category
    problems: int
    error_type: str | None
    blocked_now: bool


class ProgressTracker:
    """Tools of many threads. Safe to share between threads and tasks; nothing here waits.

    Args:
        config: Thresholds and bounds.
    """

    def __init__(self, config: ToolProgressConfig) -> None:
        self._config = config
        self._threads: OrderedDict[Hashable, _Thread] = OrderedDict()
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        """How many threads are tracked."""
        return len(self._threads)

    def begin(self, scope: Hashable, run: str) -> None:
        """A run starts: tools are judged anew, and hints of other runs are dropped."""
        with self._mutex:
            known = self._threads.get(scope)
            if known is not None:
                known.tools.clear()
                known.hints = OrderedDict((key, hints) for key, hints in known.hints.items() if key == run)

    def blocked(self, scope: Hashable, tool: str) -> str | None:
        """The kind of error that blocked `tool`; None when it may run."""
        with self._mutex:
            known = self._threads.get(scope)
            held = None if known is None else known.tools.get(tool)
            return (held.error_type or "unknown") if held is not None and held.phase == "blocked" else None

    def observe(self, scope: Hashable, tool: str, meta: ToolMeta, text: str) -> Change | None:
        """Take note of one result.

        Args:
            scope: The thread, or the one run of a subagent in it.
            tool: Its name.
            meta: The stamp of the result.
            text: Of the result.

        Returns:
            What there is to say about it; None for a tool that gets on.
        """
        words = words_of(text) if meta["status"] == "success" else frozenset()
        with self._mutex:
            held = self._tool(scope, tool)
            if held.phase == "blocked":
                return None
            if meta["status"] == "success":
                if not self._repeats(held, words):
                    held.phase, held.problems, held.error_type = "active", 0, None
                    held.recent.append(words)
                    return None
                return self._problem(held, "repeated", None)
            if meta["recoverable_by_model"]:
                return self._problem(held, "recoverable", meta["error_type"])
            if meta["recommended_next_action"] == "stop" and meta["source"] != "content_analysis":
                held.phase, held.error_type = "blocked", meta["error_type"]
                held.problems += 1
                return Change("blocked", "fatal", held.problems, held.error_type, True)
            return self._problem(held, "persistent", meta["error_type"])

    def hint(self, scope: Hashable, run: str, tool: str, text: str) -> None:
        """Keep something to tell the model about `tool` at its next call, in place of what was to be told before."""
        with self._mutex:
            hints = self._thread(scope).hints
            queue = hints.setdefault(run, OrderedDict())
            hints.move_to_end(run)
            queue[tool] = text
            queue.move_to_end(tool)
            while len(queue) > MAX_HINTS:
                queue.popitem(last=False)
            while len(hints) > MAX_RUNS:
                hints.popitem(last=False)

    def hints(self, scope: Hashable, run: str) -> tuple[str, ...]:
        """What to tell the model. It stays until `told`."""
        with self._mutex:
            known = self._threads.get(scope)
            return () if known is None else tuple(known.hints.get(run, {}).values())

    def told(self, scope: Hashable, run: str, texts: tuple[str, ...]) -> None:
        """The model was told `texts`."""
        with self._mutex:
            known = self._threads.get(scope)
            queue = None if known is None else known.hints.get(run)
            if known is None or queue is None:
                return
            for tool in [tool for tool, text in queue.items() if text in texts]:
                del queue[tool]
            if not queue:
                del known.hints[run]

    def _problem(self, held: _Tool, category: Category, error_type: str | None) -> Change | None:
        held.problems += 1
        held.error_type = error_type
        limit = self._config.stagnation_threshold
        if held.problems < limit:
            return None
        if category == "persistent" and held.problems >= limit + self._config.warn_escalation_count:
            held.phase = "blocked"
            return Change("blocked", category, held.problems, error_type, True)
        held.phase = "warned"
        return Change("warned", category, held.problems, error_type, False)

    def _repeats(self, held: _Tool, words: Words) -> bool:
        least = max(self._config.min_word_count_for_similarity, 1)
        if len(words) < least:
            return False
        limit = self._config.jaccard_similarity_threshold
        return any(len(old) >= least and len(words & old) >= limit * len(words | old) for old in held.recent)

    def _thread(self, scope: Hashable) -> _Thread:
        known = self._threads.get(scope)
        if known is None:
            known = self._threads[scope] = _Thread()
        self._threads.move_to_end(scope)
        while len(self._threads) > self._config.max_tracked_threads:
            self._threads.popitem(last=False)
        return known

    def _tool(self, scope: Hashable, tool: str) -> _Tool:
        tools = self._thread(scope).tools
        held = tools.setdefault(tool, _Tool())
        tools.move_to_end(tool)
        if len(tools) > MAX_TOOLS:
            tools.popitem(last=False)
        return held


def words_of(text: str) -> Words:
    """What two results are compared by: the words of three letters and more at the beginning of a text."""
    return frozenset(_WORDS.findall(text[:_SCANNED].lower()))
