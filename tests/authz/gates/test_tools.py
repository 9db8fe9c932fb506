"""Layer 1: what is left of a tool list, for every kind of provider answer and identity."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from remit.authz import (
    AuthorizationConfig,
    AuthzDecision,
    AuthzRequest,
    Principal,
    apply_tool_authorization,
    filter_tools_by_authorization,
    load_config,
)
from remit.authz.gates.tools import tool_name
from remit.authz.provider import ProviderBase


class Names(ProviderBase):
    """Allows what it is told for role `user`, everything for `admin`."""

    name = "names"
    blocking = False

    def authorize(self, request: AuthzRequest) -> AuthzDecision:
        return AuthzDecision(request.principal.role == "admin" or request.target in {"search", "web_hosted"})


class Failing(Names):
    def filter_resources(self, principal: Principal, resource_type: str, candidates: list[str]) -> list[str]:
        raise OSError("down")


def tool(name: str) -> Any:
    return SimpleNamespace(name=name)


SEARCH, BASH = tool("search"), tool("bash")
HOSTED = {"type": "web_hosted"}
USER = Principal("u1", "user")


def enabled(**more: Any) -> AuthorizationConfig:
    section = {"enabled": True, "provider": {"use": "tests.authz.gates.test_tools:Names"}, **more}
    return load_config({"authorization": section})


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (tool("search"), "search"),
        ({"name": "a", "type": "b"}, "a"),
        ({"type": "web_search_20250305"}, "web_search_20250305"),
        ({"type": "function", "function": {"name": "f"}}, "f"),
        ({"type": 7}, ""),
        (tool(7), ""),
        ({}, ""),
    ],
)
def test_policy_name(item: Any, name: str) -> None:
    assert tool_name(item) == name


def test_order_is_kept_and_nameless_tools_are_hidden() -> None:
    again = tool("search")
    kept = filter_tools_by_authorization(
        [BASH, SEARCH, {}, HOSTED, again], provider=Names(), principal=USER, fail_closed=True
    )
    assert kept == [SEARCH, HOSTED, again]
    assert kept[0] is SEARCH


@pytest.mark.parametrize(("fail_closed", "want"), [(True, []), (False, [SEARCH, BASH])])
def test_a_failing_provider(fail_closed: bool, want: list[Any]) -> None:
    kept = filter_tools_by_authorization([SEARCH, BASH], provider=Failing(), principal=USER, fail_closed=fail_closed)
    assert kept == want


def test_disabled_hands_the_list_object_back() -> None:
    tools = [SEARCH, BASH]
    result = apply_tool_authorization(tools, context={}, config=load_config({"authorization": {"enabled": False}}))
    assert result.tools is tools
    assert (result.provider, result.principal, result.hidden) == (None, None, ())


def test_applies_for_the_caller_and_hands_the_provider_back() -> None:
    provider = Names()
    result = apply_tool_authorization(
        [SEARCH, BASH], context={"user_id": "u1", "user_role": "user"}, config=enabled(), provider=provider
    )
    assert result.tools == [SEARCH]
    assert result.hidden == ("bash",)
    assert result.provider is provider
    assert result.principal == Principal("u1", "user")


def test_without_a_role_the_default_role_counts_and_a_missing_provider_is_resolved() -> None:
    result = apply_tool_authorization([SEARCH, BASH], context=None, config=enabled(default_role="admin"))
    assert result.tools == [SEARCH, BASH]
    assert type(result.provider).__name__ == "Names"


@pytest.mark.parametrize("fail_closed", [True, False])
@pytest.mark.parametrize(
    "context",
    [{"authz_attributes": "admin"}, {"user_role": 7}, {"user_role": "user "}, {"user_id": "a\u200b"}],
    ids=["attributes", "role-type", "role-blank", "invisible"],
)
def test_a_malformed_identity_sees_nothing(context: dict[str, Any], fail_closed: bool) -> None:
    result = apply_tool_authorization([SEARCH, BASH], context=context, config=enabled(fail_closed=fail_closed))
    assert result.tools == []
    assert result.principal is None
    assert result.hidden == ("search", "bash")
