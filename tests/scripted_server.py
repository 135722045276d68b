"""A real HTTP server in a thread; what it answers is its subclasses' affair."""

import http.server
import threading
from abc import ABC, abstractmethod
from typing import Self


class ScriptedServer(ABC):
    """Serves from ``with`` to its end, each connection in a thread of its own; on a free port unless one is given."""

    def __init__(self, port: int = 0) -> None:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            do_POST = do_PATCH = do_PUT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str) -> str:
        """The URL of ``path``, which begins without a slash."""
        return f"http://127.0.0.1:{self.port}/{path}"

    @abstractmethod
    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Answer one request."""
