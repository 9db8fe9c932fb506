"""A provider with an OpenAI-compatible interface, on this machine: answers by script and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(text: str = "done", *calls: dict[str, Any]) -> Reply:
    """A turn of the model. Calls are as `tests.support.scripted.call` writes them."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": one["id"],
                "type": "function",
                "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
            }
            for one in calls
        ]
    return Reply(
        200,
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        },
    )


def refusal(status: int, code: str | None = None, message: str = "no", **headers: str) -> Reply:
    """An error as OpenAI writes it. Headers with underscores for dashes."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Reply(status, {"error": error}, {key.replace("_", "-"): value for key, value in headers.items()})


class OpenAIServer:
    """Plays `script`, then answers ``done``."""

    def __init__(self) -> None:
        self.script: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self._lock = threading.Lock()
        self.url = ""

    def next(self, request: dict[str, Any], key: str | None) -> Reply:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            return self.script.pop(0) if self.script else answer()


def _events(reply: Reply) -> bytes:
    """The same answer as a stream of events."""
    choice = reply.body["choices"][0]
    message = dict(choice["message"])
    for index, one in enumerate(message.get("tool_calls") or ()):
        one["index"] = index
    chunks = [({**message}, None), ({}, choice["finish_reason"])]
    lines = [
        json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
        )
        for delta, finish in chunks
    ]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


@contextmanager
def openai_server() -> Iterator[OpenAIServer]:
    """Such a provider, for as long as the scope lasts."""
    served = OpenAIServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = served.next(request, self.headers.get("authorization"))
            stream = request.get("stream") and reply.status == 200
            data = _events(reply) if stream else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("content-type", "text/event-stream" if stream else "application/json")
            self.send_header("content-length", str(len(data)))
            for key, value in reply.headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
