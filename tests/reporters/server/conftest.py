"""What the server's tests share: a database of either kind, and a server for tests that change nothing for others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from postgres import programs, running_postgres
from results_server import RunningServer, running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of our own: its URL, with ``{}`` for the name of a database."""
    binaries = programs()
    if binaries is None:
        pytest.skip("no PostgreSQL server here: bash .ci/tools installs it")
    with running_postgres(binaries) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of one kind and of the other."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/results.sqlite"
    url = request.getfixturevalue("postgres")
    name = tmp_path.name.lower().replace("-", "_")
    engine = sqlalchemy.create_engine(
        url.format("postgres").replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    engine.dispose()
    return str(url.format(name))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server on an SQLite database of its own."""
    with running_server(tmp_path) as running:
        yield running
