"""What a stack of middlewares says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from tests.support.ids import shown
from tests.support.policies import allow
from tests.support.receipts import KEY, settings
from tests.support.scripted import scripted

from remit.authz.provider import GuardrailDecision
from remit.middlewares import guard
from remit.middlewares.fusion import fused
from remit.middlewares.guardrail import GuardrailMiddleware
from remit.middlewares.release import canonical_hash, canonical_json, collect_release_policies
from remit.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from remit.middlewares.tool_receipt import ToolReceiptMiddleware
from remit.runtime.signing import signer


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One key for signatures, in no file."""
    monkeypatch.setenv("REMIT_RUNTIME_KEY", KEY)
    signer.cache_clear()
    yield
    signer.cache_clear()


class Limits(AgentMiddleware[Any, Any, Any]):
    """Declares whatever it was given."""

    def __init__(self, declared: Any, name: str = "limits") -> None:
        super().__init__()
        self.declared, self._name = declared, name

    @property
    def name(self) -> str:
        return self._name

    def release_policy_parameters(self) -> Any:
        if isinstance(self.declared, Exception):
            raise self.declared
        return self.declared

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class Silent(AgentMiddleware[Any, Any, Any]):
    """Has nothing to declare."""

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class Shell:
    """Stands around another middleware."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def test_by_class_name_in_the_order_of_the_stack() -> None:
    stack = [Limits({"max": 1}), Silent(), Limits({"max": 2}), Limits({"max": 3})]
    found = collect_release_policies(stack)
    assert list(found.items()) == [("Limits", {"max": 1}), ("Limits#2", {"max": 2}), ("Limits#3", {"max": 3})]


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (ValueError("secret text"), {"error": "ValueError"}),
        (None, {"error": "NonMappingDeclaration"}),
        ([("a", 1)], {"error": "NonMappingDeclaration"}),
        ("text", {"error": "NonMappingDeclaration"}),
        ({"a": object()}, {"error": "TypeError"}),
        ({"a": float("nan")}, {"error": "ValueError"}),
        ({"a": {1, 2}}, {"error": "TypeError"}),
        ({}, {}),
    ],
    ids=shown,
)
def test_a_declaration_that_is_none_is_an_error(declared: Any, found: dict[str, Any]) -> None:
    """One bad declaration neither raises nor hides the others."""
    stack = [Limits(declared), Limits({"max": 1})]
    assert collect_release_policies(stack) == {"Limits": found, "Limits#2": {"max": 1}}


def test_a_declaration_that_would_have_to_be_awaited_is_none() -> None:
    class Later:
        async def release_policy_parameters(self) -> dict[str, object]:
            return {}

    assert collect_release_policies([Later()]) == {"Later": {"error": "NonMappingDeclaration"}}


@pytest.mark.parametrize(("shells", "name"), [(0, "Limits"), (1, "Limits"), (4, "Limits"), (5, None)])
def test_wrappers_are_looked_through(shells: int, name: str | None) -> None:
    """Up to four of them; their own class name is not what counts."""
    wrapped: Any = Limits({"max": 1})
    for _ in range(shells):
        wrapped = Shell(wrapped)
    assert collect_release_policies([wrapped]) == ({name: {"max": 1}} if name else {})


def test_a_wrapper_around_itself_ends() -> None:
    shell = Shell(None)
    shell.inner = shell
    assert collect_release_policies([shell, Shell(Silent()), Shell("text"), Shell(None)]) == {}


def test_no_base_class_is_needed() -> None:
    class Own:
        def release_policy_parameters(self) -> dict[str, object]:
            return {"a": 1}

    assert collect_release_policies([Own(), Shell(Own()), object()]) == {"Own": {"a": 1}, "Own#2": {"a": 1}}


def test_views_of_fused_slots_go_by_their_own_name() -> None:
    """Two slots that share a graph node are still two declarations, and run as one stack."""
    stack = fused([Limits({"max": 1}, "a"), Silent(), Limits({"max": 2}, "b")])
    assert type(stack[0]) is not Limits
    assert collect_release_policies(stack) == {"Limits": {"max": 1}, "Limits#2": {"max": 2}}
    create_agent(scripted(), [], middleware=stack)


class Yes:
    """A guardrail that allows."""

    name = "yes"

    def evaluate(self, request: Any) -> GuardrailDecision:
        return GuardrailDecision(True)

    async def aevaluate(self, request: Any) -> GuardrailDecision:
        return GuardrailDecision(True)


class Named(Yes):
    policy_id = "house-rules"
    policy_version = "v7"

    def release_policy_parameters(self) -> dict[str, object]:
        return {"strict": True}


class Versioned(Yes):
    version = "2.1"

    def release_policy_parameters(self) -> dict[str, object]:
        raise LookupError


@pytest.mark.parametrize(
    ("provider", "policy", "parameters"),
    [
        (Yes(), {"id": "yes", "version": "unknown"}, {}),
        (Named(), {"id": "house-rules", "version": "v7"}, {"strict": True}),
        (Versioned(), {"id": "yes", "version": "2.1"}, {"error": "LookupError"}),
    ],
)
def test_a_guardrail_names_its_policy(provider: Any, policy: Any, parameters: Any) -> None:
    slot = GuardrailMiddleware(provider, fail_closed=False, passport="agent-7")
    assert collect_release_policies([slot]) == {
        "GuardrailMiddleware": {
            "fail_closed": False,
            "passport": "agent-7",
            "policy": policy,
            "provider_parameters": parameters,
        }
    }


def test_a_stack_with_a_policy(policy: Any) -> None:
    """The authorization guard is not taken for a wrapper of the guards inside, and says which policy is in force."""
    world = policy(allow("guest", "*"))
    config = settings()
    stack = [
        ToolReceiptMiddleware(config.verification),
        *guard(world.enforcer, GuardrailMiddleware(Named()), ToolErrorHandlingMiddleware(config)),
    ]
    found = collect_release_policies(stack)
    assert list(found) == [
        "ToolReceiptMiddleware",
        "AuthorizationMiddleware",
        "GuardrailMiddleware",
        "ToolErrorHandlingMiddleware",
    ]
    assert found["AuthorizationMiddleware"]["policy"]["version"] == world.enforcer.policy_version
    before = canonical_hash(found)
    world.rewrite(allow("guest", "search"))
    assert canonical_hash(collect_release_policies(stack)) != before, "another policy is another release"
    assert canonical_hash(collect_release_policies(stack)) == canonical_hash(collect_release_policies(stack))


def test_canonical_forms() -> None:
    """Sorted, without blanks, other scripts kept; what has no JSON form is refused."""
    assert canonical_json({"b": [1, None], "a": "ü"}) == '{"a":"ü","b":[1,null]}'
    assert canonical_hash({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    with pytest.raises(TypeError):
        canonical_json({"a": object()})
