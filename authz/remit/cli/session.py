"""A policy opened for asking: located, loaded, judged as the enforcement points judge, and closed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from remit.authz.config import AuthorizationConfig, load_config
from remit.authz.enforcer import Enforcer
from remit.authz.errors import ConfigError
from remit.authz.provider import AuthorizationProvider
from remit.authz.tooling.location import PolicyLocation, locate
from remit.authz.tooling.opening import opened
from remit.authz.tooling.request import build_request, parse_asked, parse_pairs
from remit.authz.types import AuthzRequest, Principal
from remit.cli import console


@dataclass(frozen=True, slots=True)
class Session:
    """What the commands that ask something work with."""

    location: PolicyLocation
    config: AuthorizationConfig
    provider: AuthorizationProvider
    enforcer: Enforcer
    """Judges like the enforcement points do. Records nothing: asking is no decision about an agent."""

    def request(
        self, text: str, *, role: str | None, user: str | None, attributes: Sequence[str], args: Sequence[str]
    ) -> AuthzRequest:
        """The request that the arguments of a command spell.

        Raises:
            ConfigError: One of them is not understood.
        """
        try:
            asked = parse_asked(text, resources=self.config.vocabulary.resources)
            principal = Principal(
                user_id=user,
                role=role or self.config.default_role,
                attributes=parse_pairs(attributes, option="--attribute"),
            )
            return build_request(principal, asked, parse_pairs(args, option="--arg"))
        except ValueError as exc:
            raise ConfigError(str(exc)) from exc


@contextmanager
def open_policy(named: str | None) -> Iterator[Session]:
    """Open the policy that an operator names (see `locate`).

    Raises:
        ConfigError: It does not load. File names lead from the working directory to the files.
    """
    location = locate(named)
    with ExitStack() as stack:
        try:
            with console.working("loading the policy"):
                config = load_config(location.file)
                provider = stack.enter_context(opened(config))
        except ConfigError as exc:
            if not exc.problems:
                raise ConfigError(f"{location.file}: {exc}") from exc
            raise type(exc)(location.shown(exc.problems)) from exc
        yield _session(location, config, provider)


def _session(location: PolicyLocation, config: AuthorizationConfig, provider: AuthorizationProvider) -> Session:
    if not config.enabled:
        console.complain(
            f"{location.file}: authorization is disabled, so agents are not restricted at all; "
            "what follows holds once `authorization.enabled` is true"
        )
    enforcer = Enforcer(
        provider,
        default_role=config.default_role,
        fail_closed=config.fail_closed,
        deadline=config.deadline_ms / 1000,
    )
    return Session(location, config, provider, enforcer)
