"""A real HTTP server that takes posts, and answers them from a script."""

import http.server
import json
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scripted_server import ScriptedServer


@dataclass(frozen=True)
class Answer:
    """``silent_s``: before the first byte."""

    status: int = 200
    silent_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


class HookServer(ScriptedServer):
    """Gives ``answers`` in turn, the last one for ever; ``posts`` are path and body of what came."""

    def __init__(self, *answers: Answer) -> None:
        self.posts: list[tuple[str, Any]] = []
        self._remaining_answers = list(answers or (Answer(),))
        self._end = threading.Event()
        super().__init__()

    def __exit__(self, *details: object) -> None:
        self._end.set()
        super().__exit__(*details)

    def url(self, path: str = "services/T0/B0/secret") -> str:
        return super().url(path)

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        assert handler.headers["Content-Type"] == "application/json"
        self.posts.append((handler.path, json.loads(body)))
        now = self._remaining_answers[0]
        self._remaining_answers = self._remaining_answers[1:] or self._remaining_answers
        self._end.wait(now.silent_s)
        with suppress(OSError):  # who asked has gone
            handler.send_response(now.status)
            for name, value in {"Content-Length": str(len(now.body)), **now.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(now.body)
