"""The application: settings and a database made into something that answers requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from opduel.records import SCHEMA_VERSION
from opduel.server import api, assets, drift_api, drift_pages, login, pages
from opduel.server.compression import Compression
from opduel.server.database import Database
from opduel.server.description import describe
from opduel.server.error_handlers import add_error_handlers
from opduel.server.middleware import SecurityMiddleware
from opduel.server.settings import Settings
from opduel.server.subprocess_jobs import SubprocessJobs

_PARSED_AT_ONCE = 2  # small reports: each takes many times its size in memory
_DESCRIPTION = f"""Reports of A/B runs, kept whole, with the history of every case.

Errors are answered with one line: `{{"detail": "..."}}`. Reports are those of schema version {SCHEMA_VERSION}."""


def create_app(settings: Settings) -> FastAPI:
    """The application for ``settings``; its database has been prepared before.

    Raises:
        UsageError: the database's URL is none.
    """
    database = Database(settings.database)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        database.close()

    app = FastAPI(
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
    app.state.failures = login.Failures()
    add_error_handlers(app)
    for module in (api, drift_api, login, assets, pages, drift_pages):
        app.include_router(module.router)
    describe(app)
    app.add_middleware(Compression)
    app.add_middleware(SecurityMiddleware)
    return app
