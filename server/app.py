"""The application, made of settings and a database; and its serving by uvicorn on a socket until a signal ends it."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from opduel.records import SCHEMA_VERSION, RunError, UsageError
from opduel.server import api, drift_api, drift_pages, hosts_api, login, pages, templating
from opduel.server.database import Database
from opduel.server.drift import DriftAnalysis
from opduel.server.error_handlers import add_error_handlers
from opduel.server.middleware import Compression, SecurityMiddleware
from opduel.server.schemas import Posted
from opduel.server.settings import Settings
from opduel.server.subprocess_jobs import SubprocessJobs

if TYPE_CHECKING:
    from opduel.server.agents import Agents

_LAST_REQUESTS_S = 10
_PARSED_AT_ONCE = 2  # small reports: each takes many times its size in memory
_DESCRIPTION = f"""Reports of A/B runs, with the history of every case.

Errors are answered with one line: `{{"detail": "..."}}`. Reports are those of schema version {SCHEMA_VERSION}."""
EXAMPLE = Path(__file__).with_name("example_post.json")


class Application(FastAPI):
    """FastAPI with the schema of posted reports added to its OpenAPI document, since our own code parses them."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document. It is made at the first request, because that takes long."""
        document = super().openapi()
        schema = Posted.model_json_schema(ref_template="#/components/schemas/{model}")
        document["components"]["schemas"] |= schema.pop("$defs") | {"Posted": schema}
        post = document["paths"]["/api/v1/reports"]["post"]
        post["requestBody"]["content"]["application/json"]["example"] = json.loads(EXAMPLE.read_bytes())
        return document


def create_app(settings: Settings) -> FastAPI:
    """Return the application for ``settings``, whose database has been prepared before. Raises UsageError: the
    database's URL is not valid, or ``settings`` need the extra ``mcp`` and it is not installed."""
    database = Database(settings.database)

    agents = _agents(database) if settings.mcp else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with agents.session_manager.run() if agents else nullcontext():
            yield
        database.close()

    app = Application(
        title="opduel results server",
        version="1",
        description=_DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.database = database
    app.state.parsing = asyncio.Semaphore(_PARSED_AT_ONCE)
    app.state.posts_apart, app.state.reads_apart = (
        SubprocessJobs(database, settings.max_report_bytes) for _ in range(2)
    )
    app.state.drift = DriftAnalysis(database)
    app.state.failures = login.Failures()
    add_error_handlers(app)
    for module in (api, drift_api, hosts_api, login, templating, pages, drift_pages):
        app.include_router(module.router)
    if agents:
        app.router.routes.append(agents.route)
    app.add_middleware(Compression)
    app.add_middleware(SecurityMiddleware)
    return app


def _agents(database: Database) -> "Agents":
    try:
        from opduel.server.agents import Agents
    except ImportError as error:
        fix = "install opduel[server,mcp], or in a checkout run `make setup`"
        raise UsageError(f"--mcp: the extra 'mcp' is not installed ({error}): {fix}") from None
    return Agents(database)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on ``host`` (a name or an address) and ``port`` (0: any free one). Raises
    UsageError: ``host`` is not a valid name; RunError: the system refuses it."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listening = socket.create_server(address[:2], family=family, backlog=256)
    except UnicodeError:
        raise UsageError(f"--host {host}: there is no host of this name: give another, or an address") from None
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(f"{host} port {port}: can't be listened on ({reason}): give another --host or --port") from None
    # Connections inherit this. Without it, the body of a short answer waits 40 ms for its head to be acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the URL at which ``listening`` is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def uvicorn_server(app: FastAPI) -> uvicorn.Server:
    """Return uvicorn for ``app``: it sends no Server header, logs no query strings, lets the last requests end, and
    with ``behind_proxy`` believes the headers of a proxy on this machine."""
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
    """Answer requests until SIGTERM or SIGINT, and return when the last ones have been answered."""
    # uvicorn raises the signal again when it has ended; nothing here needs that.
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda _signal, _frame: None)
    server = uvicorn_server(app)
    server.run(sockets=[listening])
    sys.stderr.write("opduel results server: ended\n")
