"""The Casbin provider: a snapshot of the policy that answers, and the ways to replace it by a newer one."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Never, Self

from remit.authz.documents import did_you_mean
from remit.authz.errors import ConfigError, PolicyError, Problem
from remit.authz.types import AuthzDecision, AuthzRequest, Explanation, Principal
from remit.providers.casbin.files.loader import load_policy_set
from remit.providers.casbin.native import ROLE
from remit.providers.casbin.pauses import collector_at_rest
from remit.providers.casbin.rules import PolicySet
from remit.providers.casbin.settings import Settings
from remit.providers.casbin.settling import Settling
from remit.providers.casbin.snapshot import PolicySnapshot
from remit.providers.casbin.watch import PolicyWatch

if TYPE_CHECKING:
    from remit.providers.casbin.listing import ListedRule

logger = logging.getLogger("remit.providers.casbin")


class Reloads(NamedTuple):
    """How often the policy was read again since the provider was made."""

    accepted: int = 0
    refused: int = 0


class CasbinAuthorizationProvider:
    """Casbin policies from files, compiled into an index that answers in microseconds and never blocks.

    Decisions read one reference to an immutable snapshot; `reload`, or the watch, replaces it whole. Safe to share
    between threads and tasks.

    Args:
        policies: Policy files in their order, ``.csv`` or ``.yaml``; relative to `base_dir`.
        model: A Casbin model file; None for remit's own model.
        request: One template per request column of a model of your own, for example ``["{role}", "{target}"]``.
        watch: Follow the files and take changes into force.
        base_dir: Where relative names begin; the current folder when None.
        allow_slow: Run matchers that cannot be compiled on pycasbin itself, at most 1,000 rows.
        functions: Matcher functions of your own, by name: callables, or ``"module:name"``.
        resources: Resource types that this deployment asks about beside the built-in ones.

    Raises:
        PolicyError: The files cannot be put in force. It holds every problem.
        ConfigError: An argument is wrong or unknown.
    """

    name: str = "casbin"
    blocking: ClassVar[Literal[False]] = False

    last_reload_error: PolicyError | None
    """Why the files as they are now are not in force; None when they are."""
    reloads: Reloads
    loaded_at: float
    """When the snapshot in force was loaded, in seconds since the epoch."""

    def __init__(
        self,
        *,
        policies: Sequence[str | Path],
        model: str | Path | None = None,
        request: Sequence[str] | None = None,
        watch: bool = False,
        base_dir: str | Path | None = None,
        allow_slow: bool = False,
        functions: Mapping[str, Callable[..., Any] | str] | None = None,
        resources: Sequence[str] = (),
        **unknown: Never,
    ) -> None:
        self._settings = Settings.checked(
            policies=policies,
            model=model,
            request=request,
            watch=watch,
            base_dir=base_dir,
            allow_slow=allow_slow,
            functions=functions,
            resources=resources,
            **unknown,
        )
        self._lock = threading.Lock()
        self._logged: set[str] = set()
        self._watch: PolicyWatch | None = None
        self.last_reload_error = None
        self.reloads = Reloads()
        settling = Settling(map(str, self._settings.files)) if watch else None  # before the files are read
        self._snapshot = self._build()
        self.loaded_at = time.time()
        if settling is not None:
            self._watch = PolicyWatch(settling, self._follow)
            weakref.finalize(self, self._watch.stop).atexit = False
            self._watch.start()
        _providers.add(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, base_dir: str | Path, resources: Sequence[str] = ()) -> Self:
        """Build from the ``provider.config`` section of `authz.yaml`, whose keys are the arguments of the class.

        Args:
            config: That section.
            base_dir: The folder of the file.
            resources: The extra resource types of the section ``vocabulary``.

        Raises:
            PolicyError: As the class.
            ConfigError: A key is unknown or its value has another type.
        """
        if "base_dir" in config:
            raise ConfigError("'base_dir' is the folder of the configuration file and cannot be set; remove it")
        if "policies" not in config:
            raise ConfigError("'policies' is missing; list the policy files, for example [roles.yaml, policy.csv]")
        if resources and "resources" not in config:
            config = {**config, "resources": list(resources)}
        return cls(**config, base_dir=base_dir)

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        """Decide one request. Never raises for what a request or a rule may hold, and does no I/O."""
        return self._snapshot.authorize(request)

    async def aauthorize(self, request: AuthzRequest) -> AuthzDecision:
        """The same answer as `authorize`, in place."""
        return self._snapshot.authorize(request)

    def authorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]:
        """Decide all of `requests` by one and the same policy version, in their order."""
        return [*map(self._snapshot.authorize, requests)]

    async def aauthorize_many(self, requests: Sequence[AuthzRequest]) -> list[AuthzDecision]:
        """The same answers as `authorize_many`, in place."""
        return self.authorize_many(requests)

    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        """Which of `candidates` may this principal ever use, with the arguments unknown?

        Returns:
            A new list: order and duplicates kept, nothing added.
        """
        return self._snapshot.filter(principal, resource_type, candidates)

    async def afilter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        """The same answer as `filter_resources`, in place."""
        return self._snapshot.filter(principal, resource_type, candidates)

    @property
    def snapshot(self) -> PolicySnapshot:
        """The policy in force now. Keep it to ask several questions of one version."""
        return self._snapshot

    @property
    def policy_version(self) -> str:
        """``sha256:`` and a digest of everything that decides."""
        return self._snapshot.version

    def validate_role(self, role: str, *, field: str) -> None:
        """Accept a role that the policy in force knows.

        Raises:
            ConfigError: It knows no such role.
        """
        policy_set = self._snapshot.policy_set
        if policy_set.model.native:
            known = {name.removeprefix(ROLE) for name in policy_set.roles}
        elif policy_set.roles:
            known = set(policy_set.roles)
        else:  # the request templates do not mention the role, or only within other text
            return
        if role not in known:
            raise ConfigError(f"{field}: the policy knows no role {role!r}; {did_you_mean(role, known)}")

    def explain(self, request: AuthzRequest) -> Explanation:
        """Why `request` is decided as it is, and the smallest change of the policy that would allow it.

        For operators; builds candidate policies to be sure of what it says.
        """
        from remit.providers.casbin.explain import explain

        settings = self._settings
        return explain(
            self._snapshot, request, self._compiled, functions=tuple(settings.functions), resources=settings.resources
        )

    def lint(self) -> list[Problem]:
        """Every problem of the policy in force: warnings only, since a policy with errors never is. Sorted."""
        return list(self._snapshot.problems)

    def trace(self, request: AuthzRequest) -> Explanation:
        """The rules that took part in the decision for `request`: `explain` without the changes."""
        return self._snapshot.trace(request)

    def rules(self) -> tuple[ListedRule, ...]:
        """Every rule of the policy in force, in the order of files and lines: for tools."""
        from remit.providers.casbin.listing import list_rules

        return list_rules(self._snapshot.policy_set)

    def reload(self) -> PolicySnapshot:
        """Read the files again and put them in force for every decision that starts afterwards.

        Blocking: the time of a load. Calls at the same time run one after another.

        Raises:
            PolicyError: They cannot be put in force; the policy before stays, and `last_reload_error` says why.
        """
        with self._lock:
            settling = None if self._watch is None else self._watch.settling
            digests = None if settling is None else settling.digests()
            try:
                snapshot = self._build()
            except Exception as exc:
                error = self._refused(exc)
                if settling is not None and digests is not None:
                    settling.took(digests, accepted=False)
                if error is exc:
                    raise
                raise error from exc
            leftover: list[object] = [*self._snapshot.policy_set.rules]
            self._snapshot = snapshot
            self.loaded_at = time.time()
            self.last_reload_error = None
            self._logged.clear()
            self.reloads = self.reloads._replace(accepted=self.reloads.accepted + 1)
            if settling is not None and digests is not None:
                settling.took(digests, accepted=True)
            logger.info("policy %s is in force (%d rules)", snapshot.version, len(snapshot.policy_set.rules))
        while leftover:  # piece by piece: freeing 100,000 rules at once would hold up every other thread
            del leftover[-_PIECE:]
        return snapshot

    async def areload(self) -> PolicySnapshot:
        """`reload` in a worker thread."""
        return await asyncio.to_thread(self.reload)

    def close(self) -> None:
        """End the watch. The policy in force keeps answering. Repeated calls do nothing."""
        if self._watch is not None:
            self._watch.close()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        if self._watch is not None:
            await asyncio.to_thread(self._watch.close)

    def _build(self) -> PolicySnapshot:
        settings = self._settings
        with collector_at_rest():
            return self._compiled(
                load_policy_set(
                    policies=settings.policies,
                    model=settings.model,
                    base_dir=settings.base_dir,
                    request=settings.request,
                    functions=tuple(settings.functions),
                    resources=settings.resources,
                )
            )

    def _compiled(self, policy_set: PolicySet) -> PolicySnapshot:
        settings = self._settings
        return PolicySnapshot.build(
            policy_set,
            request=policy_set.request or None,
            allow_slow=settings.allow_slow,
            functions=settings.functions,
        )

    def _refused(self, exc: Exception) -> PolicyError:
        error = exc if isinstance(exc, PolicyError) else PolicyError(f"cannot be loaded: {type(exc).__name__}: {exc}")
        if (text := str(error)) not in self._logged:
            self._logged.add(text)
            logger.error("policy files refused, %s stays in force:\n%s", self._snapshot.version, text)
        self.reloads = self.reloads._replace(refused=self.reloads.refused + 1)
        self.last_reload_error = error
        return error

    def _follow(self) -> None:
        with suppress(PolicyError):  # logged and kept in `last_reload_error`
            self.reload()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread of the parent may have held it
        if self._watch is not None:
            self._watch.reborn()


_PIECE: Final = 1000

_providers: Final[weakref.WeakSet[CasbinAuthorizationProvider]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for provider in list(_providers):
        provider._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
