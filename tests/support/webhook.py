"""A real webhook on the loopback interface, scripted per request."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["Handler"], None]


@dataclass
class Webhook:
    """`reply` answers each request; `seen` holds their headers and bodies; `connections` counts TCP connections."""

    url: str
    reply: Reply
    seen: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    connections: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over: replies that hang must wait for it, not for a time."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hook: Webhook

    def setup(self) -> None:
        self.hook.connections += 1
        super().setup()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.hook.seen.append((dict(self.headers), json.loads(body)))
        self.hook.reply(self)

    def log_message(self, format: str, *args: Any) -> None:
        return


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # many callers connect at once

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # callers that hang up are part of the tests


@contextmanager
def webhook(reply: Reply) -> Iterator[Webhook]:
    """A server on a free port, stopped at the end."""
    hook = Webhook("", reply)
    server = _Server(("127.0.0.1", 0), type("Bound", (Handler,), {"hook": hook}))
    hook.url = f"http://127.0.0.1:{server.server_port}/guard"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answers(payload: Any, *, status: int = 200, kind: str = "application/json", **headers: str) -> Reply:
    """A complete answer: `payload` as JSON, or as it is when it is bytes."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()

    def reply(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def resets(handler: Handler) -> None:
    """Drops the connection with a TCP reset."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def hangs(handler: Handler) -> None:
    """Says nothing until the test is over."""
    handler.hook.released.wait(30)
    handler.close_connection = True


def drips_head(handler: Handler) -> None:
    """Sends header lines for ever, one every few milliseconds: no single read ever times out."""
    _drip(handler, b"HTTP/1.1 200 OK\r\n", b"X-Wait: 1\r\n")


def drips_body(handler: Handler) -> None:
    """Sends an answer byte by byte and never ends it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    _drip(handler, head + b'{"allow": true', b" ")


def _drip(handler: Handler, head: bytes, drop: bytes) -> None:
    handler.wfile.write(head)
    try:
        while not handler.hook.released.wait(0.02):
            handler.wfile.write(drop)
            handler.wfile.flush()
    except OSError:
        pass
    handler.close_connection = True


def cuts(handler: Handler) -> None:
    """Promises more than it sends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n")
    handler.wfile.write(b'{"allow": true')
    handler.close_connection = True
