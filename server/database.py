"""The server's database: SQLite or PostgreSQL, whose tables must be those of this version."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Literal, TypeVar

import platformdirs
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, literal, make_url, select
from sqlalchemy.dialects import postgresql as postgresql_dialect
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker

from opduel.records import RunError, UsageError
from opduel.server.models import Base
from opduel.support.atomic import is_special

Row = TypeVar("Row")
Standing = Literal["empty", "current", "older", "newer", "foreign"]
_EXAMPLES = "sqlite:////var/lib/opduel/results.sqlite or postgresql://user@host/database"
_AT_A_TIME = 500  # rows of a statement
_BUSY_TIMEOUT_S = 8.0  # less than the last requests have when the server is stopped
_MIGRATE = "python -m opduel.server migrate"


def default_url() -> str:
    """Return the URL of an SQLite file in the user's state folder."""
    return f"sqlite:///{platformdirs.user_state_path('opduel') / 'server' / 'results.sqlite'}"


class Database:
    """One database. A session is a transaction: committed at the end of its ``with``, rolled back on an exception."""

    def __init__(self, url: str) -> None:
        """Parse ``url``; nothing is connected yet. Raises UsageError: ``url`` is not a URL of SQLite or PostgreSQL."""
        self.url = _parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url)
        self._writer = self.engine.execution_options(writes=True)

    @property
    def name(self) -> str:
        """Return the URL without its password."""
        plain = self.url.set(drivername=self.url.get_backend_name())
        return plain.render_as_string(hide_password=True)

    def reading(self) -> Session:
        """Return a transaction that only reads. On SQLite it sees one unchanging state."""
        return Session(self.engine)

    def writing(self) -> AbstractContextManager[Session]:
        """Return a transaction that writes all or nothing."""
        return sessionmaker(self._writer).begin()

    def check_readable(self) -> None:
        """Read a row of each table. Raises sqlalchemy.exc.DBAPIError: that is impossible."""
        with self.reading() as session:
            for table in Base.metadata.sorted_tables:
                session.execute(select(literal(1)).select_from(table).limit(1))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def prepare(self, migrate: bool | None = None) -> str:
        """Check that the tables are those of this version, and create or upgrade them if ``migrate`` (by default for
        SQLite, which nobody else is assumed to be using). Return what was done, in words, or "". Raises UsageError: the
        tables are not those of this version, and the user has to act; RunError: the database can't be reached."""
        if self.is_sqlite:
            self._make_file()
        try:
            with self._writer.begin() as connection:
                action = self._prepared(connection, self.is_sqlite if migrate is None else migrate)
            if self.is_sqlite:  # not before, because it would change another program's file
                with closing(self.engine.raw_connection()) as raw:
                    raw.cursor().execute("PRAGMA journal_mode = WAL")
            return action
        except DBAPIError as error:
            reason = str(error.orig).strip().partition("\n")[0]
            raise RunError(f"the database {self.name} can't be used ({reason}): start it, or give --database") from None

    def _prepared(self, connection: Connection, migrate: bool) -> str:
        state = state_of(connection)
        if state == "current":
            return ""
        fix = f"back it up, then run: {_MIGRATE} --database ..."
        problem_by_state: dict[Standing, str] = {
            "newer": "was written by a newer opduel: use that one, or a backup",
            "foreign": "holds tables that are not opduel's: give an empty one",
            "empty": "" if migrate else f"has no tables yet: {fix}",
            "older": "" if migrate else f"has the tables of an older opduel: {fix}",
        }
        if problem := problem_by_state[state]:
            raise UsageError(f"the database {self.name} {problem}")
        command.upgrade(alembic_config(connection), "head")
        return "created its tables" if state == "empty" else "upgraded its tables"

    def check_exists(self) -> None:
        """Check that an SQLite file exists; PostgreSQL reports a missing database when it is used. Raises UsageError:
        the file does not exist."""
        if self.is_sqlite and not os.path.exists(self.url.database or ""):
            raise UsageError(f"the database {self.name} does not exist: give --database, or start the server first")

    def _make_file(self) -> None:
        """Create an SQLite file that only its owner can read, and its folder, unless they exist. Raises UsageError: it
        can't be created, or is no regular file."""
        path = Path(self.url.database or "")
        if is_special(path):
            raise UsageError(f"--database {self.name}: is not a regular file: give another")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise UsageError(
                f"--database {self.name}: cannot be written ({error.strerror}): give another file"
            ) from None


def state_of(connection: Connection) -> Standing:
    """Return how the database's tables compare with those of this version."""
    scripts = ScriptDirectory.from_config(alembic_config(connection))
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None:
        tables = set(inspect(connection).get_table_names()) - {"alembic_version"}
        return "foreign" if tables else "empty"
    if revision == scripts.get_current_head():
        return "current"
    revisions = {script.revision for script in scripts.walk_revisions()}
    return "older" if revision in revisions else "newer"


def alembic_config(connection: Connection) -> Config:
    """Return alembic's settings for our migrations, run on ``connection`` within its transaction."""
    config = Config(stdout=io.StringIO())
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _parse_url(url: str) -> URL:
    try:
        url.encode("utf-8")  # else it can't be shown, either
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = URL.create("none")
    backend, has_file = parsed.drivername.partition("+")[0], parsed.database not in (None, "", ":memory:")
    if backend == "sqlite" and has_file and not parsed.query:
        return parsed.set(drivername="sqlite+pysqlite")
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise UsageError(f"--database: not the URL of a file of SQLite or of a PostgreSQL: give one like {_EXAMPLES}")


def _postgresql(url: URL) -> Engine:
    # Errors are logged without the statements' parameters: they are untrusted text.
    arguments = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # Times come in the connection's time zone: in the database's, some could be before the year 1.
        connection.execute("SET TIME ZONE 'UTC'")
        connection.commit()

    return engine


def _sqlite(url: URL) -> Engine:
    arguments = {"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False}
    engine = create_engine(url, hide_parameters=True, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, below
        cursor = connection.cursor()
        for pragma in ("synchronous = FULL", "foreign_keys = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: SQLite waits for it then, but not when a reader becomes a writer.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def upsert(session: Session, table: type[DeclarativeBase]) -> Any:
    """Return the database's own INSERT, which can handle a row that exists (ON CONFLICT)."""
    assert session.bind is not None
    dialect = sqlite_dialect if session.bind.dialect.name == "sqlite" else postgresql_dialect
    return dialect.insert(table)


def batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in batches of the size of one statement."""
    for start in range(0, len(rows), _AT_A_TIME):
        yield rows[start : start + _AT_A_TIME]
