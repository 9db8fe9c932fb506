"""Models: who sees which, and which one a run gets when the wanted one is denied."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt
from tests.support.gates import MALFORMED_CONTEXTS, OUTCOMES, Scripted, behind, scripted
from tests.support.ledger import listening, records

from remit.authz.config import load_config
from remit.authz.errors import AuthzError, ConfigError
from remit.authz.gates.models import (
    ModelAuthorizationError,
    aauthorize_model_name,
    authorize_model_name,
    resolve_model_authorization,
)
from remit.authz.judge import Judge
from remit.authz.ledger import shared_log
from remit.authz.registry import shared_provider
from remit.authz.types import AuthzRequest, Principal

MODELS = ["large", "medium", "small", "tiny"]
ALICE = {"user_id": "alice", "user_role": "user", "thread_id": "t1", "run_id": "r1"}
USER = {"id": "alice", "role": "user"}
Choose = Callable[..., Awaitable[str]]


@pytest.fixture(params=["sync", "async"])
def choose(request: pytest.FixtureRequest) -> Choose:
    """Both forms behind one awaitable."""

    async def ask(name: str, config: Any, *, context: Any = ALICE, models: Any = MODELS, **kw: Any) -> str:
        if request.param == "sync":
            return authorize_model_name(name, context=context, config=config, models=models, **kw)
        return await aauthorize_model_name(name, context=context, config=config, models=models, **kw)

    return ask


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize(("answer", "blocking", "closed", "open_"), OUTCOMES)
async def test_one_answer_for_all_models(
    choose: Choose, answer: str, blocking: bool, closed: bool, open_: bool, fail_closed: bool
) -> None:
    """Under fail-open a run keeps its model also when all are denied, unless the caller's role is not known."""
    config = scripted(answer, blocking=blocking, fail_closed=fail_closed)
    if closed or (not fail_closed and answer != "unknown_role"):
        assert await choose("large", config) == "large"
    else:
        with pytest.raises(ModelAuthorizationError):
            await choose("large", config)
    assert open_ or answer in ("deny", "ask", "duty", "unknown_role")


async def test_disabled_asks_nobody_and_imports_nothing(choose: Choose) -> None:
    use = {"use": "tests.support.never_there:Provider"}
    config = load_config({"authorization": {"enabled": False, "provider": use}})
    assert await choose("no such model", config, context={"user_role": ["malformed"]}) == "no such model"
    assert "tests.support.never_there" not in sys.modules


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
async def test_a_provider_that_cannot_be_built(choose: Choose, fail_closed: bool) -> None:
    use = {"use": "tests.support.never_there:Provider"}
    config = load_config({"authorization": {"enabled": True, "fail_closed": fail_closed, "provider": use}})
    if fail_closed:
        with pytest.raises(ConfigError, match=r"authorization\.provider\.use: 'tests\.support\.never_there:Provider'"):
            await choose("large", config)
    else:
        with listening("remit.authz") as said:
            assert await choose("large", config) == "large"
        assert said.saying("ALLOWED AFTER AN ERROR")


ONLY_SMALL = {"*": "deny", "small": "allow", "tiny": "allow"}


class TestFallback:
    async def test_the_first_that_may_be_used_in_configuration_order(self, choose: Choose) -> None:
        with listening("remit.authz") as said:
            assert await choose("large", scripted(ONLY_SMALL)) == "small"
        assert said.saying("model 'large' is denied to role 'user': using 'small'")

    async def test_the_order_is_the_configurations_not_the_providers(self, choose: Choose) -> None:
        assert await choose("large", scripted(ONLY_SMALL, show="reversed")) == "small"
        assert await choose("large", scripted(ONLY_SMALL), models=["large", "tiny", "small"]) == "tiny"

    async def test_listed_is_not_used(self, choose: Choose) -> None:
        """A provider may list what it denies to use: every candidate is asked about."""
        config = scripted(ONLY_SMALL, show="all")
        assert await choose("large", config) == "small"
        assert [(asked.action, asked.target) for asked in behind(config).asked] == [
            ("use", "large"), ("use", "medium"), ("use", "small")
        ]  # fmt: skip

    async def test_what_is_not_listed_is_not_used(self, choose: Choose) -> None:
        with pytest.raises(ModelAuthorizationError):
            await choose("large", scripted(ONLY_SMALL, show="nothing"))

    async def test_a_provider_cannot_invent_a_model(self, choose: Choose) -> None:
        config = scripted({"*": "allow", "large": "deny"}, show="added")
        with pytest.raises(ModelAuthorizationError):
            await choose("large", config, models=["large"])

    async def test_the_denied_one_is_not_asked_about_twice(self, choose: Choose) -> None:
        config = scripted(ONLY_SMALL, show="all")
        assert await choose("medium", config, models=["medium", "large", "medium", "small"]) == "small"
        assert [asked.target for asked in behind(config).asked] == ["medium", "large", "small"]

    async def test_what_is_asked(self, choose: Choose) -> None:
        config = scripted(ONLY_SMALL)
        await choose("large", config)
        provider = behind(config)
        assert provider.filtered == [(Principal("alice", "user"), "model", MODELS)]
        assert {(asked.resource, asked.principal) for asked in provider.asked} == {
            ("model", Principal("alice", "user"))
        }
        assert dict(provider.asked[0].context) == {"thread_id": "t1", "run_id": "r1"}

    async def test_an_allowed_model_is_one_question(self, choose: Choose) -> None:
        config = scripted("allow")
        assert await choose("tiny", config) == "tiny"
        assert len(behind(config).asked) == 1
        assert behind(config).filtered == []

    async def test_nothing_left(self, choose: Choose) -> None:
        with pytest.raises(ModelAuthorizationError) as caught:
            await choose("large", scripted("deny", show="all"))
        error = caught.value
        assert str(error) == (
            "role 'user' may use no model (authz.denied); tried 'large', 'medium', 'small', 'tiny'; "
            "grant the role one of the configured models"
        )
        assert (error.name, error.role, error.tried, error.code) == ("large", "user", tuple(MODELS), "authz.denied")
        assert isinstance(error, ValueError)
        assert isinstance(error, AuthzError)

    async def test_nothing_left_under_fail_open_keeps_the_name_and_warns(self, choose: Choose) -> None:
        with listening("remit.authz") as said:
            assert await choose("large", scripted("deny", fail_closed=False, show="all")) == "large"
        assert said.saying("'large' is denied to role 'user' and so are all others: KEPT (fail_closed: false)")

    @pytest.mark.parametrize("how", ["raise", "late", "none"])
    async def test_a_candidate_whose_answer_fails(self, choose: Choose, how: str) -> None:
        """Closed: no guessing. Open: a failure allows, as it does everywhere."""
        answers = {"large": "deny", "medium": "deny", "small": how, "tiny": "allow"}
        with pytest.raises(ModelAuthorizationError) as caught:
            await choose("large", scripted(answers, show="all"))
        assert caught.value.tried == ("large", "medium", "small")
        assert await choose("large", scripted(answers, show="all", fail_closed=False)) == "small"

    @pytest.mark.parametrize(
        "show", ["raise", "late", "tuple", "set", "null", "with null", "generator", "text", "mapping"]
    )
    async def test_a_list_that_fails(self, choose: Choose, show: str) -> None:
        with pytest.raises(ModelAuthorizationError) as caught:
            await choose("large", scripted(ONLY_SMALL, show=show))
        assert caught.value.tried == ("large",)
        assert await choose("large", scripted(ONLY_SMALL, show=show, fail_closed=False)) == "small"

    async def test_a_name_that_is_not_configured(self, choose: Choose) -> None:
        """Whether it exists is the model factory's business; whether it may be used is the policy's."""
        assert await choose("unheard of", scripted(ONLY_SMALL)) == "small"

    async def test_an_empty_name(self, choose: Choose) -> None:
        with pytest.raises(ValueError, match="target must be a non-empty str"):
            await choose("", scripted("allow"))


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
class TestIdentity:
    @pytest.mark.parametrize("name", MALFORMED_CONTEXTS)
    async def test_malformed(self, choose: Choose, name: str, fail_closed: bool) -> None:
        config = scripted("allow", fail_closed=fail_closed)
        with pytest.raises(ModelAuthorizationError) as caught:
            await choose("large", config, context=MALFORMED_CONTEXTS[name])
        assert caught.value.code == "authz.malformed_identity"
        assert behind(config).asked == []

    async def test_unknown_role(self, choose: Choose, fail_closed: bool) -> None:
        with pytest.raises(ModelAuthorizationError) as caught:
            await choose("large", scripted("unknown_role", fail_closed=fail_closed))
        assert caught.value.code == "authz.unknown_role"


@pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "in place"])
@pytest.mark.parametrize(("how", "raised"), [("interrupt", GraphInterrupt), ("cancel", asyncio.CancelledError)])
class TestSignals:
    async def test_of_the_answer(
        self, choose: Choose, how: str, raised: type[BaseException], blocking: bool, fail_closed: bool
    ) -> None:
        with pytest.raises(raised):
            await choose("large", scripted(how, blocking=blocking, fail_closed=fail_closed))

    async def test_of_the_list(
        self, choose: Choose, how: str, raised: type[BaseException], blocking: bool, fail_closed: bool
    ) -> None:
        with pytest.raises(raised):
            await choose("large", scripted("deny", show=how, blocking=blocking, fail_closed=fail_closed))


async def test_the_instance_of_the_build_is_asked(choose: Choose) -> None:
    config, mine = scripted("allow"), Scripted(ONLY_SMALL)
    assert await choose("large", config, provider=mine) == "small"
    assert await choose("large", config) == "large"


async def test_every_question_is_a_record(choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path))
    config = scripted(ONLY_SMALL, show="all", ledger={"sink": "file"})
    await choose("large", config)
    log = shared_log(config)
    assert log is not None
    log.close()
    found = records(tmp_path / "decisions.jsonl")
    assert [(record["target"], record["decision"]) for record in found] == [
        ("large", "deny"), ("medium", "deny"), ("small", "allow")
    ]  # fmt: skip
    assert {(record["guard"], record["action"], record["run_id"]) for record in found} == {("gate.models", "use", "r1")}


async def test_what_must_be_recorded_and_cannot_is_denied_under_fail_open_too(
    choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state").write_text("")
    config = scripted("allow", fail_closed=False, ledger={"sink": "file", "required": True})
    with pytest.raises(ModelAuthorizationError) as caught:
        await choose("large", config)
    assert caught.value.code == "authz.unrecorded"


class TestResolve:
    """For hosts that list models and look one up."""

    @staticmethod
    def listed(config: Any, user: Any = USER, *, is_internal: bool = False) -> list[str]:
        provider, principal = resolve_model_authorization(user, is_internal=is_internal, config=config)
        assert provider is not None
        assert principal is not None
        judge = Judge(fail_closed=config.fail_closed, deadline=config.deadline_ms / 1000)
        shown = judge.filter(provider, principal, "model", MODELS)
        assert asyncio.run(judge.afilter(provider, principal, "model", MODELS)) == shown
        return shown

    @staticmethod
    def used(config: Any, user: Any = USER) -> bool:
        provider, principal = resolve_model_authorization(user, is_internal=False, config=config)
        assert provider is not None
        assert principal is not None
        judge = Judge(fail_closed=config.fail_closed, deadline=config.deadline_ms / 1000)
        request = AuthzRequest(principal, "model", "use", "large")
        allowed = judge.decide(provider, request).allow
        assert asyncio.run(judge.adecide(provider, request)).allow is allowed
        return allowed

    def test_disabled(self) -> None:
        use = {"use": "tests.support.never_there:Provider"}
        config = load_config({"authorization": {"enabled": False, "provider": use}})
        assert resolve_model_authorization({"id": 7}, is_internal=False, config=config) == (None, None)
        assert "tests.support.never_there" not in sys.modules

    def test_provider_and_principal(self) -> None:
        config = scripted(ONLY_SMALL)
        provider, principal = resolve_model_authorization(USER, is_internal=False, config=config)
        assert provider is shared_provider(config)
        assert principal == Principal("alice", "user")
        assert self.listed(config) == ["small", "tiny"]

    @pytest.mark.parametrize(
        ("user", "role"),
        [(None, "guest"), ({"id": "svc", "role": "internal"}, "guest"), ({"id": "alice", "role": "admin"}, "admin")],
        ids=["nobody", "unbound", "owner"],
    )
    def test_internal_callers(self, user: Any, role: str) -> None:
        _, principal = resolve_model_authorization(user, is_internal=True, config=scripted("allow"))
        assert principal is not None
        assert (principal.role, principal.is_internal) == (role, True)

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    def test_a_provider_that_cannot_be_built(self, fail_closed: bool) -> None:
        use = {"use": "tests.support.never_there:Provider"}
        config = load_config({"authorization": {"enabled": True, "fail_closed": fail_closed, "provider": use}})
        assert self.listed(config) == ([] if fail_closed else MODELS)
        assert self.used(config) is not fail_closed

    @pytest.mark.parametrize("fail_closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("user", [{"id": 7}, {"id": " alice"}, {"id": "a", "role": ["admin"]}, {}, "alice"])
    def test_a_malformed_identity(self, user: Any, fail_closed: bool) -> None:
        config = scripted("allow", fail_closed=fail_closed)
        assert self.listed(config, user) == []
        assert self.used(config, user) is False
        _, principal = resolve_model_authorization(user, is_internal=True, config=config)
        assert principal == Principal()
