"""A real HTTP server that takes posts, and answers them from a script."""

import http.server
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from scripted_server import ScriptedServer


@dataclass(frozen=True)
class Answer:
    """``silent_s``: before the first byte; ``trickle_s``: between one byte and the next."""

    status: int = 200
    silent_s: float = 0.0
    trickle_s: float = 0.0
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
        head = f"HTTP/1.1 {now.status} Some words\r\n".encode()
        named = {"Content-Length": str(len(now.body)), **now.headers}
        lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in named.items())
        response = head + lines + b"\r\n" + now.body
        try:
            for piece in [response] if not now.trickle_s else [response[i : i + 1] for i in range(len(response))]:
                handler.wfile.write(piece)
                handler.wfile.flush()
                if now.trickle_s and self._end.wait(now.trickle_s):
                    return
        except OSError:
            pass  # who asked has gone
        time.sleep(0)
