"""What the server's tests share: a database of either kind, and a server for tests that change nothing for others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_nights import made_reports
from postgres import Postgres, programs, running_postgres
from results_server import CASES, COMMIT_URL, RUNS, RunningServer, running_server

from opduel.server import upload as receiving


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Yield a PostgreSQL server of our own."""
    binaries = programs()
    if binaries is None:
        pytest.skip("no PostgreSQL server here: bash .ci/tools installs it")
    with running_postgres(binaries) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty database, of one kind and of the other."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/results.sqlite"
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.emptied()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """Yield a server on an SQLite database of its own."""
    with running_server(tmp_path) as running:
        yield running


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the requests whose bodies a server has begun to read."""
    requests: list[object] = []
    check = receiving._check_type
    monkeypatch.setattr(receiving, "_check_type", lambda request: (requests.append(request), check(request)))
    return requests


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server that anybody may read, with a history in which it is known what changed; nobody posts to it."""
    with running_server(tmp_path_factory.mktemp("nights"), open_read=True, commit_url=COMMIT_URL) as server:
        for report in made_reports(RUNS, CASES, newest_samples_only=True):
            assert server.post(report).status_code == 201
        yield server


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server without runs that anybody may read; nobody posts to it."""
    with running_server(tmp_path_factory.mktemp("untouched"), open_read=True) as server:
        yield server
