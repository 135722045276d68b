"""Serving: a socket, uvicorn on it, until it is asked to stop."""

import signal
import socket
import sys

import uvicorn
from fastapi import FastAPI

from opduel.records import RunError, UsageError

_LAST_REQUESTS_S = 10


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on ``host`` (a name or an address) and ``port``; 0 for any that is free.

    Raises:
        UsageError: ``host`` is no name.
        RunError: it can't be had.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=256)
    except UnicodeError:
        raise UsageError(f"--host {host}: there is no host of this name: give another, or an address") from None
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(f"{host} port {port}: can't be listened on ({reason}): give another --host or --port") from None
    # Connections inherit it: else the body of a short answer waits 40 ms for its head to be acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """The address at which ``listening`` is reached, as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def configured(app: FastAPI) -> uvicorn.Server:
    """uvicorn for ``app`` and its settings: it names itself to nobody, logs no query strings, lets the last requests
    end, and believes a proxy on this machine where there is to be one."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=app.state.settings.behind_proxy,
            forwarded_allow_ips="127.0.0.1,::1",
            ws="none",
            limit_concurrency=256,
            timeout_graceful_shutdown=_LAST_REQUESTS_S,
        )
    )


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT; returns when the last ones have been answered."""
    # uvicorn raises the signal once more when it is done: that is for those who still wait for it.
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda _signal, _frame: None)
    server = configured(app)
    server.run(sockets=[listening])
    sys.stderr.write("opduel results server: ended\n")
