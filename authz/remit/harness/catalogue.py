"""The catalogue of tools that are found by search instead of being listed, and how it is searched.

Three forms of query, none of them a pattern that a model could make expensive:

- ``select:name_a,name_b``: exactly these;
- ``+word other words``: the word with the plus must occur, the others rank;
- free text: ranked by how rare the words are that occur in a tool's name and description.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from remit.runtime.release import canonical_json

MAX_RESULTS: Final = 5
MAX_QUERY: Final = 500
MAX_TERMS: Final = 32
NAME_WEIGHT: Final = 3.0
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class Entry:
    """One tool of the catalogue."""

    tool: BaseTool

    @property
    def name(self) -> str:
        return self.tool.name

    @cached_property
    def schema(self) -> dict[str, Any]:
        """What a model would be told about it."""
        found: dict[str, Any] = convert_to_openai_tool(self.tool)["function"]
        return found

    @cached_property
    def weights(self) -> dict[str, float]:
        """Word -> how much an occurrence counts."""
        found = dict.fromkeys(words(self.tool.description), 1.0)
        found.update(dict.fromkeys(words(self.name), NAME_WEIGHT))
        return found


class Catalogue:
    """Tools by name, ranked by a query.

    Args:
        tools: Its tools; names differ.
    """

    def __init__(self, tools: Iterable[BaseTool]) -> None:
        self.entries = {tool.name: Entry(tool) for tool in tools}
        self._occurring = Counter(word for entry in self.entries.values() for word in entry.weights)

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that change with any name or schema in it."""
        schemas = [self.entries[name].schema for name in sorted(self.entries)]
        return hashlib.sha256(canonical_json(schemas).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.entries)

    def search(self, query: str, visible: Collection[str], *, limit: int = MAX_RESULTS) -> list[Entry]:
        """The best entries for `query`, best first, equal ones by name.

        Args:
            query: See the module. Cut to `MAX_QUERY` characters.
            visible: Names that this caller may see: nothing else is found, whatever the form of the query.
            limit: At most so many.
        """
        query = query[:MAX_QUERY].strip()
        seen = [entry for name, entry in self.entries.items() if name in visible]
        if query.casefold().startswith("select:"):
            wanted = [name.strip() for name in query[len("select:") :].split(",")]
            by_name = {entry.name: entry for entry in seen}
            return [by_name[name] for name in dict.fromkeys(wanted) if name in by_name][:limit]
        terms = query.split()[:MAX_TERMS]
        required = {word for term in terms if term.startswith("+") for word in words(term)}
        scored = [
            (score, entry.name, entry)
            for entry in seen
            if (required <= entry.weights.keys()) and (score := self._score(entry, words(" ".join(terms)))) > 0
        ]
        scored.sort(key=lambda item: (-item[0], item[1]))
        return [entry for _, _, entry in scored[:limit]]

    def _score(self, entry: Entry, wanted: Sequence[str]) -> float:
        total = len(self.entries)
        return sum(
            weight * math.log(1 + total / self._occurring[word])
            for word in wanted
            if (weight := entry.weights.get(word)) is not None
        )


def words(text: str) -> list[str]:
    """The distinct words of `text`, folded; ``camelCase`` and ``snake_case`` are several."""
    return list(dict.fromkeys(word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text))))
