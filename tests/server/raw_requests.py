"""Requests byte by byte, and waiting for what a server comes to, for its tests."""

import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from results_server import RunningServer


def raw(server: RunningServer, request: bytes) -> bytes:
    """Return the answer to the bytes of a request, sent as they are."""
    host = urlsplit(server.url)
    with socket.create_connection((host.hostname, host.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer


def wait_for(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold within two minutes: other tests may need the machine."""
    until = time.monotonic() + 120
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()
