"""A real HTTP server that gives files, and answers one request after the other from a script."""

import http.server
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from scripted_server import ScriptedServer


@dataclass(frozen=True)
class Answer:
    """``cut``: how many bytes of the body are left out, its length being announced whole; ``silent_s``: without a word
    before it; ``trickle_s``: between one byte and the next; ``sized``: whether the length is announced."""

    body: bytes = b""
    status: int = 200
    cut: int = 0
    silent_s: float = 0.0
    trickle_s: float = 0.0
    sized: bool = True
    headers: dict[str, str] = field(default_factory=dict)


class FileServer(ScriptedServer):
    """Gives ``answers`` in turn, the last one for ever; ``paths`` are those that were asked for."""

    def __init__(self, *answers: Answer) -> None:
        self.paths: list[str] = []
        self._answers_left: Sequence[Answer] = answers
        super().__init__()

    def url(self, path: str = "net.params") -> str:
        return super().url(path)

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.paths.append(handler.path)
        now = self._answers_left[0]
        self._answers_left = self._answers_left[1:] or self._answers_left
        time.sleep(now.silent_s)
        handler.send_response(now.status)
        if now.sized:
            handler.send_header("Content-Length", str(len(now.body)))
        for name, value in now.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        sent = now.body[: len(now.body) - now.cut]
        try:
            for piece in [sent] if not now.trickle_s else [sent[i : i + 1] for i in range(len(sent))]:
                handler.wfile.write(piece)
                handler.wfile.flush()
                time.sleep(now.trickle_s)
        except OSError:
            pass  # who asked has gone
