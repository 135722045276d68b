"""A real PostgreSQL server for tests, from its own programs, in a folder that goes when it ends."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """The folder with initdb and pg_ctl; None where PostgreSQL's server isn't installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


@contextmanager
def running_postgres(binaries: Path) -> Iterator[str]:
    """A server that listens on a Unix socket alone; its URL, with ``{}`` for the name of a database."""
    folder = Path(tempfile.mkdtemp(prefix="opduel-postgres-"))
    owner: dict[str, int | list[int]] = {}
    if os.geteuid() == 0:  # it refuses to run as root
        who = _somebody()
        os.chown(folder, who.pw_uid, who.pw_gid)
        owner = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        log = folder / "log"
        command = [str(binaries / program), "-D", str(folder / "data"), *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **owner)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr + (log.read_text() if log.exists() else "")

    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off"
    try:
        run("initdb", "-U", "opduel", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        # What goes on holds pg_ctl's pipes open unless it logs to a file.
        run("pg_ctl", "-w", "-s", "-l", str(folder / "log"), "-o", options, "start")
        yield f"postgresql://opduel@/{{}}?host={folder}"
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def _somebody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
