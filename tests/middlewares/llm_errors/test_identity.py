"""Which model an object is."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from tests.support.scripted import scripted

from remit.harness.scripted import ScriptedChatModel
from remit.middlewares.llm_errors.identity import identity_of

LOCAL = ChatOpenAI(model="m", base_url="http://127.0.0.1:1/v1", api_key="k")
AZURE = AzureChatOpenAI(azure_deployment="d", azure_endpoint="http://127.0.0.1:1", api_version="v", api_key="k")


@pytest.mark.parametrize(
    ("model", "identity"),
    [
        pytest.param(LOCAL, ("openai-chat", "http://127.0.0.1:1/v1", "m"), id="openai-compatible"),
        pytest.param(LOCAL.bind(stop=["x"]), ("openai-chat", "http://127.0.0.1:1/v1", "m"), id="bound"),
        pytest.param(
            LOCAL.bind(a=1).with_config(tags=["t"]), ("openai-chat", "http://127.0.0.1:1/v1", "m"), id="wrapped"
        ),
        pytest.param(AZURE, ("azure-openai-chat", "http://127.0.0.1:1", "d"), id="azure"),
        pytest.param(ScriptedChatModel(model_name="s"), ("scripted", "", "s"), id="named"),
        pytest.param(scripted(), ("scripted", "", "ScriptedChatModel"), id="without-a-name"),
        pytest.param(None, ("NoneType", "", "NoneType"), id="none"),
        pytest.param(object(), ("object", "", "object"), id="anything"),
    ],
)
def test_identity(model: Any, identity: tuple[str, str, str]) -> None:
    assert identity_of(model) == identity
