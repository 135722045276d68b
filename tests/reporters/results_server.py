"""A real results server on a loopback port, for tests: uvicorn on a thread, a database in the test's folder."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import report_samples as samples

from opduel.records import Report
from opduel.reporters.document import to_bytes
from opduel.server.app import address_of, create_app, listen, uvicorn_server
from opduel.server.database import Database
from opduel.server.settings import Settings
from opduel.server.tokens import add_token

REPORTS = "/api/v1/reports"
RUNS, CASES = 40, 8  # of the server with a made history
ENDING_S = 60.0
COMMIT_URL = "https://git.example.org/commit/{commit}"


@dataclass(frozen=True)
class RunningServer:
    """A server that answers at ``url``; tokens that may do both, or only read or write; its database."""

    url: str
    token: str
    read_token: str
    write_token: str
    database: Database

    def client(self, token: str | None = "both") -> httpx.Client:
        """A client with a token: "both", "read", "write", one of your own, or None."""
        tokens = {"both": self.token, "read": self.read_token, "write": self.write_token}
        headers = {} if token is None else {"Authorization": f"Bearer {tokens.get(token, token)}"}
        # No certificates are loaded, which takes as long as a request: nothing is encrypted on the loopback device.
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=False)

    def post(self, report: Report, category: str = "nightly") -> httpx.Response:
        """Post ``report`` by the wire contract."""
        with self.client("write") as client:
            return client.post(REPORTS, json=body(report, category), headers={"Idempotency-Key": report.run.id})


def body(report: Report, category: str = "nightly") -> dict[str, Any]:
    """What a remote reporter posts."""
    return {"category": category, "report": json.loads(to_bytes(report))}


@contextmanager
def running_server(folder: Path, database: str | None = None, **settings: Any) -> Iterator[RunningServer]:
    """A server with the ``settings`` given (``open_read``, ...), on ``database`` or SQLite in ``folder``."""
    path = folder / "results.sqlite"
    chosen = Settings(database or f"sqlite:///{path}", **settings)
    storage = Database(chosen.database)
    if database is None and not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_bytes(_prepared())
    else:
        storage.prepare(migrate=True)
    now = datetime.now(UTC)
    with storage.writing() as session:
        tokens = [
            add_token(session, name, scopes, now)
            for name, scopes in (("both", ["read", "write"]), ("reads", ["read"]), ("writes", ["write"]))
        ]
    listening = listen("127.0.0.1", 0)
    url = address_of(listening)
    server = uvicorn_server(create_app(chosen))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serving() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(serving()), daemon=True)
    thread.start()
    try:
        yield RunningServer(url, *tokens, storage)
    finally:
        server.should_exit = True
        thread.join(ENDING_S)
        if thread.is_alive():  # pytest would hang
            tasks = [f"{task}: {task.get_stack(limit=3)}" for task in asyncio.all_tasks(loops[0])]
            raise RuntimeError(f"the server did not end within {ENDING_S:g} s: {tasks}")
        listening.close()
        storage.close()


@cache
def _prepared() -> bytes:
    """An SQLite database with the tables of this version, as the server makes it: migrated once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/x.sqlite")
        database.prepare(migrate=True)
        database.close()
        return Path(folder, "x.sqlite").read_bytes()


def numbered(number: int, **changes: Any) -> Report:
    """The sample report as the run ``run-<number>``, started that many minutes after midnight."""
    started = f"2024-03-01T{number // 60:02d}:{number % 60:02d}:00Z"
    return samples.report(**{"id": f"run-{number}", "started": started, **changes})
