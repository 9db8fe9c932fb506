"""The registry of reserved things, and what is generated from it: who may send what, and what observers see."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ids import shown

from remit.authz import wire
from remit.runtime.reserved import (
    REGISTRY,
    Input,
    Kind,
    clean_context,
    clean_metadata,
    declared,
    is_server_id,
    may_send,
    redacted,
)

NEVER = "never"
INTERNAL = "internal"
CLIENT = "client"

CONTEXT_KEYS = {
    wire.PRINCIPAL: NEVER,
    wire.RUN_JOURNAL: NEVER,
    wire.AUTHORIZATION_OUTCOME: NEVER,
    wire.PRE_RUN_MESSAGE_IDS: NEVER,
    wire.APP_CONFIG: NEVER,
    wire.USER_ID: NEVER,
    wire.USER_ROLE: NEVER,
    wire.OAUTH_PROVIDER: NEVER,
    wire.OAUTH_ID: NEVER,
    wire.IS_INTERNAL: NEVER,
    wire.AUTHZ_ATTRIBUTES: NEVER,
    wire.IS_SUBAGENT: NEVER,
    wire.RUN_ID: NEVER,
    wire.THREAD_ID: NEVER,
    wire.SANDBOX_ID: NEVER,
    wire.CHANNEL_USER_ID: INTERNAL,
    wire.NON_INTERACTIVE: INTERNAL,
    wire.AGENT_NAME: CLIENT,
    "__anything": NEVER,
    "deerflow_anything": NEVER,
    "remit_anything": NEVER,
    "model_name": CLIENT,
    "a client's own": CLIENT,
}
METADATA_KEYS = {
    wire.TOOL_META: NEVER,
    wire.TOOL_RECEIPT: NEVER,
    wire.TOOL_RECEIPT_CONTEXT: NEVER,
    wire.TOOL_RECEIPT_SNAPSHOT: NEVER,
    wire.TOOL_TRANSFORMS: NEVER,
    wire.READ_MARK: NEVER,
    wire.WRITE_BLOCK: NEVER,
    wire.CONTENT_KIND: NEVER,
    wire.PRODUCER_KIND: NEVER,
    wire.PRODUCER_ENTITY_ID: NEVER,
    wire.ERROR_FALLBACK: NEVER,
    wire.ERROR_TYPE: NEVER,
    wire.ERROR_REASON: NEVER,
    wire.ERROR_DETAIL: NEVER,
    wire.SKILL_CONTEXT_ENTRY: NEVER,
    wire.SUBAGENT_STATUS: NEVER,
    wire.SERVER_SEAL: NEVER,
    wire.UPLOADS_SEAL: NEVER,
    wire.MESSAGE_TIMESTAMP: NEVER,
    wire.RUN_ID: NEVER,
    wire.ORIGINAL_USER_CONTENT: INTERNAL,
    wire.HIDE_FROM_UI: CLIENT,
    wire.HUMAN_INPUT_RESPONSE: CLIENT,
    wire.FILES: CLIENT,
    "__anything": NEVER,
    "deerflow_anything": NEVER,
    "remit_anything": NEVER,
    "a client's own": CLIENT,
}
GOOD: dict[str, Any] = {
    wire.HIDE_FROM_UI: True,
    wire.HUMAN_INPUT_RESPONSE: {"request_id": "q1", "answer": "yes"},
    wire.FILES: [{"filename": "a.txt"}],
}


def table(keys: dict[str, str]) -> list[Any]:
    return [
        pytest.param(key, internal, who == CLIENT or (internal and who == INTERNAL), id=f"{key}-{sender}")
        for key, who in keys.items()
        for internal, sender in ((False, "client"), (True, "service"))
    ]


@pytest.mark.parametrize(("key", "internal", "kept"), table(CONTEXT_KEYS))
def test_context(key: str, internal: bool, kept: bool) -> None:
    section = {key: "value", "kept": 1}
    assert clean_context(section, internal=internal) == ({key: "value", "kept": 1} if kept else {"kept": 1})
    assert section == {key: "value", "kept": 1}


@pytest.mark.parametrize(("key", "internal", "kept"), table(METADATA_KEYS))
def test_metadata(key: str, internal: bool, kept: bool) -> None:
    value = GOOD.get(key, "value")
    assert clean_metadata({key: value}, internal=internal) == ({key: value} if kept else {})


def test_the_tables_are_complete() -> None:
    assert declared(Kind.CONTEXT) <= CONTEXT_KEYS.keys()
    assert declared(Kind.METADATA) <= METADATA_KEYS.keys()


def test_nothing_from_nobody() -> None:
    assert clean_context(None) == {}
    assert clean_context({1: "x", None: "y"}) == {}  # type: ignore[dict-item]


@pytest.mark.parametrize("metadata", [None, "x", 5, ["a"], object()], ids=shown)
def test_metadata_that_is_none(metadata: Any) -> None:
    assert clean_metadata(metadata) == {}


BAD_VALUES: list[tuple[str, Any]] = [
    (wire.HIDE_FROM_UI, "true"),
    (wire.HIDE_FROM_UI, 1),
    (wire.HUMAN_INPUT_RESPONSE, "yes"),
    (wire.HUMAN_INPUT_RESPONSE, {1: "yes"}),
    (wire.FILES, {"filename": "a.txt"}),
    (wire.FILES, ["a.txt"]),
    (wire.FILES, [{}] * 201),
]


@pytest.mark.parametrize(("key", "value"), BAD_VALUES, ids=lambda value: repr(value)[:40])
def test_a_value_that_the_validator_refuses(key: str, value: Any) -> None:
    assert clean_metadata({key: value, "kept": 1}) == {"kept": 1}


@pytest.mark.parametrize("value", [None, 5, "x" * 100_001, ["lead"]], ids=lambda value: repr(value)[:20])
def test_an_agent_name_that_is_none(value: Any) -> None:
    assert clean_context({wire.AGENT_NAME: value}) == {}


CHANNELS = sorted(declared(Kind.CHANNEL) - {"messages"})


@pytest.mark.parametrize("internal", [False, True], ids=["client", "service"])
@pytest.mark.parametrize("channel", [*CHANNELS, "unheard_of", "__root__", ""])
def test_no_channel_but_the_conversation(channel: str, internal: bool) -> None:
    assert not may_send(Kind.CHANNEL, channel, {}, internal=internal)
    assert may_send(Kind.CHANNEL, "messages", [], internal=internal)


@given(
    st.dictionaries(
        st.text(max_size=12) | st.sampled_from(sorted(METADATA_KEYS)), st.none() | st.text() | st.booleans()
    ),
    st.booleans(),
)
def test_cleaning_is_idempotent_and_takes_away_only(metadata: dict[str, Any], internal: bool) -> None:
    cleaned = clean_metadata(metadata, internal=internal)
    assert cleaned.items() <= metadata.items()
    assert clean_metadata(cleaned, internal=internal) == cleaned
    assert not any(key.startswith(("__", "deerflow_", "remit_")) for key in cleaned)


SECRET = [wire.PRINCIPAL, wire.RUN_JOURNAL, wire.AUTHORIZATION_OUTCOME, wire.PRE_RUN_MESSAGE_IDS, wire.APP_CONFIG]


def test_what_observers_see() -> None:
    context: dict[Any, Any] = {key: "secret" for key in SECRET}
    context |= {"__later": "secret", wire.PRINCIPAL_DIGEST: "secret", wire.USER_ID: "u1", wire.THREAD_ID: "t1", 7: "x"}
    before = dict(context)
    assert redacted(context) == {wire.USER_ID: "u1", wire.THREAD_ID: "t1", 7: "x"}
    assert context == before
    assert {key for (_, key), item in REGISTRY.items() if item.secret} == {*SECRET, wire.PRINCIPAL_DIGEST}


IDS = [
    ("remit-durable-1", True),
    ("remit_x", True),
    ("deerflow-view-image", True),
    ("deerflow_y", True),
    ("remit", False),
    ("my-remit-1", False),
    ("2b1f0e3c", False),
    ("", False),
    (None, False),
    (5, False),
]


@pytest.mark.parametrize(("message_id", "ours"), IDS, ids=shown)
def test_ids_of_the_server(message_id: Any, ours: bool) -> None:
    assert is_server_id(message_id) is ours


def test_every_entry_can_be_judged() -> None:
    for (kind, key), item in REGISTRY.items():
        assert (item.kind, item.key) == (kind, key)
        assert item.owner
        assert (item.valid is not None) == (item.input is Input.CLIENT), key
