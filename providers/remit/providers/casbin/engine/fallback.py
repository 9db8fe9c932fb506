"""pycasbin itself, for the matchers that cannot be compiled: slow, bounded in size, and only when asked for.

Rows come from our own loader, never from Casbin's file adapter. Casbin's process-wide habits (it switches loggers off,
keeps every name it was ever asked about) are contained here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import metadata
from threading import Lock
from typing import Any, Final

from remit.authz.errors import PolicyError, Problem
from remit.authz.types import AuthzDecision
from remit.providers.casbin.engine.closures import EvaluationError
from remit.providers.casbin.engine.decisions import Decisions
from remit.providers.casbin.engine.functions import BUILTINS, compile_match
from remit.providers.casbin.engine.lookups import Undetermined
from remit.providers.casbin.rules import CasbinModel, Link

MOST_ROWS: Final = 1000
"""Rules and links that the fallback accepts: beyond that a decision takes tens of milliseconds."""
_MOST_NAMES: Final = 10_000
"""Names that the role graph may hold before it is built anew."""

_silent = logging.getLogger("remit.providers.casbin.pycasbin")
_silent.disabled = True
_starting = Lock()
"""Held while Casbin's constructor switches loggers, which belong to the whole process."""
_LOGGERS: Final = ("casbin", "casbin.policy", "casbin.enforcer", "casbin.role")


@cache
def refuse_frozen_casbin() -> None:
    """Make sure that the import package `casbin` is pycasbin alone.

    The distribution `casbin` is an old copy of it, installs the same import package and overwrites files of it.

    Raises:
        PolicyError: Both are installed.
    """
    try:
        version = metadata.version("casbin")
    except metadata.PackageNotFoundError:
        return
    raise PolicyError(
        Problem(
            "environment",
            0,
            f"the distribution 'casbin' {version} is installed beside 'pycasbin' and overwrites parts of it",
            "uninstall both, then install 'pycasbin' alone",
            "frozen-casbin",
        )
    )


class PycasbinEngine:
    """An `Engine` that asks pycasbin. One decision at a time.

    In rows that allow, matching functions may only narrow what Casbin does: where they could differ, an allowed request
    is asked a second time with the strict reading everywhere, and both must allow.

    Args:
        model: Its text goes to Casbin as it is.
        decisions: Of the rules, which are in Casbin's order already.
        links: Role links.
        functions: The deployment's own.

    Raises:
        PolicyError: More rows than `MOST_ROWS`, or Casbin does not accept them.
    """

    def __init__(
        self,
        model: CasbinModel,
        decisions: Decisions,
        links: Sequence[Link],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.decisions = decisions
        rows = len(decisions.rules) + len(links)
        if rows > MOST_ROWS:
            raise PolicyError(
                Problem(
                    model.file,
                    model.matcher_line,
                    f"{rows} rows on the slow engine, which takes at most {MOST_ROWS}",
                    "simplify the matcher so that it can be compiled, or split the policy",
                    "not-compilable",
                    "m",
                )
            )
        self._lock = Lock()
        self._rows = [list(rule.values) for rule in decisions.rules]
        self._numbers = {id(row): number for number, row in enumerate(self._rows)}
        self._names = {name for row in self._rows for name in row} | {name for link in links for name in link.values}
        try:
            self._enforcer = _enforcer(model, self._rows, links)
        except Exception as error:
            raise PolicyError(
                Problem(model.file, model.matcher_line, f"Casbin refuses the model: {error}", code="casbin")
            ) from error
        self._own = {**self._enforcer.fm.get_functions(), **functions}
        self._strict = {**self._own, **_strict_functions()}
        texts = [model.matcher, *self._names] if "eval(" in model.matcher else [model.matcher]
        self._narrows = any(b.narrows and name in text for name, b in BUILTINS.items() for text in texts)

    def cell(self, values: Sequence[Any]) -> AuthzDecision:
        """The decision for the request `values`.

        Raises:
            EvaluationError: Casbin raised.
        """
        try:
            return self._ask(values)
        except Exception as error:
            raise EvaluationError(f"{type(error).__name__}: {error}") from error

    def _ask(self, values: Sequence[Any]) -> AuthzDecision:
        with self._lock:
            allowed, row = self._enforce(values, self._own)
            if allowed and self._narrows:
                allowed, row = self._enforce(values, self._strict)
            self._bound_names()
        decision = self.decisions.of(self._numbers.get(id(row)))
        if decision.allow is not allowed:  # the row that Casbin names is not the one that decided
            return AuthzDecision(allowed, (), None, self.decisions.version)
        return decision

    def _enforce(self, values: Sequence[Any], functions: dict[str, Callable[..., Any]]) -> tuple[bool, Any]:
        self._enforcer.fm.fm = dict(functions)
        allowed, row = self._enforcer.enforce_ex(*values)
        return allowed is True, row

    def _bound_names(self) -> None:
        known = 0
        for manager in self._enforcer.rm_map.values():
            domains = getattr(manager, "rm_map", {})
            known += len(domains) + sum(len(part.all_roles) for part in (domains.values() if domains else (manager,)))
        if known > _MOST_NAMES:
            self._enforcer.build_role_links()

    def matching(self, values: Sequence[Any]) -> list[int]:
        """The number of the one rule that Casbin names.

        Raises:
            EvaluationError: Casbin raised.
        """
        policy_id = self.cell(values).policy_id
        return [n for n, rule in enumerate(self.decisions.rules) if rule.policy_id == policy_id]

    def ever(self, values: Sequence[Any]) -> bool:
        """Is the request allowed for some arguments, when `values` hold none?"""
        try:
            return self._ask(values).allow
        except Undetermined:
            return True
        except Exception:
            return False

    def knows(self, field: int, value: str) -> bool:
        """Does some row mention `value`?"""
        return value in self._names

    def forget(self) -> None:
        """Nothing is learnt."""


def _enforcer(model: CasbinModel, rows: Sequence[list[str]], links: Sequence[Link]) -> Any:
    import casbin
    from casbin.model import Model
    from casbin.persist import Adapter

    class Rows(Adapter):  # type: ignore[misc]  # casbin ships no types
        def load_policy(self, target: Any) -> None:
            target["p"]["p"].policy.extend(rows)
            for link in links:
                target["g"][link.gtype].policy.append(list(link.values))

    parsed = Model()
    parsed.logger = _silent
    parsed.load_model_from_text(model.text)
    for section in parsed.values():
        for assertion in section.values():
            assertion.logger = _silent
    with _starting:
        before = {name: logging.getLogger(name).disabled for name in _LOGGERS}
        try:
            enforcer = casbin.Enforcer(parsed)
        finally:
            for name, disabled in before.items():
                logging.getLogger(name).disabled = disabled
    enforcer.logger = _silent
    for manager in (*enforcer.rm_map.values(), *enforcer.cond_rm_map.values()):
        manager.logger = _silent
    enforcer.adapter = Rows()
    enforcer.load_policy()
    return enforcer


def _strict_functions() -> dict[str, Callable[[Any, Any], bool]]:
    def strict(name: str) -> Callable[[Any, Any], bool]:
        return lambda value, pattern: compile_match(name, pattern, strict=True)(value)

    return {name: strict(name) for name, builtin in BUILTINS.items() if builtin.narrows}
