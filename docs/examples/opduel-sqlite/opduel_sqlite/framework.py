"""SQL statements on the SQLite that a Python interpreter has."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks import Cases, Framework


class SQLite(Framework):
    """Tells opduel what a build is, what its operators are called, and which file calls them."""

    name = "sqlite"  # the entry point's name, and the spec's "framework"
    cases = Cases(namespaces={"sql": ()})  # operators are called sql.NAME
    adaptor = Path(__file__).with_name("adaptor.py")

    def environment(self, threads: int) -> Mapping[str, str]:
        """Return the variables of the workers on both sides; the adaptor reads this one."""
        return {"SQLITE_THREADS": str(threads)}

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True: each case opens a database of its own, after the fork."""
        return True
