"""A real PostgreSQL server for tests, from its own programs, in a folder that goes when it ends."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url


def programs() -> Path | None:
    """The folder with initdb and pg_ctl; None where PostgreSQL's server isn't installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    on_path = shutil.which("initdb")
    return folders[-1].parent if folders else Path(on_path).resolve().parent if on_path else None


class Postgres:
    """A server that listens on a Unix socket alone; ``url`` is its, with ``{}`` for the name of a database."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        """Make its files below ``folder``; it runs from ``start`` on."""
        self._binaries, self._folder = binaries, folder
        self._owner: dict[str, Any] = {}
        self._is_made = False
        if os.geteuid() == 0:  # it refuses to run as root
            who = _somebody()
            os.chown(folder, who.pw_uid, who.pw_gid)
            self._owner = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
        self._run("initdb", "-U", "opduel", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.url = f"postgresql://opduel@/{{}}?host={folder}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off"
        # What goes on holds pg_ctl's pipes open unless it logs to a file.
        self._run("pg_ctl", "-w", "-s", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stop it at once, if it runs."""
        if (self._folder / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")

    def make(self, name: str) -> str:
        """Make an empty database called ``name``, and return its URL."""
        self._execute("postgres", f'CREATE DATABASE "{name}"')
        return self.url.format(name)

    def emptied(self) -> str:
        """The URL of a database that is made once and emptied each time: a new one is 300 files, which go slowly."""
        if not self._is_made:
            self.make("emptied")
            self._is_made = True
        disconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'emptied'"
        self._execute("postgres", disconnect)  # what the test before has left open
        self._execute("emptied", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        return self.url.format("emptied")

    def _execute(self, database: str, *statements: str) -> None:
        url = make_url(self.url.format(database)).set(drivername="postgresql+psycopg")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self._folder / "data"), *arguments]
        process = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, **self._owner)
        log = self._folder / "log"
        assert process.returncode == 0, process.stderr + (log.read_text() if log.exists() else "")


@contextmanager
def running_postgres(binaries: Path) -> Iterator[Postgres]:
    """A server in a folder of its own, which goes when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="opduel-postgres-"))
    try:
        server = Postgres(binaries, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _somebody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
