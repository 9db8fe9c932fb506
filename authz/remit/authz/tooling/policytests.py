"""Policy tests as files: who asks, what is asked, what must come out. Strict: a typo must not pass as no expectation.

```yaml
version: 1
tests:
  - name: guests look but do not touch
    given: {role: guest, user: alice, attributes: {team: red}}
    expect:
      - {request: "tool:call:read_file", decision: allow}
      - {request: "tool:call:bash", args: {command: ls}, decision: deny, rule: "policy.csv:3", reason: authz.denied}
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from remit.authz.documents import Document, DocumentError, did_you_mean, read_document
from remit.authz.errors import ConfigError, Problem
from remit.authz.tooling.request import Asked, parse_asked
from remit.authz.types import EMPTY, Principal

Verdict = Literal["allow", "deny", "ask"]

_VERDICTS: Final = ("allow", "deny", "ask")
_FILE_KEYS: Final = ("version", "tests")
_TEST_KEYS: Final = ("name", "given", "expect")
_GIVEN_KEYS: Final = ("role", "user", "attributes")
_EXPECT_KEYS: Final = ("request", "args", "decision", "rule", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One request and its expected answer."""

    asked: Asked
    args: Mapping[str, Any]
    decision: Verdict
    rule: str | None
    """The rule that must decide, for example ``policy.csv:3``; None when any may."""
    reason: str | None
    """The reason code that must be given, for example ``authz.unknown_role``; None when any usual one may."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTest:
    """Expectations about one caller."""

    name: str
    file: str
    line: int
    role: str | None
    """None: a caller without a role, who gets the default role."""
    user: str | None
    attributes: Mapping[str, Any]
    expect: tuple[Expectation, ...]


def load_policy_tests(files: Iterable[Path], *, resources: Collection[str] = ()) -> tuple[PolicyTest, ...]:
    """Read policy tests, in the order of the files and of the tests in them.

    Args:
        files: YAML files.
        resources: Resource types of the deployment's own.

    Raises:
        ConfigError: Every problem of every file at once, with file, line and key.
    """
    tests: list[PolicyTest] = []
    problems: list[Problem] = []
    for path in files:
        try:
            document = read_document(path)
        except DocumentError as exc:
            problems += exc.problems
            continue
        reader = _Reader(document, resources)
        tests += reader.tests()
        problems += reader.problems
    if problems:
        raise ConfigError(problems)
    return tuple(tests)


_Place = tuple[str | int, ...]


class _Reader:
    """Reads one document. Notes problems and reads on, so that all come at once; what it returns then is not used."""

    def __init__(self, document: Document, resources: Collection[str]) -> None:
        self.document = document
        self.resources = resources
        self.problems: list[Problem] = []

    def tests(self) -> list[PolicyTest]:
        top = self._mapping((), self.document.data, _FILE_KEYS, required=("tests",))
        version = top.get("version", 1)
        if version != 1 or version is True:
            self._refuse(("version",), f"unknown version {version!r}", "this release reads version 1")
        tests = [self._test(at, item) for at, item in self._items(("tests",), top)]
        first: dict[str, int] = {}
        for index, test in enumerate(tests):
            if (other := first.setdefault(test.name, index)) != index:
                line = self.document.line(("tests", other, "name"))
                at = ("tests", index, "name")
                self._refuse(at, f"the name {test.name!r} is taken in line {line} already", "choose another")
        return tests

    def _test(self, at: _Place, item: Any) -> PolicyTest:
        test = self._mapping(at, item, _TEST_KEYS, required=("name", "expect"))
        given = self._mapping((*at, "given"), test.get("given", {}), _GIVEN_KEYS)
        role = self._text((*at, "given"), given, "role")
        user = self._text((*at, "given"), given, "user")
        attributes = self._free((*at, "given"), given, "attributes")
        try:
            Principal(user_id=user, role=role, attributes=attributes)
        except ValueError as exc:
            self._refuse((*at, "given"), str(exc), "")
        return PolicyTest(
            name=self._text(at, test, "name") or f"tests[{at[-1]}]",
            file=self.document.file,
            line=self.document.line(at),
            role=role,
            user=user,
            attributes=attributes,
            expect=tuple(self._expectation(*pair) for pair in self._items((*at, "expect"), test)),
        )

    def _expectation(self, at: _Place, item: Any) -> Expectation:
        expect = self._mapping(at, item, _EXPECT_KEYS, required=("request", "decision"))
        decision = expect.get("decision")
        if "decision" in expect and decision not in _VERDICTS:
            advice = did_you_mean(decision, _VERDICTS) if isinstance(decision, str) else "known: allow, ask, deny"
            self._refuse((*at, "decision"), f"unknown decision {decision!r}", advice)
        asked = Asked("tool", "call", "?")
        if (text := self._text(at, expect, "request")) is not None:
            try:
                asked = parse_asked(text, resources=self.resources)
            except ValueError as exc:
                self._refuse((*at, "request"), str(exc), "")
        return Expectation(
            asked=asked,
            args=self._free(at, expect, "args"),
            decision=cast(Verdict, decision),
            rule=self._text(at, expect, "rule"),
            reason=self._text(at, expect, "reason"),
            line=self.document.line(at),
        )

    def _refuse(self, at: _Place, message: str, advice: str, *, code: str = "invalid-test") -> None:
        self.problems.append(self.document.problem(at, message, advice, code=code))

    def _mapping(
        self, at: _Place, value: Any, known: tuple[str, ...], *, required: tuple[str, ...] = ()
    ) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._refuse(at, f"must be a mapping, got {_kind(value)}", f"known keys: {', '.join(known)}")
            return EMPTY
        for key in value:
            if key not in known:
                self._refuse((*at, key), f"unknown key {key!r}", did_you_mean(key, known), code="unknown-key")
        for key in required:
            if key not in value:
                self._refuse(at, f"the key {key!r} is missing", f"add `{key}: …`", code="missing")
        return value

    def _items(self, at: _Place, parent: Mapping[str, Any]) -> list[tuple[_Place, Any]]:
        """The items of the list at `at` in `parent`, with their places. A list that is there must hold something."""
        if at[-1] not in parent:
            return []
        value = parent[cast(str, at[-1])]
        if not isinstance(value, list) or not value:
            got = "an empty list" if value == [] else _kind(value)
            self._refuse(at, f"must be a list with at least one item, got {got}", "write the items with `- `")
            return []
        return [((*at, index), item) for index, item in enumerate(value)]

    def _text(self, at: _Place, parent: Mapping[str, Any], key: str) -> str | None:
        if key not in parent:
            return None
        value = parent[key]
        if isinstance(value, str) and value:
            return value
        advice = "leave the key out" if value is None or value == "" else f'write it in quotes: "{value}"'
        self._refuse((*at, key), f"must be a text, got {_kind(value)}", advice)
        return None

    def _free(self, at: _Place, parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = parent.get(key, EMPTY)
        if isinstance(value, dict):
            return value
        self._refuse((*at, key), f"must be a mapping of names to values, got {_kind(value)}", "write {name: value}")
        return EMPTY


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"
