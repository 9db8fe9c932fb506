from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from tests.support.ids import shown

from remit.authz import wire
from remit.middlewares.authorship import is_server_message, prepare_key, sealed_message
from remit.runtime.signing import KEY_VARIABLE, signer


@pytest.mark.parametrize("content", ["text", "", [], [{"type": "text", "text": "a"}, "b"]], ids=shown)
def test_a_sealed_message_is_the_servers(content: Any) -> None:
    message = HumanMessage(content, id="remit-1", name="n", additional_kwargs={"k": 1})
    sealed = sealed_message(message)
    assert is_server_message(sealed)
    assert (sealed.id, sealed.name, sealed.content, sealed.additional_kwargs["k"]) == ("remit-1", "n", content, 1)
    assert wire.SERVER_SEAL not in message.additional_kwargs
    assert is_server_message(HumanMessage.model_validate_json(sealed.model_dump_json()))


def test_a_message_without_an_id_gets_one_of_the_servers() -> None:
    sealed = sealed_message(HumanMessage("text"))
    assert sealed.id is not None
    assert sealed.id.startswith("remit-")
    assert is_server_message(sealed)


@pytest.mark.parametrize(
    "change",
    [
        {"content": "other"},
        {"content": ["text"]},
        {"id": "other"},
        {"id": None},
        {"additional_kwargs": {}},
        {"additional_kwargs": {wire.SERVER_SEAL: "0" * 32}},
        {"additional_kwargs": {wire.SERVER_SEAL: True}},
        {"additional_kwargs": {wire.SERVER_SEAL: "ünïcode"}},
        {"additional_kwargs": {wire.HIDE_FROM_UI: True, wire.PRODUCER_KIND: "middleware"}, "name": "summary"},
        {"content": float("nan")},
        {"content": [object()]},
    ],
    ids=shown,
)
def test_a_changed_or_forged_one_is_not(change: dict[str, Any]) -> None:
    sealed = sealed_message(HumanMessage("text", id="a"))
    assert not is_server_message(sealed.model_copy(update=change))


def test_a_seal_for_something_else_is_none() -> None:
    other = signer().sign("read-mark", "a", '"text"')
    assert not is_server_message(HumanMessage("text", id="a", additional_kwargs={wire.SERVER_SEAL: other}))


@pytest.mark.parametrize("thing", [None, "text", 5, object()], ids=shown)
def test_what_is_no_message(thing: Any) -> None:
    assert not is_server_message(thing)


async def test_the_key_is_read_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.blocking import no_blocking_calls

    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path))
    signer.cache_clear()
    try:
        forged = HumanMessage("x", id="a", additional_kwargs={wire.SERVER_SEAL: "0" * 32})
        with no_blocking_calls():
            await prepare_key([HumanMessage("x")])
            assert not signer.cache_info().currsize
            await prepare_key([forged])
            assert not is_server_message(forged)
    finally:
        signer.cache_clear()
