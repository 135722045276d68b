"""A results server over real sockets, as small as the wire contract allows, that can be made to misbehave."""

import http.server
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scripted_server import ScriptedServer

PATH = "/api/v1/reports"
TOKEN = "tok-8c1f52be"
PIECE = 65_536  # bytes


@dataclass(frozen=True)
class Fault:
    """What is done with one request instead of serving it.

    ``status`` 0 closes the connection without an answer. ``stores``: the report is taken all the same. ``reads``: how
    many bytes of the body are read, None for all; ``slowly``: 20 ms for each piece. ``cut``: bytes left out of an
    answer whose length is announced whole. ``silent``: no word until the server ends; ``trickles``: a byte of a header
    now and then, until it ends.
    """

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None
    stores: bool = False
    reads: int | None = None
    slowly: bool = False
    cut: int = 0
    silent: bool = False
    trickles: bool = False


def refusal(status: int, detail: Any = "no", **headers: str) -> Fault:
    """An answer as the contract has it."""
    return Fault(status, json.dumps({"detail": detail}).encode(), headers)


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class ResultsServer(ScriptedServer):
    """Serves from a thread; each request takes the next of ``faults`` until there are none.

    ``stored`` has the bodies that were taken, by run id; ``seen`` every request, whatever became of it.
    """

    def __init__(self, *faults: Fault, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.faults = list(faults)
        self.requests: list[Seen] = []
        self.stored: dict[str, bytes] = {}
        self.arrived = threading.Event()  # the first request is here
        self.ending = threading.Event()
        self._lock = threading.Lock()
        super().__init__(port)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that went away
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"

    def __exit__(self, *details: object) -> None:
        self.ending.set()
        super().__exit__(*details)

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://localhost:{self.port}{PATH}"

    @property
    def place(self) -> str:
        """As ``--remote_reporter`` takes it."""
        return f"{self.endpoint}|nightly"

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        with self._lock:
            fault = self.faults.pop(0) if self.faults else None
        length = int(handler.headers["Content-Length"])
        read_bytes = length if fault is None or fault.reads is None else fault.reads
        body = _read(handler, read_bytes, fault is not None and fault.slowly)
        with self._lock:
            self.requests.append(Seen(handler.path, dict(handler.headers), body))
        self.arrived.set()
        if fault is None:
            _answer(handler, self._take(handler, body))
            return
        if fault.stores:
            self._take(handler, body)
        if fault.silent:
            self.ending.wait()
        while fault.trickles and not self.ending.wait(0.01):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: " if handler.close_connection is False else b"x")
            handler.close_connection = True
        _answer(handler, fault)

    def _take(self, handler: http.server.BaseHTTPRequestHandler, body: bytes) -> Fault:
        """As the contract says."""
        if handler.headers["Authorization"] != f"Bearer {TOKEN}":
            return refusal(401, "no such token")
        run = json.loads(body)["report"]["run"]["id"]
        assert handler.headers["Idempotency-Key"] == run
        assert handler.headers["Content-Type"] == "application/json"
        with self._lock:
            before = self.stored.setdefault(run, body)
            is_repeated = before is not body
        if before != body:
            return refusal(409, "another report of this run is here")
        return Fault(200 if is_repeated else 201, json.dumps({"run_id": run}).encode())


def _read(handler: http.server.BaseHTTPRequestHandler, count: int, slowly: bool) -> bytes:
    if not slowly:
        return handler.rfile.read(count)
    pieces = []
    while count:
        pieces.append(handler.rfile.read(min(count, PIECE)))
        count -= len(pieces[-1])
        time.sleep(0.02)
    return b"".join(pieces)


def _answer(handler: http.server.BaseHTTPRequestHandler, answer: Fault) -> None:
    handler.close_connection = True
    if not answer.status:
        handler.connection.shutdown(socket.SHUT_RDWR)
        return
    handler.send_response(answer.status, answer.reason)
    handler.send_header("Content-Length", str(len(answer.body)))
    for name, value in answer.headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(answer.body[: len(answer.body) - answer.cut])


def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
