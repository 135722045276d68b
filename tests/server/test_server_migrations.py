"""From an empty database to this version's tables and back; what else may be found there is refused in words."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from results_server import numbered, running_server
from sqlalchemy import Connection, inspect, select, text

from opduel.records import RunError, UsageError
from opduel.server.database import Database, alembic_config, state_of
from opduel.server.models import Base, Case, Result, Run


@pytest.fixture
def database(database_url: str) -> Database:
    """Return an empty database."""
    return Database(database_url)


def tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_upgrading_makes_the_tables_of_the_models_and_downgrading_removes_them(database: Database) -> None:
    assert database.prepare(migrate=True) == "created its tables"
    assert database.prepare(migrate=True) == ""
    with database.engine.begin() as connection:
        assert state_of(connection) == "current"
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        assert tables(connection) == set(Base.metadata.tables)
        foreign = [key["options"] for key in inspect(connection).get_foreign_keys("results")]
        assert {"ondelete": "CASCADE"} in foreign
    with database.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert tables(connection) == set()
        assert state_of(connection) == "empty"
    assert database.prepare(migrate=True) == "created its tables"
    database.close()


def test_the_reasons_of_verdicts_are_stored(tmp_path: Path, database_url: str) -> None:
    note, reason = "only 3 of at least 5 rounds", "the host was\x1b busy"
    comparisons = (
        samples.comparison("open", "inconclusive", note=note),
        samples.comparison("sure", "regressed", 1.2),
        samples.failed("broken", note=samples.CRASH.reason),
    )
    with running_server(tmp_path, database_url) as server:
        for number, changes in enumerate(({}, {"validity": samples.validity(reason, "and so on")})):
            assert server.post(replace(numbered(number, **changes), comparisons=comparisons)).status_code == 201
        notes, distrust = reasons(server.database)
    assert notes == [("broken", None), ("open", note), ("sure", None)] * 2
    assert distrust == [None, "the host was\\x1b busy; and so on"]


def reasons(database: Database) -> tuple[list[tuple[str, str | None]], list[str | None]]:
    """Return the notes of all results, and why runs aren't trusted."""
    with database.reading() as session:
        results = session.execute(select(Case.case, Result.note).join(Case).order_by(Result.run_number, Case.case))
        return [(case, note) for case, note in results], list(
            session.scalars(select(Run.distrust).order_by(Run.number))
        )


def test_there_is_one_line_of_migrations(database: Database) -> None:
    with database.engine.begin() as connection:
        scripts = ScriptDirectory.from_config(alembic_config(connection))
    assert len(scripts.get_heads()) == len(scripts.get_bases()) == 1
    database.close()


def test_what_somebody_else_may_be_using_is_not_changed_unasked(database: Database) -> None:
    if database.is_sqlite:
        assert database.prepare() == "created its tables"
    else:
        with pytest.raises(UsageError, match=r"has no tables yet: back it up, then run: .* migrate"):
            database.prepare()
    database.close()


def test_a_newer_database_is_refused(database: Database) -> None:
    database.prepare(migrate=True)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    with pytest.raises(UsageError, match="was written by a newer opduel"):
        database.prepare(migrate=True)
    database.close()


def test_a_database_of_something_else_is_refused(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE runs (number INTEGER)"))
    with pytest.raises(UsageError, match="holds tables that are not opduel"):
        database.prepare(migrate=True)
    database.close()


def test_a_database_of_something_else_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE places (url TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="holds tables that are not opduel"):
        Database(f"sqlite:///{path}").prepare(migrate=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_pipe_is_no_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a regular file"):
        Database(f"sqlite:///{tmp_path}/pipe").prepare()


def test_a_migration_that_fails_leaves_the_tables_as_they_were(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in one transaction, on SQLite too."""

    def upgrade_and_fail(config: object, revision: str) -> None:
        real(config, revision)  # type: ignore[arg-type]
        raise ZeroDivisionError

    real = command.upgrade
    monkeypatch.setattr(command, "upgrade", upgrade_and_fail)
    with pytest.raises(ZeroDivisionError):
        database.prepare(migrate=True)
    with database.engine.begin() as connection:
        assert state_of(connection) == "empty"
    database.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "not the URL"),
        ("results.sqlite", "not the URL"),
        ("mysql://me:secret@host/x", "not the URL"),
        ("sqlite://", "not the URL"),
        ("sqlite:///:memory:", "not the URL"),
        ("sqlite:///x?mode=ro", "not the URL"),
        ("sqlite:///\udcff", "not the URL"),
        ("sqlite:////proc/nothing/x.sqlite", "cannot be written"),
        ("sqlite:////", "cannot be written"),
    ],
)
def test_a_url_that_can_not_be_meant_is_refused(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        Database(url).prepare()
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_server_that_is_not_there_is_said_without_its_password() -> None:
    with pytest.raises(RunError, match="can't be used") as error:
        Database("postgresql://me:secret@127.0.0.1:1/x").prepare()
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    path.write_text("something else" * 100, encoding="utf-8")
    with pytest.raises(RunError, match="not a database"):
        Database(f"sqlite:///{path}").prepare()
    assert path.read_text(encoding="utf-8").startswith("something else")
