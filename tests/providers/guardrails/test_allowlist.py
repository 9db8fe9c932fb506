from __future__ import annotations

from typing import Any

import pytest
from tests.support.guardrails import BOTH, Ask, call

from remit.authz.config import load_config
from remit.authz.errors import ConfigError
from remit.authz.provider import GuardrailProvider
from remit.authz.registry import resolve_guardrail_provider
from remit.providers.guardrails.allowlist import AllowlistProvider

ALLOWED, NOT_ALLOWED, DENIED = "guardrail.tool_allowed", "guardrail.tool_not_allowed", "guardrail.tool_denied"
MALFORMED = "guardrail.malformed_tool_name"


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    ("allowed", "denied", "tool", "allow", "code"),
    [
        pytest.param(None, None, "search", True, ALLOWED, id="no-lists-allow-all"),
        pytest.param([], None, "search", False, NOT_ALLOWED, id="empty-allow-list-allows-none"),
        pytest.param((), None, "search", False, NOT_ALLOWED, id="empty-tuple-allows-none"),
        pytest.param(None, [], "search", True, ALLOWED, id="empty-deny-list-denies-none"),
        pytest.param([], [], "search", False, NOT_ALLOWED, id="both-empty"),
        pytest.param(["search"], None, "search", True, ALLOWED, id="listed"),
        pytest.param(["search"], None, "bash", False, NOT_ALLOWED, id="not-listed"),
        pytest.param(["search"], None, "Search", False, NOT_ALLOWED, id="case-matters-in-the-allow-list"),
        pytest.param(["search"], None, "s\u0435arch", False, NOT_ALLOWED, id="look-alike-is-another-name"),
        pytest.param(["search"], None, "search\n", False, MALFORMED, id="newline-behind"),
        pytest.param(["search"], None, "sea\u200brch", False, MALFORMED, id="zero-width-inside"),
        pytest.param(["caf\u00e9"], None, "cafe\u0301", False, MALFORMED, id="decomposed"),
        pytest.param(["caf\u00e9"], None, "caf\u00e9", True, ALLOWED, id="composed"),
        pytest.param(["search"], ["search"], "search", False, DENIED, id="deny-beats-allow"),
        pytest.param(None, ["bash"], "bash", False, DENIED, id="denied"),
        pytest.param(None, ["bash"], "search", True, ALLOWED, id="not-denied"),
        pytest.param(None, ["bash"], "BASH", False, DENIED, id="denied-in-upper-case"),
        pytest.param(["BASH"], ["bash"], "BASH", False, DENIED, id="deny-of-a-twin-beats-allow"),
        pytest.param(None, ["bash"], "b\u0430sh", False, DENIED, id="denied-with-a-cyrillic-letter"),
        pytest.param(None, ["bash"], "\uff42\uff41\uff53\uff48", False, DENIED, id="denied-in-full-width"),
        pytest.param(None, ["bash"], "bash ", False, MALFORMED, id="denied-with-a-space-behind"),
        pytest.param(None, ["bash"], "ba\u200bsh", False, MALFORMED, id="denied-with-a-zero-width-space"),
        pytest.param(None, ["bash"], "", False, MALFORMED, id="empty-name"),
        pytest.param(None, None, "x\x00", False, MALFORMED, id="control-character-without-any-list"),
        pytest.param(["mcp__files__read"], None, "mcp__files__read", True, ALLOWED, id="mcp-name"),
        pytest.param(
            ["mcp__files__read"], None, "mcp__files__write", False, NOT_ALLOWED, id="other-tool-of-the-server"
        ),
        pytest.param(["sear*"], None, "search", False, NOT_ALLOWED, id="no-patterns"),
        pytest.param(None, ["sear*"], "search", True, ALLOWED, id="no-patterns-in-denials"),
    ],
)
def test_decision(ask: Ask, allowed: Any, denied: Any, tool: str, allow: bool, code: str) -> None:
    answer = ask(AllowlistProvider(allowed, denied), call(tool))
    assert answer.allow is allow
    assert [reason.code for reason in answer.reasons] == [code]
    assert answer.policy_id == "guardrail:allowlist"


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"allowed_tools": "bash"}, r"allowed_tools must be a list of tool names, got str 'bash'; write \[bash\]"),
        ({"allowed_tools": "*"}, "got str '\\*'; leave it out to mean every tool"),
        ({"allowed_tools": True}, "got bool True"),
        ({"allowed_tools": False}, "got bool False"),
        ({"allowed_tools": {"bash": True}}, "got dict"),
        ({"allowed_tools": 0}, "got int 0"),
        ({"allowed_tools": ["*"]}, "holds '\\*', which is no tool name"),
        ({"allowed_tools": [None]}, "must hold tool names, got NoneType None"),
        ({"allowed_tools": [True]}, "must hold tool names, got bool True; put quotes around it"),
        ({"denied_tools": [12]}, "denied_tools must hold tool names, got int 12; put quotes around it"),
        (
            {"denied_tools": ["bash "]},
            "denied_tools holds 'bash ', which has white space around it; did you mean 'bash'",
        ),
        ({"denied_tools": [""]}, "denied_tools holds '', which is empty; remove it"),
        ({"denied_tools": ["ba\u200bsh"]}, "ZERO WIDTH SPACE; remove it"),
        ({"denied_tools": ["cafe\u0301"]}, "not in Unicode normal form C; did you mean 'caf\u00e9'"),
        ({"denied_tools": [["bash"]]}, "got list"),
    ],
)
def test_a_list_that_is_none_is_refused(lists: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AllowlistProvider(**lists)


def test_later_changes_of_the_lists_change_nothing() -> None:
    allowed, denied = ["search"], ["bash"]
    provider = AllowlistProvider(allowed, denied)
    allowed.append("bash")
    denied.clear()
    assert provider.evaluate(call("bash")).allow is False


def test_the_version_names_the_lists() -> None:
    versions = {
        AllowlistProvider(*lists).policy_version
        for lists in [(None, None), ([], None), (["a"], None), (None, ["a"]), (["a"], ["a"]), (["b"], ["a"])]
    }
    assert len(versions) == 6
    first = AllowlistProvider(["a", "b"], ["c"])
    assert first.policy_version == AllowlistProvider(["b", "a", "a"], ["c"]).policy_version
    assert first.evaluate(call("a")).policy_version == first.policy_version


def from_configuration(config: dict[str, Any]) -> GuardrailProvider:
    settings = load_config({"guardrails": {"enabled": True, "provider": {"use": "allowlist", "config": config}}})
    provider = resolve_guardrail_provider(settings)
    assert provider is not None
    return provider


def test_an_empty_allow_list_in_the_configuration_denies_every_tool() -> None:
    provider = from_configuration({"allowed_tools": []})
    assert [provider.evaluate(call(tool)).allow for tool in ("search", "bash", "*")] == [False, False, False]


def test_left_out_in_the_configuration_means_all() -> None:
    assert from_configuration({"denied_tools": ["bash"]}).evaluate(call("search")).allow is True


def test_a_wrong_list_in_the_configuration_names_the_key() -> None:
    with pytest.raises(ConfigError, match=r"guardrails\.provider\.config.*allowed_tools must be a list"):
        from_configuration({"allowed_tools": "bash"})


def test_an_unknown_key_in_the_configuration_is_refused() -> None:
    with pytest.raises(ConfigError, match="allow_tools"):
        from_configuration({"allow_tools": ["bash"]})
